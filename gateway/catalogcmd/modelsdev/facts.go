package modelsdev

import (
	"cmp"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"

	"turnout/schemas/resource"
)

// cost is a price as models.dev has it: USD per 1M tokens. Several spellings of one field occur.
type cost struct {
	Input       json.Number `json:"input"`
	Output      json.Number `json:"output"`
	CacheRead   json.Number `json:"cache_read"`
	CacheInput  json.Number `json:"cache_input"`
	CachedInput json.Number `json:"cached_input"`
	CacheWrite  json.Number `json:"cache_write"`
	CachedWrite json.Number `json:"cached_write"`
	InputAudio  json.Number `json:"input_audio"`
	OutputAudio json.Number `json:"output_audio"`
	Reasoning   json.Number `json:"reasoning"`
	Request     json.Number `json:"request"` // per 1,000 requests
	Citation    json.Number `json:"citation"`
	Tiers       []struct {
		Tier struct {
			Size int64  `json:"size"`
			Type string `json:"type"`
		} `json:"tier"`
		cost
	} `json:"tiers"`
}

func (c *cost) price() (resource.Price, []resource.PriceTier, []string, error) {
	price, err := c.rates()
	if err != nil {
		return price, nil, nil, err
	}
	var notes []string
	if c.Reasoning != "" && c.Reasoning != c.Output {
		notes = append(notes, "reasoning is priced apart: the price of output is used")
	}
	if price.CachedInput != nil && *price.CachedInput > price.Input {
		price.CachedInput = nil
		notes = append(notes, "cached input is dearer than input: left out")
	}
	if c.Citation != "" {
		notes = append(notes, "citations are priced apart: left out")
	}
	var tiers []resource.PriceTier
	for _, t := range c.Tiers {
		if t.Tier.Size <= 0 || t.Tier.Type != "" && t.Tier.Type != "context" {
			notes = append(notes, "a price tier that is not by length of input: left out")
			continue
		}
		p, err := t.rates()
		if err != nil {
			return price, nil, nil, err
		}
		tiers = append(tiers, resource.PriceTier{Above: t.Tier.Size, Price: p})
	}
	slices.SortFunc(tiers, func(a, b resource.PriceTier) int { return cmp.Compare(a.Above, b.Above) })
	tiers = slices.CompactFunc(tiers, func(a, b resource.PriceTier) bool { return a.Above == b.Above })
	return price, tiers, notes, nil
}

func (c *cost) rates() (resource.Price, error) {
	var p resource.Price
	if c.Input == "" {
		return p, errors.New("none for input")
	}
	var err error
	read := func(first ...json.Number) resource.Rate {
		for _, n := range first {
			if n == "" {
				continue
			}
			rate, parseErr := resource.ParseRate(n.String())
			if parseErr != nil {
				err = parseErr
			}
			return rate
		}
		return 0
	}
	// A price of 0 for a part, where input costs something, means that models.dev does not know.
	part := func(first ...json.Number) *resource.Rate {
		rate := read(first...)
		if rate == 0 {
			return nil
		}
		return &rate
	}
	p.Input, p.Output = read(c.Input), read(c.Output)
	p.CachedInput = part(c.CacheRead, c.CachedInput, c.CacheInput)
	p.CacheWrite = part(c.CacheWrite, c.CachedWrite)
	p.AudioInput, p.AudioOutput = part(c.InputAudio), part(c.OutputAudio)
	if thousand := part(c.Request); thousand != nil {
		each := *thousand / 1000
		p.Request = &each
	}
	return p, err
}

var embeds = regexp.MustCompile(`(embed|bge-|nv-embed|gemma2$)`)

// textAlone are models that models.dev says draw and speak, and that answer in text alone.
var textAlone = regexp.MustCompile(`^gpt-5\.1(-|$)`)

// textOutput is what text costs of models that write and draw: models.dev has the price of drawing alone.
var textOutput = map[string]resource.Rate{
	"gemini-2.5-flash-image":         2_500_000_000,
	"gemini-3-pro-image-preview":     12_000_000_000,
	"gemini-3.1-flash-image-preview": 3_000_000_000,
}

// splitImages makes the price of drawing one of its own where text is known to cost less.
func splitImages(id string, p *resource.Price) {
	text, ok := textOutput[id]
	if !ok || p.Output <= text {
		return
	}
	images := p.Output
	p.ImageOutput, p.Output = &images, text
}

func outputs(m model) []string {
	if embeds.MatchString(strings.ToLower(m.ID)) {
		return []string{"embedding"}
	}
	if textAlone.MatchString(strings.ToLower(m.ID)) {
		return []string{"text"}
	}
	var out []string
	for _, o := range m.Modalities.Output {
		switch o {
		case "text", "image", "audio":
			out = append(out, o)
		}
	}
	if !slices.Contains(out, "text") {
		return nil // a picture or speech alone is no answer to a chat
	}
	return out
}

// oldPrefill are the generations of Claude that continue an answer that was begun for them.
var oldPrefill = regexp.MustCompile(`claude-(3|opus-4-[015]|opus-4[@-]2|sonnet-4-[05]|sonnet-4[@-]2|haiku-4-5)`)

// abilities are the capabilities that models.dev's facts support. JSON without a schema goes with
// tools: there is no provider that has one without the other.
func abilities(m model, s service, output []string) []string {
	out := []string{}
	add := func(when bool, words ...string) {
		if when {
			out = append(out, words...)
		}
	}
	in := m.Modalities.Input
	add(slices.Contains(in, "image"), resource.CapVision)
	add(slices.Contains(in, "audio"), resource.CapAudio)
	add(slices.Contains(in, "pdf"), resource.CapDocuments)
	add(m.ToolCall, resource.CapTools, resource.CapToolChoice)
	structured := m.StructuredOutput != nil && *m.StructuredOutput
	add((m.ToolCall || structured) && slices.Contains(output, "text"), resource.CapJSONObject)
	add(structured, resource.CapJSONSchema)
	add(m.Reasoning, resource.CapReasoning)
	add(s.n, resource.CapN)
	add(oldPrefill.MatchString(m.ID) && s.protocol != resource.ProtocolOpenAI, resource.CapAssistantPrefill)
	return out
}

var knownEfforts = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}

func efforts(m model) []string {
	var out []string
	for _, option := range m.ReasoningOptions {
		if option.Type != "effort" {
			continue
		}
		for _, value := range option.Values {
			if value != nil && slices.Contains(knownEfforts, *value) && !slices.Contains(out, *value) {
				out = append(out, *value)
			}
		}
	}
	return out
}
