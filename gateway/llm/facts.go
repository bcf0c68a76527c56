// Package llm is what the gateway knows about a request and an answer without any protocol's client:
// the facts a request is routed by, usage, and the classes of failure. It is pure.
package llm

import "turnout/internal/jsonx"

// Facts is what a chat request says of itself. It is read once; attempts share it and change nothing.
// Offsets point into the body it was parsed from.
type Facts struct {
	Model        string
	Stream       bool
	IncludeUsage bool  // the client asked for the usage chunk
	MaxTokens    int64 // the larger of max_tokens and max_completion_tokens; 0: not given
	N            int64 // choices wanted; 1 if not given

	Tools            bool   // a non-empty tools array
	ToolChoice       string // "" not given, else none, auto, required, named (an object or another word)
	ResponseFormat   string // "" not given, else its type: text, json_object, json_schema, ...
	ReasoningEffort  string // "" not given
	ServiceTier      string // "" not given, else the word (default and auto included)
	WebSearch        bool
	AssistantPrefill bool
	Audio            bool // audio input or output
	Documents        bool
	Images           int

	TextChars int64 // Unicode characters of decoded text in messages
	ToolChars int64 // Unicode characters of the tools array as received

	SessionID      string
	PromptCacheKey string
	User           string

	// Ours, never forwarded.
	Routing        string // auto price throughput latency; "" not given
	FreeModelsOnly bool
	NoReasoning    bool

	Fields []jsonx.Field // the body's top-level fields in order, for byte edits
	At     FieldIndex
}

// FieldIndex says which of Facts.Fields are those the gateway changes, counted from 1; 0: not there.
type FieldIndex struct {
	Model, StreamOptions, ToolChoice, Routing, FreeModelsOnly, NoReasoning int
}

// PromptTokens is the estimate of routing.md 1: round(text/4), halves up, at least 1 for any text,
// plus round(tools/4). Images are left to the mapping's own figure.
func (f *Facts) PromptTokens() int64 {
	text := (f.TextChars + 2) / 4
	if text == 0 && f.TextChars > 0 {
		text = 1
	}
	return text + (f.ToolChars+2)/4
}

// WantsToolChoice says whether the request needs the capability tool_choice: anything but auto and none.
func (f *Facts) WantsToolChoice() bool {
	return f.ToolChoice != "" && f.ToolChoice != "auto" && f.ToolChoice != "none"
}
