package topics

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"turnout/internal/config"
	"turnout/internal/kafkax"
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

// `topics list` printed what is wanted and never asked Kafka.
func TestListSaysWhatIsThereBesideWhatIsWanted(t *testing.T) {
	brokers := "--kafka.brokers=" + strings.Join(kafkatest.New(t, 3).Brokers, ",")
	got, err := run(t, "list", brokers, "--topics.partitions", "5", "--topics.retention_attempts", "48h")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"turnout.attempts.v1      5           delete          48h0m0s    3 partitions, not 5; retention.ms is 604800000, not 172800000\n",
		"turnout.state.v1         1           compact,delete  26h0m0s    as wanted\n",
		"turnout.config.v1        1           compact         for ever   as wanted\n",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("missing %q in\n%s", want, got)
		}
	}
}

func TestListNamesMissingTopics(t *testing.T) {
	cfg := kafkatest.New(t, 3)
	client, err := kafkax.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if err := client.DeleteTopics(t.Context(), []string{topic.DeadLetter}); err != nil {
		t.Fatal(err)
	}
	got, err := run(t, "list", "--kafka.brokers="+strings.Join(cfg.Brokers, ","))
	if err != nil || !strings.Contains(got, "turnout.attempts.v1.dlq  1           delete          720h0m0s   missing\n") {
		t.Errorf("%v\n%s", err, got)
	}
}

func TestListWithoutKafkaSaysWhatIsWanted(t *testing.T) {
	got, err := run(t, "list", "--kafka.brokers=127.0.0.1:1", "--topics.partitions", "3")
	if lifecycle.Code(err) != 1 || !strings.Contains(err.Error(), "could not be asked") {
		t.Errorf("got %v", err)
	}
	if !strings.Contains(got, "turnout.state.v1         1           compact,delete  26h0m0s    unknown\n") {
		t.Errorf("got\n%s", got)
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
