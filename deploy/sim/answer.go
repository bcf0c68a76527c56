package sim

import (
	"strings"
	"unicode/utf8"
)

// fillerTokens is how many tokens of made-up text there are; an answer is a piece of it.
const (
	fillerTokens = 1 << 17
	fillerStarts = 1 << 12
	maxOutput    = fillerTokens - fillerStarts
)

// filler is words of one token each: three letters and a space. Nothing in it needs escaping in JSON.
var filler = func() string {
	words := strings.Fields("the old red car ran far off and six men sat now one big dog saw her cat eat our pie how can you get any tea for two was his own idea not bad but way too hot may all ice sky sun sea")
	var b strings.Builder
	b.Grow(fillerTokens * charsPerToken)
	for i := range uint64(fillerTokens) {
		b.WriteString((words[mix(i)%uint64(len(words))] + "  ")[:3])
		b.WriteByte(' ')
	}
	return b.String()
}()

func fillerText(start uint64, tokens int) string {
	at := int(start%fillerStarts) * charsPerToken
	return filler[at : at+tokens*charsPerToken]
}

// answer is everything a call will say.
type answer struct {
	choices   int
	reasoning string // of every choice
	texts     []string
	tool      string // the function's name; texts are its arguments
	finish    string

	promptTokens, cachedTokens       int
	outputTokens, reasoningPerChoice int // output of all choices, reasoning included
}

// answerTo decides what is said. length is the natural length of an answer in tokens.
func answerTo(r *chatRequest, m *Model, d draw, length int) (*answer, error) {
	a := &answer{choices: r.choices(), finish: "stop"}
	limit := r.limit()
	if limit == 0 {
		limit = maxOutput
	}
	tool, err := r.forcedTool()
	if err != nil {
		return nil, err
	}
	literal := ""
	switch {
	case tool != nil:
		a.tool, a.finish, literal = tool.Function.Name, "tool_calls", tool.Function.Parameters.sample()
	case r.ResponseFormat != nil && r.ResponseFormat.Type == "json_schema" && r.ResponseFormat.JSONSchema != nil:
		literal = r.ResponseFormat.JSONSchema.Schema.sample()
	case r.ResponseFormat != nil && r.ResponseFormat.Type == "json_object":
		literal = `{"answer":"sim"}`
	}
	if literal != "" {
		text := literal
		if CountTokens(text) > limit {
			text, a.finish = cutText(text, limit), "length"
		}
		for range a.choices {
			a.texts = append(a.texts, text)
		}
		a.outputTokens = a.choices * CountTokens(text)
		return a, nil
	}
	total := max(length, r.MinTokens, 1)
	if limit <= total && (r.limit() > 0) {
		a.finish = "length"
	}
	total = min(total, limit, maxOutput)
	if m.Reasoning && r.ReasoningEffort != "none" {
		a.reasoningPerChoice = (total + 1) / 2
		a.reasoning = fillerText(d.bits(chanceText)+97, a.reasoningPerChoice)
	}
	for i := range a.choices {
		a.texts = append(a.texts, fillerText(d.bits(chanceText)+uint64(i)*31, total-a.reasoningPerChoice))
	}
	a.outputTokens = a.choices * total
	return a, nil
}

func cutText(s string, tokens int) string {
	size, _ := head(s, tokens*charsPerToken, false)
	return s[:size]
}

// pieces cuts a text into what single events carry.
func pieces(s string, tokens int) []string {
	var out []string
	ascii := utf8.RuneCountInString(s) == len(s)
	for len(s) > 0 {
		size, _ := head(s, tokens*charsPerToken, ascii)
		out = append(out, s[:size])
		s = s[size:]
	}
	return out
}
