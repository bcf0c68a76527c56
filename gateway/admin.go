package gateway

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"sort"
	"strings"
	"time"

	"turnout/gateway/internal/httpapi"
	"turnout/gateway/internal/state"
)

// admin answers /admin/v1.
type admin struct{ g *Gateway }

// keyHealth is one provider key as /admin/v1/health shows it.
type keyHealth struct {
	Provider string     `json:"provider"`
	Region   string     `json:"region,omitempty"`
	KeyHash  string     `json:"provider_key_hash"`
	State    string     `json:"state"`
	Cause    string     `json:"cause,omitempty"`
	Until    *time.Time `json:"until,omitempty"`
	InFlight int64      `json:"in_flight"`
}

var phases = map[state.Phase]string{
	state.Ready: "ready", state.Due: "due", state.Cooling: "cooling", state.Probing: "probing", state.Removed: "removed",
}

// Health says how the node and the keys it uses are.
func (a *admin) Health() any {
	g := a.g
	now := g.poller.Now()
	keys := []keyHealth{}
	for _, k := range g.state.Keys().List(now) {
		h := keyHealth{Provider: k.ID.Provider, Region: k.ID.Region, KeyHash: k.ID.Secret[:7], State: phases[k.Phase], Cause: string(k.Cooldown.Cause), InFlight: k.InFlight}
		if !k.Cooldown.Until.IsZero() {
			until := k.Cooldown.Until.UTC()
			h.Until = &until
		}
		keys = append(keys, h)
	}
	sort.Slice(keys, func(i, j int) bool {
		x, y := keys[i], keys[j]
		return x.Provider+"\x00"+x.Region+"\x00"+x.KeyHash < y.Provider+"\x00"+y.Region+"\x00"+y.KeyHash
	})
	waiting, dropped := g.state.Backlog()
	out := g.notes()
	out["ready"] = len(g.Ready()) == 0
	out["not_ready_because"] = g.Ready()
	out["in_flight"] = g.api.InFlight()
	out["spool"] = map[string]any{"depth": g.events.Depth(), "fill": g.events.Fill()}
	out["state"] = map[string]any{"backlog": waiting, "kept_local": dropped}
	out["keys"] = keys
	return out
}

// Decision reads what is stored of a request: its attempts, or its refusal.
func (a *admin) Decision(ctx context.Context, requestID string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	attempts, err := a.rows(ctx, "SELECT * FROM attempts_unique WHERE request_id = ? ORDER BY attempt_no", requestID)
	if err != nil {
		return nil, err
	}
	refusals, err := a.rows(ctx, "SELECT * FROM refusals WHERE request_id = ?", requestID)
	if err != nil {
		return nil, err
	}
	if len(attempts)+len(refusals) == 0 {
		return nil, httpapi.ErrUnknown
	}
	return map[string]any{"request_id": requestID, "attempts": attempts, "refusals": refusals}, nil
}

// rows reads rows as maps from column to value.
func (a *admin) rows(ctx context.Context, query string, args ...any) ([]map[string]any, error) {
	rows, err := a.g.ch.Query(ctx, query, args...)
	if err != nil {
		return nil, fmt.Errorf("reading a decision: %w", err)
	}
	defer rows.Close()
	out := []map[string]any{}
	types, names := rows.ColumnTypes(), rows.Columns()
	for rows.Next() {
		targets := make([]any, len(types))
		for i, t := range types {
			targets[i] = reflect.New(t.ScanType()).Interface()
		}
		if err := rows.Scan(targets...); err != nil {
			return nil, fmt.Errorf("reading a decision: %w", err)
		}
		row := make(map[string]any, len(names))
		for i, name := range names {
			value := reflect.ValueOf(targets[i]).Elem().Interface()
			// Nested values stand there as they came in the event.
			if text, ok := value.(string); ok && strings.HasSuffix(name, "_json") {
				if json.Valid([]byte(text)) {
					row[strings.TrimSuffix(name, "_json")] = json.RawMessage(text)
				}
				continue
			}
			row[name] = value
		}
		out = append(out, row)
	}
	return out, rows.Err()
}
