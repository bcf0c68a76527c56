package state

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/internal/kafkax"
)

// Without Kafka a gateway logged the same warning every three seconds for ever.
func TestAnOutageIsSaidOnceThenOnceAMinute(t *testing.T) {
	var out bytes.Buffer
	o := outage{what: "following the state topic", log: slog.New(slog.NewTextHandler(&out, nil))}
	o.over(at(0))
	for s := 0.0; s < 125; s += 3 {
		o.failed(at(s), errors.New("no broker"))
	}
	o.over(at(126))
	o.over(at(127))
	o.failed(at(130), errors.New("no broker"))
	text := out.String()
	for want, n := range map[string]int{"failed, trying on": 2, "still fails": 2, "for=1m0s": 1, "for=2m0s": 1, "works again": 1, "after=2m6s": 1} {
		if got := strings.Count(text, want); got != n {
			t.Errorf("%q: %d times, want %d in:\n%s", want, got, n, text)
		}
	}
}

func TestFollowingWithoutKafkaIsLoggedOnce(t *testing.T) {
	cfg := kafkax.Default()
	cfg.Brokers = []string{"127.0.0.1:1"}
	client, err := kafkax.Open(cfg, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	var out bytes.Buffer // slog's handlers serialise writes; it is read when all are done
	s, err := New(Config{NodeID: "a", HashKey: []byte("k"), Now: time.Now, Log: slog.New(slog.NewTextHandler(&out, nil))})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second) // time for three attempts
	defer cancel()
	var wg sync.WaitGroup
	wg.Go(func() { s.follow(ctx, client) })
	wg.Wait()
	if n := strings.Count(out.String(), "following the state topic"); n != 1 {
		t.Errorf("said %d times:\n%s", n, out.String())
	}
}
