package responses

import (
	"strconv"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Encoder writes the events of a stream for a client that speaks Responses. Each item is told again as
// a whole when it ends, so the text of an answer is kept until then.
type Encoder struct {
	items
	id     llm.Raw
	begun  bool
	next   int // sequence number
	open   int // index of the open message or reasoning, -1: none
	calls  []int
	closed int // of calls
	finish llm.Finish
}

// NewEncoder returns an encoder; usage always goes out on this surface.
func NewEncoder(s llm.Stamp, _ bool) *Encoder { return &Encoder{items: items{stamp: s}, open: -1} }

// event begins an event; the caller adds fields and ends it with end.
func (e *Encoder) event(b []byte, kind string) []byte {
	b = append(append(append(b, "event: "...), kind...), "\ndata: {\"type\":\""...)
	b = append(append(b, kind...), `","sequence_number":`...)
	b = strconv.AppendInt(b, int64(e.next), 10)
	e.next++
	return b
}

const end = "}\n\n"

func (e *Encoder) opened(b []byte, id llm.Raw) []byte {
	if e.begun {
		return b
	}
	e.begun, e.id = true, append(llm.Raw(nil), id...)
	for _, kind := range [...]string{"response.created", "response.in_progress"} {
		b = append(e.event(b, kind), `,"response":`...)
		b = append(e.appendResponse(b, e.id, "in_progress", "", nil), end...)
	}
	return b
}

// Append appends what the client sees of an event.
func (e *Encoder) Append(dst []byte, ev *llm.Event) []byte {
	switch ev.Kind {
	case llm.EventStart:
		return e.opened(dst, ev.ID)
	case llm.EventText:
		return e.piece(dst, item{kind: messageItem}, "response.output_text.delta", ev.Text)
	case llm.EventRefusal:
		return e.piece(dst, item{kind: messageItem, refusal: true}, "response.refusal.delta", ev.Text)
	case llm.EventThinking:
		return e.piece(dst, item{kind: reasoningItem}, "response.reasoning_summary_text.delta", ev.Text)
	case llm.EventSignature, llm.EventRedacted:
		return e.seal(dst, ev)
	case llm.EventCall:
		b := e.opened(dst, nil)
		if e.open >= 0 {
			b = e.close(b)
		}
		e.calls = append(e.calls, len(e.list))
		return e.begin(b, e.call(append(llm.Raw(nil), ev.ID...), append(llm.Raw(nil), ev.Name...)))
	case llm.EventArguments:
		if ev.Index < e.closed || ev.Index >= len(e.calls) {
			return dst
		}
		return e.arguments(dst, e.calls[ev.Index], ev.Text)
	case llm.EventImage:
		return e.image(dst, ev)
	case llm.EventFinish:
		e.finish = ev.Finish
	}
	return dst
}

// seal puts what only the issuer of reasoning can read into the item of that reasoning, which ends with it.
func (e *Encoder) seal(b []byte, ev *llm.Event) []byte {
	if !e.stamp.Sealed {
		return b
	}
	redacted := ev.Kind == llm.EventRedacted
	if redacted || e.open < 0 || e.list[e.open].kind != reasoningItem {
		b = e.close(e.opened(b, nil))
		e.open = len(e.list)
		b = e.begin(b, item{kind: reasoningItem, silent: true})
	}
	e.list[e.open].sealed = Seal(ev.Text, redacted)
	return e.close(b)
}

// image tells of an image, which comes whole.
func (e *Encoder) image(b []byte, ev *llm.Event) []byte {
	b = e.close(e.opened(b, nil))
	n := len(e.list)
	b = e.begin(b, item{kind: imageItem, media: ev.Media})
	e.list[n].text = append(llm.Raw(nil), ev.Text...)
	for _, kind := range [...]string{"response.image_generation_call.in_progress", "response.image_generation_call.generating", "response.image_generation_call.completed"} {
		b = append(e.at(e.event(b, kind), n, true), end...)
	}
	b = e.at(e.event(b, "response.output_item.done"), n, false)
	return append(e.appendItem(append(b, `,"item":`...), n, "completed"), end...)
}

// arguments tells a piece of a call's arguments in the words of its tool.
func (e *Encoder) arguments(b []byte, n int, text llm.Raw) []byte {
	it := &e.list[n]
	switch it.tool {
	case llm.ToolFreeform:
		if text = it.unwrap.take(text); text == nil {
			return b
		}
		return e.delta(b, n, "response.custom_tool_call_input.delta", text)
	case llm.ToolSearch: // told when they are whole
		it.grow(text)
		return b
	}
	return e.delta(b, n, "response.function_call_arguments.delta", text)
}

func (it *item) grow(text llm.Raw) { it.text = append(it.text[:len(it.text)-1], text[1:]...) }

func (e *Encoder) piece(b []byte, it item, kind string, text llm.Raw) []byte {
	if e.open < 0 || e.list[e.open].kind != it.kind || e.list[e.open].refusal != it.refusal || e.closed < len(e.calls) {
		b = e.close(e.opened(b, nil))
		e.open = len(e.list)
		b = e.begin(b, it)
	}
	return e.delta(b, e.open, kind, text)
}

// begin announces an item, and the one part that messages and reasoning have.
func (e *Encoder) begin(b []byte, it item) []byte {
	n := len(e.list)
	it.text = llm.Raw(`""`)
	e.list = append(e.list, it)
	b = e.at(e.event(b, "response.output_item.added"), n, false)
	b = append(e.appendItem(append(b, `,"item":`...), n, "in_progress"), end...)
	return e.part(b, n, "added", llm.Raw(`""`))
}

func (e *Encoder) part(b []byte, n int, what string, text llm.Raw) []byte {
	it := &e.list[n]
	switch it.kind {
	case messageItem:
		b = append(e.at(e.event(b, "response.content_part."+what), n, true), `,"part":`...)
		return append(it.appendPart(b, text), end...)
	case reasoningItem:
		if it.silent {
			return b
		}
		b = append(e.at(e.event(b, "response.reasoning_summary_part."+what), n, true), `,"part":{"type":"summary_text","text":`...)
		return append(append(append(b, text...), '}'), end...)
	}
	return b
}

// at appends which item, and which part of it, an event is about.
func (e *Encoder) at(b []byte, n int, part bool) []byte {
	b = jsonx.AddInt(b, "output_index", int64(n))
	if !part {
		return b
	}
	b = e.appendItemID(append(b, `,"item_id":`...), n)
	switch e.list[n].kind {
	case messageItem:
		b = append(b, `,"content_index":0`...)
	case reasoningItem:
		b = append(b, `,"summary_index":0`...)
	}
	return b
}

func (e *Encoder) delta(b []byte, n int, kind string, text llm.Raw) []byte {
	e.list[n].grow(text)
	return append(jsonx.Add(e.at(e.event(b, kind), n, true), "delta", text), end...)
}

// close ends every open item.
func (e *Encoder) close(b []byte) []byte {
	if e.open >= 0 {
		b = e.done(b, e.open)
		e.open = -1
	}
	for ; e.closed < len(e.calls); e.closed++ {
		b = e.done(b, e.calls[e.closed])
	}
	return b
}

func (e *Encoder) done(b []byte, n int) []byte {
	it := &e.list[n]
	switch {
	case it.kind == callItem && it.tool == llm.ToolFreeform:
		if rest := it.unwrap.rest(); rest != nil {
			b = e.delta(b, n, "response.custom_tool_call_input.delta", rest)
		}
		b = append(jsonx.Add(e.at(e.event(b, "response.custom_tool_call_input.done"), n, true), "input", it.text), end...)
	case it.kind == callItem && it.tool == llm.ToolSearch:
	case it.kind == callItem:
		if !llm.Filled(it.text) {
			it.text = llm.Raw(`"{}"`) // clients read them as JSON
		}
		b = append(jsonx.Add(e.at(e.event(b, "response.function_call_arguments.done"), n, true), "arguments", it.text), end...)
	case it.silent:
	case it.kind == reasoningItem:
		b = append(jsonx.Add(e.at(e.event(b, "response.reasoning_summary_text.done"), n, true), "text", it.text), end...)
	case it.refusal:
		b = append(jsonx.Add(e.at(e.event(b, "response.refusal.done"), n, true), "refusal", it.text), end...)
	default:
		b = append(jsonx.Add(e.at(e.event(b, "response.output_text.done"), n, true), "text", it.text), `,"logprobs":[]`+end...)
	}
	b = e.part(b, n, "done", it.text)
	b = e.at(e.event(b, "response.output_item.done"), n, false)
	how := "completed"
	if n == len(e.list)-1 {
		how = status(e.finish) // the answer may have ended in it
	}
	return append(e.appendItem(append(b, `,"item":`...), n, how), end...)
}

// End appends the finish with the whole answer and its usage, and says where metadata can be put in.
func (e *Encoder) End(dst []byte, u *llm.Usage) (out []byte, spliceAt int) {
	b := e.close(e.opened(dst, nil))
	how := status(e.finish)
	b = append(e.event(b, "response."+how), `,"response":`...)
	b = e.appendResponse(b, e.id, how, e.finish, u)
	spliceAt = len(b) - 1
	return append(b, end...), spliceAt
}
