package emit

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"turnout/internal/telemetry"
)

// leftBehind is a spool of a process that died with n events in one directory.
func leftBehind(t *testing.T, n int) (cfg Config, b *broker, part string) {
	t.Helper()
	b, cfg = &broker{down: true}, config(t)
	l := openLog(t, cfg, b)
	for range n {
		e := event(2)
		l.Finish(mustStart(t, l, e), ended(e))
	}
	_ = l.Close(expired())
	b.set(func() { b.down = false })
	files, _ := segmentsOf(t, cfg.Dir)
	return cfg, b, filepath.Dir(files[0])
}

func write(t *testing.T, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// Somebody else's files in the spool: what is ours is sent, theirs stay. Once the lock was removed, the
// directory could not be, and adopting it was tried again for ever.
func TestForeignFilesInASpoolAreLeft(t *testing.T) {
	cfg, b, part := leftBehind(t, 20)
	foreign := map[string][]byte{
		filepath.Join(part, "notes.txt"):                               []byte("do not delete"),
		filepath.Join(part, "1.seg"):                                   []byte("not named like a segment"),
		filepath.Join(cfg.Dir, "README"):                               []byte("a file in the spool directory"),
		filepath.Join(cfg.Dir, "0190a2b4-0000-7000-8000-00000000abcd"): []byte("a file named like a process's directory"),
	}
	if err := os.Mkdir(filepath.Join(cfg.Dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, data := range foreign {
		write(t, path, data)
	}
	// Named like segments, and none: an empty one, and one that holds anything but frames.
	write(t, filepath.Join(part, "00000000000000f0.seg"), nil)
	write(t, filepath.Join(part, "00000000000000f1.seg"), bytes.Repeat([]byte("anything "), 1000))

	var text logText
	metrics := telemetry.NewMetrics()
	l, err := open(cfg, b, b, slog.New(slog.NewTextHandler(&text, nil)), metrics)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "what is ours is sent", func() bool { return len(b.records()) == 20 })
	eventually(t, "the directory is left", func() bool { return strings.Contains(scrape(metrics), "turnout_gateway_spool_strange_total 1\n") })
	if err := l.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if l.adopter.collect(); len(l.adopter.waiting) > 0 { // as it does when idle
		t.Error("the directory is adopted again")
	}
	settle(t, b.records())
	for path, data := range foreign {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, data) {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	for _, line := range []string{"turnout_gateway_spool_strange_total 1\n", "turnout_gateway_spool_adopted_total 1\n", "turnout_gateway_spool_corrupt_total 1\n", "turnout_gateway_spool_corrupt_bytes_total 9000\n", "turnout_gateway_events_interrupted_total 0\n"} {
		if !strings.Contains(scrape(metrics), line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	if s := text.String(); !strings.Contains(s, "notes.txt") || !strings.Contains(s, "00000000000000f1.seg") {
		t.Errorf("the log names neither:\n%s", s)
	}
}

// A later version wrote the spool: nothing of it is touched, whichever of its segments it is.
func TestASpoolOfAnotherVersionIsLeftUntouched(t *testing.T) {
	cfg, b, part := leftBehind(t, 20)
	files, _ := segmentsOf(t, cfg.Dir)
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	later := bytes.ReplaceAll(data, []byte(magic), []byte(family+"2"))
	write(t, filepath.Join(part, "00000000000000f0.seg"), later)
	for range 2 {
		if r := shipAll(t, cfg.Dir, b); r != (Report{OtherVersion: 1}) || len(b.records()) != 0 {
			t.Fatalf("%+v, %d records sent", r, len(b.records()))
		}
	}
	for path, want := range map[string][]byte{files[0]: data, filepath.Join(part, "00000000000000f0.seg"): later} {
		if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
			t.Errorf("%s was changed: %v", path, err)
		}
	}
	// One bit of the first frame's version is damage, not another version: the rest can be read.
	if err := os.Remove(filepath.Join(part, "00000000000000f0.seg")); err != nil {
		t.Fatal(err)
	}
	damaged := bytes.Clone(data)
	damaged[len(magic)-1] ^= 2
	write(t, files[0], damaged)
	if r := shipAll(t, cfg.Dir, b); r.Sent != 20 || r.Corrupt != 1 || r.OtherVersion != 0 {
		t.Errorf("%+v", r)
	}
}

type logText struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logText) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

func scrape(m *telemetry.Metrics) string {
	answer := httptest.NewRecorder()
	m.Handler().ServeHTTP(answer, httptest.NewRequest("GET", "/metrics", nil))
	return answer.Body.String()
}
