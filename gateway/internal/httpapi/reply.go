package httpapi

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/labstack/echo/v4"

	"turnout/gateway/llm"
)

// writePiece is how much is written under one deadline: a slow client is one that takes nothing of
// it, not one that takes long for all.
const writePiece = 256 << 10

// Values of headers that are always the same; net/http only reads them.
var (
	jsonType    = []string{typeJSON}
	streamType  = []string{"text/event-stream"}
	noCache     = []string{"no-cache"}
	noBuffering = []string{"no"}
)

var (
	heartbeat = []byte(": waiting for the provider\n\n")
	ping      = []byte("event: ping\ndata: {\"type\":\"ping\"}\n\n")
)

// reply writes one chat answer. The heartbeat is the only other goroutine that touches it; mu is
// between the two.
type reply struct {
	w     *echo.Response
	rc    *http.ResponseController
	cfg   *Config
	began time.Time
	// dialect is that of errors and heartbeats.
	dialect dialect

	route [3]string // values of headers, which net/http wants as slices
	size  [1]string
	moved time.Time // when the write deadline was set last

	mu        sync.Mutex
	committed bool // as a stream
	quiet     bool // no more heartbeats
	beat      *time.Timer
}

func newReply(w *echo.Response, cfg *Config, began time.Time) *reply {
	return &reply{w: w, rc: http.NewResponseController(w.Writer), cfg: cfg, began: began}
}

func (r *reply) Route(provider, model string, attempts int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.committed {
		return
	}
	h := r.w.Header()
	r.route = [3]string{provider, model, strconv.Itoa(attempts)}
	h["X-Turnout-Provider"] = r.route[0:1:1]
	h["X-Turnout-Model"] = r.route[1:2:2]
	h["X-Turnout-Attempts"] = r.route[2:3:3]
}

func (r *reply) Streaming() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beat = time.AfterFunc(max(r.cfg.HeartbeatAfter-time.Since(r.began), 0), r.pulse)
}

func (r *reply) pulse() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.quiet {
		return
	}
	r.commit()
	// A client that is gone or stuck is noticed by the request's context or by the next write.
	beat := heartbeat
	if r.dialect == anthropic {
		beat = ping
	}
	if r.write(beat) == nil && r.rc.Flush() == nil {
		r.beat.Reset(r.cfg.HeartbeatEvery)
	}
}

// end stops the heartbeat; when it returns none is being written and none will be.
func (r *reply) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hush()
}

func (r *reply) hush() {
	r.quiet = true
	if r.beat != nil {
		r.beat.Stop()
	}
}

func (r *reply) commit() {
	if r.committed {
		return
	}
	r.committed = true
	h := r.w.Header()
	h["Content-Type"] = streamType
	h["Cache-Control"] = noCache
	h["X-Accel-Buffering"] = noBuffering
	r.w.WriteHeader(http.StatusOK)
}

func (r *reply) Plain(parts ...[]byte) error {
	size := 0
	for _, p := range parts {
		size += len(p)
	}
	h := r.w.Header()
	r.size[0] = strconv.Itoa(size)
	h["Content-Type"] = jsonType
	h["Content-Length"] = r.size[:]
	r.w.WriteHeader(http.StatusOK)
	for _, p := range parts {
		if err := r.write(p); err != nil {
			return err
		}
	}
	return nil
}

func (r *reply) Event(more bool, parts ...[]byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hush()
	r.commit()
	// net/http gathers the parts and the flush below writes them at once, up to its buffer of 4 KB.
	for _, p := range parts {
		if err := r.write(p); err != nil {
			return err
		}
	}
	if more {
		return nil
	}
	return r.rc.Flush()
}

func (r *reply) Fail(e *llm.APIError, extra []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.hush()
	if !r.committed {
		_ = r.rc.SetWriteDeadline(time.Now().Add(r.cfg.Limits.Client))
		writeError(r.w, e, extra, r.dialect)
		return
	}
	event := make([]byte, 0, 512+len(extra))
	switch r.dialect {
	case responses:
		event = e.AppendResponsesEvent(append(event, "event: error\ndata: "...), extra)
	case anthropic:
		event = appendError(append(event, "event: error\ndata: "...), r.w, e, extra, r.dialect)
	default:
		event = appendError(append(event, "data: "...), r.w, e, extra, r.dialect)
	}
	event = append(event, "\n\n"...)
	if r.write(event) == nil {
		_ = r.rc.Flush()
	}
}

func (r *reply) write(p []byte) error {
	for len(p) > 0 {
		n := min(len(p), writePiece)
		// A deadline that is still good is left: to move it costs as much as a small write.
		if now := time.Now(); now.Sub(r.moved) > r.cfg.Limits.Client/8 {
			if err := r.rc.SetWriteDeadline(now.Add(r.cfg.Limits.Client)); err != nil {
				return err
			}
			r.moved = now
		}
		if _, err := r.w.Write(p[:n]); err != nil {
			return err
		}
		p = p[n:]
	}
	return nil
}
