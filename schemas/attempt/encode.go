package attempt

// Append appends e's JSON to dst and returns the extended slice. It is what encoding/json would
// write without HTML escapes, with times in UTC cut to microseconds, and it allocates nothing when
// dst has room. A number that is no number (NaN, infinite) is left out, as is what is empty.
func Append(dst []byte, e *Event) []byte { return AppendReusing(dst, e, nil) }

// AppendReusing is Append for a caller who has the considered list encoded already, by
// AppendConsidered: it is what costs most, and start and end of an attempt have it in common.
// An empty considered means: encode e's own.
func AppendReusing(dst []byte, e *Event, considered []byte) []byte {
	b := append(dst, '{')
	b = appendIntAlways(b, `"schema_version":`, int64(e.SchemaVersion))
	b = appendStringAlways(b, `,"event_id":`, e.EventID)
	b = appendStringAlways(b, `,"request_id":`, e.RequestID)
	b = appendString(b, `,"client_request_id":`, e.ClientRequestID)
	b = appendString(b, `,"parent_request_id":`, e.ParentRequestID)
	b = appendStringAlways(b, `,"span_id":`, e.SpanID)
	b = appendString(b, `,"purpose":`, e.Purpose)
	b = appendIntAlways(b, `,"attempt_no":`, int64(e.AttemptNo))
	b = appendInt(b, `,"model_attempt_no":`, int64(e.ModelAttemptNo))
	b = appendBool(b, `,"will_retry":`, e.WillRetry)
	b = appendStringAlways(b, `,"node_id":`, e.NodeID)
	b = appendString(b, `,"organization_id":`, e.OrganizationID)
	b = appendString(b, `,"project_id":`, e.ProjectID)
	b = appendString(b, `,"api_key_id":`, e.APIKeyID)
	b = appendString(b, `,"session_hash":`, e.SessionHash)
	b = appendString(b, `,"requested_model":`, e.RequestedModel)
	b = appendString(b, `,"requested_provider":`, e.RequestedProvider)
	b = appendStringAlways(b, `,"endpoint":`, e.Endpoint)
	b = appendBool(b, `,"stream":`, e.Stream)
	b = appendInt(b, `,"prompt_tokens_estimate":`, e.PromptTokensEstimate)
	b = appendString(b, `,"client":`, e.Client)
	b = appendString(b, `,"source":`, e.Source)
	b = appendString(b, `,"coding_client":`, e.CodingClient)
	b = appendString(b, `,"strategy":`, e.Strategy)
	b = appendStringAlways(b, `,"provider":`, e.Provider)
	b = appendStringAlways(b, `,"model":`, e.Model)
	b = appendString(b, `,"upstream_model":`, e.UpstreamModel)
	b = appendString(b, `,"region":`, e.Region)
	b = appendString(b, `,"credential_source":`, e.CredentialSource)
	b = appendString(b, `,"provider_key_hash":`, e.ProviderKeyHash)
	b = appendString(b, `,"provider_key_id":`, e.ProviderKeyID)
	b = appendString(b, `,"provider_key_label":`, e.ProviderKeyLabel)
	b = appendString(b, `,"service_tier":`, e.ServiceTier)
	b = appendBool(b, `,"custom_provider":`, e.CustomProvider)
	b = appendString(b, `,"reason":`, e.Reason)
	b = appendFloat(b, `,"propensity":`, e.Propensity)
	b = appendUint(b, `,"seed":`, e.Seed)
	b = appendFloatPointer(b, `,"draw":`, e.Draw)
	b = appendInt(b, `,"algorithm_version":`, int64(e.AlgorithmVersion))
	b = appendString(b, `,"snapshot_id":`, e.SnapshotID)
	b = appendString(b, `,"config_version":`, e.ConfigVersion)
	b = appendString(b, `,"original_provider":`, e.OriginalProvider)
	b = appendFloatPointer(b, `,"original_uptime":`, e.OriginalUptime)
	b = appendBool(b, `,"no_fallback":`, e.NoFallback)
	b = appendStrings(b, `,"stripped_parameters":`, e.StrippedParameters)
	b = appendInt(b, `,"eligible_provider_keys":`, int64(e.EligibleProviderKeys))
	b = appendFloatPointer(b, `,"hit_rate":`, e.HitRate)
	b = appendFloatPointer(b, `,"output_ratio":`, e.OutputRatio)
	b = appendInt(b, `,"considered_total":`, int64(e.ConsideredTotal))
	if len(considered) > 0 {
		b = append(b, `,"considered":`...)
		b = append(b, considered...)
	} else if len(e.Considered) > 0 {
		b = append(b, `,"considered":`...)
		b = AppendConsidered(b, e.Considered)
	}
	b = appendTime(b, `,"started_at":`, e.StartedAt)
	if !e.FinishedAt.IsZero() {
		b = appendTime(b, `,"finished_at":`, e.FinishedAt)
	}
	b = appendInt(b, `,"clock_offset_us":`, e.ClockOffsetUS)
	b = appendInt(b, `,"queue_us":`, e.QueueUS)
	b = appendInt(b, `,"connect_us":`, e.ConnectUS)
	b = appendIntPointer(b, `,"ttft_us":`, e.TTFTUS)
	b = appendInt(b, `,"duration_us":`, e.DurationUS)
	b = appendInt(b, `,"overhead_us":`, e.OverheadUS)
	b = appendString(b, `,"outcome":`, string(e.Outcome))
	b = appendString(b, `,"error_type":`, e.ErrorType)
	b = appendInt(b, `,"status_code":`, int64(e.StatusCode))
	b = appendString(b, `,"finish_reason":`, e.FinishReason)
	b = appendBool(b, `,"geo_blocked":`, e.GeoBlocked)
	b = appendInt(b, `,"input_tokens":`, e.InputTokens)
	b = appendInt(b, `,"cached_input_tokens":`, e.CachedInputTokens)
	b = appendInt(b, `,"cache_write_tokens":`, e.CacheWriteTokens)
	b = appendInt(b, `,"cache_write_1h_tokens":`, e.CacheWrite1hTokens)
	b = appendInt(b, `,"output_tokens":`, e.OutputTokens)
	b = appendInt(b, `,"reasoning_tokens":`, e.ReasoningTokens)
	b = appendInt(b, `,"image_input_tokens":`, e.ImageInputTokens)
	b = appendInt(b, `,"audio_input_tokens":`, e.AudioInputTokens)
	b = appendInt(b, `,"audio_output_tokens":`, e.AudioOutputTokens)
	b = appendString(b, `,"usage_source":`, string(e.UsageSource))
	b = appendString(b, `,"usage_flag":`, e.UsageFlag)
	b = appendString(b, `,"price_version":`, e.PriceVersion)
	b = appendInt(b, `,"cost_nano_usd":`, e.CostNanoUSD)
	b = appendInt(b, `,"cost_input_nano_usd":`, e.CostInputNanoUSD)
	b = appendInt(b, `,"cost_cached_nano_usd":`, e.CostCachedNanoUSD)
	b = appendInt(b, `,"cost_cache_write_nano_usd":`, e.CostCacheWriteNanoUSD)
	b = appendInt(b, `,"cost_output_nano_usd":`, e.CostOutputNanoUSD)
	b = appendInt(b, `,"cost_image_input_nano_usd":`, e.CostImageInputNanoUSD)
	b = appendInt(b, `,"cost_audio_nano_usd":`, e.CostAudioNanoUSD)
	b = appendInt(b, `,"cost_request_nano_usd":`, e.CostRequestNanoUSD)
	b = appendString(b, `,"baseline_kind":`, e.BaselineKind)
	b = appendString(b, `,"baseline_model":`, e.BaselineModel)
	b = appendString(b, `,"baseline_provider":`, e.BaselineProvider)
	b = appendInt(b, `,"baseline_nano_usd":`, e.BaselineNanoUSD)
	return append(b, '}')
}

// AppendConsidered appends the JSON array of list to dst.
func AppendConsidered(dst []byte, list []Considered) []byte {
	b := append(dst, '[')
	for i := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = list[i].append(b)
	}
	return append(b, ']')
}

func (c *Considered) append(dst []byte) []byte {
	b := append(dst, '{')
	b = appendStringAlways(b, `"provider":`, c.Provider)
	b = appendString(b, `,"region":`, c.Region)
	b = appendString(b, `,"model":`, c.Model)
	b = appendFloatPointer(b, `,"score":`, c.Score)
	b = appendFloat(b, `,"price":`, c.Price)
	b = appendFloatPointer(b, `,"uptime":`, c.Uptime)
	b = appendFloatPointer(b, `,"latency":`, c.Latency)
	b = appendFloatPointer(b, `,"throughput":`, c.Throughput)
	b = appendFloat(b, `,"priority":`, c.Priority)
	b = appendBool(b, `,"cache_supported":`, c.CacheSupported)
	b = appendString(b, `,"lost_to_region":`, c.LostToRegion)
	b = appendString(b, `,"excluded_code":`, c.ExcludedCode)
	b = appendString(b, `,"cooldown_cause":`, c.CooldownCause)
	b = appendInt(b, `,"cooldown_ends_ms":`, c.CooldownEndsMS)
	return append(b, '}')
}
