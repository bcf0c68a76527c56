// Package gemini translates Google's generateContent to and from what llm holds of a request and an
// answer. It is pure.
package gemini

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Append appends the request for an upstream that speaks generateContent, and returns the names of what
// of it could not be said.
func Append(dst []byte, r *llm.Request, s llm.Sending) (out []byte, stripped []string) {
	w := writer{names: map[string]llm.Raw{}, order: map[string]int{}, third: third(s.Model), noIDs: s.NoCallIDs}
	stripped = r.UnsaidBut("modalities")
	r = r.Addressed()
	b := append(dst, '{')
	if len(r.System) > 0 {
		b = append(b, `"systemInstruction":{"parts":[`...)
		for i := range r.System {
			b = w.part(jsonx.Comma(b), &r.System[i])
		}
		b = append(b, "]}"...)
	}
	b = append(jsonx.AddKey(b, "contents"), '[')
	for i := range r.Messages {
		b = w.turn(b, &r.Messages[i])
	}
	b = append(b, ']')
	stripped = append(stripped, r.Lost(llm.LosesThinking|llm.LosesCache|llm.LosesDetail|llm.LosesNames)...)
	b = appendTools(b, r, s)
	for i := range r.Tools {
		if string(r.Tools[i].Strict) == "true" {
			stripped = append(stripped, "strict")
			break
		}
	}
	b, stripped = appendConfig(b, r, w.third, stripped)
	return append(b, '}'), stripped
}

// third says whether a model is of the third generation or later, which thinks by levels and wants the
// reasoning behind its calls back.
func third(model string) bool {
	_, version, ok := strings.Cut(model, "gemini-")
	return ok && version != "" && version[0] >= '3' && version[0] <= '9'
}

// unverified is Google's word for a call whose reasoning is not at hand.
const unverified = `"skip_thought_signature_validator"`

type writer struct {
	names map[string]llm.Raw // of tools, by the id of the call
	order map[string]int     // of calls, by id
	calls int
	third bool
	noIDs bool // Google goes by names and order then
}

func (w *writer) turn(b []byte, m *llm.Message) []byte {
	role := "user"
	if m.Assistant {
		role = "model"
	}
	parts := m.Parts
	if w.noIDs && !m.Assistant {
		parts = w.inOrder(parts)
	}
	n := 0
	for i := range parts {
		p := &parts[i]
		if p.Kind == llm.PartThinking {
			continue // it could not be told from another provider's
		}
		if n++; n == 1 {
			b = jsonx.AddString(append(jsonx.Comma(b), '{'), "role", role)
			b = append(jsonx.AddKey(b, "parts"), '[')
		}
		b = w.part(jsonx.Comma(b), p)
	}
	if n > 0 {
		b = append(b, "]}"...)
	}
	return b
}

// inOrder puts results into the order of their calls, which is all that tells them apart without ids.
func (w *writer) inOrder(parts []llm.Part) []llm.Part {
	var at []int
	var results []llm.Part
	for i := range parts {
		if parts[i].Kind == llm.PartResult {
			at, results = append(at, i), append(results, parts[i])
		}
	}
	place := func(p llm.Part) int { return w.order[jsonx.RawText(p.ID)] }
	slices.SortStableFunc(results, func(a, b llm.Part) int { return place(a) - place(b) })
	out := slices.Clone(parts)
	for i, to := range at {
		out[to] = results[i]
	}
	return out
}

func (w *writer) part(b []byte, p *llm.Part) []byte {
	b = append(b, '{')
	switch p.Kind {
	case llm.PartText, llm.PartRefusal:
		b = jsonx.Add(b, "text", p.Text)
	case llm.PartImage, llm.PartDocument, llm.PartAudio:
		if p.URL != nil {
			b = append(b, `"fileData":{`...)
			if media := mediaOf(p.URL); media != "" {
				b = jsonx.AddString(b, "mimeType", media)
			}
			b = jsonx.Add(b, "fileUri", p.URL)
		} else {
			b = jsonx.AddString(append(b, `"inlineData":{`...), "mimeType", p.Media)
			b = jsonx.Add(b, "data", p.Data)
		}
		b = append(b, '}')
	case llm.PartCall:
		id := jsonx.RawText(p.ID)
		w.calls++
		w.names[id], w.order[id] = p.Name, w.calls
		b = w.id(append(b, `"functionCall":{`...), p.ID)
		b = jsonx.Add(jsonx.Add(b, "name", p.Name), "args", p.Input)
		b = append(b, '}')
		if w.third {
			b = append(b, `,"thoughtSignature":`+unverified...)
		}
	case llm.PartResult:
		name := w.names[jsonx.RawText(p.ID)]
		if name == nil {
			name = p.ID
		}
		b = w.id(append(b, `"functionResponse":{`...), p.ID)
		b = append(jsonx.Add(b, "name", name), `,"response":{`...)
		key := "output"
		if p.Failed {
			key = "error"
		}
		b = append(paragraphs(jsonx.AddKey(b, key), p.Parts), "}}"...)
		for i := range p.Parts { // what a tool brought besides text stands behind it
			if q := &p.Parts[i]; q.Kind != llm.PartText {
				b = w.part(append(b, "},"...), q)
				b = b[:len(b)-1]
			}
		}
	}
	return append(b, '}')
}

// medias are the types of files by the ends of their addresses. Vertex wants to be told.
var medias = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".webp": "image/webp", ".gif": "image/gif", ".heic": "image/heic", ".heif": "image/heif",
	".pdf": "application/pdf", ".txt": "text/plain", ".mp3": "audio/mpeg", ".wav": "audio/wav", ".mp4": "video/mp4",
}

func mediaOf(address llm.Raw) string {
	u, err := url.Parse(jsonx.RawText(address))
	if err != nil {
		return ""
	}
	return medias[strings.ToLower(path.Ext(u.Path))]
}

func (w *writer) id(b []byte, id llm.Raw) []byte {
	if w.noIDs {
		return b
	}
	return jsonx.Add(b, "id", id)
}

// paragraphs appends the text of all parts as one string.
func paragraphs(b []byte, parts []llm.Part) []byte {
	b = append(b, '"')
	first := true
	for i := range parts {
		if text := parts[i].Text; parts[i].Kind == llm.PartText && llm.Filled(text) {
			if !first {
				b = append(b, `\n\n`...)
			}
			b, first = append(b, text[1:len(text)-1]...), false
		}
	}
	return append(b, '"')
}

func appendTools(b []byte, r *llm.Request, s llm.Sending) []byte {
	if len(r.Tools) == 0 {
		return b
	}
	b = append(jsonx.AddKey(b, "tools"), `[{"functionDeclarations":[`...)
	for i := range r.Tools {
		t := &r.Tools[i]
		b = jsonx.Add(append(jsonx.Comma(b), '{'), "name", t.Name)
		b = jsonx.Add(b, "description", t.Description)
		b = append(jsonx.Add(b, "parametersJsonSchema", t.Schema), '}')
	}
	b = append(b, "]}]"...)
	mode := r.Choice.Mode
	if s.AnyTool && mode != llm.ChoiceUnset {
		mode = llm.ChoiceAuto
	}
	word := [...]string{llm.ChoiceAuto: "AUTO", llm.ChoiceNone: "NONE", llm.ChoiceRequired: "ANY", llm.ChoiceNamed: "ANY"}[mode]
	if mode == llm.ChoiceUnset {
		return b
	}
	b = jsonx.AddString(append(jsonx.AddKey(b, "toolConfig"), `{"functionCallingConfig":{`...), "mode", word)
	if mode == llm.ChoiceNamed {
		b = append(append(append(b, `,"allowedFunctionNames":[`...), llm.OrEmpty(r.Choice.Name)...), ']')
	}
	return append(b, "}}"...)
}

var budgets = map[string]int64{"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 24576, "max": 24576}

func appendConfig(b []byte, r *llm.Request, third bool, stripped []string) ([]byte, []string) {
	start := len(b)
	b = append(jsonx.AddKey(b, "generationConfig"), '{')
	empty := len(b)
	p := &r.Sampling
	if r.MaxTokens > 0 {
		b = jsonx.AddInt(b, "maxOutputTokens", r.MaxTokens)
	}
	b = jsonx.Add(b, "temperature", p.Temperature)
	b = jsonx.Add(b, "topP", p.TopP)
	b = jsonx.Add(b, "topK", p.TopK)
	b = jsonx.Add(b, "seed", p.Seed)
	b = jsonx.Add(b, "frequencyPenalty", p.FrequencyPenalty)
	b = jsonx.Add(b, "presencePenalty", p.PresencePenalty)
	if len(r.Stop) > 0 {
		b = append(jsonx.AddKey(b, "stopSequences"), '[')
		for _, text := range r.Stop {
			b = append(jsonx.Comma(b), text...)
		}
		b = append(b, ']')
	}
	if r.Format.Kind != "" {
		b = jsonx.AddString(b, "responseMimeType", "application/json")
		b = jsonx.Add(b, "responseJsonSchema", r.Format.Schema)
	}
	if r.Modalities != nil {
		b = append(jsonx.AddKey(b, "responseModalities"), '[')
		for _, word := range r.Modalities {
			b = jsonx.AppendString(jsonx.Comma(b), strings.ToUpper(jsonx.RawText(word)))
		}
		b = append(b, ']')
	}
	b = appendThinking(b, &r.Reasoning, third)
	if len(b) == empty {
		b = b[:start]
	} else {
		b = append(b, '}')
	}
	for _, lost := range []struct {
		is   bool
		name string
	}{
		{p.LogProbs != nil && string(p.LogProbs) != "false", "logprobs"}, {p.TopLogProbs != nil, "top_logprobs"}, {p.LogitBias != nil, "logit_bias"},
		{r.Serial, "parallel_tool_calls"}, {llm.Filled(r.User), "user"}, {r.ServiceTier != "" && r.ServiceTier != "auto" && r.ServiceTier != "default", "service_tier"},
	} {
		if lost.is {
			stripped = append(stripped, lost.name)
		}
	}
	return b, stripped
}

func appendThinking(b []byte, t *llm.Reasoning, third bool) []byte {
	effort := t.Effort
	switch {
	case t.Mode == llm.ThinkingOff:
		effort = "none"
	case t.Mode == llm.ThinkingOn && effort == "" && t.Budget == 0:
		return append(jsonx.AddKey(b, "thinkingConfig"), `{"includeThoughts":true}`...)
	case effort == "" && t.Budget == 0:
		return b
	}
	b = append(jsonx.AddKey(b, "thinkingConfig"), '{')
	if effort != "none" {
		b = append(b, `"includeThoughts":true`...)
	}
	if third && effort != "" {
		level := effort
		switch effort {
		case "none":
			level = "minimal" // the least there is
		case "xhigh", "max":
			level = "high"
		}
		return append(jsonx.AddString(b, "thinkingLevel", level), '}')
	}
	budget := t.Budget
	if effort != "" {
		budget = budgets[effort]
	}
	return append(jsonx.AddInt(b, "thinkingBudget", budget), '}')
}
