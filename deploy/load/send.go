package load

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"strconv"
	"time"
)

// Codes of failures that are not the gateway's own words.
const (
	CodeNetwork   = "network_error" // no answer, or a plain one cut short
	CodeTimeout   = "timeout"
	CodeCanceled  = "canceled"   // the run was ended
	CodeStreamCut = "stream_cut" // a stream without [DONE]
	CodeBadAnswer = "bad_answer" // 200, but no chat answer
)

// Result is what became of one request.
type Result struct {
	Index     int // from 0, in order of sending
	Due       time.Time
	Lag       time.Duration // how late it left
	Latency   time.Duration // due to the last byte
	TTFT      time.Duration // streams: due to the first output; 0: none came
	Stream    bool
	Session   string
	Status    int    // 0: no answer
	Code      string // empty: it was answered; else the error's code, or one of the Code constants
	Reason    string // what went wrong, in words
	Provider  string // that served, or failed last
	Model     string
	RequestID string
	Attempts  int

	PromptTokens, CachedTokens, CompletionTokens int64
	CostNanoUSD                                  int64
}

// OK says that the answer came whole.
func (r *Result) OK() bool { return r.Code == "" }

const (
	maxPlainAnswer = 64 << 20
	maxEvent       = 1 << 20
)

func (w *worker) send(ctx context.Context, j job) Result {
	stream := w.isStream(j.index)
	w.render(j, stream)
	now := time.Now()
	if j.due.IsZero() {
		j.due = now
	}
	r := Result{Index: j.index, Due: j.due, Lag: now.Sub(j.due), Stream: stream}
	if j.session > 0 {
		r.Session = "trace-" + strconv.Itoa(j.session)
	}
	ctx, cancel := context.WithTimeout(ctx, w.options.Timeout)
	defer cancel()
	err := w.exchange(ctx, &r)
	r.Latency = time.Since(j.due)
	if err != nil && r.Code == "" {
		r.Code, r.Reason = codeOf(ctx, err, stream && r.Status == 200), err.Error()
	}
	return r
}

func codeOf(ctx context.Context, err error, streaming bool) string {
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return CodeTimeout
	case ctx.Err() != nil:
		return CodeCanceled
	case errors.Is(err, errBadAnswer):
		return CodeBadAnswer
	case streaming:
		return CodeStreamCut
	}
	return CodeNetwork
}

var errBadAnswer = errors.New("no chat answer")

func (w *worker) exchange(ctx context.Context, r *Result) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, w.options.URL+"/v1/chat/completions", bytes.NewReader(w.body))
	if err != nil {
		return err
	}
	req.GetBody = nil // one request is sent once
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Authorization", "Bearer "+w.options.Key)
	req.Header.Set("User-Agent", "turnout-load")
	if r.Session != "" {
		req.Header.Set("X-Session-Id", r.Session)
	}
	resp, err := w.client.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	r.Status = resp.StatusCode
	r.Provider = resp.Header.Get("X-Turnout-Provider")
	r.Model = resp.Header.Get("X-Turnout-Model")
	r.RequestID = resp.Header.Get("X-Request-Id")
	r.Attempts, _ = strconv.Atoi(resp.Header.Get("X-Turnout-Attempts"))
	if resp.StatusCode == http.StatusOK && r.Stream {
		return r.readStream(resp.Body)
	}
	return r.readPlain(resp.Body)
}

func (r *Result) readPlain(body io.Reader) error {
	data, err := io.ReadAll(io.LimitReader(body, maxPlainAnswer+1))
	if err != nil {
		return err
	}
	var a answer
	parseErr := json.Unmarshal(data, &a)
	r.take(&a)
	switch {
	case r.Code != "":
	case r.Status != 200:
		r.Code = fmt.Sprintf("http_%d", r.Status)
	case parseErr != nil || len(a.Choices) == 0 || len(data) > maxPlainAnswer:
		return errBadAnswer
	}
	return nil
}

// readStream reads events until [DONE]. Only events that may hold something of interest are decoded.
func (r *Result) readStream(body io.Reader) error {
	lines := bufio.NewScanner(body)
	lines.Buffer(make([]byte, 0, 8<<10), maxEvent)
	for lines.Scan() {
		data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data:"))
		if !ok {
			continue
		}
		data = bytes.TrimSpace(data)
		if string(data) == "[DONE]" {
			_, err := io.Copy(io.Discard, body) // to the end, so that the connection can be used again
			return err
		}
		if r.TTFT > 0 && !bytes.Contains(data, []byte(`"usage":{`)) && !bytes.Contains(data, []byte(`"metadata"`)) && !bytes.Contains(data, []byte(`"turnout"`)) && !bytes.Contains(data, []byte(`"error"`)) {
			continue
		}
		var a answer
		if err := json.Unmarshal(data, &a); err != nil {
			return errBadAnswer
		}
		if r.TTFT == 0 && a.hasOutput() {
			r.TTFT = time.Since(r.Due)
		}
		r.take(&a)
		if r.Code != "" {
			return nil
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	return io.ErrUnexpectedEOF
}

// answer is what is read of a completion, a chunk or an error.
type answer struct {
	Choices []struct {
		Delta struct {
			Content          string            `json:"content"`
			ReasoningContent string            `json:"reasoning_content"`
			ToolCalls        []json.RawMessage `json:"tool_calls"`
		} `json:"delta"`
	} `json:"choices"`
	Usage *struct {
		PromptTokens     int64 `json:"prompt_tokens"`
		CompletionTokens int64 `json:"completion_tokens"`
		Details          struct {
			CachedTokens int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
	} `json:"usage"`
	Error    json.RawMessage `json:"error"`
	Metadata json.RawMessage `json:"metadata"`
	Turnout  json.RawMessage `json:"turnout"` // beside a metadata of the upstream's own
}

type metadata struct {
	RequestID    string          `json:"request_id"`
	UsedProvider string          `json:"used_provider"`
	CostUSD      json.RawMessage `json:"cost_usd"`
}

func (a *answer) hasOutput() bool {
	for i := range a.Choices {
		d := &a.Choices[i].Delta
		if d.Content != "" || d.ReasoningContent != "" || len(d.ToolCalls) > 0 {
			return true
		}
	}
	return false
}

func (r *Result) take(a *answer) {
	if u := a.Usage; u != nil {
		r.PromptTokens, r.CompletionTokens, r.CachedTokens = u.PromptTokens, u.CompletionTokens, u.Details.CachedTokens
	}
	ours := a.Turnout
	if ours == nil {
		ours = a.Metadata
	}
	var m metadata
	if json.Unmarshal(ours, &m) == nil {
		r.Provider = cmp.Or(m.UsedProvider, r.Provider)
		r.RequestID = cmp.Or(m.RequestID, r.RequestID)
		if cost, ok := nanoUSD(m.CostUSD); ok {
			r.CostNanoUSD = cost
		}
	}
	if len(a.Error) == 0 || string(a.Error) == "null" {
		return
	}
	var e struct {
		Code    any    `json:"code"`
		Type    string `json:"type"`
		Message string `json:"message"`
	}
	_ = json.Unmarshal(a.Error, &e) // an error of another shape is an error all the same
	r.Reason = e.Message
	switch code, _ := e.Code.(string); {
	case code != "":
		r.Code = code
	case e.Type != "":
		r.Code = e.Type
	default:
		r.Code = "error"
	}
}

// nanoUSD reads a JSON number or text of USD.
func nanoUSD(raw json.RawMessage) (int64, bool) {
	usd, err := strconv.ParseFloat(string(bytes.Trim(raw, `"`)), 64)
	if err != nil || math.IsNaN(usd) || math.Abs(usd) > 1e9 {
		return 0, false
	}
	return int64(math.Round(usd * 1e9)), true
}
