package load

import (
	"cmp"
	"fmt"
	"slices"

	"turnout/deploy/sim"
	"turnout/schemas/attempt"
)

// Row is what the balance needs to know of one stored attempt.
type Row struct {
	SpanID       string
	Provider     string
	Outcome      attempt.Outcome
	StatusCode   int // 0: no response
	OutputTokens int64
}

// Mismatch is one way in which ledger and rows do not agree.
type Mismatch struct {
	SpanID string
	What   string
}

func (m Mismatch) String() string { return fmt.Sprintf("span %s: %s", m.SpanID, m.What) }

// Balance checks that every call that left for a provider has exactly one row, and that a row without
// a call says so: no byte of an answer and network_error, upstream_timeout or canceled, or interrupted.
// It returns what does not agree, ordered by span; nothing means that all does.
func Balance(ledger []sim.Entry, rows []Row) []Mismatch {
	var found []Mismatch
	wrong := func(span, format string, args ...any) {
		found = append(found, Mismatch{span, fmt.Sprintf(format, args...)})
	}
	calls := make(map[string][]*sim.Entry, len(ledger))
	for i := range ledger {
		e := &ledger[i]
		if e.SpanID == "" {
			wrong("", "call %d of %s came without a traceparent", e.Call, e.Provider)
			continue
		}
		calls[e.SpanID] = append(calls[e.SpanID], e)
	}
	counts := make(map[string]int, len(rows))
	for i := range rows {
		r := &rows[i]
		counts[r.SpanID]++
		call := calls[r.SpanID]
		switch {
		case counts[r.SpanID] > 1:
			continue // told once, below
		case len(call) > 0:
			if call[0].Provider != r.Provider {
				wrong(r.SpanID, "the call went to %s, its row says %s", call[0].Provider, r.Provider)
			}
		case r.Outcome == attempt.Interrupted:
		case r.StatusCode != 0 || r.OutputTokens != 0:
			wrong(r.SpanID, "a row of %s with an answer (%s, status %d, %d output tokens), but no call", r.Provider, r.Outcome, r.StatusCode, r.OutputTokens)
		case r.Outcome != attempt.NetworkError && r.Outcome != attempt.UpstreamTimeout && r.Outcome != attempt.Canceled:
			wrong(r.SpanID, "a row of %s says %s, but there was no call", r.Provider, r.Outcome)
		}
	}
	for span, n := range counts {
		if n > 1 {
			wrong(span, "%d rows", n)
		}
	}
	for span, call := range calls {
		if len(call) > 1 {
			wrong(span, "%d calls with one span: one of them was sent again", len(call))
		}
		if counts[span] == 0 {
			wrong(span, "call %d of %s (%s, status %d) has no row", call[0].Call, call[0].Provider, call[0].Outcome, call[0].Status)
		}
	}
	slices.SortFunc(found, func(a, b Mismatch) int {
		return cmp.Or(cmp.Compare(a.SpanID, b.SpanID), cmp.Compare(a.What, b.What))
	})
	return found
}
