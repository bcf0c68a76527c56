package emit

import (
	"errors"
	"os"
	"syscall"
)

// fallocKeepSize is FALLOC_FL_KEEP_SIZE: blocks are set aside and the file's size stays.
const fallocKeepSize = 1

// allocate sets blocks aside so that later writes cannot fail for want of room. File systems that
// cannot do that are no error.
func allocate(f *os.File, size int64) error {
	err := control(f, func(fd int) error { return syscall.Fallocate(fd, fallocKeepSize, 0, size) })
	if errors.Is(err, syscall.EOPNOTSUPP) || errors.Is(err, syscall.ENOSYS) {
		return nil
	}
	return err
}

// datasync forces a file's contents, and its size, to the disk.
func datasync(f *os.File) error {
	return control(f, syscall.Fdatasync)
}
