package llm

import (
	"encoding/json"
	"slices"
	"strconv"

	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

// Raw is a JSON value as it stood in a body, so that what is only carried over keeps its bytes.
type Raw = json.RawMessage

// Request is a request for text as it means the same in every protocol. Decoders of surfaces make it,
// appenders of protocols write it. Strings that are only carried over stay raw, quotes included.
type Request struct {
	Stream       bool
	IncludeUsage bool // the client asked to see usage in the stream
	System       []Part
	Messages     []Message
	Tools        []Tool
	Choice       Choice
	Serial       bool // one tool call at a time
	Format       Format
	MaxTokens    int64 // 0: not given
	Sampling     Sampling
	Stop         []Raw // strings
	Reasoning    Reasoning
	User         Raw // string: the client's id of its user
	ServiceTier  string
	Verbosity    Raw   // string: chat alone has a word for it, so Unsaid names it too
	Modalities   []Raw // strings: Gemini alone has words for them, so Unsaid names them too
	// Unsaid are the fields that only the surface's own protocol can say.
	Unsaid []string
	// Sealed: the client wants reasoning that only its issuer can read, to bring it back.
	Sealed bool
	// Echo are fields that the surface's answers repeat, as they came.
	Echo map[string]Raw
}

// Addressed is the request with somebody to answer: where only the system speaks it speaks as a user,
// since other protocols than OpenAI's demand one.
func (r *Request) Addressed() *Request {
	if len(r.Messages) > 0 || len(r.System) == 0 {
		return r
	}
	out := *r
	out.System, out.Messages = nil, []Message{{Parts: r.System}}
	return &out
}

// mostUnsaid is how many fields are named that could not be said: enough for anybody's, and nothing that
// a body of nothing else could make long.
const mostUnsaid = 64

// Leave notes a field that only the surface's own protocol can say.
func (r *Request) Leave(field string) {
	if len(r.Unsaid) < mostUnsaid && !slices.Contains(r.Unsaid, field) {
		r.Unsaid = append(r.Unsaid, field)
	}
}

// UnsaidBut is a copy of Unsaid without the fields that a protocol has words for after all.
func (r *Request) UnsaidBut(fields ...string) (names []string) {
	for _, name := range r.Unsaid {
		if !slices.Contains(fields, name) {
			names = append(names, name)
		}
	}
	return names
}

// Sampling are parameters that are carried over as they stand, nil where not given.
type Sampling struct {
	Temperature, TopP, TopK, Seed, FrequencyPenalty, PresencePenalty, LogProbs, TopLogProbs, LogitBias Raw
}

// Reasoning is how a model is to think.
type Reasoning struct {
	Mode   ThinkingMode
	Effort string // none minimal low medium high xhigh max; "" not given
	Budget int64  // tokens; 0: not given
}

// ThinkingMode says whether a model thinks, where the client said so.
type ThinkingMode uint8

// The modes.
const (
	ThinkingUnset ThinkingMode = iota
	ThinkingOff
	ThinkingOn // within the budget, or as much as the model sees fit
)

// Message is one turn. The answers to tool calls are parts of a user's turn.
type Message struct {
	Assistant bool
	Parts     []Part
}

// PartKind says what a part of a message is.
type PartKind uint8

// The kinds.
const (
	PartText PartKind = iota + 1
	PartImage
	PartDocument
	PartAudio
	PartCall     // a tool call of the model's
	PartResult   // what a tool call brought
	PartThinking // the model's reasoning
	PartRefusal  // text in which the model refuses
)

// Part is one piece of a message; which fields count depends on the kind.
type Part struct {
	Kind      PartKind
	Text      Raw    // string: text, reasoning, refusal, a document that is text
	Media     string // MIME type of Data
	Data      Raw    // string: base64
	URL       Raw    // string: where the image or document is
	Name      Raw    // string: of the tool or the file
	ID        Raw    // string: of the tool call
	Input     Raw    // object: arguments of the call
	Parts     []Part // of the result
	Failed    bool   // the call ended in an error
	Signature Raw    // string: by which the issuer knows its reasoning
	Redacted  Raw    // string: reasoning that only the issuer can read
	Cache     Raw    // object: cache_control
	Detail    Raw    // string: how closely an image is looked at
	At        int    // of the system's: how many messages stand before it
}

// ToolKind says how a surface has a tool that upstreams know as a function.
type ToolKind uint8

// The kinds.
const (
	ToolFunction ToolKind = iota
	ToolFreeform          // takes a text, which as a function's argument is called input
	ToolSearch            // finds more tools; the client runs it
)

// Tool is a function that the model may call.
type Tool struct {
	Kind        ToolKind
	Space       Raw // string: the client's namespace, which the Name begins with; nil: none
	Own         Raw // string: the name in there
	Name        Raw // string
	Description Raw // string or nil
	Schema      Raw // object or nil
	Strict      Raw // boolean or nil
	Cache       Raw // object: cache_control
}

// ChoiceMode says whether the model has to call a tool.
type ChoiceMode uint8

// The modes.
const (
	ChoiceUnset ChoiceMode = iota
	ChoiceAuto
	ChoiceNone
	ChoiceRequired
	ChoiceNamed
)

// Choice of a tool.
type Choice struct {
	Mode ChoiceMode
	Name Raw // string: of the tool, for ChoiceNamed
}

// Format of the answer's text. Kind is "" for any, json_object, or json_schema.
type Format struct {
	Kind   string
	Name   Raw // string or nil
	Schema Raw // object
	Strict Raw // boolean or nil
}

// Finish is why an answer ended.
type Finish string

// The reasons.
const (
	FinishNone     Finish = ""
	FinishStop     Finish = "stop"
	FinishSequence Finish = "sequence" // at one of the request's stop sequences
	FinishLength   Finish = "length"
	FinishTools    Finish = "tools"
	FinishFilter   Finish = "filter"
)

// Response is a whole answer as it means the same in every protocol.
type Response struct {
	ID       Raw // string
	Parts    []Part
	Finish   Finish
	Upstream string // the reason as the upstream wrote it
	Sequence Raw    // string: the stop sequence met, or nil
	Usage    Usage
}

// NameCalls gives an id to calls of tools that came without one, and says whether there are any calls.
func (r *Response) NameCalls() bool {
	calls := 0
	for i := range r.Parts {
		if p := &r.Parts[i]; p.Kind == PartCall {
			if !Filled(p.ID) {
				p.ID = CallID(r.ID, calls)
			}
			calls++
		}
	}
	return calls > 0
}

// CallID is an id for the nth tool call, from 0, of an answer, where it came without one: other protocols
// cannot do without, and none may stand twice in a conversation.
func CallID(answer Raw, n int) Raw {
	return jsonx.AppendString(nil, "call_"+jsonx.RawText(answer)+"_"+strconv.Itoa(n))
}

// EventKind says what an event of a stream brings.
type EventKind uint8

// The kinds.
const (
	EventStart     EventKind = iota + 1 // ID
	EventText                           // Text
	EventThinking                       // Text
	EventSignature                      // Text: of the reasoning that came before
	EventRedacted                       // Text: reasoning that only the issuer can read
	EventRefusal                        // Text
	EventCall                           // Index, ID, Name: a tool call begins
	EventArguments                      // Index, Text: a piece of its arguments
	EventFinish                         // Finish, Upstream, Sequence
	EventImage                          // Media, Text: base64
)

// Event is one step of a streamed answer. Its raw fields are valid until the next is read.
type Event struct {
	Kind     EventKind
	Index    int // of the tool call, from 0
	ID       Raw
	Name     Raw
	Text     Raw // string: a piece
	Media    string
	Finish   Finish
	Upstream string
	Sequence Raw
}

// Stamp is what an answer of ours says of itself.
type Stamp struct {
	ID      string // of the request; unique
	Model   string // the catalogue's
	Created int64  // Unix seconds
	Tools   []Tool // of the request, for a surface that says calls of some otherwise than of functions
	Echo    map[string]Raw
	Sealed  bool
}

// OrEmpty is the raw string, or an empty one where there is none.
func OrEmpty(raw Raw) Raw {
	if raw == nil {
		return Raw(`""`)
	}
	return raw
}

// Sending is what a request for an upstream is written with besides itself.
type Sending struct {
	Model     string   // as the upstream calls it
	MaxTokens int64    // for protocols that demand a limit, where the client gave none
	AnyTool   bool     // the choice of a tool is sent as auto
	NoUsage   bool     // the upstream refuses to be asked for usage in streams
	OpenAI    bool     // it is OpenAI's own: the limit goes as max_completion_tokens, strict schemas are closed
	NoCallIDs bool     // tool calls and results are sent without their ids, where the protocol can do without
	Betas     []string // what the client's Anthropic-Beta asks for, where the protocol says it in the body
}

// InvalidRequest is a client_error about a field that could not be translated.
func InvalidRequest(body []byte, at int, problem string) *Error {
	a := invalid(jsonx.Path(body, at), problem)
	return &Error{Class: attempt.ClientError, Status: a.Status, Code: a.Code, Type: a.Type, Param: a.Param, Message: a.Message}
}
