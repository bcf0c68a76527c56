package resource

import (
	"encoding/binary"
	"errors"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// CheckHost refuses hosts, as they stand in a URL, that lead where CheckAddr refuses to go. Other names
// are not looked up: where they lead is seen when a connection is made.
func CheckHost(host string, allowPrivate bool) error {
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	switch {
	case host == "metadata.google.internal", host == "metadata.goog", host == "metadata":
		return errLinkLocal
	case host == "localhost", strings.HasSuffix(host, ".localhost"):
		return CheckAddr(netip.AddrFrom4([4]byte{127, 0, 0, 1}), allowPrivate)
	}
	if addr, err := netip.ParseAddr(host); err == nil {
		return CheckAddr(addr, allowPrivate)
	}
	addr, number := oldAddr(host)
	switch {
	case !number: // a name
		return nil
	case !addr.IsValid():
		return errNoHost
	}
	return CheckAddr(addr, allowPrivate)
}

// oldAddr reads an IPv4 address as inet_aton does: up to four numbers, decimal, octal or hexadecimal, the
// last of which fills what is left. number says whether the host is one at all; where it is malformed,
// the address is not valid.
func oldAddr(host string) (addr netip.Addr, number bool) {
	parts := strings.Split(host, ".")
	last := parts[len(parts)-1]
	if _, err := strconv.ParseUint(last, 0, 64); err != nil && strings.Trim(last, "0123456789") != "" || last == "" {
		return netip.Addr{}, false
	}
	if len(parts) > 4 {
		return netip.Addr{}, true
	}
	var value uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		limit := uint64(0xff)
		if i == len(parts)-1 {
			limit = 1<<(8*(5-len(parts))) - 1
		}
		if err != nil || n > limit || strings.Contains(part, "_") {
			return netip.Addr{}, true
		}
		if i == len(parts)-1 {
			value |= n
		} else {
			value |= n << (24 - 8*i)
		}
	}
	return netip.AddrFrom4([4]byte(binary.BigEndian.AppendUint32(nil, uint32(value)))), true
}

var (
	errLinkLocal = errors.New("is a link-local or metadata address: no provider is there")
	errNoHost    = errors.New("is not the address of a host")
	errPrivate   = errors.New("is a loopback or private address: set allow_private: true if that is meant")
)

// metadataAddrs are metadata services that are neither link-local nor always private.
var metadataAddrs = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("fd00:ec2::254"),   // Amazon
}

// sharedSpace is carrier-grade NAT (RFC 6598), as private as the rest.
var sharedSpace = netip.MustParsePrefix("100.64.0.0/10")

// translated is where IPv6 hosts find IPv4 ones (RFC 6052).
var translated = netip.MustParsePrefix("64:ff9b::/96")

// CheckAddr refuses addresses that no provider may have: link-local, metadata, multicast and
// unspecified ones always, loopback and private ones unless they are allowed.
func CheckAddr(addr netip.Addr, allowPrivate bool) error {
	addr = addr.Unmap().WithZone("")
	if translated.Contains(addr) {
		bytes := addr.As16()
		addr = netip.AddrFrom4([4]byte(bytes[12:]))
	}
	switch {
	case addr.IsLinkLocalUnicast(), slices.Contains(metadataAddrs, addr):
		return errLinkLocal
	case addr.IsUnspecified(), addr.IsMulticast(), !addr.IsValid():
		return errNoHost
	case !allowPrivate && (addr.IsLoopback() || addr.IsPrivate() || sharedSpace.Contains(addr)):
		return errPrivate
	}
	return nil
}
