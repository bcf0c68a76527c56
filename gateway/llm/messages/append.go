package messages

import (
	"encoding/base64"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Append appends the request for an upstream that speaks Messages, and returns the names of what of it
// could not be said.
func Append(dst []byte, r *llm.Request, s llm.Sending) (out []byte, stripped []string) {
	stripped = append(stripped, r.Unsaid...)
	r = r.Addressed()
	b := jsonx.AddString(append(dst, '{'), "model", s.Model)
	limit := r.MaxTokens
	if limit == 0 {
		limit = s.MaxTokens
	}
	b = jsonx.AddInt(b, "max_tokens", limit)
	b = appendSystem(b, r)
	b = jsonx.AddKey(b, "messages")
	b = append(b, '[')
	unsigned := false
	var last *llm.Message
	for i := range r.Messages {
		b, last = appendTurn(b, &r.Messages[i], last, &unsigned)
	}
	if last != nil {
		b = append(b, "]}"...)
	}
	b = append(b, ']')
	if unsigned {
		stripped = append(stripped, "reasoning_content")
	}
	stripped = append(stripped, r.Lost(llm.LosesDetail)...)
	b, stripped = appendTools(b, r, s, stripped)
	schema, unenforced := enforced(r.Format.Schema)
	stripped = append(stripped, unenforced...)
	thinks, b := appendReasoning(b, r, s, limit, schema)
	if !thinks && (r.Reasoning.Mode == llm.ThinkingOn || r.Reasoning.Effort != "" && r.Reasoning.Effort != "none") {
		stripped = append(stripped, "reasoning_effort")
	}
	b, stripped = appendSampling(b, r, s.Model, thinks, stripped)
	if len(r.Stop) > 0 {
		b = append(jsonx.AddKey(b, "stop_sequences"), '[')
		for _, text := range r.Stop {
			b = append(jsonx.Comma(b), text...)
		}
		b = append(b, ']')
	}
	if llm.Filled(r.User) {
		b = append(jsonx.Add(append(jsonx.AddKey(b, "metadata"), '{'), "user_id", r.User), '}')
	}
	switch r.ServiceTier {
	case "auto", "priority":
		b = jsonx.AddString(b, "service_tier", "auto")
	case "default":
		b = jsonx.AddString(b, "service_tier", "standard_only")
	case "":
	default:
		stripped = append(stripped, "service_tier")
	}
	if r.Stream {
		b = append(b, `,"stream":true`...)
	}
	return append(b, '}'), stripped
}

func appendSystem(b []byte, r *llm.Request) []byte {
	start := len(b)
	b = append(jsonx.AddKey(b, "system"), '[')
	empty := len(b)
	for i := range r.System {
		if p := &r.System[i]; p.Kind == llm.PartText && !blank(p.Text) {
			b = appendBlock(jsonx.Comma(b), p)
		}
	}
	if len(b) == empty {
		return b[:start]
	}
	return append(b, ']')
}

// appendTurn appends what a turn says to the message before it where both are of one role, else as a
// message of its own. The message is left open.
func appendTurn(b []byte, m, last *llm.Message, unsigned *bool) ([]byte, *llm.Message) {
	for i := range m.Parts {
		p := &m.Parts[i]
		switch {
		case p.Kind == llm.PartThinking && !llm.Filled(p.Signature) && !llm.Filled(p.Redacted):
			*unsigned = true // Anthropic takes back its own reasoning only
			continue
		case p.Kind == llm.PartAudio:
			continue // a request with audio is not sent here
		case p.Kind == llm.PartText && blank(p.Text):
			continue // Anthropic refuses it
		}
		if last == nil || last.Assistant != m.Assistant {
			if last != nil {
				b = append(b, "]}"...)
			}
			role := `{"role":"user","content":[`
			if m.Assistant {
				role = `{"role":"assistant","content":[`
			}
			b, last = append(jsonx.Comma(b), role...), m
		}
		b = appendBlock(jsonx.Comma(b), p)
	}
	return b, last
}

// blank says whether a raw string holds nothing but white space.
func blank(text llm.Raw) bool { return strings.TrimSpace(jsonx.RawText(text)) == "" }

func appendBlock(b []byte, p *llm.Part) []byte {
	b = append(b, '{')
	switch p.Kind {
	case llm.PartText, llm.PartRefusal:
		b = jsonx.Add(jsonx.AddString(b, "type", "text"), "text", p.Text)
	case llm.PartImage:
		b = appendSource(jsonx.AddString(b, "type", "image"), p)
	case llm.PartDocument:
		b = appendSource(jsonx.AddString(b, "type", "document"), p)
		b = jsonx.Add(b, "title", p.Name)
	case llm.PartThinking:
		if llm.Filled(p.Redacted) {
			b = jsonx.Add(jsonx.AddString(b, "type", "redacted_thinking"), "data", p.Redacted)
			break
		}
		b = jsonx.Add(jsonx.AddString(b, "type", "thinking"), "thinking", p.Text)
		b = jsonx.Add(b, "signature", p.Signature)
	case llm.PartCall:
		b = jsonx.Add(jsonx.AddString(b, "type", "tool_use"), "id", llm.NarrowCallID(p.ID))
		b = jsonx.Add(b, "name", p.Name)
		b = jsonx.Add(b, "input", p.Input)
	case llm.PartResult:
		b = jsonx.Add(jsonx.AddString(b, "type", "tool_result"), "tool_use_id", llm.NarrowCallID(p.ID))
		b = append(jsonx.AddKey(b, "content"), '[')
		for i := range p.Parts {
			b = appendBlock(jsonx.Comma(b), &p.Parts[i])
		}
		b = append(b, ']')
		if p.Failed {
			b = append(b, `,"is_error":true`...)
		}
	}
	b = jsonx.Add(b, "cache_control", p.Cache)
	return append(b, '}')
}

func appendSource(b []byte, p *llm.Part) []byte {
	b = append(jsonx.AddKey(b, "source"), '{')
	if p.URL != nil {
		return append(jsonx.Add(jsonx.AddString(b, "type", "url"), "url", p.URL), '}')
	}
	if p.Kind == llm.PartDocument && strings.HasPrefix(p.Media, "text/") {
		if text, err := base64.StdEncoding.DecodeString(jsonx.RawText(p.Data)); err == nil && utf8.Valid(text) {
			b = jsonx.AddString(jsonx.AddString(b, "type", "text"), "media_type", "text/plain")
			return append(jsonx.AddString(b, "data", string(text)), '}')
		}
	}
	b = jsonx.AddString(jsonx.AddString(b, "type", "base64"), "media_type", p.Media)
	return append(jsonx.Add(b, "data", p.Data), '}')
}

// typed is a tool's schema with the type that Anthropic demands.
func typed(schema llm.Raw) llm.Raw {
	if jsonx.KindOf(schema) != jsonx.Object {
		return llm.Raw(`{"type":"object","properties":{}}`)
	}
	var c jsonx.Cursor
	c.ResetLoose(schema)
	found, first := false, -1
	for f := c.Object(); c.Next(&f); {
		found = found || string(f.Key) == "type"
		if first < 0 {
			first = f.KeyStart
		}
	}
	switch {
	case found:
		return schema
	case first < 0:
		return llm.Raw(`{"type":"object","properties":{}}`)
	}
	return append(llm.Raw(`{"type":"object",`), schema[first:]...)
}

func appendTools(b []byte, r *llm.Request, s llm.Sending, stripped []string) ([]byte, []string) {
	if len(r.Tools) == 0 {
		return b, stripped
	}
	b = append(jsonx.AddKey(b, "tools"), '[')
	for i := range r.Tools {
		t := &r.Tools[i]
		b = jsonx.Add(append(jsonx.Comma(b), '{'), "name", t.Name)
		b = jsonx.Add(b, "description", t.Description)
		schema := typed(t.Schema)
		strict := string(t.Strict) == "true"
		if strict {
			var left []string
			schema, left = enforced(schema)
			for _, keyword := range left {
				if !slices.Contains(stripped, keyword) {
					stripped = append(stripped, keyword)
				}
			}
		}
		b = jsonx.Add(b, "input_schema", schema)
		if strict {
			b = jsonx.Add(b, "strict", t.Strict)
		}
		b = append(jsonx.Add(b, "cache_control", t.Cache), '}')
	}
	b = append(b, ']')
	mode := r.Choice.Mode
	if s.AnyTool && mode != llm.ChoiceUnset {
		mode = llm.ChoiceAuto
	}
	word := map[llm.ChoiceMode]string{
		llm.ChoiceUnset: "auto", llm.ChoiceAuto: "auto", llm.ChoiceNone: "none", llm.ChoiceRequired: "any", llm.ChoiceNamed: "tool",
	}[mode]
	if mode == llm.ChoiceUnset && !r.Serial {
		return b, stripped
	}
	b = jsonx.AddString(append(jsonx.AddKey(b, "tool_choice"), '{'), "type", word)
	if mode == llm.ChoiceNamed {
		b = jsonx.Add(b, "name", r.Choice.Name)
	}
	if r.Serial && mode != llm.ChoiceNone {
		b = append(b, `,"disable_parallel_tool_use":true`...)
	}
	return append(b, '}'), stripped
}

// appendReasoning appends how the model is to think and in which form it is to answer, and says whether
// it thinks.
func appendReasoning(b []byte, r *llm.Request, s llm.Sending, limit int64, schema llm.Raw) (thinks bool, out []byte) {
	t := Think(r, s.Model, limit)
	switch {
	case t.Budget > 0:
		b = append(jsonx.AddInt(append(b, `,"thinking":{"type":"enabled"`...), "budget_tokens", t.Budget), '}')
	case t.On:
		b = append(b, `,"thinking":{"type":"adaptive"}`...)
	}
	if t.Effort == "" && r.Format.Kind != "json_schema" {
		return t.On, b
	}
	b = append(jsonx.AddKey(b, "output_config"), '{')
	if t.Effort != "" {
		b = jsonx.AddString(b, "effort", t.Effort)
	}
	if r.Format.Kind == "json_schema" {
		b = append(jsonx.Add(append(jsonx.AddKey(b, "format"), `{"type":"json_schema"`...), "schema", schema), '}')
	}
	return t.On, append(b, '}')
}

// appendSampling appends what Anthropic knows of sampling. Where the model thinks it takes none, Claude
// from 4.7 on never does, and from 4.1 on either temperature or top_p.
func appendSampling(b []byte, r *llm.Request, model string, thinks bool, stripped []string) ([]byte, []string) {
	p := &r.Sampling
	claude := strings.Contains(model, "claude-")
	none := thinks || claude && From(model, 4, 7)
	topP := p.TopP
	if claude && From(model, 4, 1) && p.Temperature != nil {
		topP = nil
	}
	drop := func(raw llm.Raw, name string) {
		if raw != nil && string(raw) != "false" {
			stripped = append(stripped, name)
		}
	}
	keep := func(raw llm.Raw, name string) {
		if none {
			drop(raw, name)
			return
		}
		b = jsonx.Add(b, name, raw)
	}
	if v, err := strconv.ParseFloat(string(p.Temperature), 64); err == nil && v > 1 && !none {
		b = jsonx.Add(b, "temperature", llm.Raw("1")) // the most it takes
		stripped = append(stripped, "temperature")
	} else {
		keep(p.Temperature, "temperature")
	}
	if topP == nil {
		drop(p.TopP, "top_p")
	}
	keep(topP, "top_p")
	keep(p.TopK, "top_k")
	drop(p.Seed, "seed")
	drop(p.FrequencyPenalty, "frequency_penalty")
	drop(p.PresencePenalty, "presence_penalty")
	drop(p.LogProbs, "logprobs")
	drop(p.TopLogProbs, "top_logprobs")
	drop(p.LogitBias, "logit_bias")
	return b, stripped
}
