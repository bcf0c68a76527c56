package upstream

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"
)

func post(t *testing.T, url string) (*http.Response, error) {
	t.Helper()
	req, err := http.NewRequest(http.MethodPost, url+"/v1/x", strings.NewReader(`{"a":1}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Traceparent", "00-a-b-01")
	return http.DefaultTransport.RoundTrip(req)
}

func read(t *testing.T, resp *http.Response, err error) (string, error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	return string(b), err
}

func TestScript(t *testing.T) {
	s := New(t,
		`429 h:"Retry-After: 2" json:"{}"`,
		`200 sse role text:"a b" pause:1ms finish:stop usage:3,4 done`,
		`200 len:5 body:"abc" body:de`,
		`200 gzip body:"squeezed"`,
		`204`,
		`200 open body:"until the end"`,
		`200 sse text:a rst`,
		`200 len:10 body:"abc" fin`,
		`wire:"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"`,
		`200 chat:"hi"`)

	resp, err := post(t, s.URL)
	if body, err := read(t, resp, err); resp.StatusCode != 429 || resp.Header.Get("Retry-After") != "2" || body != "{}" || err != nil {
		t.Fatal(resp.Status, body, err)
	}
	resp, err = post(t, s.URL)
	body, err := read(t, resp, err)
	if n := strings.Count(body, "data: "); n != 5 || !strings.Contains(body, `{"content":"a b"}`) || !strings.HasSuffix(body, "data: [DONE]\n\n") || err != nil {
		t.Fatal(n, body, err)
	}
	for i, want := range []string{"abcde", "squeezed", "", "until the end"} {
		resp, err = post(t, s.URL)
		if body, err := read(t, resp, err); body != want || err != nil {
			t.Fatalf("%d: %q %v", i, body, err)
		}
	}
	resp, err = post(t, s.URL)
	if _, err := read(t, resp, err); !errors.Is(err, syscall.ECONNRESET) {
		t.Fatalf("rst: %v", err)
	}
	resp, err = post(t, s.URL)
	if body, err := read(t, resp, err); body != "abc" || err != io.ErrUnexpectedEOF {
		t.Fatalf("fin: %q %v", body, err)
	}
	resp, err = post(t, s.URL)
	if body, err := read(t, resp, err); body != "ok" || err != nil {
		t.Fatalf("wire: %q %v", body, err)
	}
	for range 2 { // the last line stays
		resp, err = post(t, s.URL)
		if body, err := read(t, resp, err); !bytes.Equal([]byte(body), Chat("hi")) || err != nil {
			t.Fatalf("chat: %q %v", body, err)
		}
	}
	calls := s.Calls()
	if len(calls) != 11 {
		t.Fatalf("%d calls", len(calls))
	}
	first, second := calls[0], calls[1]
	if first.Path != "/v1/x" || string(first.Body) != `{"a":1}` || first.Traceparent != "00-a-b-01" || first.Connection != second.Connection {
		t.Fatalf("%+v %+v", first, second)
	}
}

func TestHoldAndDrip(t *testing.T) {
	s := New(t, `200 len:3 drip:20ms body:"abc"`, `200 sse role hold`)
	start := time.Now()
	resp, err := post(t, s.URL)
	if body, err := read(t, resp, err); body != "abc" || err != nil || time.Since(start) < 40*time.Millisecond {
		t.Fatal(body, err, time.Since(start))
	}
	resp, err = post(t, s.URL)
	if err != nil {
		t.Fatal(err)
	}
	resp.Body.Close()
	for range 100 {
		if s.Gone() == 1 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
	t.Fatal("the other side's leaving was not seen")
}

func TestBadScripts(t *testing.T) {
	for _, line := range []string{`200 jump`, `pause:soon`, `len:x`, `text:"open`, `99`} {
		if _, err := parse(line); err == nil {
			t.Errorf("%q was accepted", line)
		}
	}
}
