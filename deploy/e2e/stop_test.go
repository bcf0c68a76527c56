package e2e

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/packages/ssestream"

	"turnout/deploy/sim"
	"turnout/internal/testkit"
	"turnout/schemas/attempt"
)

const running = 50

// lengthy is providers that answer with as many tokens as they may, 40 a second.
func lengthy() []sim.Provider {
	providers := paced(sim.Fixed(20), sim.Fixed(40))
	for i := range providers {
		providers[i].Behavior.OutputTokens = sim.Fixed(2000)
	}
	return providers
}

// streaming has 50 streams run: each has begun when it returns. The short ones take about a second
// and a half, the long ones half a minute. end waits for all and counts how they ended.
func (s *system) streaming(g *node) (end func() map[string]int) {
	s.t.Helper()
	var mu sync.Mutex
	ends := map[string]int{}
	begun := make(chan struct{}, running)
	var clients sync.WaitGroup
	for i := range running {
		clients.Go(func() {
			p := question(sim.Small, i)
			p.MaxTokens = openai.Int(60)
			if i%2 == 1 {
				p.MaxTokens = openai.Int(1200)
			}
			how := follow(s.t.Context(), g, p, func() { begun <- struct{}{} })
			mu.Lock()
			defer mu.Unlock()
			ends[how]++
		})
	}
	for n := range running {
		select {
		case <-begun:
		case <-time.After(20 * time.Second):
			s.t.Fatalf("only %d of %d streams have begun", n, running)
		}
	}
	return func() map[string]int {
		clients.Wait()
		return ends
	}
}

// follow reads one stream to its end and says how that was: finished, told or cut.
func follow(ctx context.Context, g *node, p openai.ChatCompletionNewParams, begun func()) string {
	stream := newSDK(g.url).Chat.Completions.NewStreaming(ctx, p)
	defer stream.Close()
	first, finish := true, ""
	for stream.Next() {
		chunk := stream.Current()
		if len(chunk.Choices) > 0 {
			finish += chunk.Choices[0].FinishReason
			if first && chunk.Choices[0].Delta.Content != "" {
				first = false
				begun()
			}
		}
	}
	event := (*ssestream.StreamError)(nil)
	switch err := stream.Err(); {
	case errors.As(err, &event) && finish == "":
		return "told"
	case err == nil && finish != "":
		return "finished"
	case finish == "":
		return "cut"
	default:
		return fmt.Sprintf("finish %q and %v", finish, err)
	}
}

// SIGTERM during 50 streams: those that can finish within shutdown_timeout do, the others are told, and
// each has its row.
func TestStopDuringStreams(t *testing.T) {
	t.Parallel()
	s := newSystem(t, parts{providers: lengthy()})
	g := s.gateway("node-a")
	s.processor("processor")
	end := s.streaming(g)
	took := g.stop(8 * time.Second)
	ends := end()
	rows := s.balance(20 * time.Second)
	s.tell("SIGTERM during 50 streams", rows)
	t.Logf("stopped in %s: %s", took.Round(10*time.Millisecond), counts(ends))
	if ends["finished"] != running/2 || ends["told"] != running/2 {
		t.Errorf("the streams ended so: %s; want %d finished and %d told of the stop", counts(ends), running/2, running/2)
	}
	if got := outcomes(rows); len(rows) != running || got[attempt.Completed] != running/2 || got[attempt.Canceled] != running/2 {
		t.Errorf("%d rows: %v", len(rows), got)
	}
}

// SIGKILL during 50 streams: the next gateway on the host finds what the dead one had begun, and the
// rows say interrupted.
func TestKillDuringStreams(t *testing.T) {
	t.Parallel()
	s := newSystem(t, parts{providers: lengthy()})
	spool := filepath.Join(s.dir, "spool")
	g := s.gateway("node-a", "--spool.dir", spool)
	s.processor("processor")
	end := s.streaming(g)
	g.kill()
	if ends := end(); ends["cut"]+ends["finished"] != running || ends["cut"] < running/2 {
		t.Errorf("the streams ended so: %s", counts(ends))
	}
	// Another node, in the same folder.
	next := s.gateway("node-b", "--spool.dir", spool)
	rows := s.balance(30 * time.Second)
	s.tell("SIGKILL during 50 streams", rows)
	if got := outcomes(rows); len(rows) != running || got[attempt.Interrupted] < running/2 || got[attempt.Interrupted]+got[attempt.Completed] != running {
		t.Errorf("%d rows: %v", len(rows), got)
	}
	testkit.Eventually(t, 5*time.Second, "the dead gateway's directory is gone", func() error {
		left, err := filepath.Glob(filepath.Join(spool, "*"))
		if err == nil && len(left) != 1 {
			err = fmt.Errorf("the spool holds %q", left)
		}
		return err
	})
	next.stop(8 * time.Second)
}
