//go:build agents

package agents

import (
	"context"
	"fmt"
	"net/http"
	"testing"
	"time"

	"turnout/deploy/load"
	"turnout/internal/testkit"
	"turnout/schemas/attempt"
)

// TestAgents lets each agent do the task over several upstream protocols, and then holds what the
// providers saw against the rows.
func TestAgents(t *testing.T) {
	s := newStack(t)
	for _, x := range []struct {
		agent    *agent
		upstream string
		dialect  *dialect
	}{
		{&opencode, "chat", &chatDialect},
		{&opencode, "anthropic", &messagesDialect},
		{&opencode, "gemini", &geminiDialect},
		{&codex, "responses", &responsesDialect},
		{&codex, "chat", &chatDialect},
		{&codex, "anthropic", &messagesDialect},
		{&codex, "gemini", &geminiDialect},
		{&codexAgents, "responses", &responsesDialect},
		{&codexAgents, "anthropic", &messagesDialect},
		{&codexCode, "responses", &responsesDialect},
		{&codexCode, "anthropic", &messagesDialect},
		{&claudeCode, "anthropic", &messagesDialect},
		{&claudeCode, "chat", &chatDialect},
		{&claudeCode, "gemini", &geminiDialect},
	} {
		name := x.agent.name + "-" + x.upstream
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			m := newModel(t, x.dialect)
			g := s.gateway(t, name, m)
			r := newRun(t, x.agent, g)
			m.scripts = map[string]script{mainTask: {x.agent.script(r.work), lastWord}, subTask: {nil, subWord}}
			m.begins = g.reprice
			r.play()
			r.control()
			s.judge(r, name)
			t.Logf("%s: %s", name, time.Since(began).Round(time.Millisecond))
		})
	}
}

// control asks once more without a session: now that prices have changed the other provider must answer,
// else the agent's requests would have stayed where they were without one, too.
func (r *run) control() {
	r.t.Helper()
	first := ""
	for _, c := range r.gateway.model.seen() {
		if c.part == mainTask {
			first = c.Provider
			break
		}
	}
	status, body, err := r.gateway.ask(http.MethodPost, "/v1/responses", object{"model": r.agent.model, "input": "Hello"})
	if err != nil || status != http.StatusOK {
		r.t.Fatalf("a request without a session: %d %s %v", status, body, err)
	}
	calls := r.gateway.model.seen()
	if last := calls[len(calls)-1]; last.Provider == first {
		r.t.Errorf("a request without a session stays at %s though the other is cheaper", first)
	}
}

// row is what the judge reads of an attempt.
type row struct {
	load.Row
	session, model, reason, client string
	stripped                       []string
}

func (s *stack) rows(ctx context.Context, node string) (rows []row, err error) {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	found, err := s.db.Query(ctx, "SELECT span_id, provider, outcome, status_code, output_tokens, session_hash, model, reason, coding_client, stripped_parameters FROM attempts_unique WHERE node_id = ?", node)
	if err != nil {
		return nil, err
	}
	defer found.Close()
	for found.Next() {
		var r row
		var outcome string
		var status int32
		if err := found.Scan(&r.SpanID, &r.Provider, &outcome, &status, &r.OutputTokens, &r.session, &r.model, &r.reason, &r.client, &r.stripped); err != nil {
			return nil, err
		}
		r.Outcome, r.StatusCode = attempt.Outcome(outcome), int(status)
		rows = append(rows, r)
	}
	return rows, found.Err()
}

// judge checks that each call has its one row, and that a session stayed with one provider.
func (s *stack) judge(r *run, node string) {
	t := r.t
	t.Helper()
	var rows []row
	entries := r.gateway.model.ledger()
	testkit.Eventually(t, 30*time.Second, "calls and rows agree", func() (err error) {
		if rows, err = s.rows(t.Context(), node); err != nil {
			return err
		}
		plain := make([]load.Row, len(rows))
		for i := range rows {
			plain[i] = rows[i].Row
		}
		if found := load.Balance(entries, plain); len(found) > 0 {
			return fmt.Errorf("%d calls, %d rows: %v", len(entries), len(rows), found)
		}
		return nil
	})
	of := map[string]*row{}
	stripped := map[string]int{}
	type session struct{ hash, model string }
	at := map[session]string{}
	for i := range rows {
		x := &rows[i]
		of[x.SpanID] = x
		if x.Outcome != attempt.Completed {
			t.Errorf("a call of %s ended as %s", x.Provider, x.Outcome)
		}
		for _, name := range x.stripped {
			stripped[name]++
		}
		if x.session == "" {
			continue
		}
		if x.client != r.agent.client || x.reason != "session-sticky" {
			t.Errorf("a row of the session says client %q and reason %q", x.client, x.reason)
		}
		key := session{x.session, x.model}
		if before := at[key]; before != "" && before != x.Provider {
			t.Errorf("a session for %s is at %s and %s", x.model, before, x.Provider)
		}
		at[key] = x.Provider
	}
	parts := map[string]int{}
	hashes := map[string]map[string]bool{}
	served := map[string]string{}
	for _, c := range r.gateway.model.seen() {
		x := of[c.SpanID]
		parts[c.part]++
		if c.part == "" {
			continue
		}
		if before := served[c.part]; before != "" && before != c.Provider {
			t.Errorf("%s was at %s and went to %s", c.part, before, c.Provider)
		}
		served[c.part] = c.Provider
		if x.session == "" {
			t.Errorf("a request of %s has no session", c.part)
		}
		if hashes[c.part] == nil {
			hashes[c.part] = map[string]bool{}
		}
		hashes[c.part][x.session] = true
	}
	want := 1
	for range r.agent.script(r.work) {
		want++
	}
	if parts[mainTask] != want || len(hashes[mainTask]) != 1 {
		t.Errorf("the conversation made %d calls in %d sessions, want %d in one", parts[mainTask], len(hashes[mainTask]), want)
	}
	for hash := range hashes[subTask] {
		if own := !hashes[mainTask][hash]; own != r.agent.ownSubSession {
			t.Errorf("the sub-agent has a session of its own: %v, want %v", own, r.agent.ownSubSession)
		}
	}
	t.Logf("%d calls, %d rows, %d sessions; calls by part %v; stripped %v", len(entries), len(rows), len(at), parts, stripped)
}
