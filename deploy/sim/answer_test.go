package sim

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// checkAnswer sends any body and demands that what comes back is JSON, or events of JSON and an end.
func checkAnswer(t *testing.T, s *Server, body []byte) {
	t.Helper()
	w := httptest.NewRecorder()
	s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/p/v1/chat/completions", bytes.NewReader(body)))
	if w.Header().Get("Content-Type") != "text/event-stream" {
		if !json.Valid(w.Body.Bytes()) {
			t.Fatalf("%q: answered %q", body, w.Body)
		}
		return
	}
	events := strings.Split(strings.TrimSuffix(w.Body.String(), "\n\n"), "\n\n")
	for i, event := range events {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || i < len(events)-1 && !json.Valid([]byte(data)) || i == len(events)-1 && data != "[DONE]" {
			t.Fatalf("%q: event %d is %q", body, i, event)
		}
	}
	if e := s.Ledger(0); e[len(e)-1].Outcome != Completed {
		t.Fatalf("ledger %+v", e[len(e)-1])
	}
}
