package providertest

import (
	"encoding/json"
	"strings"
	"testing"

	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

// reader reads what a client sees, without any of the gateway's own code.
type reader struct {
	plain  func(t *testing.T, body []byte) Said
	stream func(t *testing.T, text string) Said
	ended  func(text string) bool
}

var readers = map[string]reader{
	attempt.EndpointChat: {plainChat, streamedChat, func(s string) bool { return strings.HasSuffix(s, "data: [DONE]\n\n") }},
	attempt.EndpointResponses: {plainResponses, streamedResponses, func(s string) bool {
		return strings.Contains(s, "event: response.completed\n") || strings.Contains(s, "event: response.incomplete\n")
	}},
	attempt.EndpointMessages: {plainMessages, streamedMessages, func(s string) bool { return strings.Contains(s, "event: message_stop\n") }},
}

type chatUsage struct {
	Prompt     int64 `json:"prompt_tokens"`
	Completion int64 `json:"completion_tokens"`
	Details    struct {
		Cached int64 `json:"cached_tokens"`
	} `json:"prompt_tokens_details"`
}

func (u *chatUsage) usage() llm.Usage {
	if u == nil {
		return llm.Usage{}
	}
	return llm.Usage{InputTokens: u.Prompt, CachedInputTokens: u.Details.Cached, OutputTokens: u.Completion}
}

type chatCall struct {
	Index    int
	ID       string
	Type     string
	Function struct{ Name, Arguments string }
}

var chatFinishes = map[string]llm.Finish{"stop": llm.FinishStop, "length": llm.FinishLength, "tool_calls": llm.FinishTools, "content_filter": llm.FinishFilter}

func decode(t *testing.T, data []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatalf("%v: %s", err, data)
	}
}

func plainChat(t *testing.T, body []byte) Said {
	var a struct {
		ID, Object, Model string
		Choices           []struct {
			Message struct {
				Role, Content string
				Reasoning     string     `json:"reasoning_content"`
				Calls         []chatCall `json:"tool_calls"`
			}
			Finish string `json:"finish_reason"`
		}
		Usage *chatUsage
	}
	decode(t, body, &a)
	if a.ID == "" || a.Object != "chat.completion" || a.Model != "catalogue/model" || len(a.Choices) != 1 || a.Choices[0].Message.Role != "assistant" {
		t.Errorf("%s", body)
	}
	m := a.Choices[0].Message
	s := Said{Text: m.Content, Thinking: m.Reasoning, Finish: chatFinishes[a.Choices[0].Finish], Usage: a.Usage.usage()}
	for _, c := range m.Calls {
		if c.Type != "function" {
			t.Errorf("%s", body)
		}
		s.Calls = append(s.Calls, Call{c.ID, c.Function.Name, c.Function.Arguments})
	}
	return s
}

// payloads are the data of a stream's events, with the names before them.
func payloads(t *testing.T, text string) (names, data []string) {
	for event := range strings.SplitSeq(strings.TrimSuffix(text, "\n\n"), "\n\n") {
		name, payload := "", ""
		for line := range strings.SplitSeq(event, "\n") {
			switch {
			case strings.HasPrefix(line, "event: "):
				name = line[len("event: "):]
			case strings.HasPrefix(line, "data: "):
				payload = line[len("data: "):]
			default:
				t.Errorf("a line of an event: %q", line)
			}
		}
		names, data = append(names, name), append(data, payload)
	}
	return names, data
}

func streamedChat(t *testing.T, text string) (s Said) {
	_, data := payloads(t, text)
	if data[len(data)-1] != "[DONE]" {
		t.Errorf("no end marker: %s", text)
	}
	id := ""
	for _, payload := range data[:len(data)-1] {
		var c struct {
			ID, Object, Model string
			Choices           []struct {
				Delta struct {
					Content   string
					Reasoning string     `json:"reasoning_content"`
					Calls     []chatCall `json:"tool_calls"`
				}
				Finish *string `json:"finish_reason"`
			}
			Usage *chatUsage
		}
		decode(t, []byte(payload), &c)
		if id == "" {
			id = c.ID
		}
		if c.ID != id || id == "" || c.Object != "chat.completion.chunk" || c.Model != "catalogue/model" {
			t.Errorf("%s", payload)
		}
		if c.Usage != nil {
			s.Usage = c.Usage.usage()
		}
		for _, choice := range c.Choices {
			s.Text += choice.Delta.Content
			s.Thinking += choice.Delta.Reasoning
			for _, call := range choice.Delta.Calls {
				for len(s.Calls) <= call.Index {
					s.Calls = append(s.Calls, Call{})
				}
				to := &s.Calls[call.Index]
				to.ID, to.Name = to.ID+call.ID, to.Name+call.Function.Name
				to.Arguments += call.Function.Arguments
			}
			if choice.Finish != nil {
				s.Finish = chatFinishes[*choice.Finish]
			}
		}
	}
	return s
}

type messagesUsage struct {
	Input  int64 `json:"input_tokens"`
	Read   int64 `json:"cache_read_input_tokens"`
	Write  int64 `json:"cache_creation_input_tokens"`
	Output int64 `json:"output_tokens"`
}

func (u *messagesUsage) usage() llm.Usage {
	return llm.Usage{InputTokens: u.Input + u.Read + u.Write, CachedInputTokens: u.Read, CacheWriteTokens: u.Write, OutputTokens: u.Output}
}

type block struct {
	Type, Text, Thinking, Signature, ID, Name string
	Input                                     json.RawMessage
}

var messagesFinishes = map[string]llm.Finish{"end_turn": llm.FinishStop, "max_tokens": llm.FinishLength, "tool_use": llm.FinishTools, "refusal": llm.FinishFilter}

func (s *Said) add(b *block) {
	switch b.Type {
	case "text":
		s.Text += b.Text
	case "thinking":
		s.Thinking += b.Thinking
		s.Signature += b.Signature
	case "tool_use":
		s.Calls = append(s.Calls, Call{b.ID, b.Name, string(b.Input)})
	}
}

func plainMessages(t *testing.T, body []byte) (s Said) {
	var a struct {
		ID, Type, Role, Model string
		Content               []block
		Stop                  string `json:"stop_reason"`
		Usage                 *messagesUsage
	}
	decode(t, body, &a)
	if a.ID == "" || a.Type != "message" || a.Role != "assistant" || a.Model != "catalogue/model" {
		t.Errorf("%s", body)
	}
	for i := range a.Content {
		s.add(&a.Content[i])
	}
	s.Finish = messagesFinishes[a.Stop]
	if a.Usage != nil {
		s.Usage = a.Usage.usage()
	}
	return s
}

// streamedMessages also checks the order of events: blocks begin once, in order, and end once.
func streamedMessages(t *testing.T, text string) (s Said) {
	names, data := payloads(t, text)
	var blocks []block
	open := map[int]bool{}
	stopped, began := false, false
	for i, payload := range data {
		var e struct {
			Type    string
			Index   int
			Message struct {
				ID, Model string
				Usage     messagesUsage
			}
			Block block `json:"content_block"`
			Delta struct {
				block
				Partial string `json:"partial_json"`
				Stop    string `json:"stop_reason"`
			}
			Usage *messagesUsage
		}
		decode(t, []byte(payload), &e)
		if names[i] != e.Type || stopped || !began && e.Type != "message_start" && e.Type != "ping" {
			t.Errorf("event %d: %s %s", i, names[i], payload)
		}
		switch e.Type {
		case "message_start":
			began = true
			if e.Message.ID == "" || e.Message.Model != "catalogue/model" {
				t.Errorf("%s", payload)
			}
		case "content_block_start":
			if e.Index != len(blocks) {
				t.Errorf("block %d begins as %d", len(blocks), e.Index)
			}
			e.Block.Input = nil
			blocks, open[e.Index] = append(blocks, e.Block), true
		case "content_block_delta":
			if !open[e.Index] {
				t.Fatalf("a delta of a block that is not open: %s", payload)
			}
			b := &blocks[e.Index]
			b.Text, b.Thinking, b.Signature = b.Text+e.Delta.Text, b.Thinking+e.Delta.Thinking, b.Signature+e.Delta.Signature
			b.Input = append(b.Input, e.Delta.Partial...)
		case "content_block_stop":
			if !open[e.Index] {
				t.Errorf("a block ends that is not open: %s", payload)
			}
			delete(open, e.Index)
		case "message_delta":
			s.Finish = messagesFinishes[e.Delta.Stop]
			if e.Usage != nil {
				s.Usage = e.Usage.usage()
			}
		case "message_stop":
			stopped = true
		}
	}
	if !stopped || len(open) > 0 {
		t.Errorf("stopped %v, open %v: %s", stopped, open, text)
	}
	for i := range blocks {
		if blocks[i].Input == nil {
			blocks[i].Input = json.RawMessage("{}")
		}
		s.add(&blocks[i])
	}
	return s
}
