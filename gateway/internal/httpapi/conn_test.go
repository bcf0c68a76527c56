package httpapi

import (
	"net"
	"strings"
	"testing"
)

// A Content-Length is found wherever reads cut it, and nothing else is taken for one.
func TestLengthIsFoundHoweverItIsCut(t *testing.T) {
	for text, want := range map[string]bool{
		"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 3\r\n\r\n": true,
		"POST / HTTP/1.1\nCONTENT-length:3\n\n":                   true,
		"a\n\ncontent-length:":                                    true,
		"POST / HTTP/1.1\r\nContent-Type: content-length:\r\nX-Content-Length: 3\r\nContent-Lengths: 3\r\n\r\n": false,
		"content-length: 3": false, // a request line
	} {
		for at := range len(text) {
			c := &conn{matched: -1}
			c.look([]byte(text[:at]))
			c.look([]byte(text[at:]))
			if c.length.Load() != want {
				t.Errorf("%q cut at %d: %v", text, at, !want)
			}
		}
	}
}

// Only what net/http says by itself is said anew.
func TestWhatHandlersWriteIsLeft(t *testing.T) {
	for text, want := range map[string]int{
		"HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request": 400,
		"HTTP/1.1 200 OK\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n":                         0,
		"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n":                         0,
		"data: HTTP/1.1 400": 0, "": 0, "HTTP/1.1 4": 0,
	} {
		if status, _ := refusedStatus([]byte(text)); status != want {
			t.Errorf("%q: %d", text, status)
		}
		if want != 0 {
			continue
		}
		ours, theirs := net.Pipe()
		go func() { _, _ = (&conn{Conn: ours}).Write([]byte(text)); ours.Close() }()
		var got strings.Builder
		buf := make([]byte, 512)
		for {
			n, err := theirs.Read(buf)
			if got.Write(buf[:n]); err != nil {
				break
			}
		}
		if got.String() != text {
			t.Errorf("%q became %q", text, got.String())
		}
	}
}
