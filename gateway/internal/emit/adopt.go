package emit

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
)

// adopted is the directory of a dead process, locked by us.
type adopted struct {
	*directory
	bytes int64
}

// adopter ships what dead processes left, one directory after the other.
type adopter struct {
	*sender
	root    string
	spool   *spool
	waiting []adopted
	left    map[string]bool // looked at and left for people
	current atomic.Pointer[estate]
}

// drop gives up the oldest segment of what is being shipped, and says whether there was one.
func (a *adopter) drop() bool {
	e := a.current.Load()
	return e != nil && e.drop()
}

// adoptEvery is how often an idle gateway looks for directories whose process has died.
const adoptEvery = 10 * time.Second

// collect locks every directory whose process is dead, so that its bytes count as ours.
func (a *adopter) collect() {
	entries, err := os.ReadDir(a.root)
	if err != nil {
		a.log.Error("the spool directory cannot be listed", "dir", a.root, "error", err)
		return
	}
	for _, e := range entries {
		path := filepath.Join(a.root, e.Name())
		if !isPart(e) || path == a.spool.dir.path || a.left[path] {
			continue
		}
		d, err := lockDirectory(path)
		if err != nil {
			if !errors.Is(err, errLocked) && !errors.Is(err, os.ErrNotExist) {
				a.log.Error("a spool directory cannot be adopted", "dir", path, "error", err)
			}
			continue
		}
		bytes := sizeOf(path)
		a.spool.adopted.Add(bytes)
		a.waiting = append(a.waiting, adopted{directory: d, bytes: bytes})
	}
}

func sizeOf(dir string) (bytes int64) {
	indexes, _ := segmentIndexes(dir)
	for _, index := range indexes {
		if info, err := os.Stat(segmentPath(dir, index)); err == nil {
			bytes += info.Size()
		}
	}
	return bytes
}

// run ships until closing is closed or ctx ends; what it holds then is left for others.
func (a *adopter) run(ctx context.Context, closing <-chan struct{}) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-closing:
			cancel()
		case <-ctx.Done():
		}
	}()
	defer func() {
		for _, d := range a.waiting {
			_ = d.leave()
		}
	}()
	ticker := time.NewTicker(adoptEvery)
	defer ticker.Stop()
	for {
		for len(a.waiting) > 0 && ctx.Err() == nil {
			d := a.waiting[0]
			a.waiting = a.waiting[1:]
			a.metrics.adopted.Inc()
			e := newEstate(d.directory, a.sender, func(bytes int64) {
				d.bytes -= bytes
				a.spool.adopted.Add(-bytes)
			})
			a.current.Store(e)
			report, err := e.settle(ctx)
			a.current.Store(nil)
			a.spool.adopted.Add(-d.bytes)
			if report.OtherVersion+report.NotEmpty > 0 {
				a.left[d.path] = true
			}
			if err != nil && ctx.Err() == nil {
				a.log.Error("an adopted spool directory could not be shipped", "dir", d.path, "error", err)
			}
			if report.Sent+report.Interrupted+report.Corrupt > 0 {
				a.log.Info("shipped what a dead process left", "dir", d.path, "sent", report.Sent,
					"interrupted", report.Interrupted, "torn_bytes", report.TornBytes)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
			a.collect()
		}
	}
}

// isPart says whether a directory entry is named like one process's part of the spool.
func isPart(e os.DirEntry) bool {
	_, err := uuid.Parse(e.Name())
	return err == nil && e.IsDir()
}
