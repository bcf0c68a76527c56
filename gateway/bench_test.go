package gateway

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnout/internal/testkit/kafkatest"
)

// BenchmarkPlain and BenchmarkStream compare a request straight to an upstream, through Go's reverse
// proxy and through the gateway with everything on, all in one process: cpu-us/op less that of direct
// is each one's own.
func BenchmarkPlain(b *testing.B) {
	payload := []byte(`{"id":"chatcmpl-1","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"` +
		strings.Repeat("word ", 160) + `"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":5,"total_tokens":15}}`)
	compare(b, "", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header()["Content-Type"] = []string{"application/json"}
		_, _ = w.Write(payload)
	})
}

func BenchmarkStream(b *testing.B) {
	text := strings.Repeat("word ", 50)
	compare(b, `"stream":true,`, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		chunks(w, text, "stop", true)
	})
}

func compare(b *testing.B, extra string, script http.HandlerFunc) {
	up := httptest.NewServer(script)
	defer up.Close()
	target, _ := url.Parse(up.URL)
	proxy := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	front := httptest.NewServer(proxy)
	defer front.Close()
	gateway := benchGateway(b, up.URL)
	body := []byte(`{"model":"m",` + extra + `"messages":[{"role":"user","content":"` + strings.Repeat("word ", 160) + `"}]}`)
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}
	for _, c := range []struct{ name, url string }{{"direct", up.URL + "/x"}, {"proxy", front.URL + "/x"}, {"turnout", gateway + "/v1/chat/completions"}} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			before := cpu()
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					r, _ := http.NewRequest("POST", c.url, bytes.NewReader(body))
					r.Header.Set("Authorization", "Bearer "+token)
					r.Header.Set("Content-Type", "application/json")
					resp, err := client.Do(r)
					if err != nil {
						b.Error(err)
						return
					}
					_, _ = io.Copy(io.Discard, resp.Body)
					_ = resp.Body.Close()
					if resp.StatusCode != 200 {
						b.Error(resp.Status)
						return
					}
				}
			})
			b.ReportMetric(float64((cpu()-before).Microseconds())/float64(b.N), "cpu-us/op")
		})
	}
}

func benchGateway(b *testing.B, upstream string) string {
	dir := b.TempDir()
	file := filepath.Join(dir, "resources.yaml")
	doc := resources(upstream, "{}", providerSpec{id: "alpha"}, providerSpec{id: "beta"}, providerSpec{id: "gamma"})
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
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
	for len(g.Ready()) > 0 {
		time.Sleep(10 * time.Millisecond)
	}
	return "http://" + g.listener.Addr().String()
}

func cpu() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
