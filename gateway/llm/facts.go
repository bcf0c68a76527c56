// Package llm is what the gateway knows about a request and an answer without any protocol's client:
// the facts a request is routed by, usage, and the classes of failure. It is pure.
package llm

import (
	"slices"

	"turnout/internal/jsonx"
)

// Facts is what a request says of itself, whatever the surface. It is read once; attempts share it and change nothing.
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

	Thinking bool // asks to reason without naming an effort
	// Own are the words of what the request holds that no other protocol can say (a file by its id, a
	// server's tool): resource.Cap*, so that a mapping behind a translation is no candidate. nil: nothing.
	Own []string
	// Linked are the words (resource.Cap*) of what the request holds by its address, not as data. nil:
	// nothing.
	Linked []string
	// Inward are those of Linked whose address is a loopback or private one.
	Inward []string
	// Replayed is the last reasoning payload in the conversation that only its issuer can read, as it
	// stands in the body; nil: none.
	Replayed []byte
	// Unsigned is reasoning that no issuer knows: blocks without a signature, and items that a translation
	// told. Commas are included: Key to End is what is to be left out where its like is refused.
	Unsigned []jsonx.Field

	TextChars int64 // Unicode characters of decoded text in messages
	ToolChars int64 // Unicode characters of the tools array as received
	Tokens    int64 // input that came as token ids
	Base64    bool  // embeddings are wanted as base64

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
// plus round(tools/4), plus token ids as they are. Images are left to the mapping's own figure.
func (f *Facts) PromptTokens() int64 {
	text := (f.TextChars + 2) / 4
	if text == 0 && f.TextChars > 0 {
		text = 1
	}
	return text + (f.ToolChars+2)/4 + f.Tokens
}

// own notes something that only the surface's own protocol can say.
func (f *Facts) own(capability string) { note(&f.Own, capability) }

func note(words *[]string, word string) {
	if !slices.Contains(*words, word) {
		*words = append(*words, word)
	}
}

// WantsToolChoice says whether the request needs the capability tool_choice: anything but auto and none.
func (f *Facts) WantsToolChoice() bool {
	return f.ToolChoice != "" && f.ToolChoice != "auto" && f.ToolChoice != "none"
}
