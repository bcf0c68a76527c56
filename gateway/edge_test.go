package gateway

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"turnout/schemas/attempt"
)

func (n *node) dial(t *testing.T) (net.Conn, *bufio.Reader) {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	_ = c.SetDeadline(time.Now().Add(10 * time.Second))
	return c, bufio.NewReader(c)
}

// answered reads one answer off a connection.
func answered(t *testing.T, r *bufio.Reader, method string) reply {
	t.Helper()
	resp, err := http.ReadResponse(r, &http.Request{Method: method})
	if err != nil {
		t.Fatal(err)
	}
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if resp.Close { // ReadResponse takes the field away
		resp.Header.Set("Connection", "close")
	}
	return reply{resp.StatusCode, resp.Header, string(body)}
}

const rawHead = "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\n"

func chunked(body string) string { return fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(body), body) }

// A chunked body is no reason to end a connection: only one that names a length as well is.
func TestAChunkedBodyLeavesTheConnectionOpen(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), nil).ready()
	c, r := n.dial(t)
	for i := range 3 {
		fmt.Fprintf(c, "%sTransfer-Encoding: chunked\r\n\r\n%s", rawHead, chunked(chatBody))
		if a := answered(t, r, "POST"); a.status != 200 || a.header.Get("Connection") != "" {
			t.Fatalf("request %d: %d Connection %q %s", i, a.status, a.header.Get("Connection"), a.body)
		}
	}
	// A connection that named one before is not trusted any more: nobody can tell where its requests end.
	fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", rawHead, len(chatBody), chatBody)
	if a := answered(t, r, "POST"); a.status != 200 || a.header.Get("Connection") != "" {
		t.Fatalf("%d %q", a.status, a.header.Get("Connection"))
	}
	fmt.Fprintf(c, "%sTransfer-Encoding: chunked\r\n\r\n%s", rawHead, chunked(chatBody))
	if a := answered(t, r, "POST"); a.status != 200 || a.header.Get("Connection") != "close" {
		t.Fatalf("%d %q", a.status, a.header.Get("Connection"))
	}
	// However it is written and cut: both together end it.
	for _, head := range []string{
		"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n", "Transfer-Encoding: chunked\r\ncontent-LENGTH: 3\r\n\r\n",
	} {
		for _, at := range []int{0, 5, len(head) - 6} {
			c, r := n.dial(t)
			fmt.Fprintf(c, "%sTransfer-Encoding: chunked\r\n\r\n%s", rawHead, chunked(chatBody))
			answered(t, r, "POST")
			fmt.Fprint(c, rawHead, head[:at])
			time.Sleep(5 * time.Millisecond)
			fmt.Fprint(c, head[at:], chunked(chatBody))
			if a := answered(t, r, "POST"); a.status != 200 || a.header.Get("Connection") != "close" {
				t.Errorf("%q cut at %d: %d Connection %q", head, at, a.status, a.header.Get("Connection"))
			}
			if _, err := r.ReadByte(); err != io.EOF {
				t.Errorf("%q cut at %d: the connection stays open: %v", head, at, err)
			}
		}
	}
}

// Requests sent one behind the other without waiting are answered in order, also after refusals.
func TestPipelinedRequests(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), nil).ready()
	c, r := n.dial(t)
	good := fmt.Sprintf("%sContent-Length: %d\r\n\r\n%s", rawHead, len(chatBody), chatBody)
	bad := fmt.Sprintf("%sContent-Length: 5\r\n\r\nhello", rawHead)
	lost := "GET /nowhere HTTP/1.1\r\nHost: x\r\n\r\n"
	ids := map[string]bool{}
	fmt.Fprint(c, good, bad, good, lost, strings.Replace(good, token, "to-nobody", 1), good)
	for i, want := range []int{200, 400, 200, 404, 401, 200} {
		a := answered(t, r, "POST")
		if a.status != want {
			t.Fatalf("answer %d: %d, want %d: %s", i, a.status, want, a.body)
		}
		ids[a.header.Get("X-Request-Id")] = true
	}
	if len(ids) != 6 || ids[""] {
		t.Errorf("request ids %v", ids)
	}
}

// Every answer has an id of ours, whatever the client called its request, and errors of Anthropic's
// dialect repeat it.
func TestEveryAnswerHasAnID(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, mixed(u.URL), nil).ready()
	for _, c := range []struct {
		method, url string
		status      int
	}{
		{"GET", n.url + "/", 200}, {"GET", n.url + "/healthz", 200}, {"GET", n.url + "/readyz", 200}, {"GET", n.url + "/v1/models", 200},
		{"GET", n.url + "/v1/models/m", 200}, {"GET", n.url + "/v1/models/nobody", 404}, {"GET", n.url + "/nowhere", 404},
		{"GET", n.url + "/v1/messages", 405}, {"POST", n.url + "/v1/messages/batches", 404}, {"DELETE", n.url + "/v1/models", 405},
		{"OPTIONS", n.url + "/v1/chat/completions", 204}, {"GET", n.admin + "/metrics", 200}, {"GET", n.admin + "/admin/v1/health", 200}, {"GET", n.admin + "/nowhere", 404},
	} {
		r := n.do(c.method, c.url, "", "X-Request-Id", "mine")
		id := r.header.Get("X-Request-Id")
		if r.status != c.status || len(id) != 36 {
			t.Errorf("%s %s: %d with id %q: %s", c.method, c.url, r.status, id, r.body)
		}
		if strings.Contains(c.url, "/v1/messages") && (r.at("request_id") != id || r.at("type") != "error") {
			t.Errorf("%s %s: %s", c.method, c.url, r.body)
		}
		if c.status == 405 && r.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.url)
		}
	}
}

// What cannot even be read as a request is refused in the same shape as everything else.
func TestWhatIsNoRequestIsRefusedInOurShape(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), func(c *Config) { c.limits.Header = 300 * time.Millisecond }).ready()
	for name, c := range map[string]struct {
		send   string
		status int
	}{
		"a header that is huge":  {"GET / HTTP/1.1\r\nHost: x\r\nX-Y: " + strings.Repeat("y", 100<<10) + "\r\n\r\n", 431},
		"no HTTP":                {"hello there\r\n\r\n", 400},
		"a header without colon": {"GET / HTTP/1.1\r\nHost: x\r\nbroken\r\n\r\n", 400},
		"no host":                {"GET / HTTP/1.1\r\n\r\n", 400},
		"two lengths":            {rawHead + "Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd", 400},
		"an unknown transfer":    {rawHead + "Transfer-Encoding: gzip\r\n\r\n", 501},
		"HTTP of another age":    {"GET / HTTP/3.7\r\nHost: x\r\n\r\n", 505},
		"a slow header":          {"GET / HT", 408},
	} {
		r := answered(t, bufio.NewReader(strings.NewReader(n.raw(t, c.send))), "GET")
		message, _ := r.at("error.message").(string)
		if r.status != c.status || r.header.Get("Content-Type") != "application/json" || message == "" || r.at("error.type") == nil || len(r.header.Get("X-Request-Id")) != 36 {
			t.Errorf("%s: %d %q %s", name, r.status, r.header, r.body)
		}
	}
}

// Nobody without a key can make the gateway read, keep or inflate a body.
func TestABodyWithoutAKeyIsNotRead(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), nil).ready()
	for _, path := range []string{"/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens", "/v1/responses", "/v1/embeddings"} {
		c, r := n.dial(t)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer to-nobody\r\nContent-Type: application/json\r\nContent-Length: 1000000\r\n\r\n{", path)
		if a := answered(t, r, "POST"); a.status != 401 || !strings.Contains(a.body, `authentication_error`) {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
		// What follows is not taken for a request, and the connection does not wait for ever.
		if rest, err := io.ReadAll(r); err != nil || len(rest) > 0 {
			t.Errorf("%s: %q %v", path, rest, err)
		}
	}
	// A body that is there already is no reason to end the connection.
	c, r := n.dial(t)
	for range 2 {
		fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", strings.Replace(rawHead, token, "to-nobody", 1), len(chatBody), chatBody)
		if a := answered(t, r, "POST"); a.status != 401 || a.header.Get("Connection") != "" {
			t.Errorf("%d %q", a.status, a.header.Get("Connection"))
		}
	}
}

// Who is still sending when his key is refused reads that, not a reset connection, which SDKs try again.
func TestAWrongKeyIsToldToWhoIsStillSending(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), nil).ready()
	const size = 4 << 20
	for _, path := range []string{"/v1/chat/completions", "/v1/messages/count_tokens"} {
		c, r := n.dial(t)
		fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer to-nobody\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", path, size)
		part := bytes.Repeat([]byte(" "), 64<<10)
		for sent := 0; sent < size; sent += len(part) {
			if _, err := c.Write(part); err != nil {
				t.Fatalf("%s: cut off after %d bytes: %v", path, sent, err)
			}
			if sent == size/2 {
				time.Sleep(700 * time.Millisecond) // longer than a server waits by itself
			}
		}
		if a := answered(t, r, "POST"); a.status != 401 {
			t.Errorf("%s: %d %s", path, a.status, a.body)
		}
	}
	if left := n.g.api.InFlight(); left != 0 {
		t.Errorf("%d in flight", left)
	}
}

// Expect: 100-continue is answered before the body is sent, and refused before that where it can be.
func TestExpectContinue(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), nil).ready()
	c, r := n.dial(t)
	for range 2 {
		fmt.Fprintf(c, "%sExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", rawHead, len(chatBody))
		if line, err := r.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
			t.Fatalf("%q %v", line, err)
		}
		if _, err := r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
		fmt.Fprint(c, chatBody)
		if a := answered(t, r, "POST"); a.status != 200 {
			t.Fatalf("%d %s", a.status, a.body)
		}
	}
	for name, head := range map[string]string{
		"413": rawHead + "Content-Length: 99999999\r\n", "415": strings.Replace(rawHead, "application/json", "text/plain", 1) + "Content-Length: 9\r\n",
		"401": strings.Replace(rawHead, token, "to-nobody", 1) + "Content-Length: 9\r\n",
	} {
		c, r := n.dial(t)
		fmt.Fprintf(c, "%sExpect: 100-continue\r\n\r\n", head)
		if a := answered(t, r, "POST"); fmt.Sprint(a.status) != name || a.at("error.message") == nil {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
}

// Two spellings of one key are one key: what the gateway judges must be what the upstream reads.
func TestKeysThatAreEscapedAreTheSame(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), nil).ready()
	for _, body := range []string{
		`{"model":"m","mod\u0065l":"other","messages":[{"role":"user","content":"x"}]}`,
		`{"m\u006fdel":"other","model":"m","messages":[{"role":"user","content":"x"}]}`,
		`{"model":"m","messages":[{"role":"user","rol\u0065":"system","content":"x"}]}`,
	} {
		if r := n.chat(body); r.status != 400 || r.at("error.code") != "invalid_json" {
			t.Errorf("%s: %d %s", body, r.status, r.body)
		}
	}
	if r := n.chat(`{"m\u006fdel":"m","messages":[{"role":"user","content":"x"}]}`); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
	for _, c := range u.called("") {
		if c.model != "up-alpha" {
			t.Errorf("the upstream was asked for %q: %s", c.model, c.body)
		}
	}
}

// Model ids that look like paths, and headers that are no text, do no harm.
func TestStrangeIDsAndHeaders(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), nil).ready()
	for _, id := range []string{"../../admin/v1/health", "..%2F..%2Fmetrics", "m/../m", "alpha/../m", "m\\u0000", "m?x=1", "m#", " m", "alpha//m", "%6d"} {
		r := n.chat(`{"model":"` + id + `","messages":[{"role":"user","content":"x"}]}`)
		if r.status != 400 || r.at("error.code") != "model_not_found" {
			t.Errorf("%q: %d %s", id, r.status, r.body)
		}
	}
	for _, path := range []string{"/v1/models/../../healthz", "/v1/models/%2e%2e%2f%2e%2e%2fetc%2fpasswd", "/v1/models/", "/v1/models/m%00", "/v1//models", "/v1/models/%zz"} {
		got := n.raw(t, "GET "+path+" HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer "+token+"\r\n\r\n")
		r := answered(t, bufio.NewReader(strings.NewReader(got)), "GET")
		if r.status != 404 && r.status != 400 || r.at("error.message") == nil {
			t.Errorf("%s: %d %s", path, r.status, r.body)
		}
	}
	got := n.raw(t, rawHead+"Connection: close\r\nX-Request-Id: a\xff\xfeb\"\r\nUser-Agent: \xff\xfe\r\nX-Session-Id: \xff\r\nx-title: \xff\r\nx-source: \xff\r\ntraceparent: \xff\r\n"+
		fmt.Sprintf("Content-Length: %d\r\n\r\n%s", len(chatBody), chatBody))
	if r := answered(t, bufio.NewReader(strings.NewReader(got)), "POST"); r.status != 200 || !json.Valid([]byte(r.body)) {
		t.Errorf("%d %s", r.status, r.body)
	}
	if e := n.events(1)[0]; e.Outcome != attempt.Completed {
		t.Errorf("%+v", e)
	}
}

// A reader of the catalogue that takes nothing is let go like any other client.
func TestAStuckReaderOfModelsIsLetGo(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	var many strings.Builder
	many.WriteString(resources(u.URL, noExploration, providerSpec{id: "alpha"}))
	for i := range 4000 {
		fmt.Fprintf(&many, "---\nkind: model\nid: m%d-%s\nmappings: [{provider: alpha, upstream: x, price: {input: 1, output: 1}}]\n", i, strings.Repeat("x", 150))
	}
	n := start(t, many.String(), func(c *Config) { c.limits.Client = 500 * time.Millisecond }).ready()
	c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(64 << 10)
	for range 8 {
		fmt.Fprintf(c, "GET /v1/models HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\n\r\n", token)
	}
	time.Sleep(2 * time.Second)
	_ = c.SetReadDeadline(time.Now().Add(10 * time.Second))
	size, err := io.Copy(io.Discard, c)
	if os.IsTimeout(err) || size > 6<<20 {
		t.Errorf("the connection is still there after %d bytes: %v", size, err)
	}
}

// Counting tokens is bounded by max_in_flight as well: it reads whole bodies.
func TestCountsAreInFlight(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, mixed(u.URL), func(c *Config) { c.MaxInFlight = 1 }).ready()
	c, _ := n.dial(t)
	fmt.Fprintf(c, "POST /v1/messages/count_tokens HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 100\r\n\r\n{", token)
	eventually(t, "it is counted", 3*time.Second, func() bool { return n.g.api.InFlight() == 1 })
	r := n.do("POST", n.url+"/v1/messages/count_tokens", `{"model":"m","messages":[{"role":"user","content":"x"}]}`)
	if r.status != 503 || r.at("error.type") != "overloaded_error" {
		t.Errorf("%d %s", r.status, r.body)
	}
}
