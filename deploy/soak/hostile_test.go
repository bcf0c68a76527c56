package soak

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// entry is what the hostile upstream knows of a call.
type entry struct {
	chunks   int    // with text, as sent
	finished bool   // with a finish_reason, written without an error
	how      string // what it was up to
}

// hostile is an upstream that mostly does its work and else whatever providers have been seen to do.
type hostile struct {
	*httptest.Server
	mu    sync.Mutex
	calls map[string]*entry // by span id
	twice []string          // spans that came more than once, or not at all
}

func newHostile(t *testing.T) *hostile {
	h := &hostile{calls: map[string]*entry{}}
	h.Server = httptest.NewUnstartedServer(http.HandlerFunc(h.serve))
	h.Config.ErrorLog = nil
	h.Start()
	t.Cleanup(func() { h.CloseClientConnections(); h.Close() })
	return h
}

// habits and how often each is shown, in percent.
var habits = []struct {
	name   string
	weight int
}{
	{"good", 38}, {"good, no [DONE]", 4}, {"good and large", 6}, {"good and slow", 6}, {"503", 5}, {"429", 1}, {"reset at once", 5}, {"html", 2},
	{"error first", 5}, {"lifecycle and death", 4}, {"silence", 4}, {"cut", 6}, {"clean end", 4}, {"error within", 4}, {"malformed", 3}, {"stall", 3},
}

func draw() string {
	n := rand.IntN(100)
	for _, h := range habits {
		if n -= h.weight; n < 0 {
			return h.name
		}
	}
	return "good"
}

func (h *hostile) serve(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body)
	how, span := draw(), ""
	if parts := strings.Split(r.Header.Get("Traceparent"), "-"); len(parts) == 4 {
		span = parts[2]
	}
	e := &entry{how: how}
	h.mu.Lock()
	if h.calls[span] != nil || span == "" {
		h.twice = append(h.twice, span)
	}
	h.calls[span] = e
	h.mu.Unlock()
	chunks, finished := h.act(w, r, how, span)
	h.mu.Lock()
	e.chunks, e.finished = chunks, finished
	h.mu.Unlock()
	if !finished && how != "503" && how != "429" && how != "html" && how != "error first" {
		panic(http.ErrAbortHandler) // the connection breaks
	}
}

func (h *hostile) act(w http.ResponseWriter, r *http.Request, how, span string) (chunks int, finished bool) {
	fail := func(status int, body string) (int, bool) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
		return 0, false
	}
	switch how {
	case "503":
		return fail(503, `{"error":{"message":"no","type":"t","code":null}}`)
	case "429":
		w.Header().Set("Retry-After", "1")
		return fail(429, `{"error":{"message":"no","type":"t","code":null}}`)
	case "html":
		return fail(502, `<html>Bad Gateway</html>`)
	case "reset at once":
		if c, _, err := w.(http.Hijacker).Hijack(); err == nil {
			_ = c.(*net.TCPConn).SetLinger(0)
			_ = c.Close()
		}
		return 0, false
	case "silence":
		wait(r, 10*time.Second)
		return 0, false
	}
	w.Header().Set("Content-Type", "text/event-stream")
	event := func(data string) bool {
		_, err := fmt.Fprintf(w, "data: %s\n\n", data)
		if err == nil {
			err = http.NewResponseController(w).Flush()
		}
		return err == nil
	}
	delta := func(fields, finish string) bool {
		return event(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"up","choices":[{"index":0,"delta":{` + fields + `},"finish_reason":` + finish + `}]}`)
	}
	delta(`"role":"assistant","content":""`, "null")
	switch how {
	case "error first":
		event(`{"error":{"message":"no","type":"overloaded_error","code":529}}`)
		return 0, false
	case "lifecycle and death":
		return 0, false
	}
	padding, most, pause := "", 30, 10*time.Millisecond
	switch how {
	case "good and large":
		padding, pause = strings.Repeat("x", 60<<10), 0
	case "good and slow":
		pause = 100 * time.Millisecond
	}
	for range 1 + rand.IntN(most) {
		if !delta(fmt.Sprintf(`"content":"%s:%d;%s"`, span, chunks, padding), "null") {
			return chunks, false
		}
		chunks++
		if pause > 0 && !wait(r, time.Duration(rand.Int64N(int64(pause)))) {
			return chunks, false
		}
	}
	switch how {
	case "cut", "clean end":
		return chunks, false
	case "stall":
		wait(r, 10*time.Second)
		return chunks, false
	case "error within":
		event(`{"error":{"message":"no","type":"server_error","code":500}}`)
		return chunks, false
	case "malformed":
		event(`{"choices":[{"de`)
		return chunks, false
	}
	finished = delta("", `"stop"`) && event(`{"id":"c","object":"chat.completion.chunk","created":1,"model":"up","choices":[],"usage":{"prompt_tokens":5,"completion_tokens":7,"total_tokens":12}}`)
	if how != "good, no [DONE]" {
		event("[DONE]")
	}
	return chunks, finished
}

// wait returns false if the caller went first.
func wait(r *http.Request, d time.Duration) bool {
	select {
	case <-r.Context().Done():
		return false
	case <-time.After(d):
		return true
	}
}

// seen reads the text of a chunk.
func seen(data string) (text, finish string, failed bool) {
	var c struct {
		Error   json.RawMessage
		Choices []struct {
			Delta        struct{ Content string }
			FinishReason string `json:"finish_reason"`
		}
	}
	if json.Unmarshal([]byte(data), &c) != nil || c.Error != nil {
		return "", "", true
	}
	if len(c.Choices) > 0 {
		return c.Choices[0].Delta.Content, c.Choices[0].FinishReason, false
	}
	return "", "", false
}
