package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// chatRequest is what the simulator reads of a chat request; the rest is ignored.
type chatRequest struct {
	Model               string          `json:"model"`
	Messages            []chatMessage   `json:"messages"`
	Stream              bool            `json:"stream"`
	StreamOptions       *streamOptions  `json:"stream_options"`
	MaxTokens           *int            `json:"max_tokens"`
	MaxCompletionTokens *int            `json:"max_completion_tokens"`
	MinTokens           int             `json:"min_tokens"`
	N                   *int            `json:"n"`
	Tools               json.RawMessage `json:"tools"`
	ToolChoice          json.RawMessage `json:"tool_choice"`
	ResponseFormat      *responseFormat `json:"response_format"`
	ReasoningEffort     string          `json:"reasoning_effort"`
}

type streamOptions struct {
	IncludeUsage bool `json:"include_usage"`
}

type responseFormat struct {
	Type       string `json:"type"`
	JSONSchema *struct {
		Schema schema `json:"schema"`
	} `json:"json_schema"`
}

type chatMessage struct {
	Role       string          `json:"role"`
	Content    content         `json:"content"`
	ToolCalls  json.RawMessage `json:"tool_calls"`
	ToolCallID string          `json:"tool_call_id"`
}

// content is a message's text, or its parts.
type content struct {
	text  string
	parts []contentPart
}

type contentPart struct {
	Type     string `json:"type"`
	Text     string `json:"text"`
	ImageURL *struct {
		URL string `json:"url"`
	} `json:"image_url"`
}

func (c *content) UnmarshalJSON(b []byte) error {
	switch {
	case len(b) > 1 && b[0] == '"' && bytes.IndexByte(b, '\\') < 0:
		c.text = string(b[1 : len(b)-1]) // the decoder has checked the rest
		return nil
	case b[0] == '"':
		return json.Unmarshal(b, &c.text)
	case b[0] == '[':
		return json.Unmarshal(b, &c.parts)
	case bytes.Equal(b, []byte("null")):
		return nil
	}
	return errors.New("content must be a text or a list of parts")
}

// readInto counts and hashes the prompt: tools first, then message by message.
func (r *chatRequest) readInto(p *prompt, blockTokens int) {
	p.begin(r.Model, blockTokens)
	if len(r.Tools) > 0 && !bytes.Equal(r.Tools, []byte("null")) {
		p.mark("tools")
		p.text(string(r.Tools))
	}
	for i := range r.Messages {
		m := &r.Messages[i]
		p.mark(m.Role)
		p.text(m.Content.text)
		for _, part := range m.Content.parts {
			p.text(part.Text)
			if part.ImageURL != nil {
				p.mark(part.ImageURL.URL)
				p.extra += imageTokens
			}
		}
		if len(m.ToolCalls) > 0 {
			p.mark("tool_calls")
			p.text(string(m.ToolCalls))
		}
	}
}

const maxChoices = 16

func (r *chatRequest) check() error {
	if len(r.Messages) == 0 {
		return errors.New("messages: must hold at least one message")
	}
	for i, m := range r.Messages {
		if m.Role == "" {
			return fmt.Errorf("messages[%d].role: is missing", i)
		}
	}
	for _, limit := range []struct {
		name  string
		value *int
	}{{"max_tokens", r.MaxTokens}, {"max_completion_tokens", r.MaxCompletionTokens}} {
		if limit.value != nil && *limit.value < 1 {
			return fmt.Errorf("%s: %d is below 1", limit.name, *limit.value)
		}
	}
	if r.N != nil && (*r.N < 1 || *r.N > maxChoices) {
		return fmt.Errorf("n: %d is not within 1 and %d", *r.N, maxChoices)
	}
	if !r.Stream && r.StreamOptions != nil {
		return errors.New("stream_options: only allowed when stream is true")
	}
	return nil
}

// limit is the most tokens of a choice, 0 if the request does not say.
func (r *chatRequest) limit() int {
	switch {
	case r.MaxCompletionTokens != nil:
		return *r.MaxCompletionTokens
	case r.MaxTokens != nil:
		return *r.MaxTokens
	}
	return 0
}

func (r *chatRequest) choices() int {
	if r.N == nil {
		return 1
	}
	return *r.N
}

func (r *chatRequest) includeUsage() bool {
	return r.StreamOptions != nil && r.StreamOptions.IncludeUsage
}

// schema is as much of JSON Schema as it takes to make up a value that fits.
type schema struct {
	Type       any               `json:"type"`
	Enum       []json.RawMessage `json:"enum"`
	Properties map[string]schema `json:"properties"`
	Required   []string          `json:"required"`
}

// sample makes up a JSON value: required properties only, in their order.
func (s *schema) sample() string {
	if len(s.Enum) > 0 {
		return string(s.Enum[0])
	}
	kind, _ := s.Type.(string)
	if list, ok := s.Type.([]any); ok && len(list) > 0 {
		kind, _ = list[0].(string)
	}
	switch kind {
	case "string":
		return `"sim"`
	case "integer", "number":
		return "1"
	case "boolean":
		return "true"
	case "array":
		return "[]"
	case "null":
		return "null"
	}
	b := []byte("{")
	for i, name := range s.Required {
		if i > 0 {
			b = append(b, ',')
		}
		property := s.Properties[name]
		b = appendQuoted(b, name)
		b = append(b, ':')
		b = append(b, property.sample()...)
	}
	return string(append(b, '}'))
}

type tool struct {
	Function struct {
		Name       string `json:"name"`
		Parameters schema `json:"parameters"`
	} `json:"function"`
}

// forcedTool is the tool that tool_choice makes the model call: the one it names, or the first if it
// requires any. Nil: none.
func (r *chatRequest) forcedTool() (*tool, error) {
	if len(r.Tools) == 0 || len(r.ToolChoice) == 0 {
		return nil, nil
	}
	var word string
	var named tool
	if json.Unmarshal(r.ToolChoice, &word) != nil {
		if err := json.Unmarshal(r.ToolChoice, &named); err != nil || named.Function.Name == "" {
			return nil, errors.New("tool_choice: must be auto, none, required or name a function")
		}
	}
	if word != "required" && named.Function.Name == "" {
		return nil, nil
	}
	var tools []tool
	if err := json.Unmarshal(r.Tools, &tools); err != nil {
		return nil, fmt.Errorf("tools: %w", err)
	}
	for i := range tools {
		if word == "required" || tools[i].Function.Name == named.Function.Name {
			return &tools[i], nil
		}
	}
	return nil, errors.New("tool_choice: " + strconv.Quote(named.Function.Name) + " is none of the tools")
}
