//go:build !linux

package httpapi

import "net"

// limitUnsent is for Linux; elsewhere the system's own limits hold.
func limitUnsent(net.Conn) {}
