package emit

import (
	"fmt"
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

// round forces every segment that was written to to the disk. g.mu is held before and after, not
// meanwhile.
func (g *groupSync) round() {
	g.running = true
	g.mu.Unlock()
	target, err := g.spool.force()
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

// force brings to the disk what has been written, and says how much that was.
func (s *spool) force() (written uint64, err error) {
	s.mu.Lock()
	written = s.sync.written
	var dirty []*segment
	named := true
	for _, seg := range s.segments {
		if seg.dirty {
			seg.dirty = false
			named = named && seg.durable
			dirty = append(dirty, seg)
		}
	}
	s.mu.Unlock()

	for _, seg := range dirty {
		if err = seg.sync(); err != nil {
			break
		}
	}
	if err == nil && !named {
		if err = syncDir(s.dir.path); err != nil {
			err = fmt.Errorf("forcing the spool directory to the disk: %w", err)
		}
	}

	s.mu.Lock()
	defer s.mu.Unlock()
	if err != nil {
		for _, seg := range dirty {
			seg.dirty = true
		}
		s.fail(err)
		s.rotate, s.suspect = true, true // what the kernel failed to write it may have forgotten
		return 0, err
	}
	for _, seg := range dirty {
		seg.durable = true
	}
	s.trim()
	return written, nil
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
			if s.cfg.Fsync != FsyncNever && now.Sub(forced) >= s.cfg.FsyncInterval {
				forced = now
				s.mu.Lock()
				mark := s.sync.written
				s.mu.Unlock()
				_ = s.sync.wait(mark) // the spool is broken then, and says so
			}
		}
	}
}
