package e2e

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnout/internal/testkit"
	"turnout/internal/testkit/upstream"
)

// What counts against a provider and what does not, from the calls to ClickHouse and back: 100 client
// errors and 50 cancels before any output count nothing, 50 answers and 20 streams that end in an error
// event after a 200 make an uptime of 100 - 100 x 20/70.
func TestHealthAccounting(t *testing.T) {
	t.Parallel()
	const uptime = "71.4286" // six significant digits
	s := newSystem(t, parts{})
	u := upstream.New(t, `503`)
	secret := filepath.Join(s.dir, "accounted")
	if err := os.WriteFile(secret, []byte("sk-accounted-0000000000"), 0o600); err != nil {
		t.Fatal(err)
	}
	s.edit(func(text string) string {
		return text + fmt.Sprintf("---\nkind: provider\nid: accounted\nprotocol: openai\nbase_url: %s/v1\nallow_private: true\ntrace: true\ncredentials:\n  - {id: k, secret: file:%s}\n---\nkind: model\nid: accounted-model\noutput: [text]\nmappings:\n  - {provider: accounted, upstream: up, price: {input: 1, output: 2}}\n", u.URL, secret)
	})
	s.processor("processor")
	g := s.gateway("node-a")
	body := `{"model":"accounted-model","stream":true,"messages":[{"role":"user","content":"x"}]}`
	send := func(times int, script, want string) {
		t.Helper()
		u.Script(script)
		for range times {
			if r := g.send(t, "POST", "/v1/chat/completions", token, body); !strings.Contains(r.body, want) {
				t.Fatalf("%q is not in %d %s", want, r.status, r.body)
			}
		}
	}
	send(100, `400 json:"{\"error\":{\"message\":\"bad temperature\",\"type\":\"invalid_request_error\",\"code\":null}}"`, "bad temperature")
	u.Script(`200 sse role hold`)
	for range 50 {
		before, gone := len(u.Calls()), u.Gone()
		ctx, cancel := context.WithCancel(t.Context())
		r, err := http.NewRequestWithContext(ctx, "POST", g.url+"/v1/chat/completions", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		done := make(chan struct{})
		go func() {
			defer close(done)
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		}()
		for len(u.Calls()) == before {
			time.Sleep(time.Millisecond)
		}
		cancel()
		<-done
		testkit.Eventually(t, 10*time.Second, "the upstream is let go", func() error {
			if u.Gone() == gone {
				return fmt.Errorf("%d calls were let go", gone)
			}
			return nil
		})
	}
	send(50, `200 sse role text:fine finish:stop usage:5,2 done`, "[DONE]")
	send(20, `200 sse role text:fi chunk:"{\"error\":{\"message\":\"x\",\"type\":\"server_error\",\"code\":500}}"`, `"upstream_error"`)
	if n := len(u.Calls()); n != 220 {
		t.Fatalf("%d upstream calls, want 220", n)
	}

	var attempts, errors int64
	testkit.Eventually(t, 30*time.Second, "ClickHouse's slots hold what counts", func() error {
		row := s.db.QueryRow(t.Context(), "SELECT toInt64(sum(attempts - client_errors - canceled)), toInt64(sum(errors)) FROM folds FINAL WHERE kind = 'slot' AND provider = 'accounted' AND generation = (SELECT max(generation) FROM fold_generations)")
		if err := row.Scan(&attempts, &errors); err != nil {
			return err
		}
		if attempts != 70 || errors != 20 {
			return fmt.Errorf("%d attempts and %d errors, want 70 and 20", attempts, errors)
		}
		return nil
	})
	outcomes := s.outcomesOf("accounted")
	if want := map[string]int64{"client_error": 100, "canceled": 50, "completed": 50, "upstream_error": 20}; fmt.Sprint(outcomes) != fmt.Sprint(want) {
		t.Errorf("outcomes %v, want %v", outcomes, want)
	}
	// A node that made none of the calls knows it from the snapshot, the other one from its own log and
	// then from the snapshot, without counting twice.
	u.Script(`400 json:"{\"error\":{\"message\":\"no matter\",\"type\":\"invalid_request_error\",\"code\":null}}"`)
	for _, n := range []*node{g, s.gateway("node-b")} {
		testkit.Eventually(t, 30*time.Second, n.name+" knows the uptime", func() error {
			r := n.explained(body)
			if !strings.Contains(r.body, `"uptime":`+uptime) || !strings.Contains(r.body, `"snapshot_age_s"`) {
				return fmt.Errorf("want an uptime of %s from a snapshot: %s", uptime, r.body)
			}
			return nil
		})
	}
	t.Logf("220 calls, outcomes %v; slots: %d attempts, %d errors; uptime %s on both nodes", outcomes, attempts, errors, uptime)
}

// outcomesOf counts a provider's rows by how they ended.
func (s *system) outcomesOf(provider string) map[string]int64 {
	s.t.Helper()
	found, err := s.db.Query(s.t.Context(), "SELECT toString(outcome), toInt64(count()) FROM attempts_unique WHERE provider = '"+provider+"' GROUP BY 1")
	if err != nil {
		s.t.Fatal(err)
	}
	defer found.Close()
	out := map[string]int64{}
	for found.Next() {
		var outcome string
		var n int64
		if err := found.Scan(&outcome, &n); err != nil {
			s.t.Fatal(err)
		}
		out[outcome] = n
	}
	return out
}

// explained sends a chat request that asks for the candidates beside the answer.
func (n *node) explained(body string) reply {
	n.t.Helper()
	r, err := http.NewRequestWithContext(n.t.Context(), "POST", n.url+"/v1/chat/completions", strings.NewReader(body))
	if err != nil {
		n.t.Fatal(err)
	}
	r.Header.Set("Authorization", "Bearer "+token)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("X-Turnout-Explain", "true")
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		n.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		n.t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}
