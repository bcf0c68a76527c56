package spoolcmd

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"turnout/gateway/internal/emit"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

func run(t *testing.T, args ...string) (out string, err error) {
	t.Helper()
	var b bytes.Buffer
	err = Main(t.Context(), lifecycle.Env{Args: args, Stdout: &b, Stderr: &b}, nil)
	return b.String(), err
}

// spool leaves a spool behind, as a gateway that never reached Kafka: ends and starts without one.
func spool(t *testing.T, dir string, ends, starts int) {
	t.Helper()
	nowhere := kafkax.Default()
	nowhere.Brokers = []string{"127.0.0.1:1"}
	l := open(t, dir, nowhere)
	for i := range ends + starts {
		e := event()
		ticket, err := l.Start(e)
		if err != nil {
			t.Fatal(err)
		}
		if i < ends {
			e.Outcome, e.FinishedAt = attempt.Completed, time.Now().UTC()
			l.Finish(ticket, e)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	_ = l.Close(ended) // without Kafka it cannot drain
}

func open(t *testing.T, dir string, kafka kafkax.Config) *emit.Log {
	t.Helper()
	quiet := slog.New(slog.DiscardHandler)
	client, err := kafkax.Open(kafka, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	cfg := emit.Default()
	cfg.Dir, cfg.Fsync = dir, emit.FsyncNever
	l, err := emit.Open(cfg, client, quiet, telemetry.NewMetrics())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func event() *attempt.Event {
	id, _ := uuid.NewV7()
	return &attempt.Event{
		SchemaVersion: 1, EventID: id.String(), RequestID: id.String(), SpanID: id.String()[:16], Purpose: attempt.PurposeRequest, AttemptNo: 1, ModelAttemptNo: 1,
		NodeID: "gone", OrganizationID: "o", ProjectID: "p", RequestedModel: "m", Endpoint: attempt.EndpointChat, Provider: "x", Model: "m",
		CredentialSource: attempt.Platform, StartedAt: time.Now().UTC(),
	}
}

func TestShipsWhatADeadGatewayLeft(t *testing.T) {
	kafka := kafkatest.New(t, 2)
	dir := filepath.Join(t.TempDir(), "spool")
	spool(t, dir, 7, 2)
	brokers := strings.Join(kafka.Brokers, ",")

	// While Kafka is away nothing is touched.
	out, err := run(t, "ship", dir, "--kafka.brokers", "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "nothing was touched") {
		t.Fatalf("%v\n%s", err, out)
	}
	out, err = run(t, "ship", "--kafka.brokers", brokers, dir)
	if err != nil || !strings.Contains(out, "7 events sent, 2 calls marked as interrupted") {
		t.Fatalf("%v\n%s", err, out)
	}
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	client, err := kafkax.Open(kafka, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	records := int64(0)
	for p := range 2 {
		_, next, err := client.Bounds(t.Context(), topic.Attempts, p)
		if err != nil {
			t.Fatal(err)
		}
		records += next
	}
	if records != 9 {
		t.Errorf("%d records in Kafka for 9 attempts", records)
	}
	if out, err := run(t, "ship", dir, "--kafka.brokers", brokers); err != nil || !strings.Contains(out, "nothing to send") {
		t.Errorf("once more: %v\n%s", err, out)
	}
}

func TestARunningGatewaysSpoolIsLeftAlone(t *testing.T) {
	kafka := kafkatest.New(t, 1)
	dir := filepath.Join(t.TempDir(), "spool")
	l := open(t, dir, kafka)
	t.Cleanup(func() { _ = l.Close(context.Background()) })
	out, err := run(t, "ship", dir, "--kafka.brokers", strings.Join(kafka.Brokers, ","))
	if lifecycle.Code(err) != 1 || !strings.Contains(err.Error(), "gateways that run") {
		t.Errorf("%v\n%s", err, out)
	}
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("its directory is gone: %v", left)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{nil, "ship DIR"},
		{[]string{"drain"}, "ship DIR"},
		{[]string{"ship"}, "name one directory: turnout spool ship DIR; 0 were given"},
		{[]string{"ship", "a", "b"}, "2 were given"},
		{[]string{"ship", "/no/such/place"}, "/no/such/place"},
		{[]string{"ship", file}, "is no directory"},
		{[]string{"ship", t.TempDir(), "--kafka.brokers="}, "kafka.brokers"},
	} {
		if _, err := run(t, c.args...); lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v", c.args, err)
		}
	}
	if out, err := run(t, "--help"); err != nil || !strings.Contains(out, "spool ship DIR") {
		t.Errorf("%v %s", err, out)
	}
}
