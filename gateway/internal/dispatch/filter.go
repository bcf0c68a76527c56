package dispatch

import (
	"strconv"
	"time"

	"turnout/gateway/llm"
	"turnout/gateway/llm/messages"
	"turnout/gateway/llm/responses"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

// filtered answers a request that an upstream's content filter refused: a good answer without text
// that says so in its finish reason, as the surface's clients expect it. For embeddings there is none.
func (r *run) filtered(why *llm.Error) {
	switch r.req.Endpoint {
	case attempt.EndpointEmbeddings:
		e := why.Final()
		e.Message = why.Message
		r.reply.Fail(e, r.extra())
	case attempt.EndpointMessages:
		r.filteredBy(messages.AppendResponse, messages.NewEncoder(r.stamp(), false))
	case attempt.EndpointResponses:
		r.filteredBy(responses.AppendResponse, responses.NewEncoder(r.stamp(), false))
	default:
		r.filteredChat()
	}
}

func (r *run) stamp() llm.Stamp {
	return llm.Stamp{ID: r.req.ID, Model: r.plan.legs[r.calls[len(r.calls)-1].leg].candidate.Model.ID, Created: time.Now().Unix()}
}

// encoder writes a stream in a surface's dialect.
type encoder interface {
	Append(dst []byte, e *llm.Event) []byte
	End(dst []byte, u *llm.Usage) (out []byte, spliceAt int)
}

// filteredBy writes the refusal as an empty answer of the surface.
func (r *run) filteredBy(plain func([]byte, *llm.Response, llm.Stamp) []byte, enc encoder) {
	if !r.facts.Stream {
		body := plain(nil, &llm.Response{Finish: llm.FinishFilter}, r.stamp())
		_ = r.reply.Plain(body[:len(body)-1], r.spliced(true), body[len(body)-1:])
		return
	}
	enc.Append(nil, &llm.Event{Kind: llm.EventFinish, Finish: llm.FinishFilter})
	body, at := enc.End(nil, &llm.Usage{})
	_ = r.reply.Event(false, body[:at], r.spliced(true), body[at:])
}

func (r *run) filteredChat() {
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
