package routing

import "math/bits"

const (
	defaultAnswer = 4096 // tokens of room for an answer whose length is not given
	imageTokens   = 560  // tokens of an image in the context
)

// side is a part of the candidates that is filtered by itself: "unless it is all there is" asks
// about the candidates of the same side.
type side uint8

const (
	asked  side = iota // what the request names, or everything if it names nothing
	others             // a fallback at best
)

func sideOf(r *Request, c *Candidate) side {
	if r.Provider != "" && c.Provider != r.Provider || r.BoundTo != "" && c.Provider != r.BoundTo {
		return others
	}
	return asked
}

// filter gives each candidate of one side that may not serve the request its code and returns how
// many are left. The passes are the rows of routing.md 1 in order; a new one begins where a rule
// asks what is left so far.
func (d *Decision) filter(in *Input, retry *Retry, on side) (left int) {
	r := &in.Request
	current, customs := 0, 0
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if c.Custom {
			customs++
		}
		switch {
		case sideOf(r, c) != on:
		case c.Dropped != Eligible:
			d.codes[i] = c.Dropped
		case c.Deactivated:
			d.codes[i] = CodeDeactivated
		case !c.Deprecated && !elsewhere(r, c, on):
			current++
		}
	}

	honours := 0
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if sideOf(r, c) != on || d.codes[i] != Eligible {
			continue
		}
		if c.Deprecated && current > 0 {
			d.codes[i] = CodeDeprecated
			continue
		}
		d.codes[i] = admit(in, retry, i)
		if d.codes[i] == Eligible && c.Capabilities&ToolChoice != 0 {
			honours++
		}
	}

	needs := r.Needs
	if needs&ToolChoice != 0 && honours == 0 && !r.AnyModel {
		needs &^= ToolChoice
		d.stripped[on] = true
	}
	stable := 0
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if sideOf(r, c) != on || d.codes[i] != Eligible {
			continue
		}
		d.codes[i] = able(r, c, needs)
		if d.codes[i] == Eligible && !c.Unstable {
			stable++
		}
	}

	well, cooling := 0, 0
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if sideOf(r, c) != on || d.codes[i] != Eligible {
			continue
		}
		switch {
		case c.Unstable && stable > 0:
			d.codes[i] = CodeUnstable
		case !(priority(in, c) > 0):
			d.codes[i] = CodeDisabled
		case c.RateLimited:
			d.codes[i] = CodeRateLimited
		case c.Cooling == NotCooling:
			well++
		default:
			cooling++
		}
	}
	left = well
	if cooling > 0 {
		left = d.dropCooling(in, on, well)
	}
	if customs > 0 {
		left -= d.dropCustom(in, on)
	}
	return left
}

// dropCooling excludes candidates that are cooling down, unless nothing else is left: then the one
// whose cooldown from errors ends first is called all the same. It returns how many are left.
func (d *Decision) dropCooling(in *Input, on side, well int) int {
	first := -1
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if d.codes[i] != Eligible || c.Cooling == NotCooling || sideOf(&in.Request, c) != on {
			continue
		}
		d.codes[i] = CodeCooldown
		if c.Cooling == CoolingErrors && (first < 0 || c.CooldownEndsMS < in.Candidates[first].CooldownEndsMS) {
			first = i
		}
	}
	if well > 0 || first < 0 {
		return well
	}
	d.codes[first], d.lastResort = Eligible, true
	return 1
}

// dropCustom excludes custom providers of low uptime where the model was asked for by its bare id
// and somebody else is left. It returns how many it dropped.
func (d *Decision) dropCustom(in *Input, on side) (dropped int) {
	r, floor := &in.Request, in.Config.Retry.LowUptimeFallbackThreshold
	if r.Provider != "" {
		return 0
	}
	low, rest := 0, 0
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if d.codes[i] != Eligible || sideOf(r, c) != on {
			continue
		}
		if c.Custom && c.below(floor) {
			low++
		} else {
			rest++
		}
	}
	if low == 0 || rest == 0 {
		return 0
	}
	for i := range in.Candidates {
		c := &in.Candidates[i]
		if d.codes[i] == Eligible && c.Custom && c.below(floor) && sideOf(r, c) == on {
			d.codes[i] = CodeLowUptime
		}
	}
	return low
}

// admit checks who may be asked at all, and the size of prompt and answer.
func admit(in *Input, retry *Retry, i int) Code {
	r, c := &in.Request, &in.Candidates[i]
	usable := c.Credentials & in.Mode.keys()
	tried := retry.tried(i)
	switch {
	case c.NotAllowed:
		return CodeNotAllowed
	case usable == 0:
		return CodeNoProviderKey
	case usable&^tried == 0:
		return CodeTried
	case elsewhere(r, c, sideOf(r, c)):
		return CodeLockedRegion
	case !fits(r, c, retry):
		return CodeContextSize
	case c.MaxOutput > 0 && r.MaxTokens > c.MaxOutput:
		return CodeMaxTokens
	}
	if missing := r.Needs &^ c.Capabilities & (Vision | Audio | Documents | Tools); missing != 0 {
		return capabilityCodes[bits.TrailingZeros16(uint16(missing))]
	}
	return Eligible
}

// elsewhere says whether the candidate is in another region than the one that was named or that the
// keys are locked to.
func elsewhere(r *Request, c *Candidate, on side) bool {
	return on == asked && r.Region != "" && c.Region != r.Region || c.LockRegion != "" && c.Region != c.LockRegion
}

// fits says whether prompt and answer fit into the context.
func fits(r *Request, c *Candidate, retry *Retry) bool {
	if c.Context <= 0 {
		return true
	}
	if retry != nil && c.Context <= retry.LargerContext {
		return false
	}
	answer := r.MaxTokens
	switch {
	case r.Embedding:
		answer = 0
	case answer > 0:
	case c.Context <= defaultAnswer:
		answer = c.Context / 2
	default:
		answer = defaultAnswer
	}
	if r.MaxTokens <= 0 && c.MaxOutput > 0 {
		answer = min(answer, c.MaxOutput)
	}
	each := c.ImageTokens
	if each <= 0 {
		each = imageTokens
	}
	room := c.Context - answer
	// Compared by division: absurd counts must not overflow.
	return r.PromptTokens <= room && (r.Images <= 0 || r.Images <= (room-max(r.PromptTokens, 0))/each)
}

// able checks what the mapping can do and whether it meets the policies.
func able(r *Request, c *Candidate, needs Capability) Code {
	missing := needs &^ c.Capabilities
	thinks := missing&Reasoning == 0
	if r.Effort > EffortNone {
		thinks = thinks && c.Capabilities&Reasoning != 0 && (c.Efforts == 0 || r.Effort <= c.Efforts)
	}
	if early := missing & (ToolChoice | JSONObject | JSONSchema); early != 0 {
		return capabilityCodes[bits.TrailingZeros16(uint16(early))]
	}
	switch {
	case !thinks:
		return CodeReasoningEffort
	case r.NoReasoning && c.alwaysReasons():
		return CodeNoReasoningVariant
	}
	if late := missing & (N | WebSearch | AssistantPrefill); late != 0 {
		return capabilityCodes[bits.TrailingZeros16(uint16(late))]
	}
	switch {
	case r.ServiceTier != "" && (c.Schedule == nil || !c.Schedule.HasServiceTier(r.ServiceTier)):
		return CodeServiceTier
	case missing&Safeguards != 0:
		return CodeSafeguards
	case len(c.Unmet) > 0:
		return CodeCompliance
	}
	return Eligible
}

// alwaysReasons: it says that it reasons, and does not say that it can be told not to.
func (c *Candidate) alwaysReasons() bool {
	return c.Capabilities&Unlimited == 0 && c.Capabilities&Reasoning != 0 && c.Efforts&EffortNone == 0
}

// below says whether the uptime is known and, as it is stored, below a threshold.
func (c *Candidate) below(threshold float64) bool {
	return c.Metrics.Known&KnownUptime != 0 && Round6(c.Metrics.Uptime) < threshold
}

// priority is the mapping's, unless the project has one for the provider.
func priority(in *Input, c *Candidate) float64 {
	if len(in.Config.ProviderPriorities) > 0 {
		if p, ok := in.Config.ProviderPriorities[c.Provider]; ok {
			return p
		}
	}
	return c.Priority
}

// keys are the kinds of key a mode may use.
func (m Mode) keys() Credentials {
	switch m {
	case ModeBYOK:
		return BYOK
	case ModeHybrid:
		return BYOK | Platform
	default:
		return Platform
	}
}

func (r *Retry) tried(i int) Credentials {
	if r == nil || i >= len(r.Tried) {
		return 0
	}
	return r.Tried[i]
}
