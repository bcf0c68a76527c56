package openai

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/internal/testkit/upstream"
)

// The rules live above the protocol; here only that streams end and are let go over it.
func TestHTTP2Stream(t *testing.T) {
	left := make(chan struct{}, 1)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		_, _ = io.WriteString(w, "data: "+upstream.Chunk(`{"content":"a"}`, "")+"\n\n")
		w.(http.Flusher).Flush()
		if r.Header.Get("X-Hold") != "" {
			<-r.Context().Done()
			left <- struct{}{}
			return
		}
		_, _ = io.WriteString(w, "data: "+upstream.Chunk(`{}`, "stop")+"\n\ndata: [DONE]\n\n")
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	transports := provider.NewTransports(server.Client().Transport.(*http.Transport).TLSClientConfig)
	defer transports.CloseIdle()
	a := New(transports, "turnout/test", time.Now)

	call := newCall(t, server.URL, streaming)
	call.Target.HTTP2 = true
	if r := relay(t, a, context.Background(), call); r.err != nil || !r.done() || contents(r.text) != "a" {
		t.Fatalf("%v %q", r.err, r.text)
	}
	call = newCall(t, server.URL, streaming)
	call.Target.HTTP2 = true
	call.Header = http.Header{"X-Hold": {"1"}}
	s, failure := a.Stream(context.Background(), call)
	if failure != nil {
		t.Fatal(failure)
	}
	if _, err := s.Next(); err != nil {
		t.Fatal(err)
	}
	s.Close()
	select {
	case <-left:
	case <-time.After(time.Second):
		t.Fatal("the upstream was not let go")
	}
}
