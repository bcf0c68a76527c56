package dev

import (
	"os"

	"golang.org/x/sys/unix"
)

// lock takes a file for this process alone, without waiting; release gives it back, and so does the
// end of the process, however it comes.
func lock(path string) (release func(), err error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = file.Close()
		return nil, err
	}
	return func() { _ = file.Close() }, nil
}
