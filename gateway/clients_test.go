//go:build clients

package gateway

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// Any of the three scripted upstreams answers the same things, so that a client cannot tell which
// protocol serves it.
type said struct {
	text, tool string
	stream     bool
}

func listen(w http.ResponseWriter, r *http.Request, name string) (s said, gone bool) {
	body, _ := io.ReadAll(r.Body)
	var q struct {
		Stream bool
		Tools  []any
	}
	_ = json.Unmarshal(body, &q)
	s = said{text: "hello from " + name, stream: q.Stream || r.URL.RawQuery == "alt=sse"}
	switch text := string(body); {
	case strings.Contains(text, `"wait"`):
		select {
		case <-r.Context().Done():
			return s, true
		case <-time.After(5 * time.Second):
		}
	case len(q.Tools) > 0:
		s.tool = "weather"
	case strings.Contains(text, "json_schema") || strings.Contains(text, "responseJsonSchema"):
		s.text = `{"city":"Brno"}`
	case strings.Contains(text, "iVBORw0KGgo"):
		s.text = "a picture"
	}
	return s, false
}

// TestClients runs the clients of deploy/clients, fetched with `make clients`.
func TestClients(t *testing.T) {
	u := newUpstreams(t)
	u.script("alpha", func(w http.ResponseWriter, r *http.Request) {
		s, gone := listen(w, r, "alpha")
		if gone {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(chatRequest(s)))
		scriptedAs(w, r, s.text)
	})
	u.script("ant", func(w http.ResponseWriter, r *http.Request) {
		s, gone := listen(w, r, "ant")
		if gone {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(chatRequest(s)))
		claude(s.text)(w, r)
	})
	u.script("goo", func(w http.ResponseWriter, r *http.Request) {
		s, gone := listen(w, r, "goo")
		if gone {
			return
		}
		part := fmt.Sprintf(`{"text":%q}`, s.text)
		if s.tool != "" {
			part = `{"functionCall":{"name":"weather","args":{"city":"Brno"}}}`
		}
		whole := `{"candidates":[{"content":{"role":"model","parts":[` + part + `]},"finishReason":"STOP"}],"usageMetadata":{"promptTokenCount":10,"candidatesTokenCount":5},"responseId":"r"}`
		if s.stream {
			w.Header().Set("Content-Type", "text/event-stream")
			fmt.Fprintf(w, "data: %s\r\n\r\n", whole)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, whole)
	})
	doc := resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "ant"}, providerSpec{id: "goo"})
	doc = strings.Replace(doc, "id: ant\nprotocol: openai", "id: ant\nprotocol: anthropic", 1)
	doc = strings.Replace(doc, "id: goo\nprotocol: openai", "id: goo\nprotocol: gemini", 1)
	n := start(t, doc, nil).ready()

	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "drive.mjs", n.url, token, "alpha", "ant", "goo")
	cmd.Dir = "../deploy/clients"
	cmd.Env = append(os.Environ(), "AI_SDK_LOG_WARNINGS=false")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	checks := strings.Count(string(out), "\nok ") + 1
	t.Logf("%d checks", checks)
	if checks < 100 {
		t.Errorf("only %d checks ran:\n%s", checks, out)
	}
}

// chatRequest is what the scripts look at in a request.
func chatRequest(s said) []byte {
	tools := "[]"
	if s.tool != "" {
		tools = `[{"name":"weather","function":{"name":"weather"}}]`
	}
	return fmt.Appendf(nil, `{"stream":%v,"tools":%s}`, s.stream, tools)
}
