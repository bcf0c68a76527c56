package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"time"
)

// The reply of the upstream: a chat completion of about 1 KB, and a stream of 50 chunks.
var (
	plainReply = fmt.Appendf(nil, `{"id":"chatcmpl-bench","object":"chat.completion","created":1764547200,"model":"bench-upstream","choices":[{"index":0,"message":{"role":"assistant","content":%q},"finish_reason":"stop"}],"usage":{"prompt_tokens":12,"completion_tokens":180,"total_tokens":192}}`, strings.Repeat("all work and no play makes a gateway ", 21))

	streamChunk = []byte(`data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1764547200,"model":"bench-upstream","choices":[{"index":0,"delta":{"content":"a few words "},"finish_reason":null}]}` + "\n\n")
	streamEnd   = []byte(`data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1764547200,"model":"bench-upstream","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\n" +
		`data: {"id":"chatcmpl-bench","object":"chat.completion.chunk","created":1764547200,"model":"bench-upstream","choices":[],"usage":{"prompt_tokens":12,"completion_tokens":150,"total_tokens":162}}` + "\n\n" + "data: [DONE]\n\n")
)

const streamChunks = 50

// serveUpstream answers every POST at once; with pause it waits that long between chunks.
func serveUpstream(pause time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		if !bytes.Contains(body, []byte(`"stream":true`)) {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Content-Length", fmt.Sprint(len(plainReply)))
			_, _ = w.Write(plainReply)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		flusher := http.NewResponseController(w)
		for range streamChunks {
			if _, err := w.Write(streamChunk); err != nil {
				return
			}
			_ = flusher.Flush()
			if pause > 0 {
				time.Sleep(pause)
			}
		}
		_, _ = w.Write(streamEnd)
	})
}

// serveProxy is the yardstick: Go's own reverse proxy with no features, its pool as wide as ours.
func serveProxy(target string) (http.Handler, error) {
	u, err := url.Parse(target)
	if err != nil {
		return nil, fmt.Errorf("parsing target: %w", err)
	}
	transport := http.DefaultTransport.(*http.Transport).Clone()
	transport.MaxIdleConns, transport.MaxIdleConnsPerHost = 0, 1024
	proxy := &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(u) },
		Transport:     transport,
		FlushInterval: -1,
	}
	// The body is read first: a proxy that still reads it when the answer ends cuts some streams
	// (golang/go#40747), and there would be nothing to compare.
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		proxy.ServeHTTP(w, r)
	}), nil
}

// serve listens on a free loopback port, says which on out, and serves until ctx ends.
func serve(ctx context.Context, h http.Handler, out io.Writer) error {
	var lc net.ListenConfig
	ln, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("listening: %w", err)
	}
	fmt.Fprintln(out, ln.Addr())
	server := &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() {
		<-ctx.Done()
		_ = server.Close()
	}()
	if err := server.Serve(ln); err != http.ErrServerClosed {
		return fmt.Errorf("serving: %w", err)
	}
	return nil
}
