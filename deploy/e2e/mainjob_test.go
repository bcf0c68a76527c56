package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"turnout/analytics/queries"
	"turnout/deploy/sim"
)

// A request is sent with OpenAI's SDK; the answer says who served it and why, the attempt is a row,
// the catalogue is listed, and the savings know the request.
func TestMainJob(t *testing.T) {
	t.Parallel()
	s := newSystem(t, parts{})
	g := s.gateway("node-a")
	s.processor("processor")
	began := time.Now()
	sdk := newSDK(g.url)
	ctx := t.Context()

	metas := map[string]meta{}
	for name, send := range map[string]sender{"plain": plain, "stream": streamed} {
		m, err := send(ctx, sdk, question(sim.Small, 1))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if !m.explained() || m.UsedModel != m.UsedProvider+"/"+sim.Small || m.CostUSD <= 0 {
			t.Errorf("%s: the answer does not say who served it, why and for how much: %+v", name, m)
		}
		metas[name] = m
	}
	page, err := sdk.Models.List(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, m := range page.Data {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	if want := []string{sim.Embedder, sim.Large, sim.Reason, sim.Small}; !slices.Equal(ids, want) {
		t.Errorf("/v1/models lists %v, want %v", ids, want)
	}
	if m, err := sdk.Models.Get(ctx, sim.Small); err != nil || m.ID != sim.Small {
		t.Errorf("/v1/models/%s: %v", sim.Small, err)
	}

	s.tell("main job", s.balance(20*time.Second))
	for _, e := range s.sim.Ledger(0) {
		var request, provider, model, reason, outcome string
		var stream bool
		var input, output, cost int64
		row := s.db.QueryRow(ctx, "SELECT request_id, provider, model, reason, outcome, stream, input_tokens, output_tokens, cost_nano_usd FROM attempts_unique WHERE span_id = ?", e.SpanID)
		if err := row.Scan(&request, &provider, &model, &reason, &outcome, &stream, &input, &output, &cost); err != nil {
			t.Fatalf("row of span %s: %v", e.SpanID, err)
		}
		m := metas["plain"]
		if e.Stream {
			m = metas["stream"]
		}
		got := fmt.Sprint(request, provider, model, reason, outcome, stream, input, output, fmt.Sprintf("%.9f", float64(cost)/1e9))
		want := fmt.Sprint(m.RequestID, e.Provider, sim.Small, m.Reason, "completed", e.Stream, int64(e.InputTokens), int64(e.OutputTokens), fmt.Sprintf("%.9f", m.CostUSD))
		if got != want {
			t.Errorf("the row says %s, ledger and answer say %s", got, want)
		}
	}
	savings, err := queries.Savings(ctx, s.db, queries.Range{From: began.Add(-time.Minute), To: time.Now().Add(time.Minute), Project: projectID})
	if err != nil {
		t.Fatal(err)
	}
	requests, cost, saving := uint64(0), int64(0), int64(0)
	for _, x := range savings {
		requests, cost, saving = requests+x.Requests, cost+x.CostNanoUSD, saving+x.SavingNanoUSD
	}
	if requests != 2 || cost <= 0 || saving <= 0 {
		t.Errorf("the savings hold %d requests for %d nano-USD and %d saved, want both requests: %+v", requests, cost, saving, savings)
	}
}
