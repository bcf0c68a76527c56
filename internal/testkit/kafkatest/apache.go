package kafkatest

import "testing"

func startApache(t testing.TB, partitions int) *Broker {
	t.Helper()
	t.Fatal("apache: see deploy/kafka")
	return nil
}
