package emit

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"github.com/google/uuid"
)

const (
	lockName      = "lock"
	segmentSuffix = ".seg"
)

// errLocked says that the process that owns a directory is alive.
var errLocked = errors.New("the spool directory belongs to a running process")

// directory is one process's part of the spool, held by a lock that dies with the process.
type directory struct {
	path string
	lock *os.File
}

// makeDirectory makes a directory of our own. An adopter may take an empty one for a dead one's
// before it is locked; then another is made.
func makeDirectory(root string) (*directory, error) {
	if err := os.MkdirAll(root, 0o700); err != nil {
		return nil, fmt.Errorf("making the spool directory: %w", err)
	}
	for range 100 {
		id, err := uuid.NewV7()
		if err != nil {
			return nil, fmt.Errorf("naming a spool directory: %w", err)
		}
		path := filepath.Join(root, id.String())
		if err := os.Mkdir(path, 0o700); err != nil {
			return nil, fmt.Errorf("making a spool directory: %w", err)
		}
		d, err := lockDirectory(path)
		if err == nil {
			return d, nil
		}
		if !errors.Is(err, errLocked) && !errors.Is(err, os.ErrNotExist) {
			return nil, err
		}
	}
	return nil, fmt.Errorf("making a spool directory in %s: others take each one away", root)
}

// lockDirectory takes the lock of a directory, or returns errLocked; os.ErrNotExist means that
// another has just removed it.
func lockDirectory(path string) (*directory, error) {
	name := filepath.Join(path, lockName)
	lock, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("locking a spool directory: %w", err)
	}
	err = control(lock, func(fd int) error { return syscall.Flock(fd, syscall.LOCK_EX|syscall.LOCK_NB) })
	if err != nil {
		_ = lock.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	// Whoever held the lock before may have removed the directory: then ours is a lock of nothing.
	held, err := lock.Stat()
	var named os.FileInfo
	if err == nil {
		named, err = os.Stat(name)
	}
	if err == nil && !os.SameFile(held, named) {
		err = os.ErrNotExist
	}
	if err != nil {
		_ = lock.Close()
		return nil, fmt.Errorf("locking %s: %w", name, err)
	}
	return &directory{path: path, lock: lock}, nil
}

func control(f *os.File, do func(fd int) error) error {
	raw, err := f.SyscallConn()
	if err != nil {
		return err
	}
	var inner error
	if err := raw.Control(func(fd uintptr) {
		for {
			if inner = do(int(fd)); !errors.Is(inner, syscall.EINTR) {
				return
			}
		}
	}); err != nil {
		return err
	}
	return inner
}

// remove takes the directory away, the lock last; its segments must be gone.
func (d *directory) remove() error {
	err := os.Remove(filepath.Join(d.path, lockName))
	if err == nil {
		err = os.Remove(d.path)
	}
	return errors.Join(err, d.lock.Close())
}

// others lists what is in the directory that no spool put there.
func (d *directory) others() (names []string) {
	entries, _ := os.ReadDir(d.path)
	for _, e := range entries {
		if e.Name() != lockName {
			names = append(names, e.Name())
		}
	}
	return names
}

// leave gives the lock up and keeps what is in the directory for whoever adopts it.
func (d *directory) leave() error { return d.lock.Close() }

func segmentPath(dir string, index uint64) string {
	return filepath.Join(dir, fmt.Sprintf("%016x%s", index, segmentSuffix))
}

// segmentIndexes lists a directory's segments, oldest first.
func segmentIndexes(dir string) ([]uint64, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("listing a spool directory: %w", err)
	}
	var list []uint64
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), segmentSuffix)
		if index, err := strconv.ParseUint(name, 16, 64); ok && err == nil && len(name) == 16 {
			list = append(list, index)
		}
	}
	slices.Sort(list)
	return list, nil
}

// syncDir forces a directory's entries to the disk.
func syncDir(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
