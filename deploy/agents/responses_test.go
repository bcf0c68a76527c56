//go:build agents

package agents

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
)

// input is an item of a request; a plain text is one too.
type input struct {
	Type, Role string
	CallID     string `json:"call_id"`
	Tools      []ownTool
	Content    any
	Output     any
}

type inputs []input

// UnmarshalJSON implements json.Unmarshaler.
func (i *inputs) UnmarshalJSON(data []byte) error {
	if data[0] == '"' {
		return nil
	}
	return json.Unmarshal(data, (*[]input)(i))
}

// ownTool is a tool as Responses has it.
type ownTool struct {
	Type, Name string
	Tools      []ownTool
}

// names are those of a tool or of all in a namespace.
func (t *ownTool) names() (out []string) {
	if t.Type != "namespace" {
		if t.Name == "" {
			return []string{t.Type}
		}
		return []string{t.Name}
	}
	for _, inner := range t.Tools {
		for _, name := range inner.names() {
			out = append(out, t.Name+"__"+name)
		}
	}
	return out
}

var responsesDialect = dialect{
	protocol: "openai", base: "/v1", endpoints: "[responses]", id: numbered("call"),
	read: func(r *http.Request, body []byte) (q asked, err error) {
		var b struct {
			Model  string
			Stream bool
			Tools  []ownTool
			Input  inputs
		}
		if err := json.Unmarshal(body, &b); err != nil {
			return q, err
		}
		q.model, q.stream, q.results = b.Model, b.Stream, map[string]string{}
		for _, it := range b.Input {
			switch it.Type {
			case "message":
				if it.Role == "user" {
					q.said += words(it.Content)
				}
			case "function_call_output", "custom_tool_call_output":
				q.results[it.CallID] += words(it.Output)
			case "additional_tools":
				b.Tools = append(b.Tools, it.Tools...)
			}
		}
		for _, t := range b.Tools {
			q.tools = append(q.tools, t.names()...)
		}
		return q, at(r, "/v1/responses")
	},
	plain: func(r reply) any { return response("completed", items(r)) },
	stream: func(w io.Writer, r reply) {
		number := 0
		event := func(kind string, fields object) {
			fields["type"], fields["sequence_number"] = kind, number
			number++
			fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, compact(fields))
		}
		event("response.created", object{"response": response("in_progress", nil)})
		all := items(r)
		for n, it := range all {
			kind, field := "response.output_text", "text"
			what := object{"output_index": n, "item_id": it["id"], "content_index": 0}
			begun := object{}
			for k, v := range it {
				begun[k] = v
			}
			begun["status"] = "in_progress"
			text := r.text
			switch it["type"] {
			case "function_call":
				kind, field, text = "response.function_call_arguments", "arguments", it["arguments"].(string)
				begun["arguments"] = ""
			case "custom_tool_call":
				kind, field, text = "response.custom_tool_call_input", "input", it["input"].(string)
				begun["input"] = ""
			default:
				begun["content"] = []any{}
			}
			event("response.output_item.added", object{"output_index": n, "item": begun})
			for _, piece := range pieces(text) {
				what["delta"] = piece
				event(kind+".delta", what)
			}
			delete(what, "delta")
			what[field] = text
			event(kind+".done", what)
			event("response.output_item.done", object{"output_index": n, "item": it})
		}
		event("response.completed", object{"response": response("completed", all)})
	},
}

func items(r reply) (out []object) {
	if r.text != "" {
		out = append(out, object{"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
			"content": []any{object{"type": "output_text", "text": r.text, "annotations": []any{}}}})
	}
	for i, c := range r.calls {
		it := object{"id": fmt.Sprintf("fc_%d", r.first+i), "call_id": numbered("call")(r.first, i), "name": c.name, "status": "completed"}
		if c.space != "" {
			it["namespace"] = c.space
		}
		if c.freeform != "" {
			it["type"], it["input"] = "custom_tool_call", c.freeform
		} else {
			it["type"], it["arguments"] = "function_call", compact(c.input)
		}
		out = append(out, it)
	}
	return out
}

func response(status string, output []object) object {
	if output == nil {
		output = []object{}
	}
	r := object{"id": "resp_1", "object": "response", "created_at": 1, "status": status, "model": "x", "output": output, "error": nil, "usage": nil}
	if status == "completed" {
		r["usage"] = object{"input_tokens": 9000, "input_tokens_details": object{"cached_tokens": 0}, "output_tokens": 40,
			"output_tokens_details": object{"reasoning_tokens": 0}, "total_tokens": 9040}
	}
	return r
}
