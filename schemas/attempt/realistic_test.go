package attempt

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"

	"github.com/google/uuid"
)

// realistic returns an event as a busy gateway writes it, with n considered candidates: every group
// filled, ids that differ from event to event, figures with six digits that move every hundred
// events, as a snapshot and a node's own attempts move them.
func realistic(seed uint64, n int) *Event {
	r := rand.New(rand.NewPCG(seed, 7))
	at := time.Date(2026, 11, 30, 12, 0, 0, 0, time.UTC).Add(time.Duration(seed)*7*time.Millisecond + time.Duration(r.IntN(1000))*time.Microsecond)
	id := func() string {
		var b [16]byte
		for i := range b {
			b[i] = byte(r.Uint32())
		}
		ms := at.UnixMilli()
		for i := range 6 {
			b[i] = byte(ms >> (40 - 8*i))
		}
		b[6], b[8] = b[6]&0x0f|0x70, b[8]&0x3f|0x80
		return uuid.UUID(b).String()
	}
	providers := []string{"openai", "azure", "groq", "deepseek", "together", "fireworks", "bedrock", "vertex", "mistral", "novita"}
	models := []string{"gpt-5.4-mini", "deepseek-v3.2", "llama-4-maverick", "claude-sonnet-4-6"}
	projects := []string{"prj_0197c9a2", "prj_0197c9b7", "prj_0197ca01"}
	six := func(v float64) float64 { f, _ := strconv.ParseFloat(strconv.FormatFloat(v, 'g', 6, 64), 64); return f }
	ptr := func(v float64) *float64 { v = six(v); return &v }
	model, project := models[r.IntN(4)], projects[r.IntN(3)]
	input, output, ttft := r.Int64N(20000)+200, r.Int64N(2000)+20, r.Int64N(900_000)+100_000
	duration := ttft + output*9_000
	e := &Event{
		SchemaVersion: SchemaVersion, EventID: id(), RequestID: id(), SpanID: fmt.Sprintf("%016x", r.Uint64()),
		Purpose: PurposeRequest, AttemptNo: 1, ModelAttemptNo: 1, NodeID: "gw-eu-1", OrganizationID: "org_0197c990",
		ProjectID: project, APIKeyID: "key_" + project[4:], SessionHash: fmt.Sprintf("%032x", r.Uint64N(1<<40)),
		RequestedModel: model, Endpoint: EndpointChat, Stream: true, PromptTokensEstimate: input + 13,
		Client: "openai-python/2.8.1", Source: "agent", CodingClient: "claude-code", Strategy: "auto",
		Provider: providers[r.IntN(3)], Model: model, UpstreamModel: model + "-2026-08", Region: "eu-west-1",
		CredentialSource: Platform, ProviderKeyHash: "3fa9c01", ProviderKeyID: "pk_openai_1", ServiceTier: "default",
		Reason: "weighted-score", Propensity: .991, Seed: r.Uint64(), Draw: ptr(r.Float64()), AlgorithmVersion: 1,
		SnapshotID: "0197d000-0000-7000-8000-000000000001", ConfigVersion: "c8f1d20b7a91e3f4", EligibleProviderKeys: 3,
		HitRate: ptr(.312 + r.Float64()/1000), OutputRatio: ptr(.121), ConsideredTotal: n,
		StartedAt: at, FinishedAt: at.Add(time.Duration(duration) * time.Microsecond), ClockOffsetUS: -1204,
		QueueUS: 41 + r.Int64N(30), TTFTUS: &ttft, DurationUS: duration, OverheadUS: 95 + r.Int64N(40),
		Outcome: Completed, ErrorType: "none", StatusCode: 200, FinishReason: "stop",
		InputTokens: input, CachedInputTokens: input / 3, OutputTokens: output, ReasoningTokens: output / 4, UsageSource: UsageReported,
		PriceVersion: "p51a9be7c20d4f613", CostInputNanoUSD: input * 2 / 3 * 150, CostCachedNanoUSD: input / 3 * 15, CostOutputNanoUSD: output * 600,
		BaselineKind: "provider", BaselineModel: model, BaselineProvider: "bedrock", BaselineNanoUSD: input*300 + output*900,
	}
	e.RememberedProvider, e.RememberedRegion = e.Provider, e.Region
	if seed%2 == 0 {
		e.MaxTokens, e.Traits = 4096, []string{"tools"}
	}
	e.CostNanoUSD = e.CostInputNanoUSD + e.CostCachedNanoUSD + e.CostOutputNanoUSD
	r = rand.New(rand.NewPCG(seed/100, uint64(len(model)))) // the same for all requests of a model, for a while
	for i := range n {
		c := Considered{
			Provider: providers[i%len(providers)], Region: "eu-west-1", Score: ptr(r.Float64() * 3), Price: six(.3 + float64(i)/7),
			Uptime: ptr(100 - r.Float64()), Latency: ptr(200 + 900*r.Float64()), Throughput: ptr(20 + 100*r.Float64()), Priority: 1, CacheSupported: i%2 == 0,
		}
		if i == 9 {
			c.ExcludedCode, c.CooldownCause, c.CooldownEndsMS = "cooldown", "errors", at.UnixMilli()+5000
		}
		e.Considered = append(e.Considered, c)
	}
	return e
}
