package resource

import (
	"net/netip"
	"testing"
)

func TestCheckAddr(t *testing.T) {
	for addr, want := range map[string][2]bool{ // whether it may be called, without and with allow_private
		"8.8.8.8": {true, true}, "2606:4700::1111": {true, true},
		"127.0.0.1": {false, true}, "::1": {false, true}, "10.1.2.3": {false, true}, "192.168.1.1": {false, true}, "172.16.0.1": {false, true},
		"fd12::1": {false, true}, "100.64.0.1": {false, true}, "::ffff:127.0.0.1": {false, true}, "::ffff:10.0.0.1": {false, true},
		"169.254.169.254": {false, false}, "::ffff:169.254.169.254": {false, false}, "fe80::1": {false, false}, "fe80::1%eth0": {false, false},
		"64:ff9b::a9fe:a9fe": {false, false}, "64:ff9b::7f00:1": {false, true}, "64:ff9b::808:808": {true, true},
		"100.100.100.200": {false, false}, "192.0.0.192": {false, false}, "168.63.129.16": {false, false}, "fd00:ec2::254": {false, false},
		"224.0.0.1": {false, false}, "0.0.0.0": {false, false}, "::": {false, false},
	} {
		for i, private := range []bool{false, true} {
			if err := CheckAddr(netip.MustParseAddr(addr), private); (err == nil) != want[i] {
				t.Errorf("%s, allow_private %v: %v", addr, private, err)
			}
		}
	}
}

// Hosts are read as those who will connect read them, also where that is not how addresses are written.
func TestCheckHost(t *testing.T) {
	for host, want := range map[string][2]bool{
		"example.com": {true, true}, "1.example.com": {true, true}, "10.com": {true, true}, "8.8.8.8": {true, true}, "134744072": {true, true},
		"localhost": {false, true}, "LOCALHOST.": {false, true}, "a.localhost": {false, true}, "127.1": {false, true}, "0x7f.1": {false, true}, "2130706433": {false, true}, "017700000001": {false, true},
		"169.254.169.254": {false, false}, "2852039166": {false, false}, "0xa9fea9fe": {false, false}, "0xA9.0xFE.43518": {false, false}, "0251.0376.0251.0376": {false, false}, "169.16689662": {false, false},
		"metadata.google.internal": {false, false}, "Metadata.Google.Internal.": {false, false}, "metadata": {false, false},
		"0": {false, false}, "1.2.3.4.5": {false, false}, "256.1.1.1": {false, false}, "08.1.1.1": {false, false}, "4294967296": {false, false}, "x.1": {false, false},
	} {
		for i, private := range []bool{false, true} {
			if err := CheckHost(host, private); (err == nil) != want[i] {
				t.Errorf("%s, allow_private %v: %v", host, private, err)
			}
		}
	}
}

// However an address is bent, what is refused with allow_private is refused without it.
func FuzzCheckHost(f *testing.F) {
	for _, host := range []string{"0xa9fea9fe", "127.1", "metadata.", "1.2.3.4.5", "::1", "a.0x", "9999999999999999999999"} {
		f.Add(host)
	}
	f.Fuzz(func(t *testing.T, host string) {
		if CheckHost(host, true) != nil && CheckHost(host, false) == nil {
			t.Fatal(host)
		}
		if addr, err := netip.ParseAddr(host); err == nil && (CheckAddr(addr, false) == nil) != (CheckHost(host, false) == nil) {
			t.Fatal(host)
		}
	})
}
