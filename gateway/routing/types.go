// Package routing decides which provider serves a request. It is a pure function of what it is
// given: Decide takes a view of the candidates and a request and returns a choice that explains
// itself. There is no clock, no randomness and no I/O here; draws are functions of the request id.
//
// Read decide.go (the outline), eligible.go (who may serve), score.go and rounds.go (who is best) and
// choose.go (who is chosen), in this order. docs/routing.md tells the same with worked numbers.
package routing

import (
	"turnout/gateway/pricing"
	"turnout/schemas/resource"
)

// AlgorithmVersion is stored with every decision. It changes when equal inputs may decide otherwise.
const AlgorithmVersion = 1

// Strategy is what a request optimizes for.
type Strategy uint8

// The strategies. StrategyAuto is the weighted score of the project.
const (
	StrategyAuto Strategy = iota
	StrategyPrice
	StrategyThroughput
	StrategyLatency
)

// Credentials is a set of kinds of key.
type Credentials uint8

// Kinds of key: the host's own and the tenant's.
const (
	Platform Credentials = 1 << iota
	BYOK
)

// Mode says whose keys a project uses.
type Mode uint8

// The modes. In hybrid the tenant's keys go first.
const (
	ModePlatform Mode = iota
	ModeBYOK
	ModeHybrid
)

// Capability is one thing a request may need and a mapping may offer. Bits stand in the order in
// which they are checked.
type Capability uint16

// The capabilities (resource.Cap*).
const (
	Vision Capability = 1 << iota
	Audio
	Documents
	Tools
	ToolChoice
	JSONObject
	JSONSchema
	Reasoning
	N
	WebSearch
	AssistantPrefill
	Safeguards
	// Unlimited marks a mapping that declares nothing and is taken to offer everything.
	Unlimited

	EveryCapability = Unlimited<<1 - 1
)

// Effort is how hard a model is asked to think. Efforts are ordered; a mapping's are a set of bits.
type Effort uint8

// The efforts. EffortUnset asks for nothing; EffortNone asks not to reason, which any mapping can.
const (
	EffortUnset Effort = 0
	EffortNone  Effort = 1 << (iota - 1)
	EffortMinimal
	EffortLow
	EffortMedium
	EffortHigh
	EffortXHigh
	EffortMax
)

// Cause is why a candidate is cooling down.
type Cause uint8

// The causes of a cooldown.
const (
	NotCooling Cause = iota
	CoolingErrors
	CoolingRateLimit
)

// Known says which metrics of a candidate are known.
type Known uint8

// The metrics.
const (
	KnownUptime Known = 1 << iota
	KnownThroughput
	KnownLatency
)

// Metrics are a candidate's weighed figures of the window. What is not Known is replaced by the
// configured default.
type Metrics struct {
	Known      Known
	Uptime     float64 // percent, after the rule for small counts (AdjustUptime)
	Throughput float64 // output tokens/s
	Latency    float64 // ms to first token
}

// Candidate is one mapping in one region, as the request sees it. The fields up to Status come from
// the catalogue; the rest is what is true of it at this moment.
type Candidate struct {
	Provider string
	Region   string // "" where the provider has none
	Model    string

	// Schedule is what it costs. Where it is nil, RankingPrice and CacheSupported count as they
	// stand: that is how a recorded decision is made again.
	Schedule       *pricing.Schedule
	RankingPrice   float64 // USD per 1M tokens
	CacheSupported bool

	Context      int64 // tokens; 0: no known limit
	MaxOutput    int64 // tokens; 0: no known limit
	ImageTokens  int64 // an image in the context; 0: 560
	Capabilities Capability
	Efforts      Effort  // bits; 0: any
	Priority     float64 // 1 is neutral, 0 disables
	Deactivated  bool
	Deprecated   bool
	Unstable     bool // unstable or experimental
	Custom       bool // an organization's own provider

	Metrics Metrics
	HitRate float64 // this provider's own observed cache-hit rate (all regions), if HitRateKnown
	// Credentials are the kinds of key that could be used for this request (model, service tier).
	Credentials Credentials
	// KeysRemoved are the kinds of key that exist but were removed as invalid.
	KeysRemoved Credentials
	// LockRegion is the only region the keys may be used in; "" for any.
	LockRegion        string
	HitRateKnown      bool
	NotAllowed        bool     // the API key or plan may not use it
	Unmet             []string // compliance requirements it does not meet
	RateLimited       bool     // a limit of ours is reached, and this request is not exempt
	Cooling           Cause    // every usable key is cooling down
	CooldownEndsMS    int64    // from now
	RateLimitResetsMS int64    // from now; 0: not known
	// Dropped is the code it was recorded as dropped with (Recorded); Eligible otherwise.
	Dropped Code
}

// Request is what routing needs to know of a request.
type Request struct {
	ID           string
	Stream       bool
	Embedding    bool
	ImageOutput  bool  // the model's output contains images
	PromptTokens int64 // estimate of the text
	Images       int64 // number of images, for the context check
	MaxTokens    int64 // 0: not given
	Needs        Capability
	Effort       Effort
	NoReasoning  bool
	ServiceTier  string // "": the standard one
	Session      bool   // it has a session id
	Coding       bool   // a recognised coding client
	NoFallback   bool   // X-No-Fallback: true
	Strategy     Strategy
	// StrategyField: the strategy stood in the request's routing field, which an explicit provider
	// excludes. A suffix of the model id does not set it.
	StrategyField bool
	Provider      string // named by the model id
	Strict        bool   // provider:model: that provider and no other
	Region        string // named by the model id
	AnyModel      bool   // asked for auto or smart: another model may be chosen instead
	// ReasoningBound: the model's reasoning payloads verify at their issuer only.
	ReasoningBound bool
	// BoundTo is the provider that issued the reasoning this request replays: nobody else may get it.
	BoundTo string
	// Order is the explicit order of providers of a dynamic route.
	Order []string
	// Draw and Pick, in [0, 1), replace those made from ID where they are not nil.
	Draw, Pick *float64
}

// Place names a provider and region, as pins and preferences store them.
type Place struct {
	Provider string
	Region   string
}

// State is what earlier requests left behind; an empty Provider means nothing.
type State struct {
	Pin       Place
	Preferred Place
}

// Input is all that a decision depends on. Decide never changes it.
type Input struct {
	Candidates []Candidate // catalogue order
	Request    Request
	Config     *resource.Routing
	Mode       Mode
	Workload   Workload
	Observed   Observed // what is known of this project and model, all providers together
	State      State
	// ExplorationRate is the host's EXPLORATION_RATE; nil: the project's.
	ExplorationRate *float64
}

// Retry is what a further attempt of the same request depends on besides its Input.
type Retry struct {
	// Tried are the kinds of key each candidate was tried with, by index; it may be shorter.
	Tried []Credentials
	// LargerContext drops candidates whose known context is not larger: the one that refused the
	// prompt had this many tokens. 0: no such limit.
	LargerContext int64
}

// Contributions are the parts of a score; they sum to it.
type Contributions struct {
	Price, Uptime, Throughput, Latency, Cache, Priority, UptimePenalty float64
}

// Scored is an eligible candidate and how it did. Inputs are rounded to six significant digits, as
// they were scored; metrics that are not Known hold the default.
type Scored struct {
	Candidate     int // index into Input.Candidates
	Score         float64
	Price         float64 // ranking price, USD per 1M tokens
	Uptime        float64
	Throughput    float64
	Latency       float64
	Priority      float64
	Known         Known
	CacheSupport  bool
	Contributions Contributions
	// LostTo is the index of the candidate of the same provider that it lost to at home, -1 if it
	// competed in the last round.
	LostTo int

	group    int     // index into Decision.groups
	playing  bool    // takes part in the round under way
	out      bool    // eligible, but not to be chosen by this request
	compared float64 // Score in steps of 1e-9
}

// Exclusion is a candidate that may not serve the request, and why.
type Exclusion struct {
	Candidate int // index into Input.Candidates
	Code      Code
}

// Update is what is to be stored after a decision.
type Update uint8

// The updates: a session's pin is written or renewed, the stable preference is written.
const (
	UpdateNothing Update = iota
	UpdatePin
	UpdatePreferred
)

// Decision is a choice and everything that led to it. It may be used again: Decide resets it.
type Decision struct {
	Selected   int         // index into Input.Candidates; -1: nobody
	Credential Credentials // the kind of key to use
	Reason     Reason
	Scores     []Scored    // eligible candidates, in candidate order
	Excluded   []Exclusion // the others, in candidate order
	Providers  int         // that were left after the home round

	Propensity float64 // of choosing what was chosen
	Draw, Pick float64

	// OriginalProvider was asked for and replaced; OriginalUptime is its uptime if that is why.
	OriginalProvider    string
	OriginalUptime      float64
	OriginalUptimeKnown bool
	// ToolChoiceStripped: nobody honours tool_choice, so it is to be sent as auto.
	ToolChoiceStripped bool

	// CacheRelevant: prices were blended with HitRate (a provider's own may differ) and OutputRatio.
	CacheRelevant bool
	HitRate       float64
	OutputRatio   float64

	Update     Update
	TTLSeconds int64 // of what Update stores

	Error Error

	codes    []Code  // by candidate
	groups   []group // providers of Scores, by first appearance
	mix      mix
	shares   shares
	stripped [2]bool // tool_choice, by side
	open     bool    // others may be chosen too
	regional bool    // a candidate has a region, so that a provider may stand more than once
	// lastResort: somebody who is cooling down is left because nobody else is.
	lastResort bool
}

// group is the candidates of one provider among Scores[from:to].
type group struct {
	from, to int
	members  int
	standing int // index of the one that competes for it in the last round
}

// Error says why nobody was chosen; an empty Code means that somebody was.
type Error struct {
	Code         string
	Message      string
	RetryAfterMS int64    // with rate_limit_exceeded and all_providers_limited, if known
	Unmet        []string // with model_region_unavailable
}

// Error codes (routing.md 1).
const (
	ErrNoProvider           = "no_provider_available"
	ErrNotAllowed           = "not_allowed"
	ErrRegionUnavailable    = "model_region_unavailable"
	ErrSafeguards           = "safeguards_unsupported"
	ErrRateLimited          = "rate_limit_exceeded"
	ErrAllLimited           = "all_providers_limited"
	ErrProvidersUnavailable = "providers_unavailable"
	ErrModelRetired         = "model_retired"
	ErrReasoningProvider    = "reasoning_provider_unavailable"
	ErrInvalidValue         = "invalid_value"
)

// Reason is why the selected candidate was selected.
type Reason string

// The reasons, in the order in which they apply.
const (
	DirectProvider    Reason = "direct-provider-specified"
	LowUptimeFallback Reason = "low-uptime-fallback"
	RateLimitFallback Reason = "rate-limit-fallback"
	SessionSticky     Reason = "session-sticky"
	SingleProvider    Reason = "single-provider-available"
	SingleCandidate   Reason = "single-candidate-after-filtering"
	RandomExploration Reason = "random-exploration"
	ProviderOrder     Reason = "provider-order"
	StablePreferred   Reason = "stable-preferred"
	PriceOnly         Reason = "price-only-no-metrics"
	WeightedScore     Reason = "weighted-score"
)
