// Package attempt is the contract of one immutable fact: a finished upstream attempt.
//
// One Event is written for every call that left for a provider. It states what happened and what
// was known when the call was decided on; it never holds an aggregate, a prompt, a completion or a
// secret. Field names are the JSON names, the ClickHouse columns and the metric labels alike.
//
// Evolution is additive: a field is never renamed, retyped or given another unit. Decode reads
// every version ever shipped; testdata/ holds one corpus a version, which must decode for ever.
package attempt

import "time"

// SchemaVersion is the version this binary writes.
const SchemaVersion = 1

// Outcome says how an attempt ended.
type Outcome string

// The outcomes. Those named *Error, ContentFilter are the classes of routing.md 6.
const (
	Completed       Outcome = "completed"
	GatewayError    Outcome = "gateway_error"
	UpstreamError   Outcome = "upstream_error"
	UpstreamTimeout Outcome = "upstream_timeout"
	NetworkError    Outcome = "network_error"
	ClientError     Outcome = "client_error"
	ContentFilter   Outcome = "content_filter"
	Canceled        Outcome = "canceled"
	Interrupted     Outcome = "interrupted" // the process died between start and end
)

// UsageSource says where token counts come from.
type UsageSource string

// The sources of usage.
const (
	UsageReported  UsageSource = "reported"
	UsageEstimated UsageSource = "estimated"
	UsageMissing   UsageSource = "missing"
)

// Credential sources.
const (
	Platform = "platform"
	BYOK     = "byok"
)

// Endpoint classes under which provider metrics are kept.
const (
	EndpointChat       = "chat"
	EndpointMessages   = "messages"
	EndpointResponses  = "responses"
	EndpointEmbeddings = "embeddings"
)

// Purposes of an attempt: what it was made for.
const (
	PurposeRequest = "request" // a client's request
	PurposeProbe   = "probe"   // a client's request that probes a cooling provider
)

// Traits of a request and its model beside the capabilities it needs.
const (
	TraitStrict         = "strict"            // provider:model: that provider and no other
	TraitReasoningBound = "reasoning_bound"   // the model's reasoning verifies at its issuer only
	TraitImageOutput    = "image_output"      // the model's output contains images
	TraitNoReasoning    = "no_reasoning"      // the request forbids reasoning
	TraitEffort         = "reasoning_effort:" // followed by the effort asked for
	TraitBoundTo        = "bound_to:"         // followed by the provider that issued the reasoning it replays: nobody else may serve it
	TraitServiceTier    = "service_tier:"     // followed by the tier asked for; of refusals, events have a field
)

// Event is one finished attempt, or, with an empty Outcome, the start record of one that is under
// way. Times are UTC; *_us are microseconds; tokens are counts; money is nano-USD.
type Event struct {
	SchemaVersion   int    `json:"schema_version"`
	EventID         string `json:"event_id"`   // UUIDv7, made before the call
	RequestID       string `json:"request_id"` // one per client request; the Kafka key
	ClientRequestID string `json:"client_request_id,omitempty"`
	ParentRequestID string `json:"parent_request_id,omitempty"`
	SpanID          string `json:"span_id"` // 16 hex digits; the parent id in the upstream's traceparent
	Purpose         string `json:"purpose,omitempty"`
	AttemptNo       int    `json:"attempt_no"`                 // from 1 within the request
	ModelAttemptNo  int    `json:"model_attempt_no,omitempty"` // from 1 within the served model
	WillRetry       bool   `json:"will_retry,omitempty"`       // the loop went on when this attempt ended
	NodeID          string `json:"node_id"`
	OrganizationID  string `json:"organization_id,omitempty"`
	ProjectID       string `json:"project_id,omitempty"`
	APIKeyID        string `json:"api_key_id,omitempty"`
	SessionHash     string `json:"session_hash,omitempty"` // HMAC, never the id itself

	RequestedModel       string `json:"requested_model,omitempty"`
	RequestedProvider    string `json:"requested_provider,omitempty"`
	Endpoint             string `json:"endpoint"`
	Stream               bool   `json:"stream,omitempty"`
	PromptTokensEstimate int64  `json:"prompt_tokens_estimate,omitempty"`
	MaxTokens            int64  `json:"max_tokens,omitempty"` // of the answer, as asked for; attempt 1 only
	// Traits, on attempt 1 only, are what else of request and model the decision depended on: what the
	// request needs (Trait* and the capabilities of schemas/resource).
	Traits       []string `json:"traits,omitempty"`
	Client       string   `json:"client,omitempty"` // User-Agent's product, cut to 64 bytes
	Source       string   `json:"source,omitempty"` // x-source, cut to 64 bytes
	CodingClient string   `json:"coding_client,omitempty"`
	Strategy     string   `json:"strategy,omitempty"`

	Provider         string `json:"provider"`
	Model            string `json:"model"` // catalogue id that served
	UpstreamModel    string `json:"upstream_model,omitempty"`
	Region           string `json:"region,omitempty"`
	CredentialSource string `json:"credential_source,omitempty"`
	ProviderKeyHash  string `json:"provider_key_hash,omitempty"` // 7 hex digits of a keyed hash
	ProviderKeyID    string `json:"provider_key_id,omitempty"`
	ProviderKeyLabel string `json:"provider_key_label,omitempty"`
	ServiceTier      string `json:"service_tier,omitempty"`
	CustomProvider   bool   `json:"custom_provider,omitempty"` // the organization's own; feeds metrics that it alone sees

	Reason               string   `json:"reason,omitempty"`
	Propensity           float64  `json:"propensity,omitempty"`
	Seed                 uint64   `json:"seed,omitempty"`
	Draw                 *float64 `json:"draw,omitempty"`
	AlgorithmVersion     int      `json:"algorithm_version,omitempty"`
	SnapshotID           string   `json:"snapshot_id,omitempty"`
	ConfigVersion        string   `json:"config_version,omitempty"`
	OriginalProvider     string   `json:"original_provider,omitempty"`
	OriginalUptime       *float64 `json:"original_uptime,omitempty"`
	NoFallback           bool     `json:"no_fallback,omitempty"`
	StrippedParameters   []string `json:"stripped_parameters,omitempty"`
	EligibleProviderKeys int      `json:"eligible_provider_keys,omitempty"`
	HitRate              *float64 `json:"hit_rate,omitempty"`
	OutputRatio          *float64 `json:"output_ratio,omitempty"`
	// ExplorationRate is the host's EXPLORATION_RATE where it replaces the project's; attempt 1 only.
	ExplorationRate *float64 `json:"exploration_rate,omitempty"`
	// RememberedProvider and RememberedRegion, on attempt 1, are where the session's pin pointed when the
	// decision was made, or without a session the stable preference.
	RememberedProvider string `json:"remembered_provider,omitempty"`
	RememberedRegion   string `json:"remembered_region,omitempty"`
	// Redecided, on attempt 1: the first choice became unusable before it could be called, so it was
	// chosen again among the rest, without exploration, pin or preference. Considered is that decision;
	// what was chosen before it stands there as tried.
	Redecided       bool         `json:"redecided,omitempty"`
	ConsideredTotal int          `json:"considered_total,omitempty"`
	Considered      []Considered `json:"considered,omitempty"` // attempt 1 only; at most 32

	StartedAt     time.Time `json:"started_at"`
	FinishedAt    time.Time `json:"finished_at,omitzero"`
	ClockOffsetUS int64     `json:"clock_offset_us,omitempty"` // node's clock minus ClickHouse's; times above are corrected by it
	QueueUS       int64     `json:"queue_us,omitempty"`        // request read to attempt start
	ConnectUS     int64     `json:"connect_us,omitempty"`      // 0: a reused connection
	TTFTUS        *int64    `json:"ttft_us,omitempty"`         // streams: start to first (reasoning) token
	DurationUS    int64     `json:"duration_us,omitempty"`
	OverheadUS    int64     `json:"overhead_us,omitempty"` // the gateway's own share of the request

	Outcome      Outcome `json:"outcome,omitempty"`
	ErrorType    string  `json:"error_type,omitempty"`
	StatusCode   int     `json:"status_code,omitempty"` // effective; 0: no response
	FinishReason string  `json:"finish_reason,omitempty"`
	GeoBlocked   bool    `json:"geo_blocked,omitempty"` // a 403 about the place the call came from

	InputTokens        int64       `json:"input_tokens,omitempty"` // all input, cached and written included
	CachedInputTokens  int64       `json:"cached_input_tokens,omitempty"`
	CacheWriteTokens   int64       `json:"cache_write_tokens,omitempty"` // 5-minute writes
	CacheWrite1hTokens int64       `json:"cache_write_1h_tokens,omitempty"`
	OutputTokens       int64       `json:"output_tokens,omitempty"` // reasoning included
	ReasoningTokens    int64       `json:"reasoning_tokens,omitempty"`
	ImageInputTokens   int64       `json:"image_input_tokens,omitempty"` // of the input, those not read from a cache
	AudioInputTokens   int64       `json:"audio_input_tokens,omitempty"` // of the input, those not read from a cache
	ImageOutputTokens  int64       `json:"image_output_tokens,omitempty"`
	AudioOutputTokens  int64       `json:"audio_output_tokens,omitempty"`
	UsageSource        UsageSource `json:"usage_source,omitempty"`
	UsageFlag          string      `json:"usage_flag,omitempty"` // why usage was refused or what is odd about it

	PriceVersion          string `json:"price_version,omitempty"`
	CostNanoUSD           int64  `json:"cost_nano_usd,omitempty"` // the sum of the parts below
	CostInputNanoUSD      int64  `json:"cost_input_nano_usd,omitempty"`
	CostCachedNanoUSD     int64  `json:"cost_cached_nano_usd,omitempty"`
	CostCacheWriteNanoUSD int64  `json:"cost_cache_write_nano_usd,omitempty"`
	CostOutputNanoUSD     int64  `json:"cost_output_nano_usd,omitempty"`
	CostImageInputNanoUSD int64  `json:"cost_image_input_nano_usd,omitempty"`
	CostAudioNanoUSD      int64  `json:"cost_audio_nano_usd,omitempty"`
	CostRequestNanoUSD    int64  `json:"cost_request_nano_usd,omitempty"`
	BaselineKind          string `json:"baseline_kind,omitempty"` // model | provider; final attempt only
	BaselineModel         string `json:"baseline_model,omitempty"`
	BaselineProvider      string `json:"baseline_provider,omitempty"`
	BaselineNanoUSD       int64  `json:"baseline_nano_usd,omitempty"`

	// Traceparent is the W3C trace context the upstream call carried. It is no field of the value:
	// it travels in the record's header of that name.
	Traceparent string `json:"-"`
}

// Considered is one candidate of a decision with the inputs it was scored by, rounded to six
// significant digits so that what is stored decides the same again; or, with ExcludedCode, one that
// was dropped and why (routing.md 1).
type Considered struct {
	Provider       string   `json:"provider"`
	Region         string   `json:"region,omitempty"`
	Model          string   `json:"model,omitempty"` // set where it differs from the event's (auto)
	Score          *float64 `json:"score,omitempty"`
	Price          float64  `json:"price,omitempty"` // ranking price, USD per 1M tokens
	Uptime         *float64 `json:"uptime,omitempty"`
	Latency        *float64 `json:"latency,omitempty"`    // ms
	Throughput     *float64 `json:"throughput,omitempty"` // tokens/s
	Priority       float64  `json:"priority,omitempty"`
	CacheSupported bool     `json:"cache_supported,omitempty"`
	LostToRegion   string   `json:"lost_to_region,omitempty"`
	ExcludedCode   string   `json:"excluded_code,omitempty"`
	CooldownCause  string   `json:"cooldown_cause,omitempty"` // errors | rate_limit | invalid_key (removed until it changes)
	CooldownEndsMS int64    `json:"cooldown_ends_ms,omitempty"`
}

// Refused is a decision that made no call: no provider, a limit, a refusal. It travels in
// turnout.requests.v1 as turnout.request.refused.
type Refused struct {
	SchemaVersion        int          `json:"schema_version"`
	EventID              string       `json:"event_id"`
	RequestID            string       `json:"request_id"`
	ClientRequestID      string       `json:"client_request_id,omitempty"`
	NodeID               string       `json:"node_id"`
	OrganizationID       string       `json:"organization_id,omitempty"`
	ProjectID            string       `json:"project_id,omitempty"`
	APIKeyID             string       `json:"api_key_id,omitempty"`
	SessionHash          string       `json:"session_hash,omitempty"`
	RequestedModel       string       `json:"requested_model,omitempty"`
	RequestedProvider    string       `json:"requested_provider,omitempty"`
	Endpoint             string       `json:"endpoint"`
	Stream               bool         `json:"stream,omitempty"`
	PromptTokensEstimate int64        `json:"prompt_tokens_estimate,omitempty"`
	MaxTokens            int64        `json:"max_tokens,omitempty"`
	Traits               []string     `json:"traits,omitempty"`
	NoFallback           bool         `json:"no_fallback,omitempty"`
	Strategy             string       `json:"strategy,omitempty"`
	SnapshotID           string       `json:"snapshot_id,omitempty"`
	ConfigVersion        string       `json:"config_version,omitempty"`
	PriceVersion         string       `json:"price_version,omitempty"`
	ConsideredTotal      int          `json:"considered_total,omitempty"`
	Considered           []Considered `json:"considered,omitempty"`
	At                   time.Time    `json:"at"`
	StatusCode           int          `json:"status_code"`
	ErrorCode            string       `json:"error_code"`
	ErrorMessage         string       `json:"error_message,omitempty"` // ours, never the client's text
}
