package sim

import (
	"net/http"
	"strconv"
	"time"
)

// plain answers with one JSON object.
func (c *call) plain(mem *scratch, req *chatRequest, a *answer) {
	tokens := a.outputTokens / a.choices // choices are made side by side
	c.wait(c.ttft() + time.Duration(max(tokens-1, 0))*c.perToken())
	b := append(mem.out[:0], `{"id":"chatcmpl-`...)
	b = append(b, c.id...)
	b = append(b, `","object":"chat.completion","created":`...)
	b = strconv.AppendInt(b, c.s.now().Unix(), 10)
	b = append(b, `,"model":`...)
	b = appendQuoted(b, req.Model)
	b = append(b, `,"choices":[`...)
	for i, text := range a.texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(b, `{"index":`...)
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `,"message":{"role":"assistant","content":`...)
		if a.tool != "" {
			b = append(b, `null,"tool_calls":[{"id":"call_`...)
			b = append(b, c.id...)
			b = append(b, `","type":"function","function":{"name":`...)
			b = appendQuoted(b, a.tool)
			b = append(b, `,"arguments":`...)
			b = appendQuoted(b, text)
			b = append(b, `}}]`...)
		} else {
			b = appendQuoted(b, text)
		}
		if a.reasoning != "" {
			b = append(b, `,"reasoning_content":`...)
			b = appendQuoted(b, a.reasoning)
		}
		b = append(b, `,"refusal":null},"logprobs":null,"finish_reason":"`...)
		b = append(b, a.finish...)
		b = append(b, `"}`...)
	}
	b = append(b, `],"usage":`...)
	b = a.appendUsage(b)
	b = append(b, '}')
	mem.out = b
	c.entry.OutputTokens, c.entry.ReasoningTokens = a.outputTokens, a.choices*a.reasoningPerChoice
	c.end(200, Completed)
	c.check(writeJSON(c.w, 200, b))
}

func (a *answer) appendUsage(b []byte) []byte {
	b = append(b, `{"prompt_tokens":`...)
	b = strconv.AppendInt(b, int64(a.promptTokens), 10)
	b = append(b, `,"completion_tokens":`...)
	b = strconv.AppendInt(b, int64(a.outputTokens), 10)
	b = append(b, `,"total_tokens":`...)
	b = strconv.AppendInt(b, int64(a.promptTokens+a.outputTokens), 10)
	b = append(b, `,"prompt_tokens_details":{"cached_tokens":`...)
	b = strconv.AppendInt(b, int64(a.cachedTokens), 10)
	b = append(b, `},"completion_tokens_details":{"reasoning_tokens":`...)
	b = strconv.AppendInt(b, int64(a.choices*a.reasoningPerChoice), 10)
	return append(b, `}}`...)
}

// stream answers event by event.
func (c *call) stream(mem *scratch, req *chatRequest, a *answer) {
	e := &events{c: c, mem: mem, flush: http.NewResponseController(c.w), usage: req.includeUsage()}
	e.prefix = append(e.prefix, `data: {"id":"chatcmpl-`...)
	e.prefix = append(e.prefix, c.id...)
	e.prefix = append(e.prefix, `","object":"chat.completion.chunk","created":`...)
	e.prefix = strconv.AppendInt(e.prefix, c.s.now().Unix(), 10)
	e.prefix = append(e.prefix, `,"model":`...)
	e.prefix = appendQuoted(e.prefix, req.Model)
	e.prefix = append(e.prefix, `,"choices":[`...)

	b := &c.state.Behavior
	stallAt, cutAt := -1, -1
	switch {
	case b.StallRate > 0 && c.draw.unit(chanceStall) < b.StallRate:
		c.entry.Fault, stallAt = FaultStall, b.StallAfter
	case b.CutRate > 0 && c.draw.unit(chanceCut) < b.CutRate:
		c.entry.Fault, cutAt = FaultCut, b.CutAfter
	}
	fate := func() {
		switch c.entry.Chunks {
		case stallAt:
			c.hang()
		case cutAt:
			c.abort(Cut)
		}
	}

	ttft, perToken := c.ttft(), c.perToken()
	c.w.Header()["Content-Type"] = typeStream
	c.wait(ttft)
	for i := range a.choices {
		e.role(i, a)
	}
	tokens := 0
	say := func(field string, texts []string) {
		parts := make([][]string, len(texts))
		for i, text := range texts {
			parts[i] = pieces(text, b.ChunkTokens)
		}
		for k := range parts[0] {
			c.wait(ttft + time.Duration(tokens)*perToken)
			for i := range parts {
				if k >= len(parts[i]) {
					continue
				}
				fate()
				e.delta(i, field, parts[i][k])
				c.entry.Chunks++
				c.entry.OutputTokens += CountTokens(parts[i][k])
				if field == fieldReasoning {
					c.entry.ReasoningTokens += CountTokens(parts[i][k])
				}
			}
			tokens += CountTokens(parts[0][k])
		}
	}
	if a.reasoning != "" {
		thoughts := make([]string, a.choices)
		for i := range thoughts {
			thoughts[i] = a.reasoning
		}
		say(fieldReasoning, thoughts)
	}
	field := fieldContent
	if a.tool != "" {
		field = fieldArguments
	}
	say(field, a.texts)
	if stallAt >= 0 { // the answer is shorter than the fault's place: its end is the place
		c.hang()
	}
	if cutAt >= 0 {
		c.abort(Cut)
	}
	for i := range a.choices {
		e.finish(i, a.finish)
	}
	e.done(a)
}

// Fields of a delta that carry output.
const (
	fieldContent   = "content"
	fieldReasoning = "reasoning_content"
	fieldArguments = "arguments"
)

// events writes a stream's events, one write and one flush each.
type events struct {
	c      *call
	mem    *scratch
	flush  *http.ResponseController
	prefix []byte
	usage  bool
}

func (e *events) begin(choice int, delta string) []byte {
	b := append(e.mem.out[:0], e.prefix...)
	b = append(b, `{"index":`...)
	b = strconv.AppendInt(b, int64(choice), 10)
	b = append(b, `,"delta":`...)
	return append(b, delta...)
}

// send closes the event and writes it; the call is aborted if the caller has left.
func (e *events) send(b []byte, finish string) {
	if finish == "" {
		b = append(b, `,"finish_reason":null}]`...)
	} else {
		b = append(b, `,"finish_reason":"`...)
		b = append(b, finish...)
		b = append(b, `"}]`...)
	}
	if e.usage {
		b = append(b, `,"usage":null`...)
	}
	e.write(append(b, "}\n\n"...))
}

func (e *events) write(b []byte) {
	e.mem.out = b
	e.c.entry.Status = 200
	_, err := e.c.w.Write(b)
	if err == nil {
		err = e.flush.Flush()
	}
	if err != nil {
		e.c.abort(Canceled)
	}
}

func (e *events) role(choice int, a *answer) {
	if a.tool == "" {
		e.send(e.begin(choice, `{"role":"assistant","content":""}`), "")
		return
	}
	b := e.begin(choice, `{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"call_`)
	b = append(b, e.c.id...)
	b = append(b, `","type":"function","function":{"name":`...)
	b = appendQuoted(b, a.tool)
	e.send(append(b, `,"arguments":""}}]}`...), "")
}

func (e *events) delta(choice int, field, text string) {
	if field == fieldArguments {
		b := e.begin(choice, `{"tool_calls":[{"index":0,"function":{"arguments":`)
		e.send(append(appendQuoted(b, text), `}}]}`...), "")
		return
	}
	b := e.begin(choice, `{"`)
	b = append(b, field...)
	b = append(b, `":`...)
	e.send(append(appendQuoted(b, text), '}'), "")
}

func (e *events) finish(choice int, reason string) { e.send(e.begin(choice, `{}`), reason) }

// done sends the usage, if it was asked for, and the end of the stream.
func (e *events) done(a *answer) {
	if e.usage {
		b := append(e.mem.out[:0], e.prefix...)
		b = append(b, `],"usage":`...)
		b = a.appendUsage(b)
		e.write(append(b, "}\n\n"...))
	}
	e.c.end(200, Completed)
	e.write(append(e.mem.out[:0], "data: [DONE]\n\n"...))
}
