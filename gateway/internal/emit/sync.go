package emit

import (
	"sync"
	"time"
)

// groupSync lets many goroutines share one fsync: whoever comes while one runs waits for the next.
type groupSync struct {
	spool   *spool
	written uint64 // bytes written so far; guarded by spool.mu

	mu       sync.Mutex
	ended    *sync.Cond // a round has ended
	running  bool
	synced   uint64 // bytes known to be on the disk
	failures int    // rounds that failed
	err      error  // of the last of them
}

func (g *groupSync) init(s *spool) {
	g.spool = s
	g.ended = sync.NewCond(&g.mu)
}

// wait returns when everything up to mark is on the disk, or could not be brought there.
func (g *groupSync) wait(mark uint64) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	failures := g.failures
	for g.synced < mark {
		if g.running {
			g.ended.Wait()
		} else {
			g.round()
		}
		if g.failures != failures {
			return g.err
		}
	}
	return nil
}

// round forces the current segment to the disk; older ones were forced when they were sealed. g.mu
// is held before and after, not meanwhile.
func (g *groupSync) round() {
	g.running = true
	g.mu.Unlock()

	s := g.spool
	s.mu.Lock()
	segment, target := s.current(), g.written
	s.mu.Unlock()
	err := segment.sync()
	if err != nil {
		s.mu.Lock()
		s.fail(err)
		s.rotate, s.suspect = true, true // what the kernel failed to write it may have forgotten
		s.mu.Unlock()
	}

	g.mu.Lock()
	g.running = false
	if err != nil {
		g.failures++
		g.err = err
	} else {
		g.synced = max(g.synced, target)
	}
	g.ended.Broadcast()
}

const repairEvery = 200 * time.Millisecond

// keep repairs the spool and forces the disk from time to time until done is closed.
func (s *spool) keep(done <-chan struct{}) {
	ticker := time.NewTicker(repairEvery)
	defer ticker.Stop()
	forced := time.Now()
	for {
		select {
		case <-done:
			return
		case now := <-ticker.C:
			s.repair()
			if s.cfg.Fsync == FsyncInterval && now.Sub(forced) >= s.cfg.FsyncInterval {
				forced = now
				s.mu.Lock()
				mark := s.sync.written
				s.mu.Unlock()
				_ = s.sync.wait(mark) // the spool is broken then, and says so
			}
		}
	}
}
