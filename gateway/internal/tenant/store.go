package tenant

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/fsnotify/fsnotify"

	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

// Options are what a Store needs beside its files.
type Options struct {
	// Lookup gives environment variables, for env: secrets and base URLs. Nil: none is set.
	Lookup func(name string) (string, bool)
	// Every is how often the files are looked at where the system tells of no change. 0: 1 s.
	Every time.Duration
	// OnChange is told each view that replaced another, OnError each set that was refused, once.
	// Both run in the Store's goroutine and hold up the next look; nil: nobody is told.
	OnChange func(*View)
	OnError  func(error)
}

// settle is how long files must stay the same before they are read: who writes them may not be done.
const settle = 50 * time.Millisecond

// Store serves the view of a set of files and replaces it when they change. A set with a mistake
// never replaces a good one. Its methods may be called by any number of goroutines.
type Store struct {
	paths   []string
	options Options
	current atomic.Pointer[View]
	refused atomic.Pointer[error]
	stop    chan struct{}
	closing sync.Once
	done    sync.WaitGroup

	// Of the watching goroutine. What files looked like is noted before they are read, so that a
	// change in between is seen as one.
	seen        string   // the resource files when they were read last, good or not
	secrets     []string // files that the current set's secrets stand in
	seenSecrets string
	prints      prints
}

// Open reads the files and folders and keeps looking at them until Close. A set with a mistake is an
// error that holds every one of them (resource.Errors). No paths: an empty view that never changes.
func Open(paths []string, options Options) (*Store, error) {
	if options.Lookup == nil {
		options.Lookup = func(string) (string, bool) { return "", false }
	}
	if options.Every <= 0 {
		options.Every = time.Second
	}
	s := &Store{paths: slices.Clone(paths), options: options, stop: make(chan struct{}), prints: prints{}}
	s.seen = s.fingerprint()
	if err := s.load(); err != nil {
		return nil, err
	}
	s.done.Add(1)
	go s.watch()
	return s, nil
}

// Current is the view to serve from. Never nil; it does not block.
func (s *Store) Current() *View { return s.current.Load() }

// Err is why the files as they are now are not what is served; nil if they are.
func (s *Store) Err() error {
	if err := s.refused.Load(); err != nil {
		return *err
	}
	return nil
}

// Close stops looking at the files and waits until that has ended. The last view stays.
func (s *Store) Close() {
	s.closing.Do(func() { close(s.stop) })
	s.done.Wait()
}

func (s *Store) load() error {
	set, err := resource.ParseFiles(s.paths)
	if err != nil {
		return fmt.Errorf("resources:\n%w", err)
	}
	s.secrets = secretFiles(set)
	s.seenSecrets = s.prints.of(s.secrets)
	var before []snapshot.Profile
	if view := s.current.Load(); view != nil {
		before = view.Profiles
	}
	s.current.Store(build(set, s.options.Lookup, before))
	return nil
}

// watch looks at the files when the system tells of a change, and every now and then in any case:
// network folders and replaced mounts tell of nothing.
func (s *Store) watch() {
	defer s.done.Done()
	ticker := time.NewTicker(s.options.Every)
	defer ticker.Stop()
	notes, closeNotes := s.notify()
	defer func() { closeNotes() }()
	for {
		for s.reload() {
			closeNotes() // folders may have come and gone
			notes, closeNotes = s.notify()
			// Look again: what changed in between nobody told of.
		}
		select {
		case <-s.stop:
			return
		case <-ticker.C:
		case <-notes:
		}
	}
}

// reload reads the files if they have changed and says whether it did.
func (s *Store) reload() bool {
	now := s.fingerprint()
	if now == s.seen && s.prints.of(s.secrets) == s.seenSecrets {
		return false
	}
	for range 10 {
		select {
		case <-s.stop:
			return false
		case <-time.After(settle):
		}
		later := s.fingerprint()
		if later == now {
			break
		}
		now = later
	}
	s.seen, s.seenSecrets = now, s.prints.of(s.secrets)
	if err := s.load(); err != nil {
		s.refused.Store(&err)
		if s.options.OnError != nil {
			s.options.OnError(err)
		}
		return true
	}
	s.refused.Store(nil)
	if s.options.OnChange != nil {
		s.options.OnChange(s.Current())
	}
	return true
}

// fingerprint says what the resource files hold, or why that cannot be known.
func (s *Store) fingerprint() string {
	names, err := resource.ListFiles(s.paths)
	if err != nil {
		return err.Error()
	}
	return s.prints.of(names)
}

// notify asks the system to tell of changes in every folder that matters. Where it cannot, the
// channel is nil and the ticker alone looks.
func (s *Store) notify() (<-chan struct{}, func()) {
	watcher, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, func() {}
	}
	for _, folder := range s.folders() {
		_ = watcher.Add(folder) // a folder that cannot be watched is polled
	}
	notes := make(chan struct{}, 1)
	var done sync.WaitGroup
	done.Add(1)
	go func() {
		defer done.Done()
		for {
			select {
			case _, ok := <-watcher.Events:
				if !ok {
					return
				}
			case _, ok := <-watcher.Errors: // such as an overflow: look for oneself
				if !ok {
					return
				}
			}
			select {
			case notes <- struct{}{}:
			default:
			}
		}
	}()
	return notes, func() {
		_ = watcher.Close() // nothing is lost with it
		done.Wait()
	}
}

func (s *Store) folders() []string {
	var out []string
	add := func(folder string) {
		if !slices.Contains(out, folder) {
			out = append(out, folder)
		}
	}
	for _, path := range s.paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			add(filepath.Clean(path))
		} else {
			add(filepath.Dir(path))
		}
	}
	names, _ := resource.ListFiles(s.paths) // without them the folders above are watched
	for _, name := range append(names, s.secrets...) {
		add(filepath.Dir(name))
	}
	return out
}
