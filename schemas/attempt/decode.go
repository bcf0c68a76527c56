package attempt

import "fmt"

// FieldError says which field of a record cannot be read and why.
type FieldError struct {
	Field  string // its JSON name, considered[3].price for one of a list; empty: the record as a whole
	Offset int    // bytes into the record
	Reason string
}

func (e *FieldError) Error() string {
	if e.Field == "" {
		return fmt.Sprintf("attempt record, byte %d: %s", e.Offset, e.Reason)
	}
	return fmt.Sprintf("attempt record, field %s, byte %d: %s", e.Field, e.Offset, e.Reason)
}

// Decode reads the event of a finished attempt, of this or any other schema version: fields it does
// not know are passed over. Types are strict, null counts as absent, the last of two equal keys
// wins. What is wrong comes back as a *FieldError; a record without its identity, its start or its
// outcome is wrong.
//
// The event's strings share one copy of data: clone what is to be kept much longer than the event.
func Decode(data []byte) (*Event, error) {
	e, err := DecodeStart(data)
	if err != nil {
		return nil, err
	}
	if err := e.finished(len(data)); err != nil {
		return nil, err
	}
	return e, nil
}

// DecodeKeeping is Decode for whoever keeps the list of candidates as it came: it returns that list's
// JSON, empty if there is none, and leaves Considered empty. Of the list it only checks that it is one
// and valid JSON. The event's strings are parts of data.
func DecodeKeeping(data string) (e *Event, considered string, err error) {
	d := decoder{data: data, item: -1, keeping: true}
	e, err = d.start()
	if err == nil {
		err = e.finished(len(data))
	}
	if err != nil {
		return nil, "", err
	}
	return e, d.kept, nil
}

// DecodeStart is Decode for a record whose attempt may be under way still.
func DecodeStart(data []byte) (*Event, error) {
	d := decoder{data: string(data), item: -1}
	return d.start()
}

func (d *decoder) start() (*Event, error) {
	e := new(Event)
	d.open('{', "an object")
	for first := true; d.more('}', first); first = false {
		d.field = ""
		d.field = d.key()
		d.event(e)
	}
	d.end()
	if d.err == nil {
		d.err = e.incomplete(len(d.data))
	}
	if d.err != nil {
		return nil, d.err
	}
	return e, nil
}

func (e *Event) finished(offset int) error {
	if e.Outcome == "" {
		return &FieldError{Field: "outcome", Offset: offset, Reason: "is missing: every finished attempt has one"}
	}
	return nil
}

func (e *Event) incomplete(offset int) *FieldError {
	var missing string
	switch {
	case e.SchemaVersion < 1:
		return &FieldError{Field: "schema_version", Offset: offset, Reason: "must be 1 or more"}
	case e.EventID == "":
		missing = "event_id"
	case e.RequestID == "":
		missing = "request_id"
	case e.StartedAt.IsZero():
		missing = "started_at"
	default:
		return nil
	}
	return &FieldError{Field: missing, Offset: offset, Reason: "is missing or empty"}
}

func (d *decoder) event(e *Event) {
	switch d.field {
	case "schema_version":
		e.SchemaVersion = int(d.int())
	case "event_id":
		e.EventID = d.string()
	case "request_id":
		e.RequestID = d.string()
	case "client_request_id":
		e.ClientRequestID = d.string()
	case "parent_request_id":
		e.ParentRequestID = d.string()
	case "span_id":
		e.SpanID = d.string()
	case "purpose":
		e.Purpose = d.string()
	case "attempt_no":
		e.AttemptNo = int(d.int())
	case "model_attempt_no":
		e.ModelAttemptNo = int(d.int())
	case "will_retry":
		e.WillRetry = d.bool()
	case "node_id":
		e.NodeID = d.string()
	case "organization_id":
		e.OrganizationID = d.string()
	case "project_id":
		e.ProjectID = d.string()
	case "api_key_id":
		e.APIKeyID = d.string()
	case "session_hash":
		e.SessionHash = d.string()
	case "requested_model":
		e.RequestedModel = d.string()
	case "requested_provider":
		e.RequestedProvider = d.string()
	case "endpoint":
		e.Endpoint = d.string()
	case "stream":
		e.Stream = d.bool()
	case "prompt_tokens_estimate":
		e.PromptTokensEstimate = d.int()
	case "max_tokens":
		e.MaxTokens = d.int()
	case "traits":
		e.Traits = d.strings()
	case "client":
		e.Client = d.string()
	case "source":
		e.Source = d.string()
	case "coding_client":
		e.CodingClient = d.string()
	case "strategy":
		e.Strategy = d.string()
	case "provider":
		e.Provider = d.string()
	case "model":
		e.Model = d.string()
	case "upstream_model":
		e.UpstreamModel = d.string()
	case "region":
		e.Region = d.string()
	case "credential_source":
		e.CredentialSource = d.string()
	case "provider_key_hash":
		e.ProviderKeyHash = d.string()
	case "provider_key_id":
		e.ProviderKeyID = d.string()
	case "provider_key_label":
		e.ProviderKeyLabel = d.string()
	case "service_tier":
		e.ServiceTier = d.string()
	case "custom_provider":
		e.CustomProvider = d.bool()
	case "reason":
		e.Reason = d.string()
	case "propensity":
		e.Propensity = d.float()
	case "seed":
		e.Seed = d.uint()
	case "draw":
		e.Draw = d.floatPointer()
	case "algorithm_version":
		e.AlgorithmVersion = int(d.int())
	case "snapshot_id":
		e.SnapshotID = d.string()
	case "config_version":
		e.ConfigVersion = d.string()
	case "original_provider":
		e.OriginalProvider = d.string()
	case "original_uptime":
		e.OriginalUptime = d.floatPointer()
	case "no_fallback":
		e.NoFallback = d.bool()
	case "stripped_parameters":
		e.StrippedParameters = d.strings()
	case "eligible_provider_keys":
		e.EligibleProviderKeys = int(d.int())
	case "hit_rate":
		e.HitRate = d.floatPointer()
	case "output_ratio":
		e.OutputRatio = d.floatPointer()
	case "exploration_rate":
		e.ExplorationRate = d.floatPointer()
	case "remembered_provider":
		e.RememberedProvider = d.string()
	case "remembered_region":
		e.RememberedRegion = d.string()
	case "redecided":
		e.Redecided = d.bool()
	case "considered_total":
		e.ConsideredTotal = int(d.int())
	case "considered":
		if d.keeping {
			d.kept = d.list("a list of candidates")
		} else {
			e.Considered = d.considered(e.ConsideredTotal)
		}
	case "started_at":
		e.StartedAt = d.time()
	case "finished_at":
		e.FinishedAt = d.time()
	case "clock_offset_us":
		e.ClockOffsetUS = d.int()
	case "queue_us":
		e.QueueUS = d.int()
	case "connect_us":
		e.ConnectUS = d.int()
	case "ttft_us":
		e.TTFTUS = d.intPointer()
	case "duration_us":
		e.DurationUS = d.int()
	case "overhead_us":
		e.OverheadUS = d.int()
	case "outcome":
		e.Outcome = Outcome(d.string())
	case "error_type":
		e.ErrorType = d.string()
	case "status_code":
		e.StatusCode = int(d.int())
	case "finish_reason":
		e.FinishReason = d.string()
	case "geo_blocked":
		e.GeoBlocked = d.bool()
	case "input_tokens":
		e.InputTokens = d.int()
	case "cached_input_tokens":
		e.CachedInputTokens = d.int()
	case "cache_write_tokens":
		e.CacheWriteTokens = d.int()
	case "cache_write_1h_tokens":
		e.CacheWrite1hTokens = d.int()
	case "output_tokens":
		e.OutputTokens = d.int()
	case "reasoning_tokens":
		e.ReasoningTokens = d.int()
	case "image_input_tokens":
		e.ImageInputTokens = d.int()
	case "audio_input_tokens":
		e.AudioInputTokens = d.int()
	case "image_output_tokens":
		e.ImageOutputTokens = d.int()
	case "audio_output_tokens":
		e.AudioOutputTokens = d.int()
	case "usage_source":
		e.UsageSource = UsageSource(d.string())
	case "usage_flag":
		e.UsageFlag = d.string()
	case "price_version":
		e.PriceVersion = d.string()
	case "cost_nano_usd":
		e.CostNanoUSD = d.int()
	case "cost_input_nano_usd":
		e.CostInputNanoUSD = d.int()
	case "cost_cached_nano_usd":
		e.CostCachedNanoUSD = d.int()
	case "cost_cache_write_nano_usd":
		e.CostCacheWriteNanoUSD = d.int()
	case "cost_output_nano_usd":
		e.CostOutputNanoUSD = d.int()
	case "cost_image_input_nano_usd":
		e.CostImageInputNanoUSD = d.int()
	case "cost_audio_nano_usd":
		e.CostAudioNanoUSD = d.int()
	case "cost_request_nano_usd":
		e.CostRequestNanoUSD = d.int()
	case "baseline_kind":
		e.BaselineKind = d.string()
	case "baseline_model":
		e.BaselineModel = d.string()
	case "baseline_provider":
		e.BaselineProvider = d.string()
	case "baseline_nano_usd":
		e.BaselineNanoUSD = d.int()
	default:
		d.skip(0)
	}
}

func (d *decoder) considered(hint int) []Considered {
	if d.err != nil || d.null() {
		return nil
	}
	list := make([]Considered, 0, min(max(hint, 1), 32))
	d.open('[', "a list of candidates")
	for first := true; d.more(']', first); first = false {
		d.item = len(list)
		list = append(list, Considered{})
		c := &list[len(list)-1]
		if d.null() {
			continue
		}
		d.open('{', "an object")
		for first := true; d.more('}', first); first = false {
			d.within = ""
			d.within = d.key()
			d.candidate(c)
		}
		d.within = ""
	}
	d.item = -1
	return list
}

func (d *decoder) candidate(c *Considered) {
	switch d.within {
	case "provider":
		c.Provider = d.string()
	case "region":
		c.Region = d.string()
	case "model":
		c.Model = d.string()
	case "score":
		c.Score = d.floatPointer()
	case "price":
		c.Price = d.float()
	case "uptime":
		c.Uptime = d.floatPointer()
	case "latency":
		c.Latency = d.floatPointer()
	case "throughput":
		c.Throughput = d.floatPointer()
	case "priority":
		c.Priority = d.float()
	case "cache_supported":
		c.CacheSupported = d.bool()
	case "lost_to_region":
		c.LostToRegion = d.string()
	case "excluded_code":
		c.ExcludedCode = d.string()
	case "cooldown_cause":
		c.CooldownCause = d.string()
	case "cooldown_ends_ms":
		c.CooldownEndsMS = d.int()
	default:
		d.skip(0)
	}
}
