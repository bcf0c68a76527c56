// Package bedrock translates Amazon Bedrock's Converse to and from what llm holds of a request and an
// answer. It is pure.
package bedrock

import (
	"regexp"
	"slices"
	"strconv"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Append appends the request for an upstream that speaks Converse, and returns the names of what of it
// could not be said. The model is not in it: it stands in the address. s.Model only tells the family.
func Append(dst []byte, r *llm.Request, s llm.Sending) (out []byte, stripped []string) {
	w := writer{family: familyOf(s.Model), model: s.Model, stripped: append([]string(nil), r.Unsaid...), limit: r.MaxTokens}
	r = r.Addressed()
	w.think(r, s.MaxTokens)
	b := append(dst, '{')
	b = w.system(b, r)
	b = append(jsonx.AddKey(b, "messages"), '[')
	for _, m := range w.turns(r.Messages) {
		b = w.turn(b, &m)
	}
	b = append(b, ']')
	b = w.inference(b, r)
	b = w.tools(b, r, s.AnyTool)
	b = w.additional(b, r, s)
	b = w.output(b, r)
	switch r.ServiceTier {
	case "default", "flex", "priority":
		b = append(jsonx.AddString(append(jsonx.AddKey(b, "serviceTier"), '{'), "type", r.ServiceTier), '}')
	case "", "auto":
	default:
		w.strip("service_tier")
	}
	if llm.Filled(r.User) {
		w.strip("user")
	}
	return append(b, '}'), w.stripped
}

type writer struct {
	family   family
	model    string
	plain    bool           // the model thinks in a way in which it takes no sampling
	limit    int64          // on the answer, tokens; 0: none
	choice   []byte         // tool_choice in Anthropic's words, for what Converse cannot say
	extra    []byte         // further fields for the model itself, with commas between
	names    map[string]int // documents so far, by name
	stripped []string
}

func (w *writer) strip(name string) {
	for _, known := range w.stripped {
		if known == name {
			return
		}
	}
	w.stripped = append(w.stripped, name)
}

func (w *writer) system(b []byte, r *llm.Request) []byte {
	start := len(b)
	b = append(jsonx.AddKey(b, "system"), '[')
	empty := len(b)
	for i := range r.System {
		if p := &r.System[i]; p.Kind == llm.PartText && !blank(p.Text) {
			b = w.cachePoint(w.block(b, p), p)
		}
	}
	if len(b) == empty {
		return b[:start]
	}
	return append(b, ']')
}

// inference appends what Converse has for all models.
func (w *writer) inference(b []byte, r *llm.Request) []byte {
	start := len(b)
	b = append(jsonx.AddKey(b, "inferenceConfig"), '{')
	empty := len(b)
	p := &r.Sampling
	if w.limit > 0 {
		b = jsonx.AddInt(b, "maxTokens", w.limit)
	}
	temperature, topP := p.Temperature, p.TopP
	if w.plain {
		w.drop(temperature, "temperature")
		w.drop(topP, "top_p")
		temperature, topP = nil, nil
	}
	if v, err := strconv.ParseFloat(string(temperature), 64); err == nil && v > 1 {
		temperature = llm.Raw("1") // the most there is
		w.strip("temperature")
	}
	b = jsonx.Add(b, "temperature", temperature)
	b = jsonx.Add(b, "topP", topP)
	if len(r.Stop) > 0 {
		b = append(jsonx.AddKey(b, "stopSequences"), '[')
		for _, text := range r.Stop {
			b = append(jsonx.Comma(b), text...)
		}
		b = append(b, ']')
	}
	if len(b) == empty {
		return b[:start]
	}
	return append(b, '}')
}

func (w *writer) drop(raw llm.Raw, name string) {
	if raw != nil && string(raw) != "false" {
		w.strip(name)
	}
}

// additional appends what only the model's own protocol has words for.
func (w *writer) additional(b []byte, r *llm.Request, s llm.Sending) []byte {
	p := &r.Sampling
	switch {
	case p.TopK == nil:
	case w.family == claude && !w.plain:
		w.extra = jsonx.Add(w.extra, "top_k", p.TopK)
	case (w.family == nova || w.family == nova2) && !w.plain:
		w.extra = append(jsonx.Add(append(w.extra, `,"inferenceConfig":{`...), "topK", p.TopK), '}')
	default:
		w.strip("top_k")
	}
	w.betas(s.Betas)
	w.drop(p.Seed, "seed")
	w.drop(p.FrequencyPenalty, "frequency_penalty")
	w.drop(p.PresencePenalty, "presence_penalty")
	w.drop(p.LogProbs, "logprobs")
	w.drop(p.TopLogProbs, "top_logprobs")
	w.drop(p.LogitBias, "logit_bias")
	if w.choice != nil {
		w.extra = jsonx.Add(w.extra, "tool_choice", w.choice)
	}
	if len(w.extra) > 0 {
		b = append(append(append(jsonx.AddKey(b, "additionalModelRequestFields"), '{'), w.extra[1:]...), '}')
	}
	if w.family == claude && len(r.Stop) > 0 { // which of them it was
		b = append(jsonx.AddKey(b, "additionalModelResponseFieldPaths"), `["/stop_sequence"]`...)
	}
	return b
}

// takes are the models that take a beta.
var takes = map[string]*regexp.Regexp{
	"interleaved-thinking-2025-05-14": regexp.MustCompile(`claude-(?:opus|sonnet|haiku)-[4-9]`),
	"context-1m-2025-08-07":           regexp.MustCompile(`claude-(?:sonnet-[4-9]|opus-4-[6-9]|opus-[5-9])`),
}

// betas asks for those betas that change what a model does with a request as Converse can say it. One
// that Amazon does not know is an error there, so that others, which coding agents send with every
// request, stay behind.
func (w *writer) betas(asked []string) {
	if w.family != claude {
		return
	}
	list := []byte{'['}
	for _, beta := range [...]string{"interleaved-thinking-2025-05-14", "context-1m-2025-08-07"} {
		if slices.Contains(asked, beta) && takes[beta].MatchString(w.model) {
			list = jsonx.AppendString(jsonx.Comma(list), beta)
		}
	}
	if len(list) > 1 {
		w.extra = jsonx.Add(w.extra, "anthropic_beta", append(list, ']'))
	}
}

// output appends the form of the answer: its schema, as a text that holds it.
func (w *writer) output(b []byte, r *llm.Request) []byte {
	if r.Format.Kind != "json_schema" {
		return b
	}
	b = append(jsonx.AddKey(b, "outputConfig"), `{"textFormat":{"type":"json_schema","structure":{"jsonSchema":{`...)
	b = jsonx.Add(b, "name", r.Format.Name)
	return append(jsonx.AddString(b, "schema", string(r.Format.Schema)), "}}}}"...)
}
