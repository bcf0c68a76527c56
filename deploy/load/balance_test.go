package load

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"turnout/deploy/sim"
	"turnout/schemas/attempt"
)

func TestBalance(t *testing.T) {
	entry := sim.Entry{Provider: "p", Call: 4, SpanID: "a", Outcome: sim.Completed, Status: 200}
	row := Row{SpanID: "a", Provider: "p", Outcome: attempt.Completed, StatusCode: 200, OutputTokens: 3}
	without := func(o attempt.Outcome, status int, tokens int64) Row {
		return Row{SpanID: "b", Provider: "p", Outcome: o, StatusCode: status, OutputTokens: tokens}
	}
	for _, c := range []struct {
		name   string
		ledger []sim.Entry
		rows   []Row
		want   string
	}{
		{"nothing", nil, nil, "[]"},
		{"one and one", []sim.Entry{entry}, []Row{row}, "[]"},
		{"no row", []sim.Entry{entry}, nil, "[span a: call 4 of p (completed, status 200) has no row]"},
		{"two rows", []sim.Entry{entry}, []Row{row, row}, "[span a: 2 rows]"},
		{"two calls", []sim.Entry{entry, entry}, []Row{row}, "[span a: 2 calls with one span: one of them was sent again]"},
		{"untraced", []sim.Entry{{Provider: "p", Call: 1}}, nil, "[span : call 1 of p came without a traceparent]"},
		{"other provider", []sim.Entry{entry}, []Row{{SpanID: "a", Provider: "q", Outcome: attempt.Completed}}, "[span a: the call went to p, its row says q]"},
		{"refused connection", nil, []Row{without(attempt.NetworkError, 0, 0)}, "[]"},
		{"timeout", nil, []Row{without(attempt.UpstreamTimeout, 0, 0)}, "[]"},
		{"canceled", nil, []Row{without(attempt.Canceled, 0, 0)}, "[]"},
		{"interrupted", nil, []Row{without(attempt.Interrupted, 0, 0)}, "[]"},
		{"an answer from nowhere", nil, []Row{without(attempt.Completed, 200, 3)}, "[span b: a row of p with an answer (completed, status 200, 3 output tokens), but no call]"},
		{"a network error with tokens", nil, []Row{without(attempt.NetworkError, 0, 3)}, "[span b: a row of p with an answer (network_error, status 0, 3 output tokens), but no call]"},
		{"an error of nobody", nil, []Row{without(attempt.UpstreamError, 0, 0)}, "[span b: a row of p says upstream_error, but there was no call]"},
		{"a row twice without a call", nil, []Row{without(attempt.Canceled, 0, 0), without(attempt.Canceled, 0, 0)}, "[span b: 2 rows]"},
	} {
		if got := fmt.Sprint(Balance(c.ledger, c.rows)); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// What agrees is found to agree in any order; losing or doubling any row or call is found.
func TestBalanceLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "calls")
		var ledger []sim.Entry
		var rows []Row
		for i := range n {
			span := fmt.Sprintf("%016x", i)
			ledger = append(ledger, sim.Entry{Provider: "p", SpanID: span})
			rows = append(rows, Row{SpanID: span, Provider: "p", Outcome: attempt.Completed, StatusCode: 200})
		}
		rows = rapid.Permutation(rows).Draw(t, "order")
		if found := Balance(ledger, rows); len(found) > 0 {
			t.Fatal(found)
		}
		i := rapid.IntRange(0, n-1).Draw(t, "victim")
		span := rows[i].SpanID
		for what, found := range map[string][]Mismatch{
			"a lost row":     Balance(ledger, append(append([]Row{}, rows[:i]...), rows[i+1:]...)),
			"a doubled row":  Balance(ledger, append(append([]Row{}, rows...), rows[i])),
			"a lost call":    Balance(append(append([]sim.Entry{}, ledger[:i]...), ledger[i+1:]...), rows),
			"a doubled call": Balance(append(append([]sim.Entry{}, ledger...), ledger[i]), rows),
		} {
			if len(found) != 1 || !strings.HasSuffix(what, "call") && found[0].SpanID != span {
				t.Fatalf("%s: %v", what, found)
			}
		}
	})
}
