package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"sync"
	"time"
)

const maxBody = 64 << 20

// call is one request on its way through a provider.
type call struct {
	s     *Server
	p     *provider
	state *state
	draw  draw
	entry Entry
	w     http.ResponseWriter
	r     *http.Request
	start time.Time // of the clock that waits go by
	id    string    // 16 hex digits, a function of the draw
}

// scratch is what calls reuse.
type scratch struct {
	body   bytes.Buffer
	out    []byte
	prompt prompt
}

var scratches = sync.Pool{New: func() any { return new(scratch) }}

func (s *Server) serveCall(w http.ResponseWriter, r *http.Request, p *provider, endpoint string) {
	c := &call{s: s, p: p, state: p.current.Load(), w: w, r: r, start: time.Now()}
	number := p.calls.Add(1)
	c.draw = newDraw(p.seed, p.hash, number)
	c.id = fmt.Sprintf("%016x", c.draw.bits(chanceID))
	key := bearer(r.Header)
	c.entry = Entry{Provider: p.id, Call: number, ReceivedAt: s.now().UTC(), APIKey: mask(key), Endpoint: endpoint}
	c.entry.TraceID, c.entry.SpanID = traceparent(r.Header.Get("Traceparent"))

	mem := scratches.Get().(*scratch)
	defer scratches.Put(mem)
	mem.body.Reset()
	_, err := mem.body.ReadFrom(http.MaxBytesReader(w, r.Body, maxBody))
	if err != nil {
		s.ledger.begin(&c.entry)
		if tooLarge := (*http.MaxBytesError)(nil); !errors.As(err, &tooLarge) {
			c.abort(Canceled)
		}
		c.refuse(413, "invalid_request_error", "", fmt.Sprintf("body: is larger than %d bytes", maxBody))
		return
	}
	if endpoint == "embeddings" {
		c.embed(mem, key)
		return
	}
	c.chat(mem, key)
}

func (c *call) chat(mem *scratch, key string) {
	var req chatRequest
	err := json.Unmarshal(mem.body.Bytes(), &req)
	c.entry.Model, c.entry.Stream = req.Model, req.Stream
	c.s.ledger.begin(&c.entry)
	if err != nil {
		c.refuse(400, "invalid_request_error", "", "body: "+err.Error())
		return
	}
	m, ok := c.admit(key, req.Model, false)
	if !ok {
		return
	}
	if err := req.check(); err != nil {
		c.refuse(400, "invalid_request_error", "invalid_value", err.Error())
		return
	}
	cfg := &c.state.Behavior
	a, err := answerTo(&req, m, c.draw, int(math.Round(cfg.OutputTokens.At(c.draw.unit(chanceOutput)))))
	if err != nil {
		c.refuse(400, "invalid_request_error", "invalid_value", err.Error())
		return
	}
	req.readInto(&mem.prompt, cfg.Cache.BlockTokens)
	a.promptTokens = mem.prompt.tokens()
	if m.Context > 0 && a.promptTokens+req.limit() > m.Context {
		c.refuse(400, "invalid_request_error", "context_length_exceeded", fmt.Sprintf("This model's maximum context length is %d tokens. However, you requested %d tokens.", m.Context, a.promptTokens+req.limit()))
		return
	}
	if !c.survives(req.Stream) {
		return
	}
	a.cachedTokens = c.state.cache.use(mem.prompt.blocks, c.s.now()) * cfg.Cache.BlockTokens
	c.entry.InputTokens, c.entry.CachedInputTokens = a.promptTokens, a.cachedTokens
	if req.Stream {
		c.stream(mem, &req, a)
		return
	}
	c.plain(mem, &req, a)
}

// admit checks the key and the model.
func (c *call) admit(key, model string, embedding bool) (*Model, bool) {
	if len(c.p.keys) > 0 && !contains(c.p.keys, key) {
		c.refuse(401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided: "+mask(key))
		return nil, false
	}
	for i := range c.p.models {
		if m := &c.p.models[i]; m.ID == model && m.Embedding == embedding {
			return m, true
		}
	}
	c.refuse(404, "invalid_request_error", "model_not_found", fmt.Sprintf("The model %q does not exist or does not serve %s", model, c.entry.Endpoint))
	return nil, false
}

func contains(list []string, s string) bool {
	for i := range list {
		if list[i] == s {
			return true
		}
	}
	return false
}

// survives applies silence, rate limit and errors; false: the call is over.
func (c *call) survives(stream bool) bool {
	b := &c.state.Behavior
	if b.SilenceRate > 0 && c.draw.unit(chanceSilence) < b.SilenceRate {
		c.entry.Fault = FaultSilence
		c.hang()
	}
	if b.RPM > 0 {
		if wait, ok := c.p.limiter.admit(b.RPM, c.s.now()); !ok {
			c.entry.Fault = "rpm"
			c.w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(wait.Seconds()))))
			c.refuse(429, "rate_limit_error", "rate_limit_exceeded", fmt.Sprintf("Rate limit reached: %d requests a minute", b.RPM))
			return false
		}
	}
	if b.ErrorRate > 0 && c.draw.unit(chanceError) < b.ErrorRate {
		c.fail(b.ErrorKinds[c.draw.bits(chanceErrorKind)%uint64(len(b.ErrorKinds))], stream)
		return false
	}
	return true
}

// fail answers with an injected error.
func (c *call) fail(kind string, stream bool) {
	c.entry.Fault = kind
	retryAfter := func() {
		if c.state.RetryAfter > 0 {
			c.w.Header().Set("Retry-After", strconv.Itoa(c.state.RetryAfter))
		}
	}
	switch kind {
	case ErrorServer:
		c.refuse(500, "server_error", "", "The server had an error while processing your request")
	case ErrorUnavailable:
		retryAfter()
		c.refuse(503, "server_error", "overloaded", "The engine is currently overloaded, please try again later")
	case ErrorRateLimited:
		retryAfter()
		c.refuse(429, "rate_limit_error", "rate_limit_exceeded", "Rate limit reached")
	case ErrorInvalidKey:
		c.refuse(401, "invalid_request_error", "invalid_api_key", "Incorrect API key provided")
	case ErrorContextLength:
		c.refuse(400, "invalid_request_error", "context_length_exceeded", "This model's maximum context length is exceeded by your messages")
	case ErrorHTML:
		c.end(502, Completed)
		h := c.w.Header()
		h["Content-Type"] = typeHTML
		c.w.WriteHeader(502)
		c.sent(io.WriteString(c.w, "<html><head><title>502 Bad Gateway</title></head><body><h1>502 Bad Gateway</h1></body></html>\n"))
	case ErrorInBand, ErrorObject:
		body := errorBody("server_error", "internal_error", "The server had an error while processing your request")
		if kind == ErrorObject || !stream {
			c.end(200, Completed)
			c.check(writeJSON(c.w, 200, body))
			return
		}
		c.wait(c.ttft())
		c.end(200, Completed)
		c.w.Header()["Content-Type"] = typeStream
		c.sent(fmt.Fprintf(c.w, "data: %s\n\n", body))
	}
}

// refuse answers with an error envelope.
func (c *call) refuse(status int, kind, code, message string) {
	c.end(status, Completed)
	c.check(writeError(c.w, status, kind, code, message))
}

// end closes the ledger entry. It happens before the last bytes go out, so that whoever has the whole
// answer finds it closed; check reopens the question if they could not be written.
func (c *call) end(status int, outcome string) {
	c.entry.Status, c.entry.Outcome, c.entry.FinishedAt = status, outcome, c.s.now().UTC()
	c.s.ledger.end(&c.entry)
}

func (c *call) check(err error) {
	if err != nil {
		c.end(c.entry.Status, Canceled)
	}
}

func (c *call) sent(_ int, err error) { c.check(err) }

// abort cuts the connection; it does not return.
func (c *call) abort(outcome string) {
	c.end(c.entry.Status, outcome)
	panic(http.ErrAbortHandler)
}

// hang keeps the connection open and says nothing until the caller leaves or the simulator closes,
// then cuts it; it does not return.
func (c *call) hang() {
	select {
	case <-c.r.Context().Done():
		c.abort(Canceled)
	case <-c.s.done:
		c.abort(Cut)
	}
}

// wait returns when the duration since the start of the call has passed. If the caller leaves or the
// simulator closes before, the call is aborted.
func (c *call) wait(until time.Duration) {
	left := until - time.Since(c.start)
	if left <= 0 {
		return
	}
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-c.r.Context().Done():
		c.abort(Canceled)
	case <-c.s.done:
		c.abort(Cut)
	}
}

func (c *call) ttft() time.Duration {
	return time.Duration(c.state.TTFT.At(c.draw.unit(chanceTTFT)) * float64(time.Millisecond))
}

// perToken is the time one token takes.
func (c *call) perToken() time.Duration {
	rate := c.state.TokenRate.At(c.draw.unit(chanceTokenRate))
	if rate <= 0 {
		return 0
	}
	return time.Duration(float64(time.Second) / rate)
}
