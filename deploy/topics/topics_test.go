package topics

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"turnout/internal/config"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/topic"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func run(t *testing.T, args ...string) (stdout string, err error) {
	t.Helper()
	var out, stderr bytes.Buffer
	err = Main(t.Context(), lifecycle.Env{Args: args, Stdout: &out, Stderr: &stderr}, config.Keys(Default()))
	return out.String(), err
}

func TestListSaysWhatTopicsAreCreatedWith(t *testing.T) {
	got, err := run(t, "list", "--topics.partitions", "3", "--topics.retention_attempts", "48h")
	if err != nil {
		t.Fatal(err)
	}
	want := `topic                    partitions  cleanup         retention
turnout.attempts.v1      3           delete          48h0m0s
turnout.requests.v1      3           delete          48h0m0s
turnout.state.v1         1           compact,delete  26h0m0s
turnout.config.v1        1           compact         for ever
turnout.attempts.v1.dlq  1           delete          720h0m0s
`
	if got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func TestMistakesAreNamedAtOnce(t *testing.T) {
	_, err := run(t, "create", "--topics.partitions=0", "--topics.replication_factor=2", "--topics.min_insync_replicas=3", "--topics.retention_attempts=1m")
	if lifecycle.Code(err) != 2 {
		t.Fatalf("code %d: %v", lifecycle.Code(err), err)
	}
	for _, part := range []string{"topics.partitions: 0", "topics.min_insync_replicas: 3 is above", "topics.retention_attempts"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q lacks %q", err, part)
		}
	}
	if _, err := run(t, "delete"); lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), "create | list") {
		t.Errorf("an unknown word: %v", err)
	}
}

func TestCheckConfigSaysThatItChecked(t *testing.T) {
	if got, err := run(t, "--check-config"); err != nil || got != "settings are fine\n" {
		t.Errorf("%q, %v", got, err)
	}
}

func TestCreateMayRunAgainAndKeepsTheCount(t *testing.T) {
	broker := strings.Join(kafkatest.New(t, 3).Brokers, ",") // which has every topic
	got, err := run(t, "--kafka.brokers", broker, "--topics.partitions", "3")
	if err != nil || got != "created 0 of 5 topics (all were there)\n" {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := run(t, "--kafka.brokers", broker, "--topics.partitions", "4"); err == nil || !strings.Contains(err.Error(), topic.Attempts+": it has 3 partitions, wanted 4") {
		t.Errorf("another count: %v", err)
	}
}

func TestABrokerThatDoesNotAnswerIsNamed(t *testing.T) {
	began := time.Now()
	_, err := run(t, "--kafka.brokers", "127.0.0.1:1", "--topics.wait", "300ms")
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || time.Since(began) > 5*time.Second {
		t.Errorf("after %s: %v", time.Since(began), err)
	}
}
