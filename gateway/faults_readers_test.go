package gateway

import (
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
)

// lastWords are what a whole stream of a surface ends with.
var lastWords = map[string]string{"/v1/chat/completions": "data: [DONE]", "/v1/messages": `{"type":"message_stop"}`, "/v1/responses": "}}\n\n"}

// A hundred slow readers get all of it, in a memory that does not grow with what they have not yet
// read; those that take nothing at all are let go.
func TestFaultsSlowReaders(t *testing.T) {
	noLeaks(t)
	const readers, stuck, chunksEach, chunkSize = 100, 20, 48, 8 << 10
	u := newUpstreams(t)
	streaming, doc := streamingRoutes(u.URL, "ends", "never")
	n := start(t, doc, func(c *Config) { c.limits.Client = 8 * time.Second }).ready()
	text := strings.Repeat("x", chunkSize)
	for _, r := range streaming {
		more := []byte(r.said(1, text))
		u.script(r.prefix+"ends", func(w http.ResponseWriter, _ *http.Request) {
			r.begin(w, text)
			for range chunksEach - 1 {
				if _, err := w.Write(more); err != nil {
					return
				}
				w.(http.Flusher).Flush()
			}
			r.end(w, "", "x") // not all of it again where the protocol would have it: that is not what is measured
		})
		u.script(r.prefix+"never", func(w http.ResponseWriter, _ *http.Request) { // more than any buffer of a socket holds
			r.begin(w, text)
			for {
				if _, err := w.Write(more); err != nil {
					return
				}
			}
		})
	}
	heap := func() int64 { // what is in use
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return int64(m.HeapAlloc)
	}
	heap()
	base := heap() // pools are emptied by the second collection
	var most atomic.Int64
	watching := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		for {
			select {
			case <-watching:
				return
			case <-time.After(400 * time.Millisecond):
				most.Store(max(most.Load(), heap()-base))
			}
		}
	})
	var wg sync.WaitGroup
	var whole atomic.Int64
	for i := range readers {
		wg.Go(func() {
			c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			r, model := streaming[i%len(streaming)], "ends/m"
			if i < stuck {
				model = "never/m"
			}
			body := fmt.Sprintf(r.body, r.prefix+model, true)
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", r.path, token, len(body), body)
			if i < stuck {
				_, _ = c.Read(make([]byte, 100))
				eventually(t, "those that take nothing are let go", 40*time.Second, func() bool { return n.g.api.InFlight() == 0 })
				return
			}
			var tail []byte
			size, buf := 0, make([]byte, 16<<10)
			for {
				k, err := c.Read(buf)
				size += k
				tail = append(tail, buf[:k]...)
				tail = tail[max(0, len(tail)-64):]
				if err != nil {
					break
				}
				time.Sleep(20 * time.Millisecond)
			}
			if size < chunksEach*chunkSize || !strings.Contains(string(tail), lastWords[r.path]) {
				t.Errorf("%s: a slow reader got %d bytes that end with %q", r.name, size, tail)
				return
			}
			whole.Add(1)
		})
	}
	wg.Wait()
	close(watching)
	watch.Wait()
	n.stop()
	outcomes := map[attempt.Outcome]int{}
	events := n.logged()
	balanced(t, u, events)
	for _, e := range events {
		outcomes[e.Outcome]++
	}
	if outcomes[attempt.Completed] != readers-stuck || outcomes[attempt.Canceled] != stuck {
		t.Errorf("outcomes %v, want %d completed and %d canceled", outcomes, readers-stuck, stuck)
	}
	const all = (readers - stuck) * chunksEach * chunkSize
	if most.Load() > readers*(1<<20) { // a Responses stream ends by saying its text four times over; those that are stuck would make it grow for ever
		t.Errorf("%d bytes more in use while %d bytes were sent", most.Load(), all)
	}
	t.Logf("%d got all of %.0f MB, %d were let go; %.1f MB more in use at most", whole.Load(), float64(all)/1e6, outcomes[attempt.Canceled], float64(most.Load())/1e6)
}

// A client that is slow but takes something all the time is no client that is gone, however much
// waits for it.
func TestFaultsSteadySlowReader(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), func(c *Config) { c.limits.Client = 2 * time.Second }).ready()
	chunk := []byte("data: " + upstream.Chunk(`{"content":"`+strings.Repeat("x", 8<<10)+`"}`, "") + "\n\n")
	u.script("alpha", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for r.Context().Err() == nil {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	})
	c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.(*net.TCPConn).SetReadBuffer(32 << 10) // what the client has not read waits in the gateway's socket
	fmt.Fprintf(c, "POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", token, len(streamBody), streamBody)
	buf, size := make([]byte, 16<<10), 0
	for began := time.Now(); time.Since(began) < 6*time.Second; time.Sleep(40 * time.Millisecond) {
		k, err := c.Read(buf)
		if size += k; err != nil {
			t.Fatalf("after %v and %d bytes: %v", time.Since(began), size, err)
		}
	}
	if n.g.api.InFlight() != 1 {
		e := n.events(1)[0]
		t.Fatalf("the client was let go after %v (%s %s) although it took %d bytes in six seconds", time.Duration(e.DurationUS)*1000, e.Outcome, e.ErrorType, size)
	}
	t.Logf("took %d bytes", size)
}
