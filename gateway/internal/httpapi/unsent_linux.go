package httpapi

import (
	"net"
	"syscall"
)

const (
	notSentLowAt = 0x19 // TCP_NOTSENT_LOWAT, which package syscall does not name
	unsent       = 64 << 10
)

// limitUnsent keeps the kernel from piling up what a slow client has not taken: without it that is
// megabytes a connection, and a write waits until a third of them are gone, so that a client which
// takes something all the time looks like one that takes nothing. It is a kindness: errors are left.
func limitUnsent(c net.Conn) {
	tcp, ok := c.(*net.TCPConn)
	if !ok {
		return
	}
	raw, err := tcp.SyscallConn()
	if err != nil {
		return
	}
	_ = raw.Control(func(fd uintptr) { _ = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_TCP, notSentLowAt, unsent) })
}
