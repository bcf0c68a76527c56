package dispatch

import (
	"strconv"
	"time"

	"turnout/internal/jsonx"
)

// filtered answers a request that an upstream's content filter refused: a good answer without text
// that says so in its finish reason, as clients of OpenAI's expect it.
func (r *run) filtered() {
	l := &r.plan.legs[r.calls[len(r.calls)-1].leg]
	head := func(b []byte, kind string) []byte {
		b = append(b, `{"id":"chatcmpl-`...)
		b = append(b, r.req.ID...)
		b = append(b, `","object":"`...)
		b = append(b, kind...)
		b = append(b, `","created":`...)
		b = strconv.AppendInt(b, time.Now().Unix(), 10)
		b = append(b, `,"model":`...)
		return jsonx.AppendString(b, l.candidate.Model.ID)
	}
	if !r.facts.Stream {
		body := head(nil, "chat.completion")
		body = append(body, `,"choices":[{"index":0,"message":{"role":"assistant","content":""},"finish_reason":"content_filter"}]`...)
		_ = r.reply.Plain(body, r.spliced(false), []byte("}"))
		return
	}
	role := head([]byte("data: "), "chat.completion.chunk")
	role = append(role, `,"choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}`+"\n\n"...)
	finish := head([]byte("data: "), "chat.completion.chunk")
	finish = append(finish, `,"choices":[{"index":0,"delta":{},"finish_reason":"content_filter"}]`...)
	_ = r.reply.Event(false, role)
	_ = r.reply.Event(false, finish, r.spliced(false), []byte("}\n\ndata: [DONE]\n\n"))
}
