package h1

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnout/internal/testkit/upstream"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func client(t testing.TB, base string, config *tls.Config) *Client {
	u, err := url.Parse(base)
	if err != nil {
		t.Fatal(err)
	}
	c := New(u, config, &net.Dialer{Timeout: time.Second})
	t.Cleanup(c.CloseIdle)
	return c
}

// post makes one exchange; reused says how it came by its connection.
func post(c *Client, ctx context.Context, body []byte) (status int, answer string, reused bool, err error) {
	resp, err := c.Post(ctx, "/x", http.Header{"X-A": {"1"}}, body, func(r bool) { reused = r })
	if err != nil {
		return 0, "", reused, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(b), reused, err
}

func TestFraming(t *testing.T) {
	const ok = `wire:"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"`
	for _, tc := range []struct {
		name, script string
		status       int
		body         string
		fails        bool // the head or the body
		again        bool // the connection serves the next call
	}{
		{"length", ok, 200, "ok", false, true},
		{"chunked", `200 body:"ab" body:"cd"`, 200, "abcd", false, true},
		{"chunked with a trailer", `wire:"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nX-T: 1\r\n\r\n"`, 200, "ok", false, true},
		{"open", `200 open body:"until the end"`, 200, "until the end", false, false},
		{"no content", `204`, 204, "", false, true},
		{"not modified", `wire:"HTTP/1.1 304 Not Modified\r\nContent-Length: 99\r\n\r\n"`, 304, "", false, true},
		{"no reason phrase", `wire:"HTTP/1.1 200\r\nContent-Length: 2\r\n\r\nok"`, 200, "ok", false, true},
		{"bare line feeds", `wire:"HTTP/1.1 200 OK\nContent-Length: 2\n\nok"`, 200, "ok", false, true},
		{"close", `wire:"HTTP/1.1 200 OK\r\nConnection: x, Close\r\nContent-Length: 2\r\n\r\nok"`, 200, "ok", false, false},
		{"HTTP/1.0", `wire:"HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nok"`, 200, "ok", false, false},
		{"interim", `wire:"HTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"`, 200, "ok", false, true},
		{"a header of 100 KiB", `wire:"HTTP/1.1 200 OK\r\nX-Long: ` + strings.Repeat("x", 100<<10) + `\r\nContent-Length: 2\r\n\r\nok"`, 200, "ok", false, true},
		{"text behind the answer", `wire:"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok and more"`, 200, "ok", false, false},
		{"length and chunked", `wire:"HTTP/1.1 200 OK\r\nContent-Length: 9\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n"`, 200, "ok", false, false},
		{"two lengths", `wire:"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nokk"`, 0, "", true, false},
		{"negative length", `wire:"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok"`, 0, "", true, false},
		{"space before the colon", `wire:"HTTP/1.1 200 OK\r\nContent-Length : 2\r\n\r\nok"`, 0, "", true, false},
		{"unknown transfer coding", `wire:"HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"`, 0, "", true, false},
		{"switching protocols", `wire:"HTTP/1.1 101 Switching\r\n\r\n"`, 0, "", true, false},
		{"endless interims", `wire:"` + strings.Repeat(`HTTP/1.1 100 Continue\r\n\r\n`, 9) + `"`, 0, "", true, false},
		{"a head of 300 KiB", `wire:"HTTP/1.1 200 OK\r\n` + strings.Repeat(`X-A: `+strings.Repeat("x", 1000)+`\r\n`, 300) + `\r\n"`, 0, "", true, false},
		{"no HTTP", `wire:"SSH-2.0-OpenSSH_9.2\r\n" hold`, 0, "", true, false},
		{"cut in the head", `wire:"HTTP/1.1 200 OK\r\nContent-Le" fin`, 0, "", true, false},
		{"cut in the body", `200 len:10 body:abc fin`, 200, "abc", true, false},
		{"cut in a chunk", `wire:"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n9\r\nabc" fin`, 200, "abc", true, false},
		{"cut between chunks", `200 body:abc fin`, 200, "abc", true, false},
		{"no hexadecimal chunk", `wire:"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" hold`, 200, "", true, false},
		{"reset", `200 body:abc rst`, 200, "abc", true, false},
		{"closed at once", `fin`, 0, "", true, false},
	} {
		up := upstream.New(t, tc.script, ok)
		c := client(t, up.URL, nil)
		status, body, _, err := post(c, context.Background(), []byte("{}"))
		if status != tc.status || body != tc.body || (err != nil) != tc.fails {
			t.Errorf("%s: %d %q %v", tc.name, status, body, err)
		}
		_, _, reused, err := post(c, context.Background(), []byte("{}"))
		if err != nil || reused != tc.again {
			t.Errorf("%s: then reused %v, %v", tc.name, reused, err)
		}
		if n := len(up.Calls()); n != 2 {
			t.Errorf("%s: %d calls for 2", tc.name, n)
		}
		c.CloseIdle()
		up.Close()
	}
}

func TestAClosedIdleConnectionIsNotUsed(t *testing.T) {
	up := upstream.New(t, `wire:"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" pause:20ms fin`, `200 body:ok`)
	c := client(t, up.URL, nil)
	for range 2 {
		if _, body, reused, err := post(c, context.Background(), nil); body != "ok" || reused || err != nil {
			t.Fatal(body, reused, err)
		}
		time.Sleep(100 * time.Millisecond)
	}
}

func TestIdleConnectionsAreForgotten(t *testing.T) {
	up := upstream.New(t, `200 body:ok`)
	c := client(t, up.URL, nil)
	if _, _, _, err := post(c, context.Background(), nil); err != nil {
		t.Fatal(err)
	}
	c.mu.Lock()
	c.idle[0].since = time.Now().Add(-idleFor)
	c.mu.Unlock()
	c.prune()
	if len(c.idle) != 0 || c.timer != nil {
		t.Fatalf("%d connections kept", len(c.idle))
	}
}

func TestLargeRequests(t *testing.T) {
	body := bytes.Repeat([]byte("x"), 8<<20)
	up := upstream.New(t, `200 body:ok`)
	c := client(t, up.URL, nil)
	for i := range 2 {
		if _, answer, reused, err := post(c, context.Background(), body); answer != "ok" || err != nil || reused != (i == 1) {
			t.Fatal(answer, reused, err)
		}
	}
	for _, call := range up.Calls() {
		if !bytes.Equal(call.Body, body) {
			t.Fatalf("%d bytes arrived", len(call.Body))
		}
	}
	// A server that answers without reading all of it.
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	served := make(chan struct{})
	go func() {
		defer close(served)
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Read(make([]byte, 100))
		_, _ = io.WriteString(conn, "HTTP/1.1 413 Too Large\r\nContent-Length: 3\r\n\r\nbig")
		_, _ = conn.Read(make([]byte, 1))
		time.Sleep(50 * time.Millisecond)
	}()
	c = client(t, "http://"+listener.Addr().String(), nil)
	if status, answer, _, err := post(c, context.Background(), body); status != 413 || answer != "big" || err != nil {
		t.Fatal(status, answer, err)
	}
	if len(c.idle) != 0 {
		t.Fatal("the connection was kept")
	}
	<-served
}

func TestContextEndsEverything(t *testing.T) {
	for _, script := range []string{`hold`, `200 len:10 body:abc hold`} {
		up := upstream.New(t, script)
		c := client(t, up.URL, nil)
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(50*time.Millisecond, cancel)
		start := time.Now()
		_, _, _, err := post(c, ctx, []byte("{}"))
		if !errors.Is(err, os.ErrDeadlineExceeded) || time.Since(start) > time.Second || len(c.idle) != 0 {
			t.Errorf("%s: %v after %v, %d kept", script, err, time.Since(start), len(c.idle))
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, _, _, err := post(client(t, "http://127.0.0.1:1", nil), ctx, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("before dialling: %v", err)
	}
}

func TestTLS(t *testing.T) {
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		b, _ := io.ReadAll(r.Body)
		fmt.Fprintf(w, "%s %s %s", r.Proto, r.Host, b)
	}))
	defer server.Close()
	c := client(t, server.URL, server.Client().Transport.(*http.Transport).TLSClientConfig)
	for i := range 3 {
		_, body, reused, err := post(c, context.Background(), []byte("hi"))
		if want := "HTTP/1.1 " + server.Listener.Addr().String() + " hi"; body != want || reused != (i > 0) || err != nil {
			t.Fatalf("%q %v %v", body, reused, err)
		}
		time.Sleep(10 * time.Millisecond)
	}
	if _, _, _, err := post(client(t, server.URL, nil), context.Background(), nil); err == nil {
		t.Fatal("an unknown authority was accepted")
	}
}

func TestHeadersOut(t *testing.T) {
	up := upstream.New(t, `200 h:"Retry-After: 3" h:"retry-after-ms: 5" h:"Set-Cookie: c" h:"content-encoding: x" json:"{}"`)
	c := client(t, up.URL, nil)
	resp, err := c.Post(context.Background(), "/v1/x?y=1", http.Header{"X-A": {"1", "2"}}, []byte("{}"), func(bool) {})
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	if got := fmt.Sprint(resp.Header); got != "map[Content-Encoding:[x] Retry-After:[3] Retry-After-Ms:[5]]" {
		t.Error(got)
	}
	call := up.Calls()[0]
	if call.Path != "/v1/x" || fmt.Sprint(call.Header) != "map[Content-Length:[2] X-A:[1 2]]" {
		t.Errorf("%+v", call)
	}
	for _, h := range []http.Header{{"X-A": {"a\r\nX-B: b"}}, {"X\n": {"a"}}} {
		if _, err := c.Post(context.Background(), "/", h, nil, func(bool) {}); !errors.Is(err, ErrHeader) {
			t.Errorf("%q: %v", h, err)
		}
	}
}

// What net/http reads as an answer, this reads as the same answer; and no bytes make it panic.
func FuzzRead(f *testing.F) {
	f.Add([]byte("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
	f.Add([]byte("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nA: b\r\n\r\n"))
	f.Add([]byte("HTTP/1.0 404 Not Found\nX: y\n\nuntil the end"))
	f.Fuzz(func(t *testing.T, wire []byte) {
		ours, theirs := net.Pipe()
		theirs.Close()
		cn := &conn{Conn: ours, tcp: ours, r: bufio.NewReaderSize(bytes.NewReader(wire), readBuffer), alive: func() bool { return true }}
		x := &exchange{client: &Client{}, conn: cn, detach: func() bool { return true }}
		resp, err := x.read()
		if err != nil {
			x.give(false)
			return
		}
		body, bodyErr := io.ReadAll(resp.Body)
		resp.Body.Close()
		x.client.CloseIdle()
		want, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(wire)), &http.Request{Method: http.MethodPost})
		if err != nil || want.StatusCode < 200 || resp.StatusCode != want.StatusCode {
			return // it is stricter in places, and stops at interim answers
		}
		wantBody, wantErr := io.ReadAll(want.Body)
		if want.Uncompressed || bodyErr != nil || wantErr != nil {
			return
		}
		if !bytes.Equal(body, wantBody) {
			t.Fatalf("%q: %q, net/http says %q", wire, body, wantBody)
		}
	})
}
