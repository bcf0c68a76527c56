package gateway

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"turnout/internal/config"
	"turnout/internal/lifecycle"
	"turnout/schemas/attempt"
)

func TestCompressedBodies(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), func(c *Config) { c.MaxBodyBytes = 64 << 10 }).ready()
	pack := func(encoding, body string) string {
		var b bytes.Buffer
		var w io.WriteCloser = gzip.NewWriter(&b)
		if encoding == "zstd" {
			w, _ = zstd.NewWriter(&b)
		}
		_, _ = io.WriteString(w, body)
		_ = w.Close()
		return b.String()
	}
	for _, encoding := range []string{"gzip", "zstd"} {
		if r := n.chat(pack(encoding, chatBody), "Content-Encoding", encoding); r.status != 200 {
			t.Errorf("%s: %d %s", encoding, r.status, r.body)
		}
		bomb := pack(encoding, `{"model":"m","x":"`+strings.Repeat(" ", 1<<20)+`"}`)
		if r := n.chat(bomb, "Content-Encoding", encoding); r.status != 413 || r.at("error.code") != "body_too_large" {
			t.Errorf("a %s bomb: %d %s", encoding, r.status, r.body)
		}
	}
}

// A client that is still sending when it is refused gets the refusal, not a reset.
func TestRefusedWhileSending(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), func(c *Config) { c.MaxBodyBytes = 64 << 10 }).ready()
	for range 5 {
		c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 9999999\r\n\r\n", token)
		_, _ = io.WriteString(c, strings.Repeat("x", 512<<10))
		_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
		resp, err := http.ReadResponse(bufio.NewReader(c), nil)
		if err != nil || resp.StatusCode != 413 {
			t.Errorf("%v %v", resp, err)
		} else if _, err := io.ReadAll(resp.Body); err != nil {
			t.Error(err)
		}
		_ = c.Close()
	}
}

// raw sends bytes over a connection and returns all that comes back until the gateway closes it.
func (n *node) raw(t *testing.T, parts ...string) string {
	t.Helper()
	c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, p := range parts {
		_, _ = io.WriteString(c, p)
		time.Sleep(10 * time.Millisecond)
	}
	_ = c.SetReadDeadline(time.Now().Add(5 * time.Second))
	b, err := io.ReadAll(c)
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Fatalf("the connection stays open after %q", b)
	}
	return string(b)
}

func TestSlowAndOddRequests(t *testing.T) {
	noLeaks(t)
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), func(c *Config) {
		c.limits.Header, c.limits.Body, c.limits.Idle = 200*time.Millisecond, 200*time.Millisecond, time.Second
	}).ready()
	head := "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token + "\r\nContent-Type: application/json\r\n"
	for name, c := range map[string]struct {
		parts []string
		want  []string
	}{
		"a slow header":         {[]string{"POST /v1/chat"}, []string{"HTTP/1.1 408 ", `"code":"timeout"`}},
		"nothing at all":        {nil, nil},
		"a slow body":           {[]string{head + "Content-Length: 100\r\n\r\n{\"model\""}, []string{"HTTP/1.1 408 ", `"code":"timeout"`, "Connection: close"}},
		"a body that breaks":    {[]string{head + "Connection: close\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nabc"}, []string{"HTTP/1.1 408 "}},
		"length and chunks":     {[]string{head + "Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n" + fmt.Sprintf("%x\r\n%s\r\n0\r\n\r\n", len(chatBody), chatBody)}, []string{"HTTP/1.1 200 ", "Connection: close", "hello from alpha"}},
		"a promise too large":   {[]string{head + "Content-Length: 99999999999\r\n\r\n"}, []string{"HTTP/1.1 413 ", "Connection: close"}},
		"a header that is huge": {[]string{"GET / HTTP/1.1\r\nHost: x\r\nX-Y: " + strings.Repeat("y", 100<<10) + "\r\n\r\n"}, []string{"HTTP/1.1 431 "}},
	} {
		t.Run(name, func(t *testing.T) {
			got := n.raw(t, c.parts...)
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("%q is not in %q", want, got)
				}
			}
			if c.want == nil && got != "" {
				t.Errorf("answered %q", got)
			}
		})
	}
	// A connection that rests before its first request, or between two, is no slow one.
	c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	time.Sleep(400 * time.Millisecond)
	r := bufio.NewReader(c)
	for range 2 {
		fmt.Fprintf(c, "%sContent-Length: %d\r\n\r\n%s", head, len(chatBody), chatBody)
		resp, err := http.ReadResponse(r, nil)
		if err != nil || resp.StatusCode != 200 {
			t.Fatalf("%v %v", resp, err)
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		time.Sleep(400 * time.Millisecond)
	}
}

func TestTooManyInFlight(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), func(c *Config) { c.MaxInFlight = 2 }).ready()
	release := make(chan struct{})
	u.script("alpha", func(w http.ResponseWriter, r *http.Request) { <-release; answer("late")(w, r) })
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			if r := n.chat(chatBody); r.status != 200 {
				t.Errorf("%d %s", r.status, r.body)
			}
		})
	}
	eventually(t, "two are served", 5*time.Second, func() bool { return n.g.api.InFlight() == 2 })
	if r := n.chat(chatBody); r.status != 503 || r.at("error.code") != "overloaded" || r.header.Get("Retry-After") != "1" {
		t.Errorf("%d %s", r.status, r.body)
	}
	close(release)
	wg.Wait()
	if r := n.chat(chatBody); r.status != 200 {
		t.Errorf("afterwards: %d", r.status)
	}
}

// A client that takes nothing is let go; the upstream is cancelled, and memory does not grow: the
// gateway stops reading.
func TestSlowClient(t *testing.T) {
	noLeaks(t)
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), func(c *Config) { c.limits.Client = 300 * time.Millisecond }).ready()
	sent := 0
	u.script("alpha", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		chunk := fmt.Sprintf("data: {\"id\":\"c\",\"object\":\"chat.completion.chunk\",\"model\":\"up\",\"choices\":[{\"index\":0,\"delta\":{\"content\":%q},\"finish_reason\":null}]}\n\n", strings.Repeat("x", 32<<10))
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
			sent += len(chunk)
		}
	})
	c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", token, len(streamBody), streamBody)
	events := n.events(1)
	if e := events[0]; e.Outcome != attempt.Canceled || e.TTFTUS == nil {
		t.Errorf("event %+v", e)
	}
	eventually(t, "the upstream is cancelled", 2*time.Second, func() bool { calls := u.called(""); return len(calls) == 1 && !calls[0].gone.IsZero() })
	if sent > 64<<20 {
		t.Errorf("the gateway read %d bytes for a client that took none", sent)
	}
}

// The admin address asks for its token where it has one.
func TestAdminToken(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), func(c *Config) { c.AdminToken = "the admin token" }).ready()
	for _, path := range []string{"/metrics", "/admin/v1/health", "/admin/v1/decisions/x"} {
		if r := n.do("GET", n.admin+path, ""); r.status != 401 {
			t.Errorf("%s with a client's key: %d", path, r.status)
		}
	}
	if r := n.do("GET", n.admin+"/metrics", "", "Authorization", "Bearer the admin token"); r.status != 200 {
		t.Errorf("%d %s", r.status, r.body)
	}
}

func TestSettings(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "none.yaml")
	run := func(environ []string, args ...string) (string, error) {
		var out, errs bytes.Buffer
		ctx, cancel := context.WithCancel(context.Background())
		cancel()
		err := Main(ctx, lifecycle.Env{Args: args, Environ: environ, Stdout: &out, Stderr: &errs}, config.Keys(&Config{}))
		return out.String(), err
	}
	for name, c := range map[string]struct {
		environ []string
		args    []string
		want    []string // in the error
	}{
		"all at once": {args: []string{"--listen=x", "--poll-interval=1ms", "--max-in-flight=0", "--spool.fsync=maybe", "--kafka.brokers=nowhere"},
			want: []string{"listen:", "poll_interval:", "max_in_flight:", "spool.fsync:", "kafka.brokers:"}},
		"an open admin address":    {args: []string{"--admin_listen=0.0.0.0:1"}, want: []string{"admin_token:"}},
		"an unknown setting":       {environ: []string{"TURNOUT_LISTN=x"}, want: []string{"TURNOUT_LISTN"}},
		"exploration out of range": {args: []string{"--exploration_rate=1.5"}, want: []string{"exploration_rate:", "1.5"}},
		"plain EXPLORATION_RATE":   {environ: []string{"EXPLORATION_RATE=lots"}, want: []string{"exploration_rate:", "lots"}},
		"missing resources":        {args: []string{"--check-config", "--resources=" + file}, want: []string{"none.yaml"}},
		"a short hash key":         {environ: []string{"TURNOUT_HASH_KEY=short"}, want: []string{"hash_key:"}},
	} {
		_, err := run(c.environ, c.args...)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		for _, want := range c.want {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %q is not in %v", name, want, err)
			}
		}
		if lifecycle.Code(err) != 2 {
			t.Errorf("%s: exit code %d", name, lifecycle.Code(err))
		}
	}
	if out, err := run(nil, "--check-config"); err != nil || out == "" {
		t.Errorf("%q %v", out, err)
	}
}

func TestHashKeyIsKept(t *testing.T) {
	t.Parallel()
	cfg := DefaultConfig()
	cfg.Spool.Dir = filepath.Join(t.TempDir(), "spool")
	var wg sync.WaitGroup
	keys := make([]string, 8)
	for i := range keys {
		wg.Go(func() {
			k, err := hashKey(cfg)
			if err != nil {
				t.Error(err)
			}
			keys[i] = string(k)
		})
	}
	wg.Wait()
	for _, k := range keys {
		if k != keys[0] || len(k) != 64 {
			t.Fatalf("nodes that start at once made different keys: %v", keys)
		}
	}
}
