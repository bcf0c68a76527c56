package httpapi

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"turnout/gateway/internal/dispatch"
	"turnout/gateway/internal/tenant"
	"turnout/gateway/llm"
)

// broken is a dispatcher with a mistake in it.
type broken struct{}

func (broken) Serve(context.Context, *dispatch.Request, dispatch.Reply) {
	panic("assignment to entry in nil map")
}
func (broken) Access(string) (*tenant.View, *tenant.Access, *llm.APIError) { return nil, nil, nil }
func (broken) Count(string, []byte) (int64, *llm.APIError)                 { return 0, nil }

func TestAPanicIsLoggedAndAnswered(t *testing.T) {
	var logged bytes.Buffer
	_, server := New(Config{
		Limits: DefaultLimits(), MaxBodyBytes: 1 << 20, MaxInFlight: 10, HeartbeatAfter: time.Minute, HeartbeatEvery: time.Minute,
		Log:   slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelError})),
		Ready: func() []string { return nil }, Notes: func() map[string]any { return nil }, Observe: func(string, int, time.Duration) {},
	}, broken{})
	ts := httptest.NewServer(server.Handler)
	defer ts.Close()
	resp, err := http.Post(ts.URL+"/v1/chat/completions", "application/json", strings.NewReader(`{"model":"m"}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, _ := io.ReadAll(resp.Body)
	if resp.StatusCode != http.StatusInternalServerError || !strings.Contains(string(body), `"internal_error"`) || strings.Contains(string(body), "nil map") {
		t.Errorf("%s %s", resp.Status, body)
	}
	id := resp.Header.Get("X-Request-Id")
	if text := logged.String(); id == "" || !strings.Contains(text, id) || !strings.Contains(text, "panic while serving") || !strings.Contains(text, "nil map") || !strings.Contains(text, "panic_test.go") {
		t.Errorf("request %q logged as %s", id, text)
	}
}
