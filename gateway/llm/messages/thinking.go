package messages

import (
	"strconv"
	"strings"

	"turnout/gateway/llm"
)

// leastBudget is the smallest budget that Anthropic takes.
const leastBudget = 1024

var budgets = map[string]int64{"minimal": 1024, "low": 2048, "medium": 8192, "high": 24576, "xhigh": 32768, "max": 49152}

// Thinking is how a Claude model is told to think.
type Thinking struct {
	On     bool
	Budget int64  // tokens; 0: as it sees fit
	Effort string // low medium high xhigh max; "" none
}

// Think plans a request's thinking for a Claude model whose answer may have limit tokens.
func Think(r *llm.Request, model string, limit int64) (t Thinking) {
	w := &r.Reasoning
	wanted := w.Mode == llm.ThinkingOn || w.Mode == llm.ThinkingUnset && w.Effort != "" && w.Effort != "none"
	if !wanted || !canThink(r) {
		return t
	}
	if Adaptive(model) {
		t.On, t.Effort = true, w.Effort
		if t.Effort == "minimal" {
			t.Effort = "low"
		}
		return t
	}
	budget := w.Budget
	if budget == 0 {
		if budget = budgets[w.Effort]; budget == 0 {
			budget = budgets["medium"]
		}
	}
	if budget = min(budget, limit-1); budget >= leastBudget {
		t.On, t.Budget = true, budget
	}
	return t
}

// canThink: Anthropic refuses to think where a tool is forced, and where the tool calls of the turn
// under way come without the reasoning before them.
func canThink(r *llm.Request) bool {
	if r.Choice.Mode == llm.ChoiceRequired || r.Choice.Mode == llm.ChoiceNamed {
		return false
	}
	for i := len(r.Messages) - 1; i >= 0; i-- {
		m := &r.Messages[i]
		if !m.Assistant {
			if hasKind(m.Parts, llm.PartResult) {
				continue
			}
			return true
		}
		if hasKind(m.Parts, llm.PartCall) {
			first := &m.Parts[0]
			return first.Kind == llm.PartThinking && (llm.Filled(first.Signature) || llm.Filled(first.Redacted))
		}
		return true
	}
	return true
}

func hasKind(parts []llm.Part, kind llm.PartKind) bool {
	for i := range parts {
		if parts[i].Kind == kind {
			return true
		}
	}
	return false
}

// Adaptive says whether a model decides itself how long it thinks: Claude from 4.6 on.
func Adaptive(model string) bool { return From(model, 4, 6) }

// From says whether a model is Claude of a version or later; a name without a version is of the latest.
func From(model string, major, minor int) bool {
	i := strings.Index(model, "claude-")
	if i < 0 {
		return true
	}
	words := strings.FieldsFunc(model[i+len("claude-"):], func(r rune) bool { return r == '-' || r == '.' || r == '@' || r == ':' })
	var version [2]int
	n := 0
	for _, w := range words {
		if v, err := strconv.Atoi(w); err == nil && v < 100 && n < len(version) {
			version[n] = v
			n++
		}
	}
	return n == 0 || version[0] > major || version[0] == major && version[1] >= minor
}
