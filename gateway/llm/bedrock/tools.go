package bedrock

import (
	"turnout/gateway/llm"
	"turnout/gateway/llm/messages"
	"turnout/internal/jsonx"
)

// anything is the schema of a tool that came without one; one is demanded.
const anything = `{"type":"object","properties":{}}`

// tools appends the tools and whether one must be called. Converse demands tools where the conversation
// holds calls, has no word for none, and none for one call at a time: newer Claude's own have.
func (w *writer) tools(b []byte, r *llm.Request, any bool) []byte {
	used := called(r.Messages)
	mode := r.Choice.Mode
	if any && mode != llm.ChoiceUnset {
		mode = llm.ChoiceAuto
	}
	if len(r.Tools) == 0 {
		if len(used) == 0 {
			return b
		}
		mode = llm.ChoiceNone
	}
	own := w.family == claude && messages.From(w.model, 4, 0)
	if mode == llm.ChoiceNone && !own {
		if len(used) == 0 {
			return b
		}
		if len(r.Tools) > 0 {
			w.strip("tool_choice")
		}
	}
	b = append(jsonx.AddKey(b, "toolConfig"), `{"tools":[`...)
	for i := range r.Tools {
		b = w.tool(b, &r.Tools[i])
	}
	if len(r.Tools) == 0 {
		for _, name := range used {
			b = w.tool(b, &llm.Tool{Name: name})
		}
	}
	b = append(b, ']')
	if own && (r.Serial || mode == llm.ChoiceNone) {
		w.choice = appendClaudeChoice(nil, mode, r)
		return append(b, '}')
	}
	if r.Serial {
		w.strip("parallel_tool_calls")
	}
	switch mode {
	case llm.ChoiceAuto:
		b = append(b, `,"toolChoice":{"auto":{}}`...)
	case llm.ChoiceRequired:
		b = append(b, `,"toolChoice":{"any":{}}`...)
	case llm.ChoiceNamed:
		b = append(jsonx.Add(append(b, `,"toolChoice":{"tool":{`...), "name", llm.OrEmpty(r.Choice.Name)), "}}"...)
	}
	return append(b, '}')
}

// appendClaudeChoice appends the choice in Anthropic's words. It may not stand beside Converse's own.
func appendClaudeChoice(b []byte, mode llm.ChoiceMode, r *llm.Request) []byte {
	b = append(b, '{')
	switch mode {
	case llm.ChoiceNone:
		return append(jsonx.AddString(b, "type", "none"), '}')
	case llm.ChoiceRequired:
		b = jsonx.AddString(b, "type", "any")
	case llm.ChoiceNamed:
		b = jsonx.Add(jsonx.AddString(b, "type", "tool"), "name", llm.OrEmpty(r.Choice.Name))
	default:
		b = jsonx.AddString(b, "type", "auto")
	}
	return append(b, `,"disable_parallel_tool_use":true}`...)
}

func (w *writer) tool(b []byte, t *llm.Tool) []byte {
	b = jsonx.Add(append(jsonx.Comma(b), `{"toolSpec":{`...), "name", t.Name)
	if llm.Filled(t.Description) {
		b = jsonx.Add(b, "description", t.Description)
	}
	schema := t.Schema
	if schema == nil {
		schema = llm.Raw(anything)
	}
	b = append(jsonx.Add(append(b, `,"inputSchema":{`...), "json", schema), '}')
	if string(t.Strict) == "true" {
		if w.strict() {
			b = jsonx.Add(b, "strict", t.Strict)
		} else {
			w.strip("strict")
		}
	}
	b = append(b, "}}"...)
	return w.cachePoint(b, &llm.Part{Cache: t.Cache})
}

// called are the names of the tools that a conversation calls, each once.
func called(conversation []llm.Message) (names []llm.Raw) {
	seen := map[string]bool{}
	for i := range conversation {
		for j := range conversation[i].Parts {
			if p := &conversation[i].Parts[j]; p.Kind == llm.PartCall && !seen[string(p.Name)] {
				seen[string(p.Name)] = true
				names = append(names, p.Name)
			}
		}
	}
	return names
}
