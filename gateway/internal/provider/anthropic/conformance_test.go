package anthropic

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/providertest"
	"turnout/schemas/attempt"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newAdapter(transports *provider.Transports) provider.Adapter {
	return New(transports, "turnout/test", func() time.Time { return time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC) })
}

func TestConformance(t *testing.T) {
	providertest.Run(t, &providertest.Protocol{
		New: newAdapter, Base: "/v1", Path: "/messages", StreamPath: "/messages", Model: "claude-sonnet-4-5", Native: attempt.EndpointMessages,
		Speech: providertest.Messages,
	})
}
