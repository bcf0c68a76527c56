package responses

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"turnout/gateway/llm"
	"turnout/gateway/llm/chat"
	"turnout/internal/jsonx"
)

// AppendResponse appends the answer for a client that speaks Responses.
func AppendResponse(dst []byte, r *llm.Response, s llm.Stamp) []byte {
	items := items{stamp: s}
	for i := range r.Parts {
		p := &r.Parts[i]
		switch p.Kind {
		case llm.PartThinking:
			it := item{kind: reasoningItem, text: llm.OrEmpty(p.Text)}
			switch {
			case s.Sealed && llm.Filled(p.Redacted):
				it.sealed = Seal(p.Redacted, true)
			case s.Sealed && llm.Filled(p.Signature):
				it.sealed = Seal(p.Signature, false)
			}
			if llm.Filled(it.text) || it.sealed != nil {
				items.list = append(items.list, it)
			}
		case llm.PartText, llm.PartRefusal:
			items.list = append(items.list, item{kind: messageItem, text: p.Text, refusal: p.Kind == llm.PartRefusal})
		case llm.PartImage:
			items.list = append(items.list, item{kind: imageItem, text: p.Data, media: p.Media})
		case llm.PartCall:
			it := items.call(p.ID, p.Name)
			if it.text = jsonx.AppendString(nil, string(p.Input)); it.tool == llm.ToolFreeform {
				it.text = unwrapped(p.Input)
			}
			items.list = append(items.list, it)
		}
	}
	return items.appendResponse(dst, r.ID, status(r.Finish), r.Finish, &r.Usage)
}

func status(f llm.Finish) string {
	if f == llm.FinishLength || f == llm.FinishFilter {
		return "incomplete"
	}
	return "completed"
}

type itemKind uint8

const (
	messageItem itemKind = iota
	reasoningItem
	callItem
	imageItem
)

// item is one element of an answer's output. Its id is made of the answer's and its place.
type item struct {
	kind     itemKind
	refusal  bool
	silent   bool         // of reasoning: it tells nothing
	sealed   llm.Raw      // string: of reasoning, what only its issuer can read; nil: none
	media    string       // of an image, whose base64 is its text
	id, name llm.Raw      // of a call
	space    llm.Raw      // string: the namespace that the call's name is in; nil: none
	tool     llm.ToolKind // of a call
	text     llm.Raw      // string: what is said, thought, or the arguments; grows while it streams
	unwrap   unwrapping   // of a call of a tool that takes a text, while it streams
}

type items struct {
	stamp llm.Stamp
	list  []item
}

// call makes the item of a call, in the words in which the client has its tool.
func (s *items) call(id, name llm.Raw) item {
	it := item{kind: callItem, id: id, name: name}
	called := jsonx.RawText(name)
	for i := range s.stamp.Tools {
		if t := &s.stamp.Tools[i]; jsonx.RawText(t.Name) == called {
			it.tool, it.space = t.Kind, t.Space
			if t.Space != nil {
				it.name = t.Own
			}
			break
		}
	}
	return it
}

func appendID(b []byte, id llm.Raw, s llm.Stamp) []byte {
	if llm.Filled(id) {
		return append(b, id...)
	}
	return jsonx.AppendString(b, "resp_"+s.ID)
}

var (
	prefixes     = [...]string{messageItem: "msg_", reasoningItem: llm.OurReasoning, imageItem: "ig_"}
	callPrefixes = [...]string{llm.ToolFunction: "fc_", llm.ToolFreeform: "ctc_", llm.ToolSearch: "tsc_"}
)

func (s *items) appendItemID(b []byte, n int) []byte {
	prefix := callPrefixes[s.list[n].tool]
	if kind := s.list[n].kind; kind != callItem {
		prefix = prefixes[kind]
	}
	return jsonx.AppendString(b, prefix+s.stamp.ID+"_"+strconv.Itoa(n))
}

// appendItem appends an item; status is in_progress, whose content is still empty, or completed.
func (s *items) appendItem(b []byte, n int, status string) []byte {
	it := &s.list[n]
	whole := status != "in_progress"
	b = s.appendItemID(append(b, `{"id":`...), n)
	switch it.kind {
	case messageItem:
		b = jsonx.AddString(append(b, `,"type":"message","role":"assistant"`...), "status", status)
		b = append(b, `,"content":[`...)
		if whole {
			b = it.appendPart(b, it.text)
		}
		b = append(b, ']')
	case reasoningItem:
		b = append(b, `,"type":"reasoning","summary":[`...)
		if whole && llm.Filled(it.text) {
			b = append(append(append(b, `{"type":"summary_text","text":`...), it.text...), '}')
		}
		b = append(b, ']')
		if whole {
			b = jsonx.Add(b, "encrypted_content", it.sealed)
		}
	case callItem:
		b = it.appendCall(b, status, whole)
	case imageItem:
		b = jsonx.AddString(append(b, `,"type":"image_generation_call"`...), "status", status)
		if !whole {
			return append(b, `,"result":null}`...)
		}
		b = jsonx.AddString(b, "output_format", strings.TrimPrefix(it.media, "image/"))
		b = jsonx.Add(b, "result", it.text)
	}
	return append(b, '}')
}

func (it *item) appendCall(b []byte, status string, whole bool) []byte {
	text := llm.Raw(`""`)
	if whole {
		text = it.text
	}
	switch it.tool {
	case llm.ToolFreeform:
		b = jsonx.AddString(append(b, `,"type":"custom_tool_call"`...), "status", status)
	case llm.ToolSearch:
		b = jsonx.AddString(append(b, `,"type":"tool_search_call","execution":"client"`...), "status", status)
		return jsonx.Add(jsonx.Add(b, "call_id", it.id), "arguments", oneLine(chat.Arguments(text)))
	default:
		b = jsonx.AddString(append(b, `,"type":"function_call"`...), "status", status)
	}
	b = jsonx.Add(jsonx.Add(b, "call_id", it.id), "name", it.name)
	if it.space != nil {
		b = jsonx.Add(b, "namespace", it.space)
	}
	if it.tool == llm.ToolFreeform {
		return jsonx.Add(b, "input", text)
	}
	return jsonx.Add(b, "arguments", text)
}

func (it *item) appendPart(b []byte, text llm.Raw) []byte {
	if it.refusal {
		return append(jsonx.Add(append(b, `{"type":"refusal"`...), "refusal", text), '}')
	}
	return append(jsonx.Add(append(b, `{"type":"output_text"`...), "text", text), `,"annotations":[],"logprobs":[]}`...)
}

// echoed are the fields of a request that its answer repeats, and what stands there where it had none.
var echoed = map[string]string{
	"instructions": "null", "max_output_tokens": "null", "metadata": "{}", "parallel_tool_calls": "true", "reasoning": "null",
	"temperature": "null", "text": `{"format":{"type":"text"}}`, "tool_choice": `"auto"`, "tools": "[]", "top_p": "null", "user": "null",
}

var echoes = slices.Sorted(maps.Keys(echoed))

// appendResponse appends the answer as a whole, or its head while it is in_progress.
func (s *items) appendResponse(b []byte, id llm.Raw, status string, finish llm.Finish, u *llm.Usage) []byte {
	b = appendID(append(b, `{"id":`...), id, s.stamp)
	b = jsonx.AddInt(append(b, `,"object":"response"`...), "created_at", s.stamp.Created)
	b = jsonx.AddString(b, "status", status)
	b = append(b, `,"background":false,"error":null,"incomplete_details":`...)
	switch {
	case status != "incomplete":
		b = append(b, "null"...)
	case finish == llm.FinishFilter:
		b = append(b, `{"reason":"content_filter"}`...)
	default:
		b = append(b, `{"reason":"max_output_tokens"}`...)
	}
	for _, name := range echoes {
		raw := s.stamp.Echo[name]
		if raw == nil || string(raw) == "null" {
			raw = llm.Raw(echoed[name])
		}
		b = jsonx.Add(b, name, raw)
	}
	b = jsonx.AddString(b, "model", s.stamp.Model)
	b = append(b, `,"output":[`...)
	if status != "in_progress" {
		for n := range s.list {
			state := "completed"
			if n == len(s.list)-1 && status == "incomplete" {
				state = "incomplete"
			}
			b = s.appendItem(jsonx.Comma(b), n, state)
		}
	}
	b = append(b, `],"store":false,"truncation":"disabled","usage":`...)
	return append(appendUsage(b, u), '}')
}

func appendUsage(b []byte, u *llm.Usage) []byte {
	if u == nil || !u.Reported() {
		return append(b, "null"...)
	}
	b = jsonx.AddInt(append(b, '{'), "input_tokens", u.InputTokens)
	b = jsonx.AddInt(append(b, `,"input_tokens_details":{`...), "cached_tokens", u.CachedInputTokens)
	if written := u.CacheWriteTokens + u.CacheWrite1hTokens; written > 0 {
		b = jsonx.AddInt(b, "cache_write_tokens", written)
	}
	b = append(b, '}')
	b = jsonx.AddInt(b, "output_tokens", u.OutputTokens)
	b = append(jsonx.AddInt(append(b, `,"output_tokens_details":{`...), "reasoning_tokens", u.ReasoningTokens), '}')
	return append(jsonx.AddInt(b, "total_tokens", u.InputTokens+u.OutputTokens), '}')
}
