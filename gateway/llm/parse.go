package llm

import (
	"math"
	"strconv"
	"strings"
	"sync"

	"turnout/internal/jsonx"
	"turnout/schemas/resource"
)

// ParseChat reads a chat completion request once: it checks the JSON as a whole, and of its fields
// what the gateway reads or changes (api.md, "Requests"). Everything else is the upstream's to judge.
// null stands for "not given" wherever a field may be left out.
func ParseChat(body []byte) (*Facts, *APIError) {
	return parse(body, (*parser).topField, "messages", "is missing; send at least one message")
}

// parse reads a body whose top-level fields are taken by field; one of them must be there, whose lack
// is named as a problem.
func parse(body []byte, field func(p *parser, key []byte), must, problem string) (*Facts, *APIError) {
	p := parsers.Get().(*parser)
	defer parsers.Put(p)
	p.body, p.facts, p.found = body, &Facts{N: 1, Fields: make([]jsonx.Field, 0, 16)}, finding{}
	p.sawInput, p.calls = false, nil
	p.cursor.Reset(body)
	failed := p.top(field, must, problem)
	facts, syntax := p.facts, p.cursor.End()
	p.body, p.facts, p.calls = nil, nil, nil
	p.cursor.Reset(nil)
	if syntax != nil {
		return nil, InvalidJSON("the body is no valid JSON: " + syntax.Error() + "; send one JSON object in UTF-8")
	}
	if failed != nil {
		return nil, failed
	}
	return facts, nil
}

// InvalidJSON is the error for a body that could not be read as JSON for a reason outside its text.
func InvalidJSON(message string) *APIError {
	return &APIError{Status: 400, Type: "invalid_request_error", Code: "invalid_json", Message: message}
}

const maxTokens = math.MaxInt32 // the largest limit on tokens that is accepted

var parsers = sync.Pool{New: func() any { return new(parser) }}

// parser is the state of one request that is read. A syntax error, wherever it stands, beats what was found.
type parser struct {
	cursor jsonx.Cursor
	body   []byte
	facts  *Facts
	found  finding

	sawInput bool
	calls    map[string]bool // ids of tool calls seen, where results are matched with them
	// Where the turn under way of a Messages conversation holds its first result and its first call; -1: nowhere.
	resultAt, useAt int
}

// finding is the first value that is not what it should be; empty: none. Its path is worked out when
// it is reported.
type finding struct {
	at      int    // offset of the value
	want    string // what it should be
	missing string // or the field it should have
	problem string // or what is wrong with it
}

// wrong notes that the value at offset at is not what it should be.
func (p *parser) wrong(at int, want string) {
	if p.found == (finding{}) {
		p.found = finding{at: at, want: want}
	}
}

// missing notes that the object at offset at lacks a field.
func (p *parser) missing(at int, field string) {
	if p.found == (finding{}) {
		p.found = finding{at: at, missing: field}
	}
}

// refuse notes that the value at offset at cannot be taken, although it is of the right kind.
func (p *parser) refuse(at int, problem string) {
	if p.found == (finding{}) {
		p.found = finding{at: at, problem: problem}
	}
}

func (p *parser) top(take func(p *parser, key []byte), must, problem string) *APIError {
	c := &p.cursor
	if k := c.Kind(); k != jsonx.Object {
		c.Skip()
		return InvalidJSON("the body must be a JSON object, not " + k.String())
	}
	for f := c.Object(); c.Next(&f); {
		field := jsonx.Field{Key: f.KeyStart, Value: c.Pos()}
		take(p, f.Key)
		if c.Pos() == field.Value {
			c.Skip()
		}
		field.End = c.Pos()
		p.facts.Fields = append(p.facts.Fields, field)
	}
	switch {
	case c.Err() != nil:
		return nil //nolint:nilerr // the caller asks the cursor
	case p.found.missing != "":
		return invalid(jsonx.Path(p.body, p.found.at)+"."+p.found.missing, "is missing")
	case p.found.problem != "":
		return invalid(jsonx.Path(p.body, p.found.at), p.found.problem)
	case p.found.want != "":
		return invalid(jsonx.Path(p.body, p.found.at), p.found.want+", not "+describe(p.body[p.found.at:]))
	case p.facts.At.Model == 0:
		return invalid("model", "is missing; name a model of /v1/models")
	case !p.sawInput:
		return invalid(must, problem)
	}
	return nil
}

// describe names a value for an error text: its kind, and for numbers and booleans the value too.
func describe(rest []byte) string {
	var c jsonx.Cursor
	c.ResetLoose(rest)
	kind := c.Kind()
	switch raw := c.Raw(); {
	case (kind == jsonx.Number || kind == jsonx.Bool) && len(raw) <= 24:
		return string(raw)
	case kind == jsonx.String && len(raw) == 2:
		return "an empty string"
	case kind == jsonx.Array && len(raw) == 2:
		return "an empty array"
	}
	return kind.String()
}

// shared takes the fields that every surface has; the chat's own parser, which is asked most, has them
// in its one switch.
func (p *parser) shared(key []byte) {
	switch string(key) {
	case "model", "stream", "user", "session_id", "routing", "free_models_only", "no_reasoning":
		p.topField(key)
	}
}

func (p *parser) topField(key []byte) {
	f, c := p.facts, &p.cursor
	nth := len(f.Fields) + 1
	switch string(key) {
	case "model":
		f.At.Model = nth
		if at := c.Pos(); c.Kind() != jsonx.String {
			p.wrong(at, "must be a string")
		} else if f.Model = c.Text().String(); strings.TrimSpace(f.Model) == "" {
			p.wrong(at, "must name a model")
		}
	case "messages":
		p.sawInput = true
		p.messages()
	case "stream":
		f.Stream = p.boolean()
	case "stream_options":
		f.At.StreamOptions = nth
		p.streamOptions()
	case "max_tokens", "max_completion_tokens":
		f.MaxTokens = max(f.MaxTokens, p.integer(maxTokens))
	case "n":
		if n := p.integer(maxTokens); n > 0 {
			f.N = n
		}
	case "tools":
		p.tools(p.tool)
	case "tool_choice":
		f.At.ToolChoice = nth
		p.toolChoice(true)
	case "response_format":
		f.ResponseFormat = p.typed()
	case "reasoning_effort":
		f.ReasoningEffort = p.text()
	case "service_tier":
		f.ServiceTier = p.text()
	case "web_search_options":
		f.WebSearch = f.WebSearch || c.Kind() != jsonx.Null
	case "audio":
		if c.Kind() != jsonx.Null { // to be spoken, which translations cannot tell
			f.Audio = true
			f.own(resource.CapAudio)
		}
	case "functions", "function_call": // as tools were called once
		if c.Kind() != jsonx.Null {
			f.Tools = true
			f.own(resource.CapTools)
		}
	case "user":
		f.User = p.text()
	case "session_id":
		f.SessionID = p.text()
	case "prompt_cache_key":
		f.PromptCacheKey = p.text()
	case "routing":
		f.At.Routing = nth
		p.routing()
	case "free_models_only":
		f.At.FreeModelsOnly = nth
		f.FreeModelsOnly = p.boolean()
	case "no_reasoning":
		f.At.NoReasoning = nth
		f.NoReasoning = p.boolean()
	}
}

func (p *parser) null() bool {
	if p.cursor.Kind() != jsonx.Null {
		return false
	}
	p.cursor.Skip()
	return true
}

func (p *parser) boolean() bool {
	switch at := p.cursor.Pos(); {
	case p.cursor.Kind() == jsonx.Bool:
		return p.cursor.Bool()
	case !p.null():
		p.wrong(at, "must be true or false")
	}
	return false
}

func (p *parser) text() string {
	switch at := p.cursor.Pos(); {
	case p.cursor.Kind() == jsonx.String:
		return p.cursor.Text().String()
	case !p.null():
		p.wrong(at, "must be a string")
	}
	return ""
}

// integer reads an integer from 1 to limit; 0 for null.
func (p *parser) integer(limit int64) int64 {
	if p.null() {
		return 0
	}
	at := p.cursor.Pos()
	n, ok := jsonx.Int64(p.cursor.Raw())
	if !ok || n < 1 || n > limit {
		p.wrong(at, "must be an integer from 1 to "+strconv.FormatInt(limit, 10))
		return 0
	}
	return n
}

// typed reads an object's type, "" for null.
func (p *parser) typed() (kind string) {
	c := &p.cursor
	at := c.Pos()
	if p.null() {
		return ""
	}
	if c.Kind() != jsonx.Object {
		p.wrong(at, "must be an object")
		return ""
	}
	found := false
	for f := c.Object(); c.Next(&f); {
		if string(f.Key) != "type" {
			continue
		}
		found = true
		if c.Kind() != jsonx.String {
			p.wrong(c.Pos(), "must be a string")
			continue
		}
		kind = c.Text().String()
	}
	if !found {
		p.missing(at, "type")
	}
	return kind
}

func (p *parser) streamOptions() {
	c := &p.cursor
	at := c.Pos()
	if p.null() {
		return
	}
	if c.Kind() != jsonx.Object {
		p.wrong(at, "must be an object")
		return
	}
	for f := c.Object(); c.Next(&f); {
		if string(f.Key) == "include_usage" {
			p.facts.IncludeUsage = p.boolean()
		}
	}
}

func (p *parser) routing() {
	at := p.cursor.Pos()
	switch word := p.text(); word {
	case "", "auto", "price", "throughput", "latency":
		p.facts.Routing = word
	default:
		if len(word) > 30 {
			word = strings.ToValidUTF8(word[:30], "") + "..."
		}
		p.refuse(at, "must be auto, price, throughput or latency, not "+strconv.Quote(word))
	}
}
