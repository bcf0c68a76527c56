package bedrock

import (
	"net/http"
	"slices"
	"testing"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
)

func TestBetasComeFromTheClientsHeader(t *testing.T) {
	call := &provider.Call{Header: http.Header{"Anthropic-Beta": {"a-1, b-2", "c-3"}}}
	var s llm.Sending
	if sending(call, &s); !slices.Equal(s.Betas, []string{"a-1", "b-2", "c-3"}) {
		t.Errorf("%q", s.Betas)
	}
}
