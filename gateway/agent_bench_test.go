package gateway

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnout/internal/testkit/kafkatest"
)

// BenchmarkAgent sends what a coding agent sends, 76 KB with 24 tools, straight to an upstream, through
// the gateway to one of the same protocol, and through translations: cpu-us/op less that of direct is
// each one's own.
func BenchmarkAgent(b *testing.B) {
	script := func(h http.HandlerFunc) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.Copy(io.Discard, r.Body)
			r.Body = io.NopCloser(strings.NewReader(`{"stream":true}`))
			h(w, r)
		}
	}
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case strings.HasPrefix(r.URL.Path, "/ant"):
			script(claude("done"))(w, r)
		case strings.HasPrefix(r.URL.Path, "/goo"):
			r.URL.RawQuery = "alt=sse"
			script(google)(w, r)
		default:
			script(scripted("done"))(w, r)
		}
	}))
	defer up.Close()
	dir := b.TempDir()
	file := filepath.Join(dir, "resources.yaml")
	doc := resources(up.URL, "{}", providerSpec{id: "alpha"}, providerSpec{id: "ant"}, providerSpec{id: "goo"})
	doc = strings.Replace(doc, "id: ant\nprotocol: openai", "id: ant\nprotocol: anthropic", 1)
	doc = strings.Replace(doc, "id: goo\nprotocol: openai", "id: goo\nprotocol: gemini", 1)
	if err := os.WriteFile(file, []byte(doc), 0o600); err != nil {
		b.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Listen, cfg.AdminListen, cfg.Resources = "127.0.0.1:0", "127.0.0.1:0", []string{file}
	cfg.Spool.Dir = filepath.Join(dir, "spool")
	cfg.ClickHouse.Addr = []string{"127.0.0.1:1"}
	cfg.Kafka = kafkatest.New(b, 3)
	g, err := New(cfg, slog.New(slog.DiscardHandler), secrets())
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	if err := g.listen(ctx); err != nil {
		b.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Run(ctx) }()
	b.Cleanup(func() { cancel(); <-done })
	for len(g.Ready()) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	url := "http://" + g.listener.Addr().String() + "/v1/messages?beta=true"
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	for _, c := range []struct{ name, url, model string }{
		{"direct", up.URL + "/ant/v1/messages", "x"}, {"pass-through", url, "ant:m"}, {"to-chat", url, "alpha:m"}, {"to-gemini", url, "goo:m"},
	} {
		body := agentBody(c.model)
		b.Run(c.name, func(b *testing.B) {
			before := cpu()
			for b.Loop() {
				r, _ := http.NewRequest("POST", c.url, bytes.NewReader(body))
				r.Header.Set("X-Api-Key", token)
				r.Header.Set("Anthropic-Version", "2023-06-01")
				r.Header.Set("Content-Type", "application/json")
				resp, err := client.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				_, _ = io.Copy(io.Discard, resp.Body)
				_ = resp.Body.Close()
				if resp.StatusCode != 200 {
					b.Fatal(resp.Status)
				}
			}
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/op")
			b.ReportMetric(float64(len(body)), "body-bytes")
		})
	}
}

func agentBody(model string) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"model":%q,"max_tokens":32000,"stream":true,"system":[{"type":"text","text":%q,"cache_control":{"type":"ephemeral"}}],"tools":[`, model, strings.Repeat("You are careful. ", 900))
	for i := range 24 {
		if i > 0 {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, `{"name":"tool_%d","description":%q,"input_schema":{"type":"object","properties":{"path":{"type":"string","description":"where"},"n":{"type":"integer"}},"required":["path"]}}`, i, strings.Repeat("What it does, and when. ", 60))
	}
	b.WriteString(`],"messages":[{"role":"user","content":"Fix it"}`)
	for i := range 10 {
		fmt.Fprintf(&b, `,{"role":"assistant","content":[{"type":"text","text":"I look"},{"type":"tool_use","id":"t%d","name":"tool_1","input":{"path":"a.go"}}]},{"role":"user","content":[{"type":"tool_result","tool_use_id":"t%d","content":%q}]}`, i, i, strings.Repeat("line of code {}\n", 125))
	}
	b.WriteString(`]}`)
	return b.Bytes()
}
