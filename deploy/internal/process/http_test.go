package process_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"turnout/deploy/internal/process"
)

func TestAwaitOK(t *testing.T) {
	var asked atomic.Int64
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) < 3 {
			http.Error(w, "no resources", http.StatusServiceUnavailable)
		}
	}))
	defer s.Close()
	if err := process.AwaitOK(t.Context(), "it", s.URL); err != nil || asked.Load() != 3 {
		t.Errorf("%v after %d", err, asked.Load())
	}
	asked.Store(-1 << 30)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	err := process.AwaitOK(ctx, "the gateway", s.URL)
	for _, want := range []string{"the gateway", "503 no resources", "deadline"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v lacks %q", err, want)
		}
	}
}
