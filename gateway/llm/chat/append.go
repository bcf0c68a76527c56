package chat

import (
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Append appends the request for an upstream that speaks chat completions, and returns the names of
// what of it could not be said.
func Append(dst []byte, r *llm.Request, s llm.Sending) (out []byte, stripped []string) {
	stripped = r.UnsaidBut("text.verbosity")
	b := jsonx.AddString(append(dst, '{'), "model", s.Model)
	b = jsonx.AddKey(b, "messages")
	b = append(b, '[')
	system := r.System
	for i := range r.Messages {
		if !answers(r, i) { // nothing comes between calls and what they brought
			b, system = appendSystem(b, system, i)
		}
		b = appendMessage(b, &r.Messages[i])
	}
	b, _ = appendSystem(b, system, len(r.Messages))
	b = append(b, ']')
	stripped = append(stripped, r.Lost(llm.LosesThinking|llm.LosesErrors|llm.LosesCache)...)
	strict := strictness{picky: s.OpenAI}
	b = appendTools(b, r, s, &strict)
	b = appendFormat(b, &r.Format, &strict)
	if strict.lost {
		stripped = append(stripped, "strict")
	}
	if r.MaxTokens > 0 {
		name := "max_tokens"
		if s.OpenAI {
			name = "max_completion_tokens"
		}
		b = jsonx.AddInt(b, name, r.MaxTokens)
	}
	p := &r.Sampling
	b = jsonx.Add(b, "temperature", p.Temperature)
	b = jsonx.Add(b, "top_p", p.TopP)
	if p.TopK != nil {
		stripped = append(stripped, "top_k")
	}
	b = jsonx.Add(b, "seed", p.Seed)
	b = jsonx.Add(b, "frequency_penalty", p.FrequencyPenalty)
	b = jsonx.Add(b, "presence_penalty", p.PresencePenalty)
	b = jsonx.Add(b, "logprobs", p.LogProbs)
	b = jsonx.Add(b, "top_logprobs", p.TopLogProbs)
	b = jsonx.Add(b, "logit_bias", p.LogitBias)
	if len(r.Stop) > 0 {
		b = append(jsonx.AddKey(b, "stop"), '[')
		for _, text := range r.Stop {
			b = append(jsonx.Comma(b), text...)
		}
		b = append(b, ']')
	}
	if effort := effortOf(&r.Reasoning); effort != "" {
		b = jsonx.AddString(b, "reasoning_effort", effort)
	}
	const longestUser = 64
	if len(r.User) <= longestUser+len(`""`) {
		b = jsonx.Add(b, "user", r.User)
	} else {
		stripped = append(stripped, "user")
	}
	if r.ServiceTier != "" {
		b = jsonx.AddString(b, "service_tier", r.ServiceTier)
	}
	b = jsonx.Add(b, "verbosity", r.Verbosity)
	if r.Stream {
		b = append(b, `,"stream":true`...)
		if !s.NoUsage {
			b = append(b, `,"stream_options":{"include_usage":true}`...)
		}
	}
	return append(b, '}'), stripped
}

// answers says whether a message holds what calls of the one before it brought.
func answers(r *llm.Request, i int) bool {
	for _, p := range r.Messages[i].Parts {
		if p.Kind == llm.PartResult {
			return true
		}
	}
	return false
}

// appendSystem appends what the system says before the message at i, and returns what it says later.
func appendSystem(b []byte, system []llm.Part, i int) (out []byte, rest []llm.Part) {
	n := 0
	for n < len(system) && system[n].At <= i {
		n++
	}
	if n > 0 {
		b = append(jsonx.Comma(b), `{"role":"system","content":`...)
		b = append(append(b, paragraphs(system[:n])...), '}')
	}
	return b, system[n:]
}

// paragraphs is the text of all parts as one raw string, which every upstream takes as a system's.
func paragraphs(parts []llm.Part) []byte {
	out := []byte{'"'}
	for i := range parts {
		if text := parts[i].Text; llm.Filled(text) {
			if len(out) > 1 {
				out = append(out, `\n\n`...)
			}
			out = append(out, text[1:len(text)-1]...)
		}
	}
	return append(out, '"')
}

// effortOf turns a budget into the word for it.
func effortOf(r *llm.Reasoning) string {
	switch {
	case r.Effort != "":
		return r.Effort
	case r.Mode != llm.ThinkingOn || r.Budget == 0:
		return ""
	case r.Budget < 4096:
		return "low"
	case r.Budget < 16384:
		return "medium"
	}
	return "high"
}

func appendTools(b []byte, r *llm.Request, s llm.Sending, strict *strictness) []byte {
	if len(r.Tools) == 0 {
		return b
	}
	b = append(jsonx.AddKey(b, "tools"), '[')
	for i := range r.Tools {
		t := &r.Tools[i]
		b = append(jsonx.Comma(b), `{"type":"function","function":{`...)
		b = jsonx.Add(b, "name", t.Name)
		b = jsonx.Add(b, "description", t.Description)
		b = jsonx.Add(b, "parameters", t.Schema)
		b = jsonx.Add(b, "strict", strict.of(t.Strict, t.Schema))
		b = append(b, "}}"...)
	}
	b = append(b, ']')
	mode := r.Choice.Mode
	if s.AnyTool && mode != llm.ChoiceUnset {
		mode = llm.ChoiceAuto
	}
	switch mode {
	case llm.ChoiceAuto:
		b = jsonx.AddString(b, "tool_choice", "auto")
	case llm.ChoiceNone:
		b = jsonx.AddString(b, "tool_choice", "none")
	case llm.ChoiceRequired:
		b = jsonx.AddString(b, "tool_choice", "required")
	case llm.ChoiceNamed:
		b = append(jsonx.AddKey(b, "tool_choice"), `{"type":"function","function":{"name":`...)
		b = append(append(b, llm.OrEmpty(r.Choice.Name)...), "}}"...)
	}
	if r.Serial {
		b = append(b, `,"parallel_tool_calls":false`...)
	}
	return b
}

func appendFormat(b []byte, f *llm.Format, strict *strictness) []byte {
	switch f.Kind {
	case "":
		return b
	case "json_schema":
		b = append(jsonx.AddKey(b, "response_format"), `{"type":"json_schema","json_schema":{`...)
		name := f.Name
		if name == nil {
			name = llm.Raw(`"answer"`) // it is demanded
		}
		b = jsonx.Add(b, "name", name)
		b = jsonx.Add(b, "schema", f.Schema)
		b = jsonx.Add(b, "strict", strict.of(f.Strict, f.Schema))
		return append(b, "}}"...)
	}
	b = append(jsonx.AddKey(b, "response_format"), `{"type":`...)
	return append(jsonx.AppendString(b, f.Kind), '}')
}

// appendMessage appends a turn: results of tool calls become messages of their own, in front of what
// else the user says. A picture that a tool brought stands behind them, since a tool can only say text.
func appendMessage(b []byte, m *llm.Message) []byte {
	if m.Assistant {
		return appendAssistant(b, m)
	}
	var rest []llm.Part
	for i := range m.Parts {
		p := &m.Parts[i]
		if p.Kind != llm.PartResult {
			rest = append(rest, *p)
			continue
		}
		b = append(jsonx.Comma(b), `{"role":"tool","tool_call_id":`...)
		b = append(append(b, llm.OrEmpty(p.ID)...), `,"content":`...)
		var texts []llm.Part
		for _, q := range p.Parts {
			if q.Kind == llm.PartText {
				texts = append(texts, q)
			} else {
				rest = append(rest, q)
			}
		}
		b = appendContent(b, texts)
		b = append(b, '}')
	}
	if len(rest) == 0 {
		return b
	}
	b = append(jsonx.Comma(b), `{"role":"user","content":`...)
	return append(appendContent(b, rest), '}')
}

func appendAssistant(b []byte, m *llm.Message) []byte {
	var said []llm.Part
	calls := 0
	for i := range m.Parts {
		switch p := &m.Parts[i]; p.Kind {
		case llm.PartThinking:
		case llm.PartCall:
			calls++
		default:
			said = append(said, *p)
		}
	}
	if len(said) == 0 && calls == 0 {
		return b
	}
	b = append(jsonx.Comma(b), `{"role":"assistant","content":`...)
	if len(said) == 0 {
		b = append(b, "null"...)
	} else {
		b = appendContent(b, said)
	}
	if calls > 0 {
		b = append(b, `,"tool_calls":[`...)
		for i := range m.Parts {
			if p := &m.Parts[i]; p.Kind == llm.PartCall {
				b = appendCall(jsonx.Comma(b), p)
			}
		}
		b = append(b, ']')
	}
	return append(b, '}')
}

func appendCall(b []byte, p *llm.Part) []byte {
	b = append(b, `{"id":`...)
	b = append(b, llm.OrEmpty(p.ID)...)
	b = append(b, `,"type":"function","function":{"name":`...)
	b = append(b, llm.OrEmpty(p.Name)...)
	b = append(b, `,"arguments":`...)
	b = jsonx.AppendString(b, string(p.Input))
	return append(b, "}}"...)
}

// appendContent appends parts as a text where they are one text, else as a list.
func appendContent(b []byte, parts []llm.Part) []byte {
	switch {
	case len(parts) == 0:
		return append(b, `""`...)
	case len(parts) == 1 && parts[0].Kind == llm.PartText:
		return append(b, parts[0].Text...)
	}
	b = append(b, '[')
	for i := range parts {
		p := &parts[i]
		b = append(jsonx.Comma(b), '{')
		switch p.Kind {
		case llm.PartText:
			b = jsonx.Add(jsonx.AddString(b, "type", "text"), "text", p.Text)
		case llm.PartRefusal:
			b = jsonx.Add(jsonx.AddString(b, "type", "refusal"), "refusal", p.Text)
		case llm.PartImage:
			b = append(b, `"type":"image_url","image_url":{"url":`...)
			b = jsonx.Add(appendSource(b, p), "detail", p.Detail)
			b = append(b, '}')
		case llm.PartDocument:
			b = append(b, `"type":"file","file":{"file_data":`...)
			name := p.Name
			if name == nil {
				name = llm.Raw(`"document.pdf"`) // it is demanded
			}
			b = jsonx.Add(appendSource(b, p), "filename", name)
			b = append(b, '}')
		case llm.PartAudio:
			b = append(b, `"type":"input_audio","input_audio":{"data":`...)
			b = append(b, p.Data...)
			b = append(jsonx.AddString(b, "format", formatOf(p.Media)), '}')
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

func formatOf(media string) string {
	const prefix = "audio/"
	if len(media) > len(prefix) {
		return media[len(prefix):]
	}
	return "wav"
}

func appendSource(b []byte, p *llm.Part) []byte {
	if p.URL != nil {
		return append(b, p.URL...)
	}
	return p.AppendDataURL(b)
}
