package sim_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"turnout/deploy/sim"
)

func instant(t testing.TB) *sim.Server {
	t.Helper()
	b := sim.DefaultBehavior()
	b.OutputTokens = sim.Fixed(100)
	s, err := sim.New(sim.Options{Providers: []sim.Provider{{ID: "p", Models: []sim.Model{{ID: "m"}}, Behavior: b}}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// The handler alone, without a socket.
func BenchmarkPlain(b *testing.B) {
	s := instant(b)
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 200) + `"}]}`)
	b.ReportAllocs()
	for b.Loop() {
		r := httptest.NewRequest(http.MethodPost, "/p/v1/chat/completions", bytes.NewReader(body))
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
}

// Over loopback with keep-alive, both ends in this process.
func BenchmarkPlainSocket(b *testing.B) {
	s := instant(b)
	server := httptest.NewServer(s)
	defer server.Close()
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"` + strings.Repeat("word ", 200) + `"}]}`)
	server.Client().Transport.(*http.Transport).MaxIdleConnsPerHost = 64
	b.SetParallelism(16)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			resp, err := server.Client().Post(server.URL+"/p/v1/chat/completions", "application/json", bytes.NewReader(body))
			if err != nil {
				b.Error(err)
				return
			}
			io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		}
	})
}
