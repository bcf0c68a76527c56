package dispatch

import (
	"fmt"
	"slices"
	"sync"

	"turnout/gateway/catalog"
	"turnout/gateway/internal/poll"
	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/state"
	"turnout/gateway/internal/tenant"
	"turnout/gateway/pricing"
	"turnout/gateway/routing"
	"turnout/schemas/attempt"
	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

// plans holds what is derived from one tenant view, made when it is first needed. A new view brings
// new plans; requests under way keep theirs.
type plans struct {
	view *tenant.View
	d    *Dispatcher

	mu      sync.RWMutex
	byModel map[planKey]*plan
	targets map[targetKey]*provider.Target
	watches map[watchKey]*poll.Watch
}

// watchKey is what metrics are weighed by. Most projects have the same of it, and weighing is dear: it
// is done once for all of them, however many there are.
type watchKey struct {
	candidates string
	history    resource.History
	minimum    int64
}

type targetKey struct{ provider, region string }

type planKey struct {
	project  string
	model    *catalog.Model
	endpoint string
}

// plan is one model as one project sees it on one surface: everything about its candidates that no
// request changes.
type plan struct {
	project  *tenant.Project
	model    *catalog.Model
	mode     routing.Mode
	workload routing.Workload
	template []routing.Candidate
	legs     []leg
	watch    *poll.Watch
	// preferences are the keys of the stable preference by strategy, made once: every request asks.
	preferences [routing.StrategyLatency + 1]string
}

// leg is a candidate as it is called. legs[i] belongs to template[i].
type leg struct {
	candidate *catalog.Candidate
	target    *provider.Target
	schedule  *pricing.Schedule
	timeouts  resource.Timeouts
	reasons   bool // it says that it reasons
	// translated: the request goes through a translation, so what llm.Facts.Own names cannot be said.
	translated bool
	// bytesOnly: what llm.Facts.Linked names cannot be said.
	bytesOnly bool
	// withoutTools are capabilities that it has only where a request has no tools.
	withoutTools routing.Capability
	// outward: what llm.Facts.Inward names is nothing that the provider may fetch.
	outward bool
	keys    []legKey
	health  []*state.Key // of keys, by index
}

type legKey struct {
	credential tenant.Credential
	kind       routing.Credentials
	hash       string // 7 hex digits, as clients and events see it
	label      string
}

// plansOf returns the plans of a view. A request that began before a reload gets plans of its own where
// those of its view are gone: it must not throw away the new ones.
func (d *Dispatcher) plansOf(view *tenant.View) *plans {
	if p := d.plans.Load(); p != nil && p.view == view {
		return p
	}
	d.planning.Lock()
	defer d.planning.Unlock()
	if p := d.plans.Load(); p != nil && p.view == view {
		return p
	}
	p := &plans{view: view, d: d, byModel: map[planKey]*plan{}, targets: map[targetKey]*provider.Target{}, watches: map[watchKey]*poll.Watch{}}
	if view == d.tenants.Current() {
		d.plans.Store(p)
	}
	return p
}

func (p *plans) get(project *tenant.Project, model *catalog.Model, endpoint string) *plan {
	key := planKey{project.ID, model, endpoint}
	p.mu.RLock()
	found := p.byModel[key]
	p.mu.RUnlock()
	if found != nil {
		return found
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if found = p.byModel[key]; found == nil {
		found = p.build(project, model, endpoint)
		p.byModel[key] = found
	}
	return found
}

func (p *plans) build(project *tenant.Project, model *catalog.Model, endpoint string) *plan {
	out := &plan{project: project, model: model, mode: modeOf(project.Mode), workload: workloadOf(project.Organization.Workload)}
	for s, name := range strategyNames {
		out.preferences[s] = state.PreferenceKey(project.Organization.ID, model.ID, name)
	}
	var keys []snapshot.Key
	class := snapshot.ClassText
	if endpoint == attempt.EndpointEmbeddings {
		class = snapshot.ClassEmbedding
	}
	for i := range model.Candidates {
		c := &model.Candidates[i]
		adapter := p.d.adapters[c.Provider.Protocol]
		if !c.VisibleTo(project.Organization.ID) || adapter == nil {
			continue
		}
		target := p.target(c.Provider, c.Region, adapter)
		offer := published(adapter, c.Mapping.Upstream).Offer(endpoint, target)
		if !offer.OK {
			continue
		}
		l := leg{
			candidate: c, target: target, translated: offer.Translated, bytesOnly: offer.BytesOnly, outward: !target.AllowPrivate, timeouts: c.Provider.Timeouts.With(c.Mapping.Timeouts),
			reasons: slices.Contains(c.Mapping.Capabilities, resource.CapReasoning),
			schedule: &pricing.Schedule{
				Price: c.Price, Tiers: c.PriceTiers, ServiceTiers: c.Mapping.ServiceTiers,
				Discount: resource.DiscountFor(project.Organization.Discounts, c.Provider.ID, model.ID),
			},
		}
		t := routing.Candidate{
			Provider: c.Provider.ID, Region: c.Region, Model: model.ID,
			Schedule: l.schedule, Context: c.Context, MaxOutput: c.MaxOutput, ImageTokens: c.Mapping.ImageTokens,
			Capabilities: capabilities(c.Mapping.Capabilities), Efforts: efforts(c.Mapping.ReasoningEfforts),
			Priority: c.Priority, Deprecated: c.Status == resource.StatusDeprecated,
			Unstable: c.Stability == resource.StabilityUnstable || c.Stability == resource.StabilityExperimental,
			Custom:   c.Organization != "",
		}
		for _, word := range offer.Lacks {
			t.Capabilities &^= capabilityBits[word]
		}
		for _, word := range offer.LacksWithTools {
			l.withoutTools |= capabilityBits[word]
		}
		p.addKeys(&l, &t, project)
		out.legs = append(out.legs, l)
		out.template = append(out.template, t)
		keys = append(keys, snapshot.Key{Provider: c.Provider.ID, Model: model.ID, Region: c.Region, Class: class, Organization: c.Organization})
	}
	out.watch = p.watch(keys, &project.Routing)
	return out
}

// published is the adapter for a model, which may be one publisher's of another.
func published(adapter provider.Adapter, upstreamModel string) provider.Adapter {
	for {
		publisher, ok := adapter.(provider.Publisher)
		if !ok {
			return adapter
		}
		of := publisher.Of(upstreamModel)
		if of == adapter {
			return adapter
		}
		adapter = of
	}
}

func (p *plans) watch(keys []snapshot.Key, routing *resource.Routing) *poll.Watch {
	key := watchKey{fmt.Sprintf("%+q", keys), routing.History, routing.Thresholds.UptimeMinAttempts}
	w := p.watches[key]
	if w == nil {
		w = p.d.metrics.Watch(keys, key.history, key.minimum)
		p.watches[key] = w
	}
	return w
}

// addKeys gives the leg the credentials that may be used there, and the template what follows from them.
func (p *plans) addKeys(l *leg, t *routing.Candidate, project *tenant.Project) {
	c := l.candidate
	add := func(credentials []tenant.Credential, kind routing.Credentials) {
		for _, cred := range credentials {
			if len(cred.Models) > 0 && !slices.Contains(cred.Models, c.Model.ID) {
				continue
			}
			if cred.Region != "" && cred.Region != c.Region {
				if t.LockRegion == "" {
					t.LockRegion = cred.Region
				}
				continue
			}
			hash := p.d.state.SecretHash(cred.Secret.Reveal())
			l.keys = append(l.keys, legKey{credential: cred, kind: kind, hash: hash[:7], label: label(cred)})
			l.health = append(l.health, p.d.state.Keys().Get(
				state.KeyID{Provider: c.Provider.ID, Region: c.Region, Secret: hash}, c.Provider.Cooldown.Base, c.Provider.Cooldown.Max))
			t.Credentials |= kind
		}
	}
	mode := modeOf(project.Mode)
	if mode != routing.ModeBYOK {
		add(p.view.Platform(c.Provider.ID), routing.Platform)
	}
	if mode != routing.ModePlatform {
		add(p.view.BYOK(project.Organization.ID, c.Provider.ID), routing.BYOK)
	}
	if len(l.keys) > 0 {
		t.LockRegion = "" // some key may be used here
	} else if t.LockRegion != "" {
		t.Credentials = routing.Platform | routing.BYOK // there are keys, for another region
	}
}

func (p *plans) target(pr *resource.Provider, region string, adapter provider.Adapter) *provider.Target {
	key := targetKey{pr.ID, region}
	if t := p.targets[key]; t != nil {
		return t
	}
	base := p.view.BaseURL(pr.ID)
	if placer, ok := adapter.(provider.Placer); ok {
		base = placer.PlaceURL(base, region)
	}
	t := &provider.Target{
		Provider: pr.ID, Region: region, BaseURL: base, HTTP2: pr.HTTP == 2, AllowPrivate: pr.AllowPrivate,
		Trace: pr.Trace, NoStreamUsage: pr.StreamUsage != nil && !*pr.StreamUsage,
		Endpoints: pr.Endpoints,
	}
	p.targets[key] = t
	return t
}

// label is how a tenant recognises its key: by name, else by the token with its middle left out.
func label(c tenant.Credential) string {
	if !c.BYOK {
		return ""
	}
	if c.Name != "" {
		return c.Name
	}
	secret := c.Secret.Reveal()
	if len(secret) < 16 {
		return "..."
	}
	return secret[:4] + "..." + secret[len(secret)-4:]
}

func modeOf(mode string) routing.Mode {
	switch mode {
	case resource.ModeBYOK:
		return routing.ModeBYOK
	case resource.ModeHybrid:
		return routing.ModeHybrid
	}
	return routing.ModePlatform
}

func workloadOf(w string) routing.Workload {
	switch w {
	case "coding":
		return routing.WorkloadCoding
	case "chat":
		return routing.WorkloadChat
	}
	return routing.WorkloadAPI
}

var strategyNames = [...]string{
	routing.StrategyAuto: "auto", routing.StrategyPrice: "price", routing.StrategyThroughput: "throughput", routing.StrategyLatency: "latency",
}

func strategyOf(name string) routing.Strategy {
	for s, n := range strategyNames {
		if n == name {
			return routing.Strategy(s)
		}
	}
	return routing.StrategyAuto
}

var capabilityBits = map[string]routing.Capability{
	resource.CapVision: routing.Vision, resource.CapAudio: routing.Audio, resource.CapDocuments: routing.Documents,
	resource.CapTools: routing.Tools, resource.CapToolChoice: routing.ToolChoice, resource.CapJSONObject: routing.JSONObject,
	resource.CapJSONSchema: routing.JSONSchema, resource.CapReasoning: routing.Reasoning, resource.CapN: routing.N,
	resource.CapWebSearch: routing.WebSearch, resource.CapAssistantPrefill: routing.AssistantPrefill, resource.CapSafeguards: routing.Safeguards,
}

// capabilityWords are the capabilities in the order in which they are checked.
var capabilityWords = [...]string{
	resource.CapVision, resource.CapAudio, resource.CapDocuments, resource.CapTools, resource.CapToolChoice, resource.CapJSONObject,
	resource.CapJSONSchema, resource.CapReasoning, resource.CapN, resource.CapWebSearch, resource.CapAssistantPrefill, resource.CapSafeguards,
}

func capabilities(words []string) routing.Capability {
	if words == nil {
		return routing.EveryCapability
	}
	var c routing.Capability
	for _, w := range words {
		c |= capabilityBits[w]
	}
	return c
}

var effortBits = map[string]routing.Effort{
	"none": routing.EffortNone, "minimal": routing.EffortMinimal, "low": routing.EffortLow, "medium": routing.EffortMedium,
	"high": routing.EffortHigh, "xhigh": routing.EffortXHigh, "max": routing.EffortMax,
}

func efforts(words []string) routing.Effort {
	var e routing.Effort
	for _, w := range words {
		e |= effortBits[w]
	}
	return e
}
