package resource

import (
	"math"
	"regexp"
	"slices"
)

var (
	capabilities = []string{
		CapVision, CapAudio, CapDocuments, CapTools, CapToolChoice, CapJSONObject, CapJSONSchema, CapReasoning, CapN,
		CapWebSearch, CapAssistantPrefill, CapSafeguards,
	}
	efforts  = []string{"none", "minimal", "low", "medium", "high", "xhigh", "max"}
	regionID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)
)

func (o *fields) model() {
	m := Model{}
	o.id(KindModel, &m.ID)
	o.text("name", &m.Name)
	o.each("aliases", func(c cursor) {
		if !c.is(text) || !c.modelID() {
			return
		}
		m.Aliases = append(m.Aliases, c.node.value)
		c.define(KindModel, c.node.value)
		c.d.aliases[c.node.value] = m.ID
	}, &m.Aliases)
	o.text("family", &m.Family)
	o.words("output", &m.Output, "text", "image", "audio", "embedding")
	o.words("input", &m.Input, "text", "image", "audio", "document")
	o.bool("reasoning_bound", &m.ReasoningBound)
	o.bool("free", &m.Free)
	if len(m.Output) == 0 {
		m.Output = []string{"text"}
	}
	if c, ok := o.need("mappings", "at least one provider that serves the model"); ok && c.is(list) {
		if len(c.node.items) == 0 {
			c.fail("is empty: at least one provider must serve the model")
		}
		c.items(func(c cursor) {
			mapping := c.mapping(slices.Contains(m.Output, "text"))
			c.alone(m.Mappings, &mapping)
			m.Mappings = append(m.Mappings, mapping)
		})
	}
	o.d.set.Models = append(o.d.set.Models, m)
}

// alone refuses a provider and region that an earlier mapping has already.
func (c cursor) alone(before []Mapping, m *Mapping) {
	for i := range before {
		if before[i].Provider != m.Provider || m.Provider == "" {
			continue
		}
		if len(before[i].Regions) == 0 && len(m.Regions) == 0 {
			c.fail("provider %q serves the model already in mappings[%d]: one mapping for a provider and region", m.Provider, i)
			return
		}
		for _, r := range m.Regions {
			if slices.ContainsFunc(before[i].Regions, func(other Region) bool { return other.ID == r.ID }) {
				c.fail("provider %q serves the model in %s already in mappings[%d]: one mapping for a provider and region", m.Provider, r.ID, i)
			}
		}
	}
}

func (c cursor) mapping(textOutput bool) Mapping {
	m := Mapping{Status: StatusActive, Stability: StabilityStable}
	c.object(func(o *fields) {
		if _, ok := o.need("provider", "the id of the provider that serves the model"); ok {
			o.reference(KindProvider, "provider", &m.Provider)
		}
		if c, ok := o.need("upstream", "the provider's own id of the model"); ok && c.is(text) {
			o.text("upstream", &m.Upstream)
			if m.Upstream == "" {
				c.fail("is empty: write the provider's own id of the model")
			}
		}
		if c, ok := o.need("price", "USD per 1M tokens, such as {input: 3, output: 15}; 0 for free"); ok {
			c.price(&m.Price, true, textOutput)
		}
		if c, ok := o.get("price_tiers"); ok {
			m.PriceTiers = c.priceTiers(textOutput)
		}
		if c, ok := o.get("service_tiers"); ok {
			m.ServiceTiers = c.serviceTiers(textOutput)
		}
		o.int("context", &m.Context, 0, math.MaxInt64)
		o.int("max_output", &m.MaxOutput, 0, math.MaxInt64)
		o.words("capabilities", &m.Capabilities, capabilities...)
		o.words("reasoning_efforts", &m.ReasoningEfforts, efforts...)
		o.int("image_tokens", &m.ImageTokens, 0, math.MaxInt64)
		o.optional("priority", &m.Priority, 0, math.Inf(1))
		o.state(&m.Status, &m.Stability)
		o.timeouts(&m.Timeouts)
		if c, ok := o.get("regions"); ok && c.is(list) {
			c.items(func(c cursor) { m.Regions = append(m.Regions, c.region(&m, textOutput)) })
		}
	})
	return m
}

func (o *fields) state(status, stability *string) {
	o.word("status", status, StatusActive, StatusDeprecated, StatusDeactivated)
	o.word("stability", stability, StabilityStable, StabilityBeta, StabilityUnstable, StabilityExperimental)
}

// region reads what is different in a region; the rest comes from the mapping.
func (c cursor) region(m *Mapping, textOutput bool) Region {
	r := Region{
		Upstream: m.Upstream, Price: m.Price, PriceTiers: m.PriceTiers, Context: m.Context, MaxOutput: m.MaxOutput,
		Status: m.Status, Stability: m.Stability, Priority: m.Priority,
	}
	c.object(func(o *fields) {
		if c, ok := o.need("id", "the provider's name of the region, such as eu-central-1"); ok && c.is(text) {
			r.ID = c.node.value
			if !regionID.MatchString(r.ID) {
				c.fail("%q is not an id for a region: letters, digits, dots, hyphens and underscores, at most 64", r.ID)
			}
			if slices.ContainsFunc(m.Regions, func(other Region) bool { return other.ID == r.ID }) {
				c.fail("region %q stands here twice: keep one", r.ID)
			}
		}
		o.date("expires", &r.Expires)
		if c, ok := o.get("upstream"); ok && c.is(text) && c.node.value == "" {
			c.fail("is empty: write the provider's own id of the model, or leave the field out")
		}
		o.text("upstream", &r.Upstream)
		if c, ok := o.get("price"); ok {
			c.price(&r.Price, false, false)
		}
		if c, ok := o.get("price_tiers"); ok {
			r.PriceTiers = c.priceTiers(textOutput)
		}
		o.int("context", &r.Context, 0, math.MaxInt64)
		o.int("max_output", &r.MaxOutput, 0, math.MaxInt64)
		o.state(&r.Status, &r.Stability)
		o.optional("priority", &r.Priority, 0, math.Inf(1))
		if c, ok := o.get("service_tiers"); ok {
			r.ServiceTiers = append([]ServiceTier{}, c.serviceTiers(textOutput)...)
		}
		o.words("capabilities", &r.Capabilities, capabilities...)
		o.words("reasoning_efforts", &r.ReasoningEfforts, efforts...)
		o.int("image_tokens", &r.ImageTokens, 0, math.MaxInt64)
		o.timeouts(&r.Timeouts)
	})
	return r
}

// price reads rates over those that are there already.
func (c cursor) price(p *Price, needInput, needOutput bool) {
	c.object(func(o *fields) {
		if !o.rate("input", &p.Input) && needInput {
			o.in("input", o.node).fail("is missing: USD per 1M tokens of input, 0 for free")
		}
		if !o.rate("output", &p.Output) && needOutput {
			o.in("output", o.node).fail("is missing: USD per 1M tokens of output, 0 for free")
		}
		for _, rate := range p.optional() {
			o.optionalRate(rate.name, rate.at)
		}
	})
}

type namedRate struct {
	name string
	at   **Rate
}

// optional lists the rates that may be absent, in the order in which they are written.
func (p *Price) optional() []namedRate {
	return []namedRate{
		{"cached_input", &p.CachedInput}, {"cache_write", &p.CacheWrite}, {"cache_write_1h", &p.CacheWrite1h},
		{"image_input", &p.ImageInput}, {"audio_input", &p.AudioInput}, {"audio_output", &p.AudioOutput},
		{"image_output", &p.ImageOutput}, {"request", &p.Request},
	}
}

func (c cursor) priceTiers(textOutput bool) []PriceTier {
	var out []PriceTier
	c.items(func(c cursor) {
		var tier PriceTier
		c.object(func(o *fields) {
			if above, ok := o.need("above", "from how many tokens of input on the price holds"); ok {
				o.int("above", &tier.Above, 1, math.MaxInt64)
				if n := len(out); n > 0 && tier.Above <= out[n-1].Above && tier.Above > 0 {
					above.fail("%d is not above %d: tiers ascend", tier.Above, out[n-1].Above)
				}
			}
			if price, ok := o.need("price", "what holds above that, such as {input: 6, output: 22.5}"); ok {
				price.price(&tier.Price, true, textOutput)
			}
		})
		out = append(out, tier)
	})
	return out
}

func (c cursor) serviceTiers(textOutput bool) []ServiceTier {
	var out []ServiceTier
	c.items(func(c cursor) {
		var tier ServiceTier
		c.object(func(o *fields) {
			if id, ok := o.need("id", "such as priority or flex"); ok && id.is(text) {
				tier.ID = id.node.value
				if tier.ID == "" {
					id.fail("is empty")
				}
				if slices.ContainsFunc(out, func(other ServiceTier) bool { return other.ID == tier.ID }) {
					id.fail("service tier %q stands here twice: keep one", tier.ID)
				}
			}
			if price, ok := o.need("price", "what it costs, such as {input: 6, output: 30}"); ok {
				price.price(&tier.Price, true, textOutput)
			}
		})
		out = append(out, tier)
	})
	return out
}
