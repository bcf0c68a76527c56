package dispatch

import (
	"slices"
	"time"

	"turnout/gateway/internal/state"
	"turnout/gateway/llm"
	"turnout/gateway/routing"
	"turnout/schemas/resource"
)

// fillRequest says what routing needs to know of the request, whatever the model.
func (r *run) fillRequest() {
	f := r.facts
	r.in.Request = routing.Request{
		ID: r.req.ID, Stream: f.Stream, Embedding: r.embeds(), PromptTokens: f.PromptTokens(), Images: int64(f.Images), MaxTokens: f.MaxTokens,
		Needs: needs(f), Effort: effortBits[f.ReasoningEffort], NoReasoning: f.NoReasoning, ServiceTier: serviceTier(f.ServiceTier),
		Session: r.session != "", Coding: r.coding != "", NoFallback: r.noFall,
		Strategy: strategyOf(r.strategy), StrategyField: f.Routing != "",
		Provider: r.resolved.Provider, Strict: r.resolved.Strict, Region: r.resolved.Region, AnyModel: r.resolved.Auto,
	}
	r.in.Config = &r.access.Project.Routing
	r.in.ExplorationRate = r.d.cfg.Exploration
}

// prepare makes the routing input for one model: what the plan knows, and what is true of its
// candidates at now.
func (r *run) prepare(p *plan, now time.Time) {
	r.plan = p
	r.reading = p.watch.Read(now)
	in := &r.in
	in.Mode, in.Workload = p.mode, p.workload
	in.Request.ReasoningBound = p.model.ReasoningBound
	in.Request.ImageOutput = slices.Contains(p.model.Output, "image")
	in.Candidates = append(in.Candidates[:0], p.template...)
	usage := r.d.metrics.Usage(p.project.ID, p.model.ID)
	in.Observed = routing.Observed{}
	if usage != nil {
		in.Observed = usage.Combined
	}
	forbidden := len(r.access.Key.Models) > 0 && !slices.Contains(r.access.Key.Models, p.model.ID)
	for i := range in.Candidates {
		c, l := &in.Candidates[i], &p.legs[i]
		c.Metrics = r.reading.Metrics[i]
		c.Deactivated = !l.candidate.Live(now)
		c.NotAllowed = forbidden
		if l.translated {
			for _, word := range r.facts.Own {
				c.Capabilities &^= capabilityBits[word]
			}
		}
		if r.facts.Tools {
			c.Capabilities &^= l.withoutTools
		}
		if l.bytesOnly {
			for _, word := range r.facts.Linked {
				c.Capabilities &^= capabilityBits[word]
			}
		}
		if l.outward {
			for _, word := range r.facts.Inward {
				c.Capabilities &^= capabilityBits[word]
			}
		}
		if usage != nil {
			if o := usage.ByProvider[c.Provider]; o.Enough() {
				c.HitRate, c.HitRateKnown = o.HitRate(), true
			}
		}
		l.unwell(c, now, in.Request.ServiceTier)
	}
	in.State = routing.State{}
	org := p.project.Organization.ID
	if r.session != "" {
		model := p.model.ID
		if r.resolved.Auto {
			model = "auto"
		}
		r.pinKey = state.PinKey(org, model, r.session)
		if place, ok := r.d.state.Place(r.pinKey); ok && (place.Model == "" || place.Model == p.model.ID) {
			in.State.Pin = routing.Place{Provider: place.Provider, Region: place.Region}
		}
	} else if p.project.Routing.Sticky.Enabled && !r.resolved.Auto {
		if place, ok := r.d.state.Place(p.preferences[in.Request.Strategy]); ok {
			in.State.Preferred = routing.Place{Provider: place.Provider, Region: place.Region}
		}
	}
}

// unwell takes from the candidate the kinds of key that cannot be used. A kind whose keys all cool down
// is left where no other is well, and then the candidate cools down: in hybrid mode the host's keys
// serve while the tenant's cannot.
func (l *leg) unwell(c *routing.Candidate, now time.Time, tier string) {
	if len(l.keys) == 0 {
		return
	}
	var well, usable, removed routing.Credentials
	cause, ends := routing.NotCooling, time.Time{}
	for i := range l.keys {
		k := &l.keys[i]
		if !sells(k, tier) {
			continue
		}
		switch phase := l.health[i].Phase(now); phase {
		case state.Removed:
			removed |= k.kind
		case state.Ready, state.Due:
			usable |= k.kind
			well |= k.kind
		default:
			usable |= k.kind
			cool := l.health[i].Cooldown()
			of := routing.CoolingErrors
			if cool.Cause == state.CauseRateLimit {
				of = routing.CoolingRateLimit
			}
			// One key that cools from errors makes the candidate one that may be a last resort.
			if cause == routing.NotCooling || of == routing.CoolingErrors && cause != of || of == cause && cool.Until.Before(ends) {
				cause, ends = of, cool.Until
			}
		}
	}
	c.Credentials, c.KeysRemoved = usable, removed&^usable
	c.Cooling, c.CooldownEndsMS = routing.NotCooling, 0
	if well != 0 {
		c.Credentials = well
	} else if cause != routing.NotCooling {
		c.Cooling, c.CooldownEndsMS = cause, max(ends.Sub(now).Milliseconds(), 0)
	}
}

func sells(k *legKey, tier string) bool {
	return tier == "" || len(k.credential.ServiceTiers) == 0 || slices.Contains(k.credential.ServiceTiers, tier)
}

// serviceTier is the tier asked for, "" for the standard one.
func serviceTier(word string) string {
	switch word {
	case "default", "auto", "standard", "standard_only":
		return ""
	}
	return word
}

func needs(f *llm.Facts) routing.Capability {
	var n routing.Capability
	set := func(on bool, c routing.Capability) {
		if on {
			n |= c
		}
	}
	set(f.Images > 0, routing.Vision)
	set(f.Audio, routing.Audio)
	set(f.Documents, routing.Documents)
	set(f.Tools, routing.Tools)
	set(f.WantsToolChoice(), routing.ToolChoice)
	set(f.ResponseFormat == resource.CapJSONObject, routing.JSONObject)
	set(f.ResponseFormat == resource.CapJSONSchema, routing.JSONSchema)
	set(f.Thinking, routing.Reasoning)
	set(f.N > 1, routing.N)
	set(f.WebSearch, routing.WebSearch)
	set(f.AssistantPrefill, routing.AssistantPrefill)
	return n
}
