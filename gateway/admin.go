package gateway

import (
	"context"
	"errors"
	"sort"
	"time"

	"turnout/gateway/explain"
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

// Decision explains a request from what is stored of it.
func (a *admin) Decision(ctx context.Context, requestID string) (any, error) {
	ctx, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	report, err := explain.Explain(ctx, explain.ClickHouse{Conn: a.g.ch}, requestID)
	if errors.Is(err, explain.ErrUnknown) {
		return nil, httpapi.ErrUnknown
	}
	return report, err
}
