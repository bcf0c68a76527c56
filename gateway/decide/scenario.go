package decide

import (
	"errors"
	"math"

	"turnout/gateway/pricing"
	"turnout/gateway/routing"
	"turnout/schemas/resource"
)

// scenario is what was read: the input of a decision without what the model id means.
type scenario struct {
	model           string // as asked for
	routingField    bool
	defaultStrategy routing.Strategy
	input           routing.Input
}

var strategies = map[string]routing.Strategy{
	"auto": routing.StrategyAuto, "price": routing.StrategyPrice,
	"throughput": routing.StrategyThroughput, "latency": routing.StrategyLatency,
}

var modes = map[string]routing.Mode{
	"platform": routing.ModePlatform, "byok": routing.ModeBYOK, "hybrid": routing.ModeHybrid,
	"credits": routing.ModePlatform, "api-keys": routing.ModeBYOK,
}

var workloads = map[string]routing.Workload{
	"api": routing.WorkloadAPI, "coding": routing.WorkloadCoding, "chat": routing.WorkloadChat,
}

var capabilities = map[string]routing.Capability{
	resource.CapVision: routing.Vision, resource.CapAudio: routing.Audio, resource.CapDocuments: routing.Documents,
	resource.CapTools: routing.Tools, resource.CapToolChoice: routing.ToolChoice,
	resource.CapJSONObject: routing.JSONObject, resource.CapJSONSchema: routing.JSONSchema,
	resource.CapReasoning: routing.Reasoning, resource.CapN: routing.N, resource.CapWebSearch: routing.WebSearch,
	resource.CapAssistantPrefill: routing.AssistantPrefill, resource.CapSafeguards: routing.Safeguards,
}

var efforts = map[string]routing.Effort{
	"none": routing.EffortNone, "minimal": routing.EffortMinimal, "low": routing.EffortLow,
	"medium": routing.EffortMedium, "high": routing.EffortHigh, "xhigh": routing.EffortXHigh, "max": routing.EffortMax,
}

// statuses and stabilities set what a word says about a mapping.
type standing struct{ deactivated, deprecated, unstable bool }

var statuses = map[string]standing{"active": {}, "deprecated": {deprecated: true}, "deactivated": {deactivated: true}}

var stabilities = map[string]standing{"stable": {}, "beta": {}, "unstable": {unstable: true}, "experimental": {unstable: true}}

var credentials = map[string]routing.Credentials{"platform": routing.Platform, "byok": routing.BYOK}

var causes = map[string]routing.Cause{"errors": routing.CoolingErrors, "rate_limit": routing.CoolingRateLimit}

// read reads a scenario. The error names the path of the first mistake.
func read(data []byte) (*scenario, error) {
	r := &reader{}
	raw := r.document(data)
	if r.err != nil {
		return nil, r.err
	}
	s := &scenario{}
	o := r.object("", raw)
	s.request(o)
	s.project(o)
	s.mappings(o)
	s.usage(o)
	if state, ok := o.object("state"); ok {
		s.input.State.Preferred, s.input.State.Pin = place(state, "preferred"), place(state, "pin")
		state.done()
	}
	s.input.Request.Draw, s.input.Request.Pick = o.fraction("draw"), o.fraction("pick")
	o.done()
	return s, r.err
}

func (s *scenario) request(top *object) {
	o, ok := top.object("request")
	if !ok {
		return
	}
	req := &s.input.Request
	req.ID, s.model = o.text("id"), o.text("model")
	req.Stream = o.bool("stream")
	req.PromptTokens, req.MaxTokens = o.count("prompt_tokens"), o.count("max_tokens")
	if raw, ok := o.take("routing"); ok {
		s.routingField = true
		req.Strategy = wordOf(o.r, o.in("routing"), raw, strategies)
	}
	req.Session = o.text("session") != ""
	req.NoFallback, req.Coding = o.bool("no_fallback"), o.bool("coding")
	if needs, ok := o.object("needs"); ok {
		req.Needs = flags(needs)
		word(needs, "reasoning_effort", &req.Effort, efforts)
		req.NoReasoning = needs.bool("no_reasoning")
		req.ServiceTier = needs.text("service_tier")
		needs.done()
	}
	if req.Needs&routing.Vision != 0 {
		req.Images = 1
	}
	o.done()
}

// flags reads the booleans of needs and capabilities.
func flags(o *object) routing.Capability {
	var set routing.Capability
	for _, name := range capabilityOrder {
		if o.bool(name) {
			set |= capabilities[name]
		}
	}
	return set
}

// capabilityOrder fixes which of several mistakes is named.
var capabilityOrder = []string{
	resource.CapVision, resource.CapAudio, resource.CapDocuments, resource.CapTools, resource.CapToolChoice,
	resource.CapJSONObject, resource.CapJSONSchema, resource.CapReasoning, resource.CapN, resource.CapWebSearch,
	resource.CapAssistantPrefill, resource.CapSafeguards,
}

func (s *scenario) project(top *object) {
	config := resource.DefaultRouting()
	s.input.Config = &config
	o, ok := top.object("project")
	if !ok {
		return
	}
	word(o, "mode", &s.input.Mode, modes)
	word(o, "workload", &s.input.Workload, workloads)
	word(o, "default_strategy", &s.defaultStrategy, strategies)
	if raw, ok := o.take("config"); ok {
		const path = "project.config"
		read, err := resource.ParseRouting(resource.Source{Name: "scenario.json", Data: raw}, path)
		if err != nil {
			o.r.mistake(path, err)
		}
		config = read
	}
	o.done()
}

// mistake takes over the first mistake of a configuration.
func (r *reader) mistake(path string, err error) {
	var one *resource.Error
	if errors.As(err, &one) {
		r.fail(one.Path, "%s", one.Message)
		return
	}
	r.fail(path, "%s", err)
}

func (s *scenario) mappings(top *object) {
	list, ok := top.list("mappings")
	if !ok {
		top.lacks("mappings", "a list of who serves the model")
		return
	}
	seen := map[routing.Place]bool{}
	for i, raw := range list {
		o := top.r.object(top.element("mappings", i), raw)
		c := mapping(o, s.input.Config.Thresholds.UptimeMinAttempts)
		o.done()
		at := routing.Place{Provider: c.Provider, Region: c.Region}
		if seen[at] {
			top.r.fail(o.path, "provider and region stand here twice: keep one")
		}
		seen[at] = true
		s.input.Candidates = append(s.input.Candidates, c)
	}
}

func mapping(o *object, minAttempts int64) routing.Candidate {
	c := routing.Candidate{
		Provider: o.text("provider"), Region: o.text("region"),
		Context: o.count("context"), MaxOutput: o.count("max_output"), ImageTokens: o.count("image_tokens"),
		RateLimited: o.bool("rate_limited"), Custom: o.bool("custom"), LockRegion: o.text("lock_region"),
		Priority: 1, Credentials: routing.Platform, Capabilities: routing.EveryCapability,
	}
	if c.Provider == "" {
		o.lacks("provider", "the name of who serves the model")
	}
	if priority, ok := o.number("priority", 0, math.MaxFloat64); ok {
		c.Priority = priority
	}
	schedule := &pricing.Schedule{Price: price(o)}
	if discount, ok := o.number("discount", 0, 1); ok {
		schedule.Discount = discount * 100
	}
	tiers, _ := o.list("service_tiers")
	for i, raw := range tiers {
		schedule.ServiceTiers = append(schedule.ServiceTiers,
			resource.ServiceTier{ID: o.r.text(o.element("service_tiers", i), raw), Price: schedule.Price})
	}
	c.Schedule = schedule
	metrics(o, &c, minAttempts)
	offers(o, &c)
	var status, stability standing
	word(o, "status", &status, statuses)
	word(o, "stability", &stability, stabilities)
	c.Deactivated, c.Deprecated, c.Unstable = status.deactivated, status.deprecated, stability.unstable
	if kinds, ok := o.list("credentials"); ok {
		c.Credentials = 0
		for i, raw := range kinds {
			c.Credentials |= wordOf(o.r, o.element("credentials", i), raw, credentials)
		}
	}
	cooldown(o, &c)
	return c
}

func price(o *object) resource.Price {
	var p resource.Price
	in, ok := o.object("price")
	if !ok {
		o.lacks("price", `such as {"input": 0.5, "output": 2}, USD per 1M tokens,`)
		return p
	}
	input, output := in.rate("input"), in.rate("output")
	if input != nil {
		p.Input = *input
	}
	if output != nil {
		p.Output = *output
	}
	p.CachedInput = in.rate("cached_input")
	in.done()
	return p
}

// metrics reads the figures. Attempts, where given, apply the rule for small counts.
func metrics(o *object, c *routing.Candidate, minAttempts int64) {
	in, ok := o.object("metrics")
	if !ok {
		return
	}
	m := &c.Metrics
	if m.Uptime, ok = in.number("uptime", 0, 100); ok {
		m.Known |= routing.KnownUptime
	}
	if _, given := in.take("attempts"); given {
		m.Uptime = routing.AdjustUptime(m.Uptime, in.count("attempts"), minAttempts)
	}
	if m.Throughput, ok = in.number("throughput", 0, math.MaxFloat64); ok {
		m.Known |= routing.KnownThroughput
	}
	if m.Latency, ok = in.number("latency", 0, math.MaxFloat64); ok {
		m.Known |= routing.KnownLatency
	}
	in.done()
}

// offers reads what the mapping can do.
func offers(o *object, c *routing.Candidate) {
	if raw, ok := o.take("capabilities"); ok {
		path := o.in("capabilities")
		c.Capabilities = 0
		if kindOf(raw) == "an object" {
			in := o.r.object(path, raw)
			c.Capabilities = flags(in)
			in.done()
		} else {
			words, _ := o.list("capabilities")
			for i, w := range words {
				c.Capabilities |= wordOf(o.r, o.element("capabilities", i), w, capabilities)
			}
		}
	}
	words, _ := o.list("reasoning_efforts")
	for i, w := range words {
		c.Efforts |= wordOf(o.r, o.element("reasoning_efforts", i), w, efforts)
	}
}

// cooldown is true, or an object that says when it ends and why it began.
func cooldown(o *object, c *routing.Candidate) {
	raw, ok := o.take("cooldown")
	if !ok {
		return
	}
	if kindOf(raw) == "true" || kindOf(raw) == "false" {
		if kindOf(raw) == "true" {
			c.Cooling = routing.CoolingErrors
		}
		return
	}
	in := o.r.object(o.in("cooldown"), raw)
	c.Cooling = routing.CoolingErrors
	word(in, "cause", &c.Cooling, causes)
	c.CooldownEndsMS = in.count("ends_in_ms")
	in.done()
}

func (s *scenario) usage(top *object) {
	o, ok := top.object("usage")
	if !ok {
		return
	}
	if combined, ok := o.object("combined"); ok {
		s.input.Observed = observed(combined)
	}
	if by, ok := o.object("by_provider"); ok {
		for i, provider := range by.names {
			by.taken[i] = true
			seen := observed(by.r.object(by.in(provider), by.values[i]))
			s.provider(provider, seen)
		}
	}
	o.done()
}

// provider gives a provider's own hit rate to each of its regions, if it was observed well enough.
func (s *scenario) provider(provider string, seen routing.Observed) {
	for i := range s.input.Candidates {
		if c := &s.input.Candidates[i]; c.Provider == provider && seen.Enough() {
			c.HitRate, c.HitRateKnown = seen.HitRate(), true
		}
	}
}

func observed(o *object) routing.Observed {
	seen := routing.Observed{
		Successes: o.count("successes"), InputTokens: o.count("input_tokens"),
		CachedInputTokens: o.count("cached_input_tokens"), OutputTokens: o.count("output_tokens"),
	}
	o.done()
	return seen
}

func place(o *object, name string) routing.Place {
	in, ok := o.object(name)
	if !ok {
		return routing.Place{}
	}
	p := routing.Place{Provider: in.text("provider"), Region: in.text("region")}
	in.done()
	return p
}
