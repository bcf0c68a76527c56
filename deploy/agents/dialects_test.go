//go:build agents

package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
)

type object = map[string]any

// compact is a value as JSON.
func compact(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// pieces cuts a text as streams do.
func pieces(text string) (out []string) {
	for runes := []rune(text); len(runes) > 0; {
		n := min(len(runes), 11)
		out = append(out, string(runes[:n]))
		runes = runes[n:]
	}
	return out
}

// words are the texts in a content, which is a text or a list of parts.
func words(content any) string {
	switch c := content.(type) {
	case string:
		return c
	case []any:
		var b strings.Builder
		for _, part := range c {
			if p, ok := part.(object); ok {
				if text, ok := p["text"].(string); ok {
					b.WriteString(text)
				}
			}
		}
		return b.String()
	}
	return ""
}

var chatDialect = dialect{
	protocol: "openai", base: "/v1", id: numbered("call"),
	read: func(r *http.Request, body []byte) (q asked, err error) {
		var b struct {
			Model  string
			Stream bool
			Tools  []struct {
				Type     string
				Function struct{ Name string }
			}
			Messages []struct {
				Role    string
				Content any
				ID      string `json:"tool_call_id"`
			}
		}
		if err := json.Unmarshal(body, &b); err != nil {
			return q, err
		}
		q.model, q.stream, q.results = b.Model, b.Stream, map[string]string{}
		for _, t := range b.Tools {
			if t.Type != "function" {
				return q, fmt.Errorf("a tool of type %q", t.Type)
			}
			q.tools = append(q.tools, t.Function.Name)
		}
		for _, m := range b.Messages {
			switch m.Role {
			case "user":
				q.said += words(m.Content)
			case "tool":
				q.results[m.ID] = words(m.Content)
			}
		}
		return q, at(r, "/v1/chat/completions")
	},
	plain: func(r reply) any {
		message, finish := object{"role": "assistant", "content": r.text}, "stop"
		if r.calls != nil {
			message, finish = object{"role": "assistant", "content": nil, "tool_calls": chatCalls(r)}, "tool_calls"
		}
		return object{"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "x", "usage": chatUsage,
			"choices": []any{object{"index": 0, "message": message, "finish_reason": finish}}}
	},
	stream: func(w io.Writer, r reply) {
		chunk := func(delta object, finish any) {
			fmt.Fprintf(w, "data: %s\n\n", compact(object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "x",
				"choices": []any{object{"index": 0, "delta": delta, "finish_reason": finish}}}))
		}
		chunk(object{"role": "assistant", "content": ""}, nil)
		for _, text := range pieces(r.text) {
			chunk(object{"content": text}, nil)
		}
		finish := "stop"
		for i, c := range r.calls {
			finish = "tool_calls"
			head := chatCalls(r)[i]
			head["function"] = object{"name": c.flat(), "arguments": ""}
			chunk(object{"tool_calls": []any{head}}, nil)
			for _, text := range pieces(compact(c.arguments())) {
				chunk(object{"tool_calls": []any{object{"index": i, "function": object{"arguments": text}}}}, nil)
			}
		}
		chunk(object{}, finish)
		fmt.Fprintf(w, "data: %s\n\ndata: [DONE]\n\n", compact(object{"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1, "model": "x", "choices": []any{}, "usage": chatUsage}))
	},
}

var chatUsage = object{"prompt_tokens": 9000, "completion_tokens": 40, "total_tokens": 9040}

func chatCalls(r reply) (out []object) {
	for i, c := range r.calls {
		out = append(out, object{"index": i, "id": numbered("call")(r.first, i), "type": "function",
			"function": object{"name": c.flat(), "arguments": compact(c.arguments())}})
	}
	return out
}

func numbered(word string) func(first, i int) string {
	return func(first, i int) string { return fmt.Sprintf("%s_%d", word, first+i) }
}

// geminiID is what the gateway calls the calls of a Gemini, which gives them no ids.
func geminiID(first, i int) string { return fmt.Sprintf("call_answer-%d_%d", first, i) }

// at checks where a call went.
func at(r *http.Request, path string) error {
	if !strings.HasSuffix(r.URL.Path, path) {
		return fmt.Errorf("called at %s, not %s", r.URL.Path, path)
	}
	return nil
}

var messagesDialect = dialect{
	protocol: "anthropic", base: "/v1", id: numbered("toolu"),
	read: func(r *http.Request, body []byte) (q asked, err error) {
		var b struct {
			Model    string
			Stream   bool
			Tools    []struct{ Name string }
			Messages []struct {
				Role    string
				Content any
			}
		}
		if err := json.Unmarshal(body, &b); err != nil {
			return q, err
		}
		q.model, q.stream, q.results = b.Model, b.Stream, map[string]string{}
		for _, t := range b.Tools {
			q.tools = append(q.tools, t.Name)
		}
		for _, m := range b.Messages {
			blocks, _ := m.Content.([]any)
			if m.Role == "user" {
				q.said += words(m.Content)
			}
			for _, block := range blocks {
				b := block.(object)
				switch b["type"] {
				case "tool_result":
					id := fmt.Sprint(b["tool_use_id"])
					if _, again := q.results[id]; again { // Anthropic takes one
						return q, fmt.Errorf("two results of %s", id)
					}
					q.results[id] = words(b["content"])
				case "thinking":
					if b["signature"] != signature {
						return q, fmt.Errorf("reasoning came back with the signature %v", b["signature"])
					}
				}
			}
		}
		return q, at(r, "/v1/messages")
	},
	plain: func(r reply) any {
		content, stop := []any{object{"type": "text", "text": r.text}}, "end_turn"
		if r.calls != nil {
			content, stop = nil, "tool_use"
			for i, c := range r.calls {
				content = append(content, object{"type": "tool_use", "id": numbered("toolu")(r.first, i), "name": c.flat(), "input": c.arguments()})
			}
		}
		return object{"id": "msg_1", "type": "message", "role": "assistant", "model": "x", "content": content, "stop_reason": stop, "stop_sequence": nil,
			"usage": object{"input_tokens": 9000, "output_tokens": 40}}
	},
	stream: func(w io.Writer, r reply) {
		event := func(kind string, fields object) {
			fields["type"] = kind
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, compact(fields))
		}
		index := 0
		block := func(start object, deltas ...object) {
			event("content_block_start", object{"index": index, "content_block": start})
			for _, d := range deltas {
				event("content_block_delta", object{"index": index, "delta": d})
			}
			event("content_block_stop", object{"index": index})
			index++
		}
		event("message_start", object{"message": object{"id": "msg_1", "type": "message", "role": "assistant", "model": "x", "content": []any{},
			"stop_reason": nil, "stop_sequence": nil, "usage": object{"input_tokens": 9000, "output_tokens": 1}}})
		event("ping", object{})
		block(object{"type": "thinking", "thinking": "", "signature": ""}, object{"type": "thinking_delta", "thinking": "Hm."}, object{"type": "signature_delta", "signature": signature})
		if r.text != "" {
			block(object{"type": "text", "text": ""}, deltas("text_delta", "text", r.text)...)
		}
		stop := "end_turn"
		for i, c := range r.calls {
			stop = "tool_use"
			block(object{"type": "tool_use", "id": numbered("toolu")(r.first, i), "name": c.flat(), "input": object{}}, deltas("input_json_delta", "partial_json", compact(c.arguments()))...)
		}
		event("message_delta", object{"delta": object{"stop_reason": stop, "stop_sequence": nil}, "usage": object{"output_tokens": 40}})
		event("message_stop", object{})
	},
}

// signature is how the simulated Anthropic model signs its reasoning.
const signature = "c2lnbmVkIGJ5IHRoZSBzaW11bGF0ZWQgbW9kZWw="

func deltas(kind, field, text string) (out []object) {
	for _, piece := range pieces(text) {
		out = append(out, object{"type": kind, field: piece})
	}
	return out
}

var geminiDialect = dialect{
	protocol: "gemini", base: "/v1beta", id: geminiID,
	read: func(r *http.Request, body []byte) (q asked, err error) {
		var b struct {
			Tools []struct {
				Functions []struct{ Name string } `json:"functionDeclarations"`
			}
			Contents []struct {
				Role  string
				Parts []struct {
					Text     string
					Response *struct {
						ID       string
						Response any
					} `json:"functionResponse"`
				}
			}
		}
		if err := json.Unmarshal(body, &b); err != nil {
			return q, err
		}
		path, method, ok := strings.Cut(r.URL.Path, ":")
		q.results = map[string]string{}
		q.model, q.stream = path[strings.LastIndex(path, "/")+1:], method == "streamGenerateContent"
		if !ok || q.stream != (r.URL.RawQuery == "alt=sse") {
			return q, fmt.Errorf("called at %s", r.URL)
		}
		for _, t := range b.Tools {
			for _, f := range t.Functions {
				q.tools = append(q.tools, f.Name)
			}
		}
		for _, c := range b.Contents {
			for _, p := range c.Parts {
				switch {
				case p.Response != nil:
					q.results[p.Response.ID] = compact(p.Response.Response)
				case c.Role == "user":
					q.said += p.Text
				}
			}
		}
		return q, nil
	},
	plain: func(r reply) any { return geminiAnswer(r, geminiParts(r), "STOP") },
	stream: func(w io.Writer, r reply) {
		for _, text := range pieces(r.text) {
			fmt.Fprintf(w, "data: %s\r\n\r\n", compact(geminiAnswer(r, []any{object{"text": text}}, "")))
		}
		r.text = ""
		fmt.Fprintf(w, "data: %s\r\n\r\n", compact(geminiAnswer(r, geminiParts(r), "STOP")))
	},
}

func geminiParts(r reply) []any {
	parts := []any{}
	if r.text != "" {
		parts = append(parts, object{"text": r.text})
	}
	for _, c := range r.calls {
		parts = append(parts, object{"functionCall": object{"name": c.flat(), "args": c.arguments()}, "thoughtSignature": signature})
	}
	return parts
}

func geminiAnswer(r reply, parts []any, finish string) object {
	candidate := object{"index": 0, "content": object{"role": "model", "parts": parts}}
	if finish != "" {
		candidate["finishReason"] = finish
	}
	return object{"responseId": fmt.Sprintf("answer-%d", r.first), "modelVersion": "x", "candidates": []any{candidate},
		"usageMetadata": object{"promptTokenCount": 9000, "candidatesTokenCount": 40, "totalTokenCount": 9040}}
}
