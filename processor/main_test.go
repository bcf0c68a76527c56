package processor

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/migrations"
	"turnout/schemas/topic"
)

func TestSettingsNameEveryMistake(t *testing.T) {
	var out bytes.Buffer
	err := Main(t.Context(), lifecycle.Env{Stdout: &out, Stderr: &out, Args: []string{"--check-config", "--processor.listen=x", "--shutdown-timeout=0s", "--accept-gap=1:2,3", "--kafka.brokers=a", "--retention.slots=1h"}}, nil)
	if lifecycle.Code(err) != 2 {
		t.Fatalf("%v", err)
	}
	for _, key := range []string{"processor.listen", "shutdown_timeout", `accept_gap: "3"`, "kafka.brokers", "retention.slots"} {
		if !strings.Contains(err.Error(), key) {
			t.Errorf("%s is not named: %v", key, err)
		}
	}
	if err := Main(t.Context(), lifecycle.Env{Stdout: &out, Stderr: &out, Args: []string{"--check-config", "--accept-gap", "0:15"}}, nil); err != nil || out.String() != "settings are fine\n" {
		t.Errorf("%v, %q", err, out.String())
	}
}

func TestAPortInUseNamesItsFlag(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var out bytes.Buffer
	err = Main(t.Context(), lifecycle.Env{Stdout: &out, Stderr: &out, Args: []string{"--processor.listen=" + l.Addr().String()}}, nil)
	if err == nil || !strings.Contains(err.Error(), "--processor.listen") {
		t.Errorf("%v", err)
	}
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(b)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// It says what it waits for, goes on when that is there, and stops when told.
func TestWaitsForItsEngines(t *testing.T) {
	kafka, ch := kafkatest.New(t, 1), chtest.New(t)
	var log syncBuffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	address := testkit.FreeAddress(t)
	go func() {
		ended <- Main(ctx, lifecycle.Env{Stdout: &log, Stderr: &log, Args: []string{"--processor.listen", address, "--kafka.brokers", kafka.Brokers[0], "--clickhouse.addr", ch.Addr[0],
			"--clickhouse.database", ch.Database, "--clickhouse.username", ch.Username, "--clickhouse.password", ch.Password.Reveal()}}, nil)
	}()
	status := func(path string) int {
		answer, err := http.Get("http://" + address + path)
		if err != nil {
			return 0
		}
		answer.Body.Close()
		return answer.StatusCode
	}
	eventually(t, 10*time.Second, "it asks for the schema", func() bool { return strings.Contains(log.String(), "turnout migrate") })
	if status("/healthz") != 200 || status("/readyz") != 503 {
		t.Errorf("before the schema: healthz %d, readyz %d", status("/healthz"), status("/readyz"))
	}
	if _, _, err := migrations.Up(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	eventually(t, 15*time.Second, "it is ready", func() bool { return status("/readyz") == 200 })
	if status("/metrics") != 200 {
		t.Error("no metrics")
	}
	if strings.Contains(log.String(), ch.Password.Reveal()) {
		t.Error("the log holds the password")
	}
	cancel()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Fatal("it does not stop")
	}
}

func TestUnreachableEnginesAreNamed(t *testing.T) {
	var log syncBuffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- Main(ctx, lifecycle.Env{Stdout: &log, Stderr: &log, Args: []string{"--processor.listen=127.0.0.1:0", "--clickhouse.addr=127.0.0.1:1", "--kafka.brokers=127.0.0.1:2"}}, nil)
	}()
	eventually(t, 10*time.Second, "both addresses are named", func() bool {
		return strings.Contains(log.String(), "127.0.0.1:1: connect") && strings.Contains(log.String(), "127.0.0.1:2: connect")
	})
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// Whatever is typed after --from: it is one of three things or an error that names the setting.
func FuzzFrom(f *testing.F) {
	for _, text := range []string{"", "earliest", "2026-01-31T12:00:00Z", "2026-01-31T12:00:00+05:30", "0:1500,1:900", "0:1,0:2", "0:-1", ":", "1:", "99999999999999999999:0", "0:1,"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		got, err := ReplayConfig{From: text}.from()
		if err != nil {
			if !strings.HasPrefix(err.Error(), "from: ") {
				t.Errorf("%q: %v", text, err)
			}
			return
		}
		if len(got.offsets) > 0 && !got.at.IsZero() {
			t.Errorf("%q is a time and offsets: %+v", text, got)
		}
		for p, offset := range got.offsets {
			if p < 0 || offset < 0 {
				t.Errorf("%q: partition %d, offset %d", text, p, offset)
			}
		}
	})
}

// A state topic of several partitions was read in part, silently: profiles and pins of the others were lost.
func TestTopicsThatAreWrongAreNamedInReadiness(t *testing.T) {
	kafka, ch := kafkatest.New(t, 1), chtest.New(t)
	if _, _, err := migrations.Up(t.Context(), ch); err != nil {
		t.Fatal(err)
	}
	client, err := kafkax.Open(kafka, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	state := topic.Spec{Name: topic.State, Partitions: 3, Retention: time.Hour, Compact: true}
	remake := func() {
		t.Helper()
		if err := client.DeleteTopics(t.Context(), []string{topic.State}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.EnsureTopics(t.Context(), []topic.Spec{state}); err != nil {
			t.Fatal(err)
		}
	}
	remake()
	var log syncBuffer
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	address := testkit.FreeAddress(t)
	go func() {
		ended <- Main(ctx, lifecycle.Env{Stdout: &log, Stderr: &log, Args: []string{"--processor.listen", address, "--kafka.brokers", kafka.Brokers[0], "--clickhouse.addr", ch.Addr[0],
			"--clickhouse.database", ch.Database, "--clickhouse.username", ch.Username, "--clickhouse.password", ch.Password.Reveal()}}, nil)
	}()
	readiness := func() string {
		answer, err := http.Get("http://" + address + "/readyz")
		if err != nil {
			return ""
		}
		defer answer.Body.Close()
		body, _ := io.ReadAll(answer.Body)
		return string(body)
	}
	eventually(t, 10*time.Second, "the topic is named", func() bool { return strings.Contains(readiness(), "turnout.state.v1: it has 3 partitions") })
	state.Partitions = 1
	remake()
	eventually(t, 15*time.Second, "it is ready", func() bool { return strings.Contains(readiness(), `"ready":true`) })
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A rollout migrates first: until its processor is replaced too, the one before works on the newer schema.
func TestAnOlderProcessorWorksOnANewerSchema(t *testing.T) {
	w := newWorld(t, 1)
	next := migrations.Latest() + 1
	for _, statement := range []string{
		"ALTER TABLE attempts ADD COLUMN of_tomorrow Int64 AFTER attempt_no",
		"ALTER TABLE folds ADD COLUMN of_tomorrow Int64 AFTER attempts",
		"ALTER TABLE snapshot_heads ADD COLUMN of_tomorrow String",
		"ALTER TABLE snapshot_rows ADD COLUMN of_tomorrow Int64 AFTER attempts",
		"ALTER TABLE refusals ADD COLUMN of_tomorrow Int64 AFTER event_id",
		fmt.Sprintf("INSERT INTO schema_migrations (version, dirty, sequence) SELECT %d, 0, max(sequence) + 1 FROM schema_migrations", next),
	} {
		if err := w.conn.Exec(chx.SyncInsert(t.Context()), statement); err != nil {
			t.Fatal(err)
		}
	}
	var log syncBuffer
	w.run(func(p *Processor) { p.log = slog.New(slog.NewTextHandler(&log, nil)) })
	w.writeEvents(rand.New(rand.NewPCG(61, 62)), 100)
	w.caughtUp(20 * time.Second)
	w.counted(100)
	eventually(t, 10*time.Second, "a snapshot", func() bool { _, err := w.readSnapshot(t.Context()); return err == nil })
	if !strings.Contains(log.String(), fmt.Sprintf("schema=%d", next)) {
		t.Errorf("nothing is said of the schema:\n%s", log.String())
	}
	if out, err := w.replay(); err != nil {
		t.Errorf("replay: %v\n%s", err, out)
	}
	w.counted(100)
}
