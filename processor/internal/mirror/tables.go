package mirror

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"time"

	"turnout/internal/kafkax"
	"turnout/processor/internal/deadletter"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

// Refusals copies turnout.requests.v1 into refusals.
var Refusals = Table{
	Topic: topic.Requests,
	Name:  "refusals",
	Inserts: []string{"INSERT INTO refusals (schema_version, event_id, request_id, client_request_id, node_id, organization_id, project_id, api_key_id, session_hash, " +
		"requested_model, requested_provider, endpoint, stream, prompt_tokens_estimate, max_tokens, traits, no_fallback, strategy, snapshot_id, config_version, price_version, considered_total, " +
		"considered_json, at, status_code, error_code, error_message, kafka_partition, kafka_offset, record_hash, version)"},
	Split: true,
	Rows:  refusal,
}

func refusal(r *kafkax.Record) ([][]any, error) {
	e, err := attempt.DecodeRefused(r.Value)
	if err != nil {
		return nil, err
	}
	if e.At.Year() < 2000 || e.At.Year() >= 2100 {
		return nil, fmt.Errorf("refusal record, field at: %s is out of range", e.At.Format(time.RFC3339))
	}
	considered := ""
	if len(e.Considered) > 0 {
		considered = string(attempt.AppendConsidered(nil, e.Considered))
	}
	return [][]any{{
		uint16(e.SchemaVersion), e.EventID, e.RequestID, e.ClientRequestID, e.NodeID, e.OrganizationID, e.ProjectID, e.APIKeyID, e.SessionHash,
		e.RequestedModel, e.RequestedProvider, e.Endpoint, e.Stream, e.PromptTokensEstimate, e.MaxTokens, e.Traits, e.NoFallback, e.Strategy, e.SnapshotID, e.ConfigVersion, e.PriceVersion, int32(e.ConsideredTotal),
		considered, e.At, int32(e.StatusCode), e.ErrorCode, e.ErrorMessage, int32(r.Partition), r.Offset, deadletter.Hash(r), math.MaxUint64 - uint64(r.Offset),
	}}, nil
}

// Config copies turnout.config.v1 into config_audit, and resolved configurations into their tables.
// A record is JSON with kind and id; its key is kind/id. One without a value is a deletion.
var Config = Table{
	Topic: topic.Config,
	Name:  "config_audit",
	Inserts: []string{
		"INSERT INTO routing_configs (version, body)",
		"INSERT INTO price_books (version, body)",
		// Last, as it says how far the topic was copied.
		"INSERT INTO config_audit (kind, id, at, key, body, deleted, kafka_partition, kafka_offset, record_hash)",
	},
	Rows: configuration,
}

func configuration(r *kafkax.Record) ([][]any, error) {
	kind, id, _ := strings.Cut(string(r.Key), "/")
	if len(r.Value) > 0 {
		var named struct {
			Kind string          `json:"kind"`
			ID   string          `json:"id"`
			Body json.RawMessage `json:"body"`
		}
		if err := json.Unmarshal(r.Value, &named); err != nil {
			return nil, fmt.Errorf("configuration record %q: %w", r.Key, err)
		}
		if named.Kind != "" {
			kind, id = named.Kind, named.ID
		}
		out := make([][]any, 3)
		switch kind {
		case topic.KindRoutingConfig:
			out[0] = []any{id, string(named.Body)}
		case topic.KindPriceBook:
			out[1] = []any{id, string(named.Body)}
		}
		out[2] = audit(r, kind, id)
		return out, nil
	}
	return [][]any{nil, nil, audit(r, kind, id)}, nil
}

func audit(r *kafkax.Record, kind, id string) []any {
	return []any{kind, id, r.Time, string(r.Key), string(r.Value), len(r.Value) == 0, int32(r.Partition), r.Offset, deadletter.Hash(r)}
}
