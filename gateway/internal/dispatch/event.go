package dispatch

import (
	"math/rand/v2"
	"strings"
	"time"

	"github.com/google/uuid"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/state"
	"turnout/gateway/llm"
	"turnout/gateway/pricing"
	"turnout/gateway/routing"
	"turnout/schemas/attempt"
)

func newID() string { return uuid.Must(uuid.NewV7()).String() }

const hexDigits = "0123456789abcdef"

func randomHex(digits int) string {
	b := make([]byte, digits)
	for i := 0; i < digits; i += 16 {
		n := rand.Uint64()
		for j := i; j < min(i+16, digits); j++ {
			b[j] = hexDigits[n&15]
			n >>= 4
		}
	}
	return string(b)
}

// trace is the trace id of the request: the client's, if it sent a good traceparent, else a new one.
func (r *run) trace() string {
	if r.traceID != "" {
		return r.traceID
	}
	r.traceID = strings.ReplaceAll(r.req.ID, "-", "")
	if p := r.req.Header.Get("Traceparent"); len(p) >= 55 && p[2] == '-' && p[35] == '-' {
		if id := p[3:35]; isHex(id) && strings.Trim(id, "0") != "" {
			r.traceID = id
		}
	}
	return r.traceID
}

func isHex(s string) bool {
	return strings.Trim(s, hexDigits) == ""
}

// startEvent says what is known before the call leaves.
func (r *run) startEvent(at step, use state.Use, began time.Time) *attempt.Event {
	l, f := &r.plan.legs[at.leg], r.facts
	k := &l.keys[at.key]
	p := r.access.Project
	d := &r.first
	offset := r.d.metrics.Offset()
	e := &attempt.Event{
		SchemaVersion: attempt.SchemaVersion, EventID: newID(), RequestID: r.req.ID, ClientRequestID: clientRequestID(r.req.Header),
		SpanID: randomHex(16), Purpose: attempt.PurposeRequest, AttemptNo: len(r.calls) + 1, ModelAttemptNo: len(r.calls) + 1,
		NodeID: r.d.cfg.NodeID, OrganizationID: r.access.Organization.ID, ProjectID: p.ID, APIKeyID: r.access.Key.ID, SessionHash: r.session,
		RequestedModel: cut(f.Model, 256), RequestedProvider: r.resolved.Provider, Endpoint: r.req.Endpoint, Stream: f.Stream,
		PromptTokensEstimate: r.in.Request.PromptTokens, Client: r.client, Source: cut(r.req.Header.Get("X-Source"), 64),
		CodingClient: r.coding, Strategy: r.strategy,
		Provider: l.candidate.Provider.ID, Model: l.candidate.Model.ID, UpstreamModel: l.candidate.Upstream, Region: l.candidate.Region,
		CredentialSource: attempt.Platform, ProviderKeyHash: k.hash, ServiceTier: r.in.Request.ServiceTier,
		CustomProvider: l.candidate.Organization != "",
		Reason:         string(at.reason), Propensity: at.propensity, Seed: routing.Seed(r.req.ID), AlgorithmVersion: routing.AlgorithmVersion,
		SnapshotID: r.reading.SnapshotID, ConfigVersion: p.ConfigVersion, NoFallback: r.noFall, PriceVersion: r.view.PriceVersion,
		OriginalProvider: d.OriginalProvider,
		StartedAt:        began.Add(-offset).UTC(), ClockOffsetUS: offset.Microseconds(), QueueUS: began.Sub(r.req.ReadAt).Microseconds(),
	}
	r.event = e
	e.Traceparent = "00-" + r.trace() + "-" + e.SpanID + "-01"
	if use.Probe {
		e.Purpose = attempt.PurposeProbe
	}
	if k.kind == routing.BYOK {
		e.CredentialSource, e.ProviderKeyID, e.ProviderKeyLabel = attempt.BYOK, k.credential.ID, k.label
	}
	if r.plan.mode != routing.ModePlatform && l.candidate.Organization == "" {
		for i := range l.keys {
			if l.keys[i].kind == routing.BYOK && l.health[i].Phase(began.Add(-offset)) != state.Removed {
				e.EligibleProviderKeys++
			}
		}
	}
	if at.strip {
		e.StrippedParameters = []string{"tool_choice"}
	}
	if d.OriginalUptimeKnown {
		e.OriginalUptime = number(d.OriginalUptime)
	}
	if len(r.calls) == 0 {
		if r.redecided {
			d, e.Redecided = &r.next, true
		}
		r.seen = d.Considered(&r.in, nil)
		e.Considered, e.ConsideredTotal = r.seen, len(r.in.Candidates)
		e.MaxTokens, e.Traits = f.MaxTokens, r.traits(r.plan.model.ReasoningBound, "")
		e.ExplorationRate = r.d.cfg.Exploration
		remembered := r.in.State.Pin
		if r.session == "" {
			remembered = r.in.State.Preferred
		}
		e.RememberedProvider, e.RememberedRegion = remembered.Provider, remembered.Region
		if d.Reason == routing.RandomExploration || d.Propensity < 1 {
			draw := d.Draw // all its digits: just below the rate must stay below it
			e.Draw = &draw
		}
		if d.CacheRelevant {
			e.HitRate, e.OutputRatio = number(d.HitRate), number(d.OutputRatio)
		}
	}
	return e
}

// traits are what else of the request and its model a decision depends on.
func (r *run) traits(bound bool, tier string) []string {
	q := &r.in.Request
	if q.Needs == 0 && !q.Strict && !bound && !q.ImageOutput && !q.NoReasoning && q.Effort == routing.EffortUnset && q.BoundTo == "" && tier == "" {
		return nil
	}
	var out []string
	add := func(on bool, trait string) {
		if on {
			out = append(out, trait)
		}
	}
	add(q.Strict, attempt.TraitStrict)
	add(bound, attempt.TraitReasoningBound)
	add(q.BoundTo != "", attempt.TraitBoundTo+q.BoundTo)
	add(q.ImageOutput, attempt.TraitImageOutput)
	add(q.NoReasoning, attempt.TraitNoReasoning)
	add(q.Effort != routing.EffortUnset, attempt.TraitEffort+r.facts.ReasoningEffort)
	add(tier != "", attempt.TraitServiceTier+tier)
	for _, c := range capabilityWords {
		add(q.Needs&capabilityBits[c] != 0, c)
	}
	return out
}

func number(v float64) *float64 {
	v = routing.Round6(v)
	return &v
}

// endEvent adds what the call brought: result, or the failure.
func (r *run) endEvent(began time.Time, c *provider.Call, res provider.Result, failed *llm.Error) {
	e, now := r.event, time.Now()
	took := now.Sub(began)
	r.upUS += took.Microseconds()
	e.FinishedAt = now.Add(-r.d.metrics.Offset()).UTC()
	e.DurationUS = took.Microseconds()
	if c != nil {
		e.ConnectUS = c.Timing.Connect.Microseconds()
		if first := c.Timing.FirstOutput; first > 0 && r.facts.Stream {
			us := first.Microseconds()
			e.TTFTUS = &us
		}
		if c.Timing.Total > 0 {
			e.DurationUS = c.Timing.Total.Microseconds()
		}
	}
	e.OverheadUS = max(now.Sub(r.req.ReadAt).Microseconds()-r.upUS, 0)
	e.Outcome, e.ErrorType, e.StatusCode = attempt.Completed, "none", res.Status
	e.FinishReason = cut(res.FinishReason, 64)
	if c != nil {
		e.StrippedParameters = append(e.StrippedParameters, c.Stripped...)
	}
	if failed == nil {
		r.sealed(res.Sealed)
	} else {
		e.Outcome, e.ErrorType, e.StatusCode = failed.Class, failed.ErrorType(), failed.Status
		e.GeoBlocked = geoBlocked(failed)
	}
	r.price(res, failed)
}

// geoBlocked says whether a refusal is about the place the call came from.
func geoBlocked(e *llm.Error) bool {
	if e.Class != attempt.GatewayError { // Google's are 400, others' 403
		return false
	}
	message := strings.ToLower(e.Message)
	return e.Code == "unsupported_country_region_territory" || strings.Contains(message, "country, region, or territory") ||
		strings.Contains(message, "not available in your country") || strings.Contains(message, "location is not supported")
}

// price stamps usage, cost and, on what ended well, the baseline.
func (r *run) price(res provider.Result, failed *llm.Error) {
	e, u := r.event, &res.Usage
	e.UsageSource, e.UsageFlag = u.Source, u.Flag
	if e.UsageSource == "" {
		e.UsageSource = attempt.UsageMissing
	}
	e.InputTokens, e.CachedInputTokens, e.CacheWriteTokens, e.CacheWrite1hTokens = u.InputTokens, u.CachedInputTokens, u.CacheWriteTokens, u.CacheWrite1hTokens
	e.OutputTokens, e.ReasoningTokens = u.OutputTokens, u.ReasoningTokens
	e.ImageInputTokens, e.AudioInputTokens, e.ImageOutputTokens, e.AudioOutputTokens = u.ImageInputTokens, u.AudioInputTokens, u.ImageOutputTokens, u.AudioOutputTokens
	if e.UsageSource == attempt.UsageMissing {
		return
	}
	l := &r.plan.legs[r.calls[len(r.calls)-1].leg]
	pu := pricing.Usage{
		Input: u.InputTokens, Cached: u.CachedInputTokens, CacheWrite: u.CacheWriteTokens, CacheWrite1h: u.CacheWrite1hTokens,
		ImageInput: u.ImageInputTokens, AudioInput: u.AudioInputTokens, Output: u.OutputTokens, ImageOutput: u.ImageOutputTokens, AudioOutput: u.AudioOutputTokens,
		ServiceTier: r.in.Request.ServiceTier,
	}
	cost := l.schedule.Cost(&pu)
	e.CostInputNanoUSD, e.CostCachedNanoUSD, e.CostCacheWriteNanoUSD, e.CostOutputNanoUSD = cost.Input, cost.Cached, cost.CacheWrite, cost.Output
	e.CostImageInputNanoUSD, e.CostAudioNanoUSD, e.CostRequestNanoUSD = cost.ImageInput, cost.Audio, cost.Request
	e.CostNanoUSD = cost.Total()
	if failed != nil {
		return
	}
	b := r.baseline(&pu, e.CostNanoUSD)
	e.BaselineKind, e.BaselineModel, e.BaselineProvider, e.BaselineNanoUSD = b.Kind, b.Model, b.Provider, b.NanoUSD
}

type options []pricing.Option

// baseline is what the same tokens would have cost at the dearest choice there was (routing.md 12).
func (r *run) baseline(u *pricing.Usage, actual int64) pricing.Baseline {
	if r.resolved.Auto {
		return pricing.ModelBaseline(u, actual, r.options)
	}
	r.options = r.options[:0]
	r.eligible(&r.first)
	return pricing.ProviderBaseline(u, actual, r.options)
}

// eligible adds the candidates that a decision scored to the options.
func (r *run) eligible(d *routing.Decision) {
	for i := range d.Scores {
		c := &r.in.Candidates[d.Scores[i].Candidate]
		r.options = append(r.options, pricing.Option{Model: c.Model, Provider: c.Provider, Region: c.Region, Schedule: c.Schedule})
	}
}
