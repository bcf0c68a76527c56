package emit

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"turnout/schemas/attempt"
)

// onSync replaces the call that forces a file to the disk.
func onSync(t *testing.T, f func(*os.File) error) {
	t.Helper()
	fdatasync = f
	t.Cleanup(func() { fdatasync = datasync })
}

func TestManyShareOneFsync(t *testing.T) {
	var rounds atomic.Int64
	onSync(t, func(*os.File) error {
		rounds.Add(1)
		time.Sleep(2 * time.Millisecond) // a disk
		return nil
	})
	b, cfg := &broker{}, config(t)
	cfg.Fsync, cfg.FsyncInterval = FsyncAlways, time.Hour
	l := openLog(t, cfg, b)
	const goroutines, each = 32, 10
	var wg sync.WaitGroup
	for range goroutines {
		wg.Go(func() {
			for range each {
				e := event(0)
				l.Finish(mustStart(t, l, e), ended(e))
			}
		})
	}
	wg.Wait()
	// Each goroutine waits for 20 rounds at least, and one more where it came during one.
	if n := rounds.Load(); n < 2*each || n > 6*each {
		t.Errorf("%d rounds for %d records", n, 2*goroutines*each)
	}
	if err := l.Close(context.Background()); err != nil {
		t.Fatal(err)
	}
}

func TestARecordIsOnTheDiskWhenItsWriterGoesOn(t *testing.T) {
	var synced atomic.Int64 // bytes
	onSync(t, func(f *os.File) error {
		info, err := f.Stat()
		if err == nil {
			synced.Store(info.Size())
		}
		return err
	})
	b, cfg := &broker{down: true}, config(t)
	cfg.Fsync = FsyncAlways
	l := openLog(t, cfg, b)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for range 20 {
				e := event(1)
				ticket := mustStart(t, l, e)
				l.spool.mu.Lock()
				p := l.spool.open[ticket.seq]
				l.spool.mu.Unlock()
				if at := synced.Load(); at < p.offset+p.size {
					t.Errorf("Start returned with %d bytes on the disk, its record ends at %d", at, p.offset+p.size)
				}
				l.Finish(ticket, ended(e))
			}
		})
	}
	wg.Wait()
}

func TestFsyncErrors(t *testing.T) {
	var failing atomic.Bool
	onSync(t, func(*os.File) error {
		if failing.Load() {
			return syscall.EIO
		}
		return nil
	})
	b, cfg := &broker{down: true}, config(t)
	cfg.Fsync = FsyncAlways
	l := openLog(t, cfg, b)
	done, open := event(3), event(1)
	ticket := mustStart(t, l, done)
	mustStart(t, l, open)
	failing.Store(true)
	never := event(0)
	if _, err := l.Start(never); !errors.Is(err, ErrSpoolBroken) || !errors.Is(err, syscall.EIO) {
		t.Fatalf("a start: %v", err)
	}
	l.Finish(ticket, ended(done))
	if err := l.Ready(); !errors.Is(err, ErrSpoolBroken) {
		t.Errorf("ready says %v", err)
	}
	failing.Store(false)
	eventually(t, "ready again", func() bool { return l.Ready() == nil })
	l.spool.mu.Lock()
	index := l.spool.current().index
	l.spool.mu.Unlock()
	if index == 0 {
		t.Error("the suspect segment is written to still")
	}
	_ = l.Close(expired())

	// The suspect segment is lost with the host; the new one has all that matters.
	files, _ := segmentsOf(t, cfg.Dir)
	if len(files) < 2 {
		t.Fatalf("segments: %v", files)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	b.set(func() { b.down = false })
	shipAll(t, cfg.Dir, b)
	events := settle(t, b.records())
	if e := events[done.EventID]; e == nil || e.Outcome != attempt.Completed {
		t.Errorf("the finished one: %+v", e)
	}
	if e := events[open.EventID]; e == nil || e.Outcome != attempt.Interrupted {
		t.Errorf("the open one: %+v", e)
	}
	if events[never.EventID] != nil {
		t.Error("a start that was refused has an event")
	}
}
