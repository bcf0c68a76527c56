package explain

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"turnout/internal/chx"
	"turnout/internal/testkit/chtest"
	"turnout/migrations"
	"turnout/schemas/attempt"
)

func TestMain(m *testing.M) { chtest.Main(m) }

func database(t *testing.T) *chx.Conn {
	t.Helper()
	cfg := chtest.New(t)
	if _, _, err := migrations.Up(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	conn, err := chx.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// Every field of the contracts has a column that it can be read from.
func TestEveryFieldCanBeRead(t *testing.T) {
	conn := database(t)
	for table, contract := range map[string]reflect.Type{"attempts": reflect.TypeFor[attempt.Event](), "refusals": reflect.TypeFor[attempt.Refused]()} {
		rows, err := conn.Query(t.Context(), "SELECT * FROM "+table)
		if err != nil {
			t.Fatal(err)
		}
		fields, read := fieldsOf(contract), map[string]bool{}
		for i, name := range rows.Columns() {
			if base, ok := strings.CutSuffix(name, nested); ok {
				read[base] = true
				continue
			}
			if err := set(reflect.New(contract).Elem(), fields, name, reflect.New(rows.ColumnTypes()[i].ScanType()).Elem()); err != nil {
				t.Errorf("%s: %v", table, err)
			}
			read[name] = true
		}
		rows.Close()
		for name := range fields {
			if !read[name] {
				t.Errorf("%s: nothing fills %s", table, name)
			}
		}
	}
}

func TestReadFromClickHouse(t *testing.T) {
	conn := database(t)
	store := ClickHouse{conn}
	if _, err := Explain(t.Context(), store, "r-1"); !errors.Is(err, ErrUnknown) {
		t.Errorf("nothing is stored: %v", err)
	}
	s := sample()
	e := &s.Attempts[0]
	considered := string(attempt.AppendConsidered(nil, e.Considered))
	for _, insert := range []struct {
		query string
		args  []any
	}{
		// The second attempt came first; the first one twice, of which the lower offset counts.
		{"INSERT INTO attempts (event_id, request_id, attempt_no, started_at, outcome, provider, version, ttft_us) VALUES ('b', ?, 2, now64(6), 'completed', 'beta', 90, 1500)", []any{e.RequestID}},
		{"INSERT INTO attempts (event_id, request_id, attempt_no, started_at, outcome, version) VALUES ('a', ?, 1, now64(6), 'interrupted', 80)", []any{e.RequestID}},
		{"INSERT INTO attempts (event_id, request_id, attempt_no, started_at, outcome, provider, version, considered_json, considered_total, config_version, price_version, traits, stripped_parameters, draw, seed, reason, propensity, prompt_tokens_estimate, stream, algorithm_version) VALUES ('a', ?, 1, now64(6), 'upstream_error', 'alpha', 99, ?, 5, ?, ?, ['tools'], ['tool_choice'], ?, ?, ?, ?, 120, true, 1)",
			[]any{e.RequestID, considered, e.ConfigVersion, e.PriceVersion, *e.Draw, e.Seed, e.Reason, e.Propensity}},
		{"INSERT INTO routing_configs (version, body) VALUES (?, ?)", []any{e.ConfigVersion, string(s.Config.Encode())}},
		{"INSERT INTO price_books (version, body) VALUES (?, ?)", []any{e.PriceVersion, string(s.Prices.Encode())}},
		{"INSERT INTO refusals (event_id, request_id, at, error_code, status_code, considered_json, considered_total) VALUES ('x', 'r-2', now64(6), 'not_allowed', 403, '[{\"provider\":\"alpha\",\"excluded_code\":\"not_allowed\"}]', 1)", nil},
	} {
		if err := conn.Exec(chx.SyncInsert(t.Context()), insert.query, insert.args...); err != nil {
			t.Fatalf("%s: %v", insert.query, err)
		}
	}
	r, err := Explain(t.Context(), store, e.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Attempts) != 2 || r.Attempts[0].Outcome != "upstream_error" || *r.Attempts[1].TTFTUS != 1500 || r.Attempts[0].TTFTUS != nil || r.Again.Verdict != Same ||
		len(r.Decision.Candidates) != 2 || !reflect.DeepEqual(r.Request.Traits, []string{"tools"}) || *r.Decision.Draw != *e.Draw || r.Decision.Seed != e.Seed || !r.Request.Stream {
		t.Errorf("%+v\n%+v\n%+v", r.Attempts, r.Decision, r.Again)
	}
	r, err = Explain(t.Context(), store, "r-2")
	if err != nil {
		t.Fatal(err)
	}
	if r.Refusal == nil || r.Refusal.StatusCode != 403 || r.Again.Verdict != NotPossible || r.Decision.Excluded[0].Code != "not_allowed" {
		t.Errorf("%+v %+v", r.Refusal, r.Again)
	}
}
