package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/gateway/explain"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
)

const (
	tenantToken = "to-e2e-11111111111111111111111111111111" // of a project in hybrid mode
	narrowToken = "to-e2e-22222222222222222222222222222222" // may use one model
)

// Models that the simulators do not have by themselves: with regions and tiers, of families that auto
// knows, with reasoning bound to its issuer, with images in the output; and a tenant with its own key.
const explainedResources = `---
kind: model
id: gpt-5.4
family: gpt-5.4
mappings:
  - {provider: sim-steady, upstream: sim-large, price: {input: 2, output: 8}, context: 200000}
  - {provider: sim-swift, upstream: sim-large, price: {input: 2.5, output: 9}, context: 200000}
---
kind: model
id: gpt-5.4-mini
family: gpt-5.4
mappings:
  - {provider: sim-thrift, upstream: sim-small, price: {input: 0.4, output: 1.6, cached_input: 0.1}, context: 200000}
  - {provider: sim-vast, upstream: sim-small, price: {input: 0.45, output: 1.7}, context: 200000}
---
kind: model
id: regional
mappings:
  - provider: sim-swift
    upstream: sim-small
    price: {input: 1, output: 2}
    price_tiers: [{above: 3000, price: {input: 2, output: 4}}]
    regions: [{id: us}, {id: eu, price: {input: 0.9, output: 2}}, {id: ap, price: {input: 1.5, output: 3}}]
  - {provider: sim-vast, upstream: sim-small, price: {input: 1.1, output: 2.2}, context: 5000}
---
kind: model
id: bound
reasoning_bound: true
mappings:
  - {provider: sim-steady, upstream: sim-reason, price: {input: 1, output: 4}}
  - {provider: sim-recall, upstream: sim-reason, price: {input: 1.1, output: 4}}
---
kind: model
id: pictures
output: [text, image]
mappings:
  - {provider: sim-steady, upstream: sim-small, price: {input: 1, output: 4}}
  - {provider: sim-vast, upstream: sim-small, price: {input: 1.05, output: 4}}
---
kind: organization
id: tenant
workload: chat
discounts: [{provider: sim-swift, percent: 12.5}, {model: sim-small, percent: 3}]
---
kind: provider_key
id: tenant-swift
organization: tenant
provider: sim-swift
secret: %q
---
kind: project
id: hybrid
organization: tenant
mode: hybrid
routing: {thresholds: {cache_prompt_tokens: 100, exploration_rate: 0.2}, provider_priorities: {sim-swift: 1.3}}
---
kind: api_key
id: hybrid-key
project: hybrid
hash: %q
---
kind: api_key
id: narrow-key
project: e2e
models: [sim-small]
hash: %q
`

// asked is one kind of request; {i} in it is a small number that changes.
type asked struct {
	what    string
	token   string
	body    string
	header  string // name: value
	refused string // the error code; empty: it is served, or fails at its providers
}

func mixedLoad() []asked {
	long := strings.Repeat("the quick brown fox jumps over the lazy dog ", 620) // about 6,800 tokens
	chat := func(model, more string) string {
		return fmt.Sprintf(`{"model":%q,"max_tokens":8,"messages":[{"role":"user","content":"Hello {i}"}]%s}`, model, more)
	}
	longChat := func(model string) string {
		return fmt.Sprintf(`{"model":%q,"max_tokens":8,"messages":[{"role":"user","content":"{i} %s"}]}`, model, long)
	}
	return []asked{
		{what: "plain", body: chat("sim-small", "")},
		{what: "stream", body: chat("sim-small", `,"stream":true`)},
		{what: "session", body: chat("sim-large", `,"stream":true`), header: "X-Session-Id: s-{i}"},
		{what: "explicit", body: chat("sim-steady/sim-small", "")},
		{what: "strict", body: chat("sim-swift:sim-large", "")},
		{what: "suffix nitro", body: chat("sim-small:nitro", "")},
		{what: "suffix cheap", body: chat("sim-large:cheap", `,"stream":true`)},
		{what: "auto", body: chat("auto", "")},
		{what: "coding client", body: longChat("sim-small"), header: "User-Agent: claude-code/2.0"},
		{what: "long prompt", body: longChat("sim-small")},
		{what: "unknown model", body: chat("sim-nothing", ""), refused: "model_not_found"},
		{what: "answer too long", body: strings.Replace(chat("sim-reason", ""), `"max_tokens":8`, `"max_tokens":900000`, 1), refused: "no_provider_available"},
		{what: "regions", body: chat("regional", "")},
		{what: "one region", body: chat("sim-swift/regional:eu", "")},
		{what: "long regional", body: longChat("regional")},
		{what: "bound session", body: chat("bound", ""), header: "X-Session-Id: b-{i}"},
		{what: "bound", body: chat("bound", `,"stream":true`)},
		{what: "hybrid", token: tenantToken, body: chat("sim-small", "")},
		{what: "hybrid long", token: tenantToken, body: longChat("sim-large")},
		{what: "hybrid explicit", token: tenantToken, body: chat("sim-recall/sim-small", "")},
		{what: "routing field", body: chat("sim-small", `,"stream":true,"routing":"latency"`)},
		{what: "failing explicit", body: chat("sim-recall/sim-small", "")},
		{what: "no fallback", body: chat("sim-recall/sim-large", ""), header: "X-No-Fallback: true"},
		{what: "tools", body: chat("sim-small", `,"tools":[{"type":"function","function":{"name":"f","parameters":{}}}],"tool_choice":"required"`)},
		{what: "field and explicit", body: chat("sim-steady/sim-small:nitro", `,"routing":"price"`), refused: "invalid_value"},
		{what: "pictures", body: chat("pictures", "")},
		{what: "auto session", body: chat("auto", ""), header: "X-Session-Id: a-{i}"},
		{what: "not allowed", token: narrowToken, body: chat("sim-large", ""), refused: "not_allowed"},
		{what: "web search", body: chat("sim-small", `,"web_search_options":{}`), refused: "no_provider_available"},
		{what: "plain again", body: chat("sim-large", "")},
	}
}

// sent is a request and what the client knows of it.
type sent struct {
	asked
	id     string
	status int
}

func (s *system) send(url string, a asked, i int) (sent, error) {
	number := fmt.Sprint(i % 5)
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, url+"/v1/chat/completions", strings.NewReader(strings.ReplaceAll(a.body, "{i}", number)))
	if err != nil {
		return sent{}, err
	}
	bearer := a.token
	if bearer == "" {
		bearer = token
	}
	req.Header.Set("Authorization", "Bearer "+bearer)
	req.Header.Set("Content-Type", "application/json")
	if key, value, ok := strings.Cut(strings.ReplaceAll(a.header, "{i}", number), ": "); ok {
		req.Header.Set(key, value)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return sent{}, err
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, resp.Body) // a cut stream is a result too
	return sent{a, resp.Header.Get("X-Request-Id"), resp.StatusCode}, nil
}

// Whatever was decided can be decided again from what is stored, also after the configuration and the
// prices have changed, and it comes out the same; refusals are explained too.
func TestExplainDecidesAgain(t *testing.T) {
	t.Parallel()
	want := 200
	if full {
		want = 1000
	}
	s := newSystem(t, parts{routing: map[string]any{"thresholds": map[string]any{"exploration_rate": 0.15}, "sticky": map[string]any{"score_margin": 0.4}}})
	base, err := os.ReadFile(s.resources)
	if err != nil {
		t.Fatal(err)
	}
	secret := "file:" + s.dir + "/keys/sim-swift.key"
	documents := string(base) + fmt.Sprintf(explainedResources, secret, hashOf(tenantToken), hashOf(narrowToken))
	s.write(documents)
	for provider, change := range map[string]string{
		"sim-recall": `{"error_rate":0.6,"error_kinds":["server_error","html"]}`,
		"sim-thrift": `{"error_rate":0.1,"error_kinds":["rate_limited","unavailable"]}`,
		"sim-vast":   `{"error_rate":0.1,"error_kinds":["in_band"],"cut_rate":0.05,"cut_after_chunks":1}`,
	} {
		s.set(provider, change)
	}
	s.processor("processor")
	// Of two nodes one explores at a rate of its own.
	a, b := s.gateway("node-a"), s.gateway("node-b", "--exploration_rate", "0.4")

	kinds := mixedLoad()
	n := want * 3 / 2 / len(kinds) * len(kinds)
	all := make([]sent, n)
	var wg sync.WaitGroup
	slots := make(chan struct{}, 12)
	began := time.Now()
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			url := a.url
			if i%3 == 0 {
				url = b.url
			}
			answer, err := s.send(url, kinds[i%len(kinds)], i/len(kinds))
			if err != nil {
				t.Error(err)
			}
			all[i] = answer
		})
	}
	wg.Wait()
	t.Logf("%d requests in %s", n, time.Since(began).Round(time.Millisecond))

	store := explain.ClickHouse{Conn: s.db}
	before := s.explained(store, all[0].id)

	// Everything that decides is different now: prices, weights, priorities, rates.
	changed := strings.NewReplacer("input: 0.", "input: 7.", "input: 1", "input: 3", "percent: 12.5", "percent: 50", "sim-swift: 1.3", "sim-swift: 0.2",
		`"exploration_rate":0.15`, `"exploration_rate":0`, `"score_margin":0.4`, `"score_margin":0`).Replace(documents)
	s.write(changed)
	testkit.Eventually(t, 20*time.Second, "the changed resources are served", func() error {
		probe, err := s.send(a.url, kinds[0], 0)
		if err != nil {
			return err
		}
		d := s.explained(store, probe.id).Decision
		if d.ConfigVersion == before.Decision.ConfigVersion || d.PriceVersion == before.Decision.PriceVersion {
			return errors.New("still the old ones")
		}
		return nil
	})

	reports := make([]*explain.Report, n)
	began = time.Now()
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			reports[i] = s.explained(store, all[i].id)
		})
	}
	wg.Wait()
	t.Logf("explained %d requests in %s", n, time.Since(began).Round(time.Millisecond))
	s.judgeReports(all, reports, want)
	s.askCommandAndAdmin(a, all, reports)
}

func (s *system) write(documents string) {
	s.t.Helper()
	temp := s.resources + ".new"
	if err := os.WriteFile(temp, []byte(documents), 0o600); err != nil {
		s.t.Fatal(err)
	}
	if err := os.Rename(temp, s.resources); err != nil {
		s.t.Fatal(err)
	}
}

// explained waits until everything of a request is stored and explains it.
func (s *system) explained(store explain.Store, id string) *explain.Report {
	var report *explain.Report
	testkit.Eventually(s.t, 30*time.Second, "request "+id+" can be explained", func() (err error) {
		ctx, cancel := context.WithTimeout(s.t.Context(), 10*time.Second)
		defer cancel()
		if report, err = explain.Explain(ctx, store, id); err != nil {
			return err
		}
		if report.Again.Verdict == explain.NotPossible {
			return errors.New(report.Again.Why)
		}
		if n := len(report.Attempts); n > 0 && report.Attempts[n-1].WillRetry {
			return errors.New("the last attempt is missing")
		}
		return nil
	})
	return report
}

func (s *system) judgeReports(all []sent, reports []*explain.Report, want int) {
	t := s.t
	t.Helper()
	decisions, same, refusals, retried, costs := 0, 0, 0, 0, 0
	reasons, verdicts, codes := map[string]int{}, map[string]int{}, map[string]int{}
	for i, r := range reports {
		verdicts[r.Again.Verdict]++
		if r.Refusal != nil {
			refusals++
			codes[r.Refusal.ErrorCode]++
			if r.Refusal.StatusCode != all[i].status || r.Refusal.Why == "" || r.Again.Verdict == explain.Different {
				t.Errorf("%s was refused with %d: %+v, %+v", all[i].what, all[i].status, r.Refusal, r.Again)
			}
			if all[i].refused == "no_provider_available" || all[i].refused == "not_allowed" {
				if r.Again.Verdict != explain.Same || r.Decision == nil || len(r.Decision.Excluded) == 0 || len(r.Decision.Candidates) > 0 {
					t.Errorf("%s: %+v", all[i].what, r.Again)
				}
			}
		} else {
			decisions++
			reasons[r.Decision.Reason]++
			if r.Decision.Redecided {
				reasons["chosen again before the first call"]++
			}
			if r.Again.Verdict == explain.Same {
				same++
			} else {
				t.Errorf("%s, request %s: %+v", all[i].what, all[i].id, r.Again)
			}
			if len(r.Attempts) > 1 {
				retried++
			}
			costs += r.Again.Costs
			for _, c := range r.Decision.Candidates {
				if c.Contributions == nil || c.ListPrice == nil {
					t.Errorf("%s: candidate %s without parts or list price", all[i].what, c.Provider)
				}
			}
			for _, x := range r.Decision.Excluded {
				codes[x.Code]++
			}
		}
		if all[i].refused != "" && (r.Refusal == nil || r.Refusal.ErrorCode != all[i].refused) {
			t.Errorf("%s: %+v, want %s", all[i].what, r.Refusal, all[i].refused)
		}
	}
	t.Logf("%d of %d decisions come out the same, %d of them with retries; %d costs computed again; %d refusals explained; verdicts: %s", same, decisions, retried, costs, refusals, counts(verdicts))
	t.Logf("reasons: %s; codes: %s", counts(reasons), counts(codes))
	if decisions < want || same != decisions {
		t.Errorf("%d of %d decisions come out the same, want all of at least %d", same, decisions, want)
	}
	for _, reason := range []string{"weighted-score", "random-exploration", "session-sticky", "direct-provider-specified", "stable-preferred"} {
		if reasons[reason] == 0 {
			t.Errorf("no decision for the reason %s: this shows little", reason)
		}
	}
	if retried == 0 || refusals == 0 {
		t.Errorf("%d retried, %d refused: this shows little", retried, refusals)
	}
}

// askCommandAndAdmin: the command and the admin address say the same, and the text holds what counts.
func (s *system) askCommandAndAdmin(n *node, all []sent, reports []*explain.Report) {
	t := s.t
	t.Helper()
	command := func(args ...string) (string, error) {
		var out bytes.Buffer
		err := explain.Main(t.Context(), lifecycle.Env{Args: append(args, s.engineFlags()[2:]...), Stdout: &out, Stderr: io.Discard}, nil)
		return out.String(), err
	}
	seen := map[string]bool{}
	for i, r := range reports {
		if seen[all[i].what] {
			continue
		}
		seen[all[i].what] = true
		text, err := command(all[i].id)
		if err != nil {
			t.Fatal(err)
		}
		wants := []string{all[i].id, r.Result}
		if r.Refusal != nil {
			wants = append(wants, r.Refusal.ErrorCode, r.Refusal.Why)
		} else {
			wants = append(wants, r.Decision.Reason, r.Decision.Selected.Provider, "the same choice, reason and scores", "Cost: $")
		}
		for _, want := range wants {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q is not in\n%s", all[i].what, want, text)
			}
		}
		if all[i].what == "failing explicit" || all[i].what == "answer too long" {
			t.Logf("%s:\n%s", all[i].what, text)
		}
		asJSON, err := command(all[i].id, "--json")
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Get(n.admin + "/admin/v1/decisions/" + all[i].id)
		if err != nil {
			t.Fatal(err)
		}
		admin, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode != http.StatusOK {
			t.Fatalf("%d %s %v", resp.StatusCode, admin, err)
		}
		var x, y any
		if json.Unmarshal([]byte(asJSON), &x) != nil || json.Unmarshal(admin, &y) != nil || !reflect.DeepEqual(x, y) {
			t.Errorf("the command says %s\nthe admin address %s", asJSON, admin)
		}
	}
	if _, err := command("0197d000-0000-7000-8000-000000000000"); err == nil || !strings.Contains(err.Error(), "nothing is stored") {
		t.Errorf("an unknown id: %v", err)
	}
	if _, err := command(); lifecycle.Code(err) != 2 {
		t.Errorf("no id: %v", err)
	}
}
