// Package kafkatest gives tests a Kafka broker: the embedded one, or Apache Kafka. A package that uses
// it says
//
//	func TestMain(m *testing.M) { kafkatest.Main(m) }
//
// TURNOUT_TEST_KAFKA chooses the broker: empty for the embedded one, a new one for each test; "apache"
// for an Apache Kafka that is started once for the test binary; or the addresses of a running cluster,
// separated by commas. On the latter two Turnout's topics are deleted and made again for each test, so
// such tests take turns, and packages that share a cluster must be run one after the other (-p 1).
package kafkatest

import (
	"testing"

	"turnout/internal/kafkax"
	"turnout/internal/testkit"
)

// Variable is the environment variable that chooses the broker.
const Variable = "TURNOUT_TEST_KAFKA"

// Main runs the tests of a package that uses chtest, kafkatest or both.
func Main(m *testing.M) { testkit.Main(m) }

// New returns how to reach a broker that has Turnout's topics, all of them empty; the attempts topic
// has the given number of partitions.
func New(t testing.TB, partitions int) kafkax.Config {
	t.Helper()
	return Start(t, partitions).Config()
}
