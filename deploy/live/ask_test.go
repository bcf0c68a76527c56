package live

import (
	"bytes"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"strings"
	"time"

	"turnout/schemas/attempt"
)

// ask is one chat request.
type ask struct {
	project string // "" is main
	model   string // "" is m
	tokens  int    // of the prompt; 0 is 10
	stream  bool
	session string // x-session-id
	body    map[string]any
	header  map[string]string
}

// answer is what a client sees of where its request went.
type answer struct {
	Status     int
	Provider   string
	Model      string // as in the answer's body
	Reason     string
	Attempts   int
	Code       string // of an error
	Message    string
	Considered []attempt.Considered
}

// send sends the request and reads the answer to its end.
func (n *node) send(a ask) answer {
	n.t.Helper()
	model, tokens, project := a.model, a.tokens, a.project
	if model == "" {
		model = "m"
	}
	if tokens == 0 {
		tokens = 10
	}
	if project == "" {
		project = "main"
	}
	body := map[string]any{"model": model, "messages": []any{map[string]any{"role": "user", "content": strings.Repeat("abcd", tokens)}}}
	if a.stream {
		body["stream"] = true
	}
	maps.Copy(body, a.body)
	raw, err := json.Marshal(body)
	if err != nil {
		n.t.Fatal(err)
	}
	r, err := http.NewRequest(http.MethodPost, n.url+"/v1/chat/completions", bytes.NewReader(raw))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+tokenOf(project))
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Turnout-Explain", "true")
	if a.session != "" {
		r.Header.Set("X-Session-Id", a.session)
	}
	for k, v := range a.header {
		r.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	out := answer{Status: resp.StatusCode}
	if !a.stream || resp.StatusCode != http.StatusOK {
		n.read(&out, text)
		return out
	}
	for line := range strings.Lines(string(text)) {
		if data, ok := strings.CutPrefix(strings.TrimSpace(line), "data: "); ok && data != "[DONE]" {
			n.read(&out, []byte(data))
		}
	}
	return out
}

func (n *node) read(out *answer, text []byte) {
	n.t.Helper()
	var v struct {
		Model    string
		Metadata struct {
			UsedProvider string `json:"used_provider"`
			Reason       string
			Routing      []struct{}
			Considered   []attempt.Considered
		}
		Error struct{ Code, Message string }
	}
	if err := json.Unmarshal(text, &v); err != nil {
		n.t.Fatalf("%v in %s", err, text)
	}
	if v.Model != "" {
		out.Model = v.Model
	}
	if m := v.Metadata; m.UsedProvider != "" {
		out.Provider, out.Reason, out.Attempts, out.Considered = m.UsedProvider, m.Reason, len(m.Routing), m.Considered
	}
	if v.Error.Message != "" {
		out.Code, out.Message = v.Error.Code, v.Error.Message
	}
}

// goes sends the request and fails the test if it does not go there, for this reason ("" is any).
func (n *node) goes(provider, reason string, a ask) answer {
	n.t.Helper()
	got := n.send(a)
	if got.Status != 200 || got.Provider != provider || reason != "" && got.Reason != reason {
		n.t.Fatalf("%+v went to %q (%s, status %d %s %s), want %s (%s); considered %s",
			a, got.Provider, got.Reason, got.Status, got.Code, got.Message, provider, reason, figures(got.Considered))
	}
	return got
}

// settled is how long until a decision sees attempts that have ended: it may go by figures up to 10 ms old.
const settled = 15 * time.Millisecond

// warm makes every provider's figures known, by naming each a few times.
func (n *node) warm(times int, a ask) {
	n.t.Helper()
	model := a.model
	if model == "" {
		model = "m"
	}
	for _, h := range n.hosts {
		a.model = h + "/" + model
		for range times {
			n.goes(h, "direct-provider-specified", a)
		}
	}
	time.Sleep(settled)
}

func figures(all []attempt.Considered) string {
	text, _ := json.Marshal(all)
	return string(text)
}
