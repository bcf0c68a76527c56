package load

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"turnout/internal/lifecycle"
)

// A run in which every request failed ended with 0 and named a class of errors only.
func TestARunWithoutOneSuccessSaysWhyAndFails(t *testing.T) {
	refusing := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusUnauthorized)
		_, _ = w.Write([]byte(`{"error": {"code": "invalid_api_key", "message": "no key of this gateway"}}`))
	}))
	defer refusing.Close()
	for url, want := range map[string]string{
		"http://127.0.0.1:1": "first: Post \"http://127.0.0.1:1/v1/chat/completions\": dial tcp 127.0.0.1:1: connect: connection refused",
		refusing.URL:         "first: no key of this gateway",
	} {
		var out bytes.Buffer
		err := Main(t.Context(), lifecycle.Env{Args: []string{"--url", url, "--requests=3"}, Stdout: &out, Stderr: &out}, nil)
		if lifecycle.Code(err) != 1 || !strings.Contains(err.Error(), "not one request succeeded") {
			t.Errorf("%s: got %v", url, err)
		}
		if strings.Count(out.String(), want) != 1 {
			t.Errorf("%s: want %q once in:\n%s", url, want, out.String())
		}
	}
}
