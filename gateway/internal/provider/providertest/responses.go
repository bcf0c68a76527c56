package providertest

import (
	"testing"

	"turnout/gateway/llm"
)

type responseItem struct {
	ID, Type, Status, Name, Arguments string
	CallID                            string `json:"call_id"`
	Content, Summary                  []struct{ Type, Text, Refusal string }
}

type responseBody struct {
	ID, Object, Model, Status string
	Output                    []responseItem
	Incomplete                *struct{ Reason string } `json:"incomplete_details"`
	Usage                     *struct {
		Input  int64 `json:"input_tokens"`
		Output int64 `json:"output_tokens"`
		In     struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"input_tokens_details"`
	}
}

func (r *responseBody) said(t *testing.T) (s Said) {
	if r.ID == "" || r.Object != "response" || r.Model != "catalogue/model" {
		t.Errorf("%+v", r)
	}
	s.Finish = llm.FinishStop
	for _, it := range r.Output {
		switch it.Type {
		case "message":
			for _, c := range it.Content {
				s.Text += c.Text + c.Refusal
			}
		case "reasoning":
			for _, c := range it.Summary {
				s.Thinking += c.Text
			}
		case "function_call":
			s.Finish = llm.FinishTools
			s.Calls = append(s.Calls, Call{it.CallID, it.Name, it.Arguments})
		}
	}
	if r.Status == "incomplete" && r.Incomplete != nil {
		s.Finish = map[string]llm.Finish{"max_output_tokens": llm.FinishLength, "content_filter": llm.FinishFilter}[r.Incomplete.Reason]
	}
	if u := r.Usage; u != nil {
		s.Usage = llm.Usage{InputTokens: u.Input, CachedInputTokens: u.In.Cached, OutputTokens: u.Output}
	}
	return s
}

func plainResponses(t *testing.T, body []byte) Said {
	var r responseBody
	decode(t, body, &r)
	return r.said(t)
}

// streamedResponses also checks that events are numbered, and that their pieces make what the end says.
func streamedResponses(t *testing.T, text string) (s Said) {
	names, data := payloads(t, text)
	pieces := map[int]string{}
	done := map[int]bool{}
	var end *responseBody
	for i, payload := range data {
		var e struct {
			Type     string
			Sequence int `json:"sequence_number"`
			Index    int `json:"output_index"`
			Delta    string
			Item     responseItem
			Response *responseBody
		}
		decode(t, []byte(payload), &e)
		if e.Type != names[i] || e.Sequence != i || end != nil || i == 0 && e.Type != "response.created" {
			t.Errorf("event %d: %s %s", i, names[i], payload)
		}
		pieces[e.Index] += e.Delta
		switch e.Type {
		case "response.output_item.done":
			done[e.Index] = true
		case "response.completed", "response.incomplete":
			end = e.Response
		}
	}
	if end == nil {
		t.Fatalf("no end: %s", text)
	}
	for i, it := range end.Output {
		whole := it.Arguments
		for _, c := range append(it.Content, it.Summary...) {
			whole += c.Text + c.Refusal
		}
		if !done[i] || pieces[i] != whole && whole != "{}" {
			t.Errorf("item %d: done %v, pieces %q, whole %q", i, done[i], pieces[i], whole)
		}
	}
	return end.said(t)
}
