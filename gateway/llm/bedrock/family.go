package bedrock

import (
	"strings"

	"turnout/gateway/llm"
	"turnout/gateway/llm/messages"
	"turnout/internal/jsonx"
)

// family is whose model it is, as far as Converse differs by it.
type family uint8

const (
	other family = iota
	claude
	nova
	nova2 // it can reason
	gptOSS
)

func familyOf(model string) family {
	switch {
	case strings.Contains(model, "claude"):
		return claude
	case strings.Contains(model, "nova-2"):
		return nova2
	case strings.Contains(model, "nova-"):
		return nova
	case strings.Contains(model, "gpt-oss"):
		return gptOSS
	}
	return other
}

// caches says whether a model takes cache points; others refuse a request with one.
func (f family) caches() bool { return f == claude || f == nova || f == nova2 }

// tellsFailure says whether a model takes the status of a tool's result.
func (f family) tellsFailure() bool { return f.caches() }

// strict says whether the arguments of a model's tool calls can be held to their schema.
func (w *writer) strict() bool {
	switch w.family {
	case claude:
		return messages.From(w.model, 4, 5)
	case nova, nova2:
		return false
	}
	return !strings.Contains(w.model, "llama")
}

// think notes how the model is to think, in its own words for it.
func (w *writer) think(r *llm.Request, limit int64) {
	if w.family == claude {
		if r.MaxTokens > 0 {
			limit = r.MaxTokens
		}
		w.claudeThinks(r, limit)
		return
	}
	t := &r.Reasoning
	if t.Mode == llm.ThinkingOff || t.Effort == "none" || t.Mode == llm.ThinkingUnset && t.Effort == "" {
		return
	}
	effort := t.Effort
	switch effort { // the three words that all have
	case "minimal":
		effort = "low"
	case "xhigh", "max":
		effort = "high"
	case "":
		effort = "medium"
	}
	switch w.family {
	case gptOSS:
		w.extra = jsonx.AddString(w.extra, "reasoning_effort", effort)
	case nova2:
		if effort == "high" && w.limit > 0 {
			effort = "medium" // with high effort it takes no limit, nor sampling
		}
		w.plain = effort == "high"
		w.extra = append(jsonx.AddString(append(w.extra, `,"reasoningConfig":{"type":"enabled"`...), "maxReasoningEffort", effort), '}')
	default:
		w.strip("reasoning_effort")
	}
}

func (w *writer) claudeThinks(r *llm.Request, limit int64) {
	t := messages.Think(r, w.model, limit)
	w.plain = t.On
	switch {
	case t.Budget > 0:
		w.limit = limit // the budget is a part of it
		w.extra = append(jsonx.AddInt(append(w.extra, `,"thinking":{"type":"enabled"`...), "budget_tokens", t.Budget), '}')
	case t.On:
		w.extra = append(w.extra, `,"thinking":{"type":"adaptive"}`...)
	case r.Reasoning.Mode == llm.ThinkingOn, r.Reasoning.Effort != "" && r.Reasoning.Effort != "none":
		w.strip("reasoning_effort")
	}
	if t.Effort != "" {
		w.extra = append(jsonx.AddString(append(w.extra, `,"output_config":{`...), "effort", t.Effort), '}')
	}
}
