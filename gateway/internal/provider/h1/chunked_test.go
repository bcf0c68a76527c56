package h1

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http/httputil"
	"testing"
	"testing/iotest"
)

// pieces gives one piece a read, and fails the test if it is asked for more.
type pieces struct {
	t    *testing.T
	list []string
}

func (p *pieces) Read(b []byte) (int, error) {
	if len(p.list) == 0 {
		p.t.Fatal("waits although there is something to give")
	}
	n := copy(b, p.list[0])
	p.list = p.list[1:]
	return n, nil
}

// What has come goes on at once, wherever the connection's pieces end.
func TestChunksDoNotWait(t *testing.T) {
	for _, list := range [][]string{
		{"5\r\nab"}, {"2\r\nab\r\n"}, {"2\r\nab\r\n9"}, {"2\r\nab\r\n9\r\n"}, {"2\r\nab\r"}, {"2", "\r\na", "b"}, {"1\r\na\r\n1\r\nb\r\n"}, {"2\r\nab\r\n0"},
	} {
		c := &chunks{r: bufio.NewReader(&pieces{t, list})}
		got := make([]byte, 0, 2)
		for len(got) < 2 {
			n, err := c.Read(got[len(got):2])
			if got = got[:len(got)+n]; err != nil {
				t.Fatal(err)
			}
		}
		if string(got) != "ab" {
			t.Errorf("%q: %q", list, got)
		}
	}
	// With room for more.
	c := &chunks{r: bufio.NewReader(&pieces{t, []string{"2\r\nab\r\n9\r\n"}})}
	if n, err := c.Read(make([]byte, 100)); n != 2 || err != nil {
		t.Errorf("%d %v", n, err)
	}
}

func TestChunksRefused(t *testing.T) {
	for _, body := range []string{"", "2\r\nab", "2\r\nab\r\n", "\r\n", "-1\r\n", "g\r\n", "1 2\r\n", "2\r\nabc\r\n0\r\n", "1000000000000000\r\n"} {
		if _, err := io.ReadAll(&chunks{r: bufio.NewReader(bytes.NewReader([]byte(body)))}); err == nil {
			t.Errorf("%q: no error", body)
		}
	}
}

// It reads what net/http's reader reads, however the connection cuts it.
func FuzzChunked(f *testing.F) {
	f.Add([]byte("2;x=y\r\nab\r\nA\r\n0123456789\r\n0\r\n\r\n"), 16)
	f.Add([]byte("0\r\n"), 1)
	f.Fuzz(func(t *testing.T, body []byte, size int) {
		want, wantErr := io.ReadAll(httputil.NewChunkedReader(bytes.NewReader(body)))
		for name, r := range map[string]io.Reader{"at once": bytes.NewReader(body), "byte by byte": iotest.OneByteReader(bytes.NewReader(body))} {
			c := &chunks{r: bufio.NewReaderSize(r, 64)}
			var got []byte
			var err error
			for p := make([]byte, max(1, min(size, 100))); err == nil; {
				var n int
				n, err = c.Read(p)
				got = append(got, p[:n]...)
			}
			if !bytes.HasPrefix(got, want) && !bytes.HasPrefix(want, got) || wantErr == nil && (!errors.Is(err, io.EOF) || !bytes.Equal(got, want)) {
				t.Fatal(name, fmt.Sprintf("%q %v, want %q %v", got, err, want, wantErr))
			}
		}
	})
}
