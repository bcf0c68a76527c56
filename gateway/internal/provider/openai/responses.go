package openai

import (
	"bytes"
	"net/http"
	"strings"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/sse"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

const responsesPath = "responses"

// response is what the gateway looks at in an answer of Responses, by offsets into the document.
type response struct {
	model          jsonx.Field // its value; End 0: not there
	status, reason string
	output, failed bool
	usage          llm.Usage
	sealed         []byte
	end            int // behind the closing brace
}

func (r *response) read(c *jsonx.Cursor, contextLimit int64) {
	r.usage = llm.NoUsage()
	c.EachField(func(key []byte) {
		switch string(key) {
		case "model":
			at := c.Pos()
			if c.RawString() != nil {
				r.model = jsonx.Field{Value: at, End: c.Pos()}
			}
		case "status":
			r.status = jsonx.RawText(c.RawString())
		case "error":
			r.failed = c.RawValue() != nil
		case "incomplete_details":
			c.EachField(func(key []byte) {
				if string(key) == "reason" {
					r.reason = jsonx.RawText(c.RawString())
				}
			})
		case "usage":
			if raw := c.RawValue(); raw != nil {
				r.usage = llm.OpenAIUsage(raw, contextLimit)
			}
		case "output":
			r.output = c.Kind() == jsonx.Array
			c.EachItem(func(int) { r.item(c) })
		}
	})
	r.end = c.Pos()
}

// item looks for reasoning that only its issuer can read.
func (r *response) item(c *jsonx.Cursor) {
	c.EachField(func(key []byte) {
		if string(key) == "encrypted_content" {
			if sealed := c.RawString(); len(sealed) > len(`""`) {
				r.sealed = append([]byte(nil), sealed...)
			}
		}
	})
}

func (r *response) rename(edits *jsonx.Edits, data []byte, model string) {
	if r.model.End == 0 {
		return
	}
	if name := jsonx.AppendString(nil, model); !bytes.Equal(name, data[r.model.Value:r.model.End]) {
		edits.Replace(r.model.Value, r.model.End, name)
	}
}

// finish is why the answer ended, in the upstream's words.
func (r *response) finish() string {
	if r.reason != "" {
		return r.reason
	}
	return r.status
}

// parseResponse reads a whole plain answer; body is the caller's again afterwards.
func parseResponse(call *provider.Call, body []byte, openEnded bool) (*provider.Answer, *llm.Error) {
	if problem := wire.NotJSON(body); problem != "" {
		return nil, provider.Unanswerable(http.StatusOK, problem)
	}
	var r response
	var c jsonx.Cursor
	c.ResetLoose(body)
	r.read(&c, call.ContextLimit)
	if err := c.End(); err != nil {
		return nil, wire.BadAnswer(err, openEnded)
	}
	if r.failed {
		if e := llm.InBand(body); e != nil {
			return nil, e
		}
	}
	if !r.output {
		return nil, provider.Unanswerable(http.StatusOK, "an answer without output")
	}
	var edits jsonx.Edits
	r.rename(&edits, body, call.Model)
	out := wire.GetBuffer()
	*out = edits.Apply(*out, body)
	result := provider.Result{Status: http.StatusOK, FinishReason: r.finish(), Output: true, Usage: r.usage, Sealed: r.sealed}
	return provider.NewAnswer(*out, r.end-1+edits.Growth(), true, result, func() { wire.PutBuffer(out) }), nil
}

// responseRelay is a wire.Relay that passes the events of Responses through. Only the model and the place for
// metadata are touched.
type responseRelay struct {
	call   *provider.Call
	cursor jsonx.Cursor
	last   response // the newest that was told of
	out    []byte
	output bool
	ended  bool
}

// Take implements wire.Relay.
func (r *responseRelay) Take(e *sse.Event, c *provider.Chunk) *llm.Error {
	if e.Lines == 0 {
		if e.Whole {
			c.Data = e.Raw
		}
		return nil
	}
	var kind string
	var raw []byte
	var seen *response
	item := response{}
	d := &r.cursor
	d.ResetLoose(e.Data)
	d.EachField(func(key []byte) {
		switch string(key) {
		case "type":
			kind = jsonx.RawText(d.RawString())
		case "response":
			at := d.Pos()
			seen = &response{}
			seen.read(d, r.call.ContextLimit)
			raw = e.Data[at:d.Pos()]
		case "item":
			item.item(d)
		}
	})
	if err := d.End(); err != nil {
		return llm.Malformed("a malformed event", err)
	}
	if item.sealed != nil {
		r.last.sealed = item.sealed
	}
	if kind == "error" || kind == "response.failed" && !r.output {
		for _, body := range [][]byte{raw, e.Data} {
			if failed := llm.InBand(body); failed != nil {
				return failed
			}
		}
		return llm.Malformed("an error event", nil)
	}
	var edits jsonx.Edits
	if seen != nil {
		if seen.sealed == nil {
			seen.sealed = r.last.sealed
		}
		r.last = *seen
		seen.rename(&edits, e.Data, r.call.Model)
	}
	c.Output = strings.HasSuffix(kind, ".delta") || kind == "response.output_item.done"
	r.output = r.output || c.Output
	var at int
	r.out, at = wire.Rewrite(r.out[:0], e, edits)
	c.Data = r.out
	switch kind {
	case "response.completed", "response.incomplete", "response.failed":
		if seen == nil {
			return llm.Malformed("an end without its response", nil)
		}
		r.ended = true
		c.Finish, c.SpliceAt, c.OwnMetadata = true, at+seen.end-1+edits.Growth(), true
	}
	return nil
}

// Whole implements wire.Relay.
func (r *responseRelay) Whole() bool { return r.ended }

// Ended implements wire.Relay.
func (r *responseRelay) Ended() bool { return r.ended }

// End implements wire.Relay: the last event is the end marker.
func (r *responseRelay) End(*provider.Chunk) {}

// Result implements wire.Relay.
func (r *responseRelay) Result() provider.Result {
	if r.last.usage.Source == "" {
		r.last.usage = llm.NoUsage()
	}
	finish := ""
	if r.ended {
		finish = r.last.finish()
	}
	return provider.Result{FinishReason: finish, Usage: r.last.usage, Sealed: r.last.sealed}
}
