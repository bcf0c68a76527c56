package openai

import (
	"bytes"
	"net/http"
	"slices"
	"strings"
	"sync"

	"turnout/gateway/internal/provider"
	"turnout/internal/jsonx"
)

// appendBody appends the body for the upstream: the client's bytes but for what the gateway must change
// (api.md, "Surfaces").
func appendBody(dst []byte, call *provider.Call) []byte {
	f := call.Facts
	fields := f.Fields
	var room [8]jsonx.Edit
	edits := jsonx.Edits(room[:0])

	model := fields[f.At.Model-1]
	if name := jsonx.AppendString(nil, call.UpstreamModel); !bytes.Equal(name, call.Body[model.Value:model.End]) {
		edits.Replace(model.Value, model.End, name)
	}
	if call.StripToolChoice && f.At.ToolChoice > 0 {
		choice := fields[f.At.ToolChoice-1]
		edits.Replace(choice.Value, choice.End, []byte(`"auto"`))
	}
	dropOptions := false
	switch wanted := f.Stream && !call.Target.NoStreamUsage; {
	case !wanted:
		dropOptions = f.At.StreamOptions > 0
	case f.At.StreamOptions == 0:
		edits.Insert(fields[len(fields)-1].End, []byte(`,"stream_options":{"include_usage":true}`))
	case !f.IncludeUsage:
		askForUsage(&edits, call.Body, fields[f.At.StreamOptions-1])
	}
	if dropOptions || f.At.Routing > 0 || f.At.FreeModelsOnly > 0 || f.At.NoReasoning > 0 {
		edits.DeleteFields(fields, func(i int) bool {
			i++
			return dropOptions && i == f.At.StreamOptions || i == f.At.Routing || i == f.At.FreeModelsOnly || i == f.At.NoReasoning
		})
	}
	return edits.Apply(dst, call.Body)
}

// askForUsage turns include_usage on in a stream_options that leaves it out or off.
func askForUsage(edits *jsonx.Edits, body []byte, options jsonx.Field) {
	var c jsonx.Cursor
	c.ResetLoose(body[options.Value:options.End])
	if c.Kind() != jsonx.Object {
		edits.Replace(options.Value, options.End, []byte(`{"include_usage":true}`))
		return
	}
	empty := true
	for f := c.Object(); c.Next(&f); {
		empty = false
		if string(f.Key) == "include_usage" {
			start := options.Value + c.Pos()
			c.Skip()
			edits.Replace(start, options.Value+c.Pos(), []byte("true"))
			return
		}
	}
	ask := `,"include_usage":true`
	if empty {
		ask = ask[1:]
	}
	edits.Insert(options.End-1, []byte(ask))
}

// never are headers that do not go upstream, whoever lists them: they are the connection's, a
// credential's, or would let somebody send a call twice.
var never = map[string]bool{
	"Connection": true, "Keep-Alive": true, "Proxy-Authenticate": true, "Proxy-Authorization": true, "Proxy-Connection": true,
	"Te": true, "Trailer": true, "Transfer-Encoding": true, "Upgrade": true, "Expect": true, "Content-Length": true,
	"Content-Encoding": true, "Content-Type": true, "Accept-Encoding": true, "Accept": true, "Host": true, "Authorization": true, "X-Api-Key": true, "Api-Key": true,
	"Cookie": true, "Forwarded": true, "Via": true, "Idempotency-Key": true, "X-Idempotency-Key": true, "Traceparent": true, "Tracestate": true,
}

func forbidden(name string) bool {
	return never[name] || strings.HasPrefix(name, "X-Forwarded-") || strings.HasPrefix(name, "X-Stainless-Retry")
}

// header makes the header of a call. agent is ours unless the call brings one.
func header(call *provider.Call, agent string) http.Header {
	h := make(http.Header, 8)
	for name, values := range call.Header {
		if name = http.CanonicalHeaderKey(name); !forbidden(name) {
			h[name] = slices.Clip(values)
		}
	}
	values := make([]string, 5)
	set := func(i int, name, value string) {
		values[i] = value
		h[name] = values[i : i+1 : i+1]
	}
	set(0, "Content-Type", "application/json")
	if call.Facts.Stream {
		set(1, "Accept", "text/event-stream")
	} else {
		set(1, "Accept", "application/json")
	}
	if call.Secret != "" {
		set(2, "Authorization", "Bearer "+call.Secret)
	}
	if _, ok := h["User-Agent"]; !ok {
		set(3, "User-Agent", agent)
	}
	if call.Target.Trace && call.Traceparent != "" {
		set(4, "Traceparent", call.Traceparent)
	}
	return h
}

// maxPooled is the largest buffer that is kept for other calls.
const maxPooled = 1 << 20

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

func getBuffer() *[]byte {
	b := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

func putBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}
