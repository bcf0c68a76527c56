package poll

import (
	"context"
	"log/slog"
	"net"
	"testing"
	"time"

	"turnout/internal/chx"
	"turnout/schemas/attempt"
)

// ClickHouse is away: what the node keeps of its own attempts stays bounded all the same.
func TestOwnAttemptsAreForgottenWhileClickHouseIsAway(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	nobody := l.Addr().String()
	_ = l.Close()
	cfg := chx.Default()
	cfg.Addr = []string{nobody}
	conn, err := chx.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &clock{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	p := New(conn, time.Minute, c.Now, slog.New(slog.DiscardHandler))
	p.Observe(ended(c, "a", "m", attempt.Completed))
	acked := ended(c, "a", "m", attempt.Completed)
	p.Observe(acked)
	p.Acked(0, 7, acked)
	for _, step := range []struct {
		pass time.Duration
		own  int
	}{{keepOwn / 2, 2}, {keepOwn, 0}} {
		c.add(step.pass)
		if err := p.Poll(context.Background()); err == nil {
			t.Fatal("nobody answers, yet the poll went well")
		}
		if own := p.Status().Own; own != step.own {
			t.Errorf("%s on: %d own attempts, want %d", step.pass, own, step.own)
		}
	}
}

func TestOffset(t *testing.T) {
	start := time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		what                      string
		known, took, theirs, want time.Duration // theirs: after start
	}{
		{"the clocks agree", 0, 2 * time.Millisecond, time.Millisecond, 0},
		{"the node is ahead", 0, 2 * time.Millisecond, -3 * time.Second, 3*time.Second + time.Millisecond},
		{"the node is behind", 0, 2 * time.Millisecond, time.Second, time.Millisecond - time.Second},
		{"an answer that took 8 s and says nothing new", 0, 8 * time.Second, 7900 * time.Millisecond, 0},
		{"a known offset and a slow answer", 3 * time.Second, 8 * time.Second, 4 * time.Second, 3 * time.Second},
		{"a slow answer that cannot be squared with what was known", 0, 4 * time.Second, 10 * time.Second, -8 * time.Second},
	} {
		if got := offset(c.known, start, start.Add(c.took), start.Add(c.theirs)); got != c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
	}
}
