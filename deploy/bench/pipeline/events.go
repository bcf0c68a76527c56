package main

import (
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"turnout/internal/kafkax"
	"turnout/schemas/attempt"
)

// generator makes events with everything that a decision among five candidates leaves behind.
type generator struct {
	rng   *rand.Rand
	start time.Time
}

func newGenerator() *generator {
	return &generator{rng: rand.New(rand.NewPCG(1, 2)), start: time.Now().Add(-5 * time.Minute)}
}

func (g *generator) records(n int64) []kafkax.Record {
	out := make([]kafkax.Record, n)
	for i := range out {
		e := g.event()
		out[i] = kafkax.Record{Key: []byte(e.RequestID), Value: attempt.Append(nil, e), Time: e.FinishedAt}
	}
	return out
}

func (g *generator) event() *attempt.Event {
	id, request := uuid.Must(uuid.NewV7()), uuid.Must(uuid.NewV7()).String()
	ttft := int64(1000 * (1 + g.rng.IntN(900)))
	duration := ttft + int64(g.rng.IntN(2_000_000))
	finished := g.start.Add(time.Duration(g.rng.IntN(60_000_000)) * time.Microsecond).UTC().Truncate(time.Microsecond)
	draw := g.rng.Float64()
	cost := int64(g.rng.IntN(1_000_000))
	e := &attempt.Event{
		SchemaVersion: 1, EventID: id.String(), RequestID: request, ClientRequestID: "req-" + request[:8], SpanID: fmt.Sprintf("%016x", g.rng.Uint64()), Purpose: attempt.PurposeRequest,
		AttemptNo: 1, ModelAttemptNo: 1, NodeID: "node-1", OrganizationID: "acme", ProjectID: fmt.Sprintf("project-%d", g.rng.IntN(3)), APIKeyID: "key-1", SessionHash: strings.Repeat("ab", 16),
		RequestedModel: "m", Endpoint: attempt.EndpointChat, Stream: g.rng.IntN(2) == 0, Client: "openai-python", Source: "bench", Strategy: "auto",
		Provider: fmt.Sprintf("provider-%d", g.rng.IntN(5)), Model: fmt.Sprintf("model-%d", g.rng.IntN(10)), UpstreamModel: "m-upstream", Region: "eu-west-1", CredentialSource: attempt.Platform, ProviderKeyHash: "1a2b3c4",
		Reason: "weighted-score", Propensity: 1, Seed: g.rng.Uint64(), Draw: &draw, AlgorithmVersion: 1, SnapshotID: request, ConfigVersion: "3f2a9c1d", ConsideredTotal: 5,
		StartedAt: finished.Add(-time.Duration(duration) * time.Microsecond), FinishedAt: finished, QueueUS: 120, OverheadUS: 340, DurationUS: duration,
		Outcome: attempt.Completed, StatusCode: 200, FinishReason: "stop", InputTokens: int64(g.rng.IntN(5000)), OutputTokens: int64(1 + g.rng.IntN(800)), UsageSource: attempt.UsageReported,
		PriceVersion: "77e0b1aa", CostNanoUSD: cost, CostInputNanoUSD: cost / 2, CostOutputNanoUSD: cost - cost/2, BaselineKind: "provider", BaselineModel: "m", BaselineProvider: "provider-4", BaselineNanoUSD: 2 * cost,
	}
	if e.Stream {
		e.TTFTUS = &ttft
	}
	if g.rng.IntN(8) == 0 {
		e.Outcome, e.StatusCode, e.OutputTokens, e.WillRetry = attempt.UpstreamError, 500, 0, true
	}
	for i := range 5 {
		score, uptime, latency, throughput := float64(i)/7, 99.5-float64(i), 300+10*float64(i), 80-float64(i)
		e.Considered = append(e.Considered, attempt.Considered{Provider: fmt.Sprintf("provider-%d", i), Region: "eu-west-1", Score: &score, Price: 1.25 + float64(i)/8, Uptime: &uptime, Latency: &latency, Throughput: &throughput, Priority: 1, CacheSupported: true})
	}
	return e
}

// cpu is the user and system time of a process so far, 0 if it is gone.
func cpu(pid int) time.Duration {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	text := string(data)
	fields := strings.Fields(text[strings.LastIndexByte(text, ')')+1:])
	var ticks int64
	for _, f := range fields[11:13] {
		n, _ := strconv.ParseInt(f, 10, 64)
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond // USER_HZ is 100
}
