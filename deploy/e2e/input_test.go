package e2e

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"turnout/deploy/sim"
	"turnout/internal/testkit"
)

const revoked = "to-e2e-revoked-000000000000000000000000"

type reply struct {
	status int
	header http.Header
	body   string
}

func (n *node) send(t *testing.T, method, path, key, body string) reply {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, n.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		req.Header.Set("Authorization", "Bearer "+key)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{resp.StatusCode, resp.Header, string(text)}
}

// Whoever sends something wrong is told what, where and what to do.
func TestBadInput(t *testing.T) {
	t.Parallel()
	s := newSystem(t, parts{})
	s.edit(func(text string) string {
		return text + "---\nkind: api_key\nid: old\nproject: " + projectID + "\nhash: \"" + hashOf(revoked) + "\"\nrevoked: true\n"
	})
	g := s.gateway("node-a", "--max_body_bytes", "4096")

	const chat = "/v1/chat/completions"
	good := `{"model":"sim-small","messages":[{"role":"user","content":"hello"}]}`
	for _, c := range []struct {
		name, method, path, key, body string
		status                        int
		kind, code                    string
		param                         any
		says                          []string
	}{
		{"unknown model", "POST", chat, token, `{"model":"sim-smal","messages":[{"role":"user","content":"hello"}]}`, 400, "invalid_request_error", "model_not_found", "model", []string{"sim-smal", "sim-small"}},
		{"unknown model at a provider", "POST", chat, token, `{"model":"sim-swift/sim-reason","messages":[{"role":"user","content":"hello"}]}`, 400, "invalid_request_error", "model_not_found", "model", []string{"sim-swift"}},
		{"malformed JSON", "POST", chat, token, `{"model":"sim-small","messages":[}`, 400, "invalid_request_error", "invalid_json", nil, []string{"at byte 33"}},
		{"no JSON at all", "POST", chat, token, `hello`, 400, "invalid_request_error", "invalid_json", nil, []string{"at byte 0"}},
		{"trailing text", "POST", chat, token, good + " x", 400, "invalid_request_error", "invalid_json", nil, []string{fmt.Sprintf("at byte %d", len(good)+1)}},
		{"messages of a wrong type", "POST", chat, token, `{"model":"sim-small","messages":"hello"}`, 400, "invalid_request_error", "invalid_value", "messages", []string{"messages", "array"}},
		{"a role of a wrong type", "POST", chat, token, `{"model":"sim-small","messages":[{"role":"user","content":"a"},{"role":7,"content":"b"}]}`, 400, "invalid_request_error", "invalid_value", "messages[1].role", []string{"messages[1].role"}},
		{"stream of a wrong type", "POST", chat, token, strings.Replace(good, "{", `{"stream":"yes",`, 1), 400, "invalid_request_error", "invalid_value", "stream", []string{"stream", "true or false"}},
		{"max_tokens out of range", "POST", chat, token, strings.Replace(good, "{", `{"max_tokens":0,`, 1), 400, "invalid_request_error", "invalid_value", "max_tokens", []string{"max_tokens"}},
		{"no model", "POST", chat, token, `{"messages":[{"role":"user","content":"hello"}]}`, 400, "invalid_request_error", "invalid_value", "model", []string{"model"}},
		{"no key", "POST", chat, "", good, 401, "authentication_error", "invalid_api_key", nil, []string{"Authorization"}},
		{"unknown key", "POST", chat, "to-nobody", good, 401, "authentication_error", "invalid_api_key", nil, []string{"key"}},
		{"revoked key", "POST", chat, revoked, good, 401, "authentication_error", "invalid_api_key", nil, []string{"revoked"}},
		{"no key for the models", "GET", "/v1/models", "", "", 401, "authentication_error", "invalid_api_key", nil, []string{"Authorization"}},
		{"body over the limit", "POST", chat, token, strings.Replace(good, "hello", strings.Repeat("x", 5000), 1), 413, "invalid_request_error", "body_too_large", nil, []string{"4096"}},
		{"unknown route", "GET", "/v1/chats", token, "", 404, "invalid_request_error", "not_found", nil, []string{"/v1/chats"}},
		{"wrong method", "GET", chat, token, "", 405, "invalid_request_error", "method_not_allowed", nil, []string{"GET", "POST"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			got := g.send(t, c.method, c.path, c.key, c.body)
			var envelope struct {
				Error struct {
					Message, Type, Code string
					Param               any
				}
			}
			if err := json.Unmarshal([]byte(got.body), &envelope); err != nil {
				t.Fatalf("status %d, no JSON: %s", got.status, got.body)
			}
			e := envelope.Error
			if got.status != c.status || e.Type != c.kind || e.Code != c.code || e.Param != c.param || !containsAll(e.Message, c.says) {
				t.Errorf("got %d %s\nwant %d, type %s, code %s, param %v, a message with %q", got.status, got.body, c.status, c.kind, c.code, c.param, c.says)
			}
			if c.status == http.StatusMethodNotAllowed && !strings.Contains(got.header.Get("Allow"), "POST") {
				t.Errorf("Allow is %q", got.header.Get("Allow"))
			}
			if strings.Contains(got.body, token) || strings.Contains(got.body, revoked) {
				t.Errorf("a token goes out: %s", got.body)
			}
		})
	}
	if n := len(s.sim.Ledger(0)); n != 0 {
		t.Errorf("%d calls left for a provider", n)
	}
	if got := g.send(t, "POST", chat, token, good); got.status != http.StatusOK {
		t.Errorf("a good request got %d %s", got.status, got.body)
	}
}

func (s *system) edit(change func(string) string) {
	s.t.Helper()
	data, err := os.ReadFile(s.resources)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := os.WriteFile(s.resources, []byte(change(string(data))), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

// A file that is broken names its place. At the start it keeps the gateway from starting; later the
// last good resources go on serving, until it is mended.
func TestBrokenResources(t *testing.T) {
	t.Parallel()
	s := newSystem(t, parts{})
	g := s.gateway("node-a", "--log.level", "info")
	sdk := newSDK(g.url)

	whole, err := os.ReadFile(s.resources)
	if err != nil {
		t.Fatal(err)
	}
	broken := string(whole) + "---\nkind: model\nid: new\noutput: [text]\ncolour: blue\nmappings:\n  - provider: sim-swift\n    upstream: sim-small\n    price: {input: 1, output: 2}\n"
	line := strings.Count(broken[:strings.Index(broken, "colour")], "\n") + 1
	place := fmt.Sprintf("%s:%d", s.resources, line)
	s.edit(func(string) string { return broken })
	g.logs(5*time.Second, "resources refused", place, "colour")
	if status, body := g.readiness(); status != http.StatusOK || !containsAll(body, []string{"refused", place}) {
		t.Errorf("readyz does not say which file is broken: %d %s", status, body)
	}
	if _, err := plain(t.Context(), sdk, question(sim.Small, 1)); err != nil {
		t.Errorf("the last good resources do not serve: %v", err)
	}

	other := s.newGateway("node-b")
	other.start()
	if code, log := other.exits(10 * time.Second); code == 0 || !containsAll(log, []string{place, "colour"}) {
		t.Errorf("a start with the broken file: exit code %d, log\n%s\nwant %s named", code, log, place)
	}

	s.edit(func(text string) string { return strings.Replace(text, "colour: blue\n", "", 1) })
	testkit.Eventually(t, 5*time.Second, "the new model serves", func() error {
		_, err := plain(t.Context(), sdk, question("new", 2))
		return err
	})
	if _, body := g.readiness(); strings.Contains(body, "refused") {
		t.Errorf("readyz still complains: %s", body)
	}
}

func TestUnknownSettings(t *testing.T) {
	t.Parallel()
	s := newSystem(t, parts{})
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"--poll_intervall", "5s"}, []string{"poll_intervall", "poll_interval"}},
		{[]string{"--listen", "nowhere", "--spool.fsync", "sometimes"}, []string{"listen", "nowhere", "spool.fsync", "sometimes"}},
		{[]string{"--exploration_rate", "2"}, []string{"exploration_rate"}},
	} {
		g := s.newGateway("node-x", c.args...)
		g.start()
		if code, log := g.exits(10 * time.Second); code != 2 || !containsAll(log, c.says) {
			t.Errorf("%q: exit code %d, log\n%s\nwant 2 and %q", c.args, code, log, c.says)
		}
	}
}
