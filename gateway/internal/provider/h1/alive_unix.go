//go:build unix

package h1

import (
	"errors"
	"net"
	"syscall"
)

// liveness returns a function that says whether an idle connection is still open and silent: one read
// that does not block. Anything to be read from it is an end or makes no sense.
func liveness(c net.Conn) func() bool {
	sc, ok := c.(syscall.Conn)
	if !ok {
		return func() bool { return true }
	}
	raw, err := sc.SyscallConn()
	if err != nil {
		return func() bool { return false }
	}
	var (
		silent bool
		buf    [1]byte
	)
	look := func(fd uintptr) bool {
		_, err := syscall.Read(int(fd), buf[:])
		silent = errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EWOULDBLOCK)
		return true
	}
	return func() bool { return raw.Read(look) == nil && silent }
}
