package explain

import (
	"time"

	"turnout/gateway/routing"
	"turnout/schemas/attempt"
)

// Report explains one request. Its JSON is what --json and the admin address give.
type Report struct {
	RequestID string `json:"request_id"`
	Result    string `json:"result"` // the last attempt's outcome, or refused
	// Unfinished: the gateway went on after the last attempt that is stored.
	Unfinished bool      `json:"unfinished,omitempty"`
	Request    Request   `json:"request"`
	Decision   *Decision `json:"decision,omitempty"` // nil: the request did not come that far, or its first attempt is not stored
	Refusal    *Refusal  `json:"refusal,omitempty"`
	Attempts   []Attempt `json:"attempts"`
	Cost       *Cost     `json:"cost,omitempty"` // of all attempts
	Again      Again     `json:"again"`
}

// Request is what was asked for.
type Request struct {
	At                   time.Time `json:"at"`
	ClientRequestID      string    `json:"client_request_id,omitempty"`
	OrganizationID       string    `json:"organization_id,omitempty"`
	ProjectID            string    `json:"project_id,omitempty"`
	APIKeyID             string    `json:"api_key_id,omitempty"`
	NodeID               string    `json:"node_id"`
	Endpoint             string    `json:"endpoint"`
	RequestedModel       string    `json:"requested_model,omitempty"`
	RequestedProvider    string    `json:"requested_provider,omitempty"`
	Stream               bool      `json:"stream"`
	Strategy             string    `json:"strategy,omitempty"`
	PromptTokensEstimate int64     `json:"prompt_tokens_estimate"`
	MaxTokens            int64     `json:"max_tokens,omitempty"`
	Traits               []string  `json:"traits,omitempty"`
	ServiceTier          string    `json:"service_tier,omitempty"`
	Client               string    `json:"client,omitempty"`
	CodingClient         string    `json:"coding_client,omitempty"`
	SessionHash          string    `json:"session_hash,omitempty"`
	NoFallback           bool      `json:"no_fallback,omitempty"`
}

// Decision is the first choice and everything that led to it.
type Decision struct {
	Selected           *Place   `json:"selected"`         // null: nobody
	Reason             string   `json:"reason,omitempty"` // routing.md 7
	Why                string   `json:"why"`              // the same in words
	Propensity         float64  `json:"propensity,omitempty"`
	Draw               *float64 `json:"draw,omitempty"`
	Seed               uint64   `json:"seed,omitempty"`
	AlgorithmVersion   int      `json:"algorithm_version,omitempty"`
	SnapshotID         string   `json:"snapshot_id,omitempty"`
	ConfigVersion      string   `json:"config_version,omitempty"`
	PriceVersion       string   `json:"price_version,omitempty"`
	HitRate            *float64 `json:"hit_rate,omitempty"` // prices are blended with it
	OutputRatio        *float64 `json:"output_ratio,omitempty"`
	Remembered         *Place   `json:"remembered,omitempty"` // a session's pin, or the stable preference
	BoundTo            string   `json:"bound_to,omitempty"`   // issued the reasoning that the request replays: nobody else may serve it
	OriginalProvider   string   `json:"original_provider,omitempty"`
	OriginalUptime     *float64 `json:"original_uptime,omitempty"`
	StrippedParameters []string `json:"stripped_parameters,omitempty"`
	Redecided          bool     `json:"redecided,omitempty"`

	ConsideredTotal int         `json:"considered_total"`
	Candidates      []Candidate `json:"candidates"`
	Excluded        []Exclusion `json:"excluded"`
}

// Place is a provider, region and model.
type Place struct {
	Provider string `json:"provider"`
	Region   string `json:"region,omitempty"`
	Model    string `json:"model,omitempty"`
}

// Candidate is one that could have served the request. Contributions sum to the score; the lowest
// score wins. They are decided again, so they are null where that was not possible.
type Candidate struct {
	Place
	Chosen         bool           `json:"chosen,omitempty"`
	Score          float64        `json:"score"`
	Contributions  *Contributions `json:"contributions,omitempty"`
	Price          float64        `json:"price"` // ranking price, USD per 1M tokens
	ListPrice      *ListPrice     `json:"list_price,omitempty"`
	Uptime         *float64       `json:"uptime"`     // percent
	Throughput     *float64       `json:"throughput"` // tokens/s
	Latency        *float64       `json:"latency"`    // ms to first token
	Priority       float64        `json:"priority"`
	CacheSupported bool           `json:"cache_supported"`
	LostToRegion   string         `json:"lost_to_region,omitempty"`
	// LastResort: all its keys were cooling down, but nobody else was left.
	LastResort bool `json:"last_resort,omitempty"`
}

// ListPrice is what the price book says, in USD per 1M tokens before any discount.
type ListPrice struct {
	Input       string  `json:"input"`
	Output      string  `json:"output"`
	CachedInput string  `json:"cached_input,omitempty"`
	Discount    float64 `json:"discount_percent,omitempty"`
}

// Contributions are the parts of a score.
type Contributions struct {
	Price         float64 `json:"price"`
	Uptime        float64 `json:"uptime"`
	Throughput    float64 `json:"throughput"`
	Latency       float64 `json:"latency"`
	Cache         float64 `json:"cache"`
	Priority      float64 `json:"priority"`
	UptimePenalty float64 `json:"uptime_penalty"`
}

// Exclusion is a candidate that could not serve the request.
type Exclusion struct {
	Place
	Code           string `json:"code"`
	Why            string `json:"why"` // the same in words
	CooldownCause  string `json:"cooldown_cause,omitempty"`
	CooldownEndsMS int64  `json:"cooldown_ends_ms,omitempty"`
}

// Refusal is what the client was told where no call was made.
type Refusal struct {
	StatusCode   int    `json:"status_code"`
	ErrorCode    string `json:"error_code"`
	ErrorMessage string `json:"error_message,omitempty"`
	Why          string `json:"why"`
}

// Attempt is one call to a provider.
type Attempt struct {
	Place
	AttemptNo        int       `json:"attempt_no"`
	How              string    `json:"how"` // how the gateway came to it, in words
	EventID          string    `json:"event_id"`
	SpanID           string    `json:"span_id"`
	UpstreamModel    string    `json:"upstream_model,omitempty"`
	CredentialSource string    `json:"credential_source,omitempty"`
	ProviderKeyHash  string    `json:"provider_key_hash,omitempty"`
	ProviderKeyID    string    `json:"provider_key_id,omitempty"`
	ProviderKeyLabel string    `json:"provider_key_label,omitempty"`
	Reason           string    `json:"reason,omitempty"`
	Probe            bool      `json:"probe,omitempty"`
	StartedAt        time.Time `json:"started_at"`
	QueueUS          int64     `json:"queue_us"`
	ConnectUS        int64     `json:"connect_us"`
	TTFTUS           *int64    `json:"ttft_us,omitempty"`
	DurationUS       int64     `json:"duration_us"`
	Outcome          string    `json:"outcome"`
	ErrorType        string    `json:"error_type,omitempty"`
	StatusCode       int       `json:"status_code"`
	FinishReason     string    `json:"finish_reason,omitempty"`
	WillRetry        bool      `json:"will_retry"`
	Usage            Usage     `json:"usage"`
	CostNanoUSD      int64     `json:"cost_nano_usd"`
}

// Usage is what an attempt used, in tokens. Input holds all of it, cached and written included.
type Usage struct {
	Source             string `json:"source"`
	Flag               string `json:"flag,omitempty"`
	InputTokens        int64  `json:"input_tokens"`
	CachedInputTokens  int64  `json:"cached_input_tokens"`
	CacheWriteTokens   int64  `json:"cache_write_tokens"`
	CacheWrite1hTokens int64  `json:"cache_write_1h_tokens"`
	OutputTokens       int64  `json:"output_tokens"`
	ReasoningTokens    int64  `json:"reasoning_tokens"`
}

// Cost is what the whole request cost, and what it would have cost without routing.
type Cost struct {
	NanoUSD int64            `json:"nano_usd"`
	Parts   map[string]int64 `json:"parts"` // nano-USD; without those that are 0
	// The baseline of the attempt that served the request; a kind of "" means that there is none.
	BaselineKind     string `json:"baseline_kind,omitempty"`
	BaselineModel    string `json:"baseline_model,omitempty"`
	BaselineProvider string `json:"baseline_provider,omitempty"`
	BaselineNanoUSD  int64  `json:"baseline_nano_usd,omitempty"`
	SavedNanoUSD     int64  `json:"saved_nano_usd"`
}

// Report explains what is stored.
func (s *Stored) Report() *Report {
	r := &Report{RequestID: s.RequestID, Attempts: []Attempt{}}
	d := s.decided()
	switch {
	case s.Refusal != nil:
		r.Request = requestOfRefusal(s.Refusal)
		r.Refusal = &Refusal{s.Refusal.StatusCode, s.Refusal.ErrorCode, s.Refusal.ErrorMessage, refusalWords(s.Refusal)}
	case len(s.Attempts) > 0:
		r.Request = requestOf(&s.Attempts[0])
	}
	r.Result = "refused"
	if len(s.Attempts) > 0 {
		last := &s.Attempts[len(s.Attempts)-1]
		r.Result, r.Unfinished = string(last.Outcome), last.WillRetry
		r.Cost = s.cost()
	}
	for i := range s.Attempts {
		r.Attempts = append(r.Attempts, s.attempt(i))
	}
	r.Again = s.again(d)
	if d != nil && len(d.considered) > 0 {
		r.Decision = s.decision(d)
	}
	return r
}

func requestOf(e *attempt.Event) Request {
	return Request{
		At: e.StartedAt.Add(-time.Duration(e.QueueUS) * time.Microsecond), ClientRequestID: e.ClientRequestID, OrganizationID: e.OrganizationID, ProjectID: e.ProjectID, APIKeyID: e.APIKeyID,
		NodeID: e.NodeID, Endpoint: e.Endpoint, RequestedModel: e.RequestedModel, RequestedProvider: e.RequestedProvider, Stream: e.Stream,
		Strategy: e.Strategy, PromptTokensEstimate: e.PromptTokensEstimate, MaxTokens: e.MaxTokens, Traits: e.Traits, ServiceTier: e.ServiceTier,
		Client: e.Client, CodingClient: e.CodingClient, SessionHash: e.SessionHash, NoFallback: e.NoFallback,
	}
}

func requestOfRefusal(e *attempt.Refused) Request {
	return Request{
		At: e.At, ClientRequestID: e.ClientRequestID, OrganizationID: e.OrganizationID, ProjectID: e.ProjectID, APIKeyID: e.APIKeyID,
		NodeID: e.NodeID, Endpoint: e.Endpoint, RequestedModel: e.RequestedModel, RequestedProvider: e.RequestedProvider, Stream: e.Stream,
		Strategy: e.Strategy, PromptTokensEstimate: e.PromptTokensEstimate, MaxTokens: e.MaxTokens, Traits: e.Traits,
		SessionHash: e.SessionHash, NoFallback: e.NoFallback,
	}
}

// decision shows what was recorded, with the parts of each score as they were decided again.
func (s *Stored) decision(d *decided) *Decision {
	out := &Decision{
		SnapshotID: d.snapshot, ConfigVersion: d.config, PriceVersion: d.prices,
		BoundTo: d.input.Request.BoundTo, ConsideredTotal: d.total, Candidates: []Candidate{}, Excluded: []Exclusion{},
	}
	if e := d.event; e != nil {
		out.Selected = &Place{e.Provider, e.Region, e.Model}
		out.Reason, out.Propensity, out.Draw, out.Seed, out.AlgorithmVersion = e.Reason, e.Propensity, e.Draw, e.Seed, e.AlgorithmVersion
		out.HitRate, out.OutputRatio = e.HitRate, e.OutputRatio
		out.OriginalProvider, out.OriginalUptime = e.OriginalProvider, e.OriginalUptime
		out.StrippedParameters, out.Redecided = e.StrippedParameters, e.Redecided
		if e.RememberedProvider != "" {
			out.Remembered = &Place{Provider: e.RememberedProvider, Region: e.RememberedRegion}
		}
	}
	for i := range d.considered {
		c := &d.considered[i]
		place := Place{c.Provider, c.Region, c.Model}
		if place.Model == "" {
			place.Model = d.model
		}
		if c.ExcludedCode != "" || c.Score == nil {
			out.Excluded = append(out.Excluded, Exclusion{place, c.ExcludedCode, codeWords(c, d), c.CooldownCause, c.CooldownEndsMS})
			continue
		}
		out.Candidates = append(out.Candidates, Candidate{
			Place: place, Chosen: out.Selected != nil && place.Provider == out.Selected.Provider && place.Region == out.Selected.Region,
			Score: *c.Score, Contributions: d.contributions(i), Price: c.Price, ListPrice: s.listPrice(d, place), Uptime: c.Uptime, Throughput: c.Throughput, Latency: c.Latency,
			Priority: c.Priority, CacheSupported: c.CacheSupported, LostToRegion: c.LostToRegion, LastResort: c.CooldownCause != "",
		})
	}
	out.Why = whyWords(out)
	return out
}

func (d *decided) contributions(candidate int) *Contributions {
	if d.again == nil {
		return nil
	}
	for i := range d.again.Scores {
		if d.again.Scores[i].Candidate == candidate {
			c := Contributions(d.again.Scores[i].Contributions)
			return &c
		}
	}
	return nil
}

func (s *Stored) listPrice(d *decided, p Place) *ListPrice {
	schedule := s.schedule(p.Model, p.Provider, p.Region, d.organization)
	if schedule == nil {
		return nil
	}
	price := schedule.At(d.promptTokens, d.tier)
	out := &ListPrice{Input: price.Input.String(), Output: price.Output.String(), Discount: schedule.Discount}
	if price.CachedInput != nil {
		out.CachedInput = price.CachedInput.String()
	}
	return out
}

func (s *Stored) attempt(i int) Attempt {
	e := &s.Attempts[i]
	return Attempt{
		Place: Place{e.Provider, e.Region, e.Model}, AttemptNo: e.AttemptNo, How: s.howWords(i), EventID: e.EventID, SpanID: e.SpanID, UpstreamModel: e.UpstreamModel,
		CredentialSource: e.CredentialSource, ProviderKeyHash: e.ProviderKeyHash, ProviderKeyID: e.ProviderKeyID, ProviderKeyLabel: e.ProviderKeyLabel,
		Reason: e.Reason, Probe: e.Purpose == attempt.PurposeProbe, StartedAt: e.StartedAt, QueueUS: e.QueueUS, ConnectUS: e.ConnectUS, TTFTUS: e.TTFTUS, DurationUS: e.DurationUS,
		Outcome: string(e.Outcome), ErrorType: e.ErrorType, StatusCode: e.StatusCode, FinishReason: e.FinishReason, WillRetry: e.WillRetry,
		Usage:       Usage{string(e.UsageSource), e.UsageFlag, e.InputTokens, e.CachedInputTokens, e.CacheWriteTokens, e.CacheWrite1hTokens, e.OutputTokens, e.ReasoningTokens},
		CostNanoUSD: e.CostNanoUSD,
	}
}

func (s *Stored) cost() *Cost {
	c := &Cost{Parts: map[string]int64{}}
	for i := range s.Attempts {
		e := &s.Attempts[i]
		c.NanoUSD += e.CostNanoUSD
		for name, part := range map[string]int64{
			"input": e.CostInputNanoUSD, "cached": e.CostCachedNanoUSD, "cache_write": e.CostCacheWriteNanoUSD, "output": e.CostOutputNanoUSD,
			"image_input": e.CostImageInputNanoUSD, "audio": e.CostAudioNanoUSD, "request": e.CostRequestNanoUSD,
		} {
			if part != 0 {
				c.Parts[name] += part
			}
		}
		if e.BaselineKind != "" {
			c.BaselineKind, c.BaselineModel, c.BaselineProvider, c.BaselineNanoUSD = e.BaselineKind, e.BaselineModel, e.BaselineProvider, e.BaselineNanoUSD
			c.SavedNanoUSD = e.BaselineNanoUSD - e.CostNanoUSD
		}
	}
	return c
}

// decided is a decision as it was recorded, and again.
type decided struct {
	considered   []attempt.Considered
	total        int
	model        string // of the candidates
	organization string
	promptTokens int64
	maxTokens    int64
	tier         string
	snapshot     string
	config       string
	prices       string
	event        *attempt.Event // nil: nobody was called
	input        routing.Input
	again        *routing.Decision // nil: could not be decided again
}
