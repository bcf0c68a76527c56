// Package resource holds the documents a host configures: organizations, projects, keys, providers
// and models. The same objects stand in files, travel in turnout.config.v1 and in the admin API.
package resource

import "time"

// Rate is a price in nano-USD per 1M tokens (per request for Price.Request): USD per 1M tokens times
// 1e9, so nine decimals are exact.
type Rate int64

// Capability words of a mapping; an absent list means no limit.
const (
	CapVision           = "vision"
	CapAudio            = "audio"
	CapDocuments        = "documents"
	CapTools            = "tools"
	CapToolChoice       = "tool_choice"
	CapJSONObject       = "json_object"
	CapJSONSchema       = "json_schema"
	CapReasoning        = "reasoning"
	CapN                = "n"
	CapWebSearch        = "web_search"
	CapAssistantPrefill = "assistant_prefill"
	CapSafeguards       = "safeguards"
)

// Protocols of upstreams.
const (
	ProtocolOpenAI    = "openai"
	ProtocolAnthropic = "anthropic"
	ProtocolGemini    = "gemini"
	ProtocolAzure     = "azure"
	ProtocolBedrock   = "bedrock"
	ProtocolVertex    = "vertex"
)

// States of a mapping or region.
const (
	StatusActive      = "active"
	StatusDeprecated  = "deprecated"
	StatusDeactivated = "deactivated"
)

// Stabilities of a mapping or region.
const (
	StabilityStable       = "stable"
	StabilityBeta         = "beta"
	StabilityUnstable     = "unstable"
	StabilityExperimental = "experimental"
)

// Modes of a project: whose credentials serve it.
const (
	ModePlatform = "platform"
	ModeBYOK     = "byok"
	ModeHybrid   = "hybrid"
)

// Set is everything one gateway serves from, as one immutable value: never changed after it was built.
type Set struct {
	Providers     []Provider
	Models        []Model
	Organizations []Organization
	Projects      []Project
	APIKeys       []APIKey
	ProviderKeys  []ProviderKey
}

// Provider is an upstream service and the host's own credentials there.
type Provider struct {
	ID             string
	Name           string
	Protocol       string
	BaseURL        string
	Credentials    []Credential
	Priority       *float64 // nil: 1; 0 disables
	HTTP           int      // 1 | 2
	Timeouts       Timeouts
	Cooldown       Cooldown
	Organization   string // set: a custom provider, seen by that organization alone
	Trace          bool   // receives traceparent
	AllowPrivate   bool
	ForwardHeaders []string
	StreamUsage    *bool    // nil: true; false: it refuses stream_options
	Endpoints      []string // nil: by protocol
}

// Credential is one key of a provider. Secret is a reference: env:NAME, file:PATH or sealed:...
type Credential struct {
	ID           string
	Secret       string
	Region       string   // a lock
	Models       []string // empty: all
	ServiceTiers []string
}

// Timeouts of an attempt; zero: the defaults of routing.md 6.
type Timeouts struct {
	Connect, FirstByte, FirstOutput, Idle, Plain, Stream time.Duration
}

// With returns the timeouts, in the place of some of them those that over has.
func (t Timeouts) With(over Timeouts) Timeouts {
	pick := func(base, over time.Duration) time.Duration {
		if over > 0 {
			return over
		}
		return base
	}
	return Timeouts{
		Connect: pick(t.Connect, over.Connect), FirstByte: pick(t.FirstByte, over.FirstByte),
		FirstOutput: pick(t.FirstOutput, over.FirstOutput), Idle: pick(t.Idle, over.Idle),
		Plain: pick(t.Plain, over.Plain), Stream: pick(t.Stream, over.Stream),
	}
}

// Cooldown bounds of a provider's keys; zero: 5 s and 15 s.
type Cooldown struct{ Base, Max time.Duration }

// Model is a catalogue entry and who serves it.
type Model struct {
	ID             string
	Name           string
	Aliases        []string
	Family         string
	Output         []string // text | image | audio | embedding
	Input          []string // text | image | audio | document; empty: by capability
	ReasoningBound bool
	Free           bool
	Mappings       []Mapping
}

// Mapping is one provider serving one model. Zero Context and MaxOutput mean no known limit.
type Mapping struct {
	Provider         string
	Upstream         string
	Price            Price
	PriceTiers       []PriceTier // ascending by Above
	ServiceTiers     []ServiceTier
	Context          int64
	MaxOutput        int64
	Capabilities     []string // nil: no limit; empty: none
	ReasoningEfforts []string // nil: any
	ImageTokens      int64    // 0: 560
	Priority         *float64 // beats the provider's
	Status           string   // active | deprecated | deactivated
	Stability        string   // stable | beta | unstable | experimental
	Timeouts         Timeouts
	Regions          []Region
}

// Region is a mapping in one place. What a price, limit or status is arrives filled in with what it
// inherits from its mapping; the last five say only what is different here, see Mapping.In.
type Region struct {
	ID         string
	Expires    time.Time // zero: never
	Upstream   string
	Price      Price
	PriceTiers []PriceTier
	Context    int64
	MaxOutput  int64
	Status     string
	Stability  string
	Priority   *float64

	ServiceTiers     []ServiceTier // nil: the mapping's; empty: none
	Capabilities     []string      // nil: the mapping's; empty: none
	ReasoningEfforts []string      // nil: the mapping's
	ImageTokens      int64         // 0: the mapping's
	Timeouts         Timeouts      // zero ones: the mapping's
}

// In returns the mapping with what a region says instead of it, its regions aside. Lists are shared.
func (m *Mapping) In(r *Region) *Mapping {
	out := *m
	out.Regions = nil
	out.Upstream, out.Price, out.PriceTiers, out.Context, out.MaxOutput = r.Upstream, r.Price, r.PriceTiers, r.Context, r.MaxOutput
	out.Status, out.Stability, out.Priority = r.Status, r.Stability, r.Priority
	if r.ServiceTiers != nil {
		out.ServiceTiers = r.ServiceTiers
	}
	if r.Capabilities != nil {
		out.Capabilities = r.Capabilities
	}
	if r.ReasoningEfforts != nil {
		out.ReasoningEfforts = r.ReasoningEfforts
	}
	if r.ImageTokens > 0 {
		out.ImageTokens = r.ImageTokens
	}
	out.Timeouts = m.Timeouts.With(r.Timeouts)
	return &out
}

// Price is what tokens cost. A nil rate has no price of its own: such tokens cost what Input (or
// Output, for audio and image output) costs.
type Price struct {
	Input, Output                                    Rate
	CachedInput, CacheWrite, CacheWrite1h            *Rate
	ImageInput, AudioInput, AudioOutput, ImageOutput *Rate
	Request                                          *Rate // nano-USD per request
}

// PriceTier replaces the price where the input is longer than Above tokens.
type PriceTier struct {
	Above int64
	Price Price
}

// ServiceTier is a class of service that costs something else.
type ServiceTier struct {
	ID    string
	Price Price
}

// Organization is a tenant.
type Organization struct {
	ID        string
	Name      string
	Workload  string // api | coding | chat
	Discounts []Discount
}

// Discount applies to a provider, a model or both; empty means any. The most specific one counts.
type Discount struct {
	Provider, Model string
	Percent         float64
}

// Project is the unit of configuration, usage and savings.
type Project struct {
	ID              string
	Name            string
	Organization    string
	Mode            string // platform | byok | hybrid
	ModelIDs        string // provider | publisher
	DefaultStrategy string // auto | price | throughput | latency
	Routing         Routing
}

// Routing is a project's routing configuration merged over the defaults of routing.md 11: what
// stands here is what counts.
type Routing struct {
	Weights            Weights
	Thresholds         Thresholds
	Retry              Retry
	Timeouts           RoutingTimeouts
	History            History
	Sticky             Sticky
	Session            Session
	ProviderPriorities map[string]float64
}

// Weights of the score's factors, each >= 0.
type Weights struct{ Price, ImagePrice, Uptime, Throughput, Latency, Cache float64 }

// Thresholds of the score. CacheHitRate and CacheOutputRatio nil: observed, else by workload.
type Thresholds struct {
	CachePromptTokens int64
	CacheHitRate      *float64
	CacheOutputRatio  *float64
	UptimePenalty     float64
	UptimeMinAttempts int64
	DefaultUptime     float64
	DefaultLatency    float64 // ms
	DefaultThroughput float64 // tokens/s
	ExplorationRate   float64
}

// Retry bounds.
type Retry struct {
	MaxRetries                 int
	LowUptimeFallbackThreshold float64
}

// RoutingTimeouts can only lower a provider's; zero: not set.
type RoutingTimeouts struct {
	Gateway, Streaming, Plain, FirstByte, FirstOutput, Idle time.Duration
}

// History is the metrics window: ages up to Tier1Minutes weigh Tier1Weight, and so on.
type History struct {
	WindowMinutes, Tier1Minutes, Tier2Minutes int
	Tier1Weight, Tier2Weight, Tier3Weight     float64
}

// Sticky is the stable preference per organization and model.
type Sticky struct {
	Enabled         bool
	TTL             time.Duration
	UptimeThreshold float64
	ScoreMargin     float64
}

// Session is the session pin.
type Session struct {
	Enabled         bool
	UseUserField    bool
	TTL             time.Duration
	UptimeThreshold float64
}

// APIKey lets a client in. Hash is the lower-case hex SHA-256 of the token, without prefix.
type APIKey struct {
	ID      string
	Project string
	Hash    string
	Revoked bool
	Models  []string // empty: all
}

// ProviderKey is a tenant's own credential at a provider (BYOK).
type ProviderKey struct {
	ID           string
	Name         string
	Organization string
	Provider     string
	Secret       string
	Region       string
	Models       []string
}
