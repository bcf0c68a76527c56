package gateway

import (
	"context"
	"encoding/json"
	"fmt"

	"log/slog"
	"math/rand/v2"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"turnout/gateway/internal/dispatch"
	"turnout/gateway/internal/state"
	"turnout/gateway/llm"
	"turnout/internal/kafkax"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/attempt"
	"turnout/schemas/snapshot"
	"turnout/schemas/topic"
)

// discard is a client that takes everything.
type discard struct{ failed *llm.APIError }

func (d *discard) Route(string, string, int)      {}
func (d *discard) Streaming()                     {}
func (d *discard) Plain(...[]byte) error          { return nil }
func (d *discard) Event(bool, ...[]byte) error    { return nil }
func (d *discard) Fail(e *llm.APIError, _ []byte) { d.failed = e }

// Two gateways of one snapshot and one state topic are given the same 10,000 requests with the same
// ids, one after the other: pins and preferences that both hold, exploration, every strategy. What their events say of each
// decision is the same: the seed, the draw, the choice, and all candidates with every figure.
//
// The project uses keys of its own, whose attempts are in nobody's metrics: a node's own newer attempts
// are a part of its view that the other does not have, and are kept out so. Failures are kept out too:
// what a node learns of a key in flight reaches the other only later.
func TestTwoNodesChooseAlike(t *testing.T) {
	ch, conn := chtest.Migrated(t)
	rng := rand.New(rand.NewPCG(91, 92))
	up := quickUpstream(t)
	var specs []providerSpec
	var rows []snapshot.Row
	for i := range 8 {
		id := "p" + string(rune('a'+i))
		specs = append(specs, providerSpec{id: id, price: fmt.Sprintf("{input: %.2f, cached_input: %.3f, output: %.2f}", 0.8+0.05*float64(i), 0.1+0.01*float64(i), 2.5-0.1*float64(i))})
		row := snapshot.Row{Key: snapshot.Key{Provider: id, Model: "m", Class: snapshot.ClassText}}
		for tier := range row.Tier {
			n := int64(200 + rng.IntN(2000))
			row.Tier[tier] = snapshot.Sums{Attempts: n, Errors: n * int64(rng.IntN(8)) / 100, ThroughputTokens: n * 300, ThroughputUS: n * int64(2_000_000+rng.IntN(4_000_000)), TTFTCount: n, TTFTUS: n * int64(200_000+rng.IntN(900_000)), OutputTokens: n * 300}
		}
		rows = append(rows, row)
	}
	documents := strings.Replace(resources(up, "{thresholds: {exploration_rate: 0.2}, session: {enabled: true, use_user_field: true}}", specs...), "mode: platform", "mode: byok", 1)
	for _, s := range specs {
		documents += fmt.Sprintf("---\n{kind: provider_key, id: own-%s, organization: acme, provider: %s, secret: env:SECRET_OWN}\n", s.id, s.id)
	}
	// A second project remembers nothing, so that each of its requests is scored.
	documents += "---\n{kind: project, id: plain, organization: acme, mode: byok, routing: {thresholds: {exploration_rate: 0.2}, sticky: {enabled: false}, session: {enabled: false}}}\n" +
		"---\n{kind: api_key, id: plain-1, project: plain, hash: \"sha256:" + hexSum("to-plain") + "\"}\n"
	publish(t, conn, snapshot.Head{ID: "s-1", Generation: 1, AsOf: time.Now().Add(-2 * time.Minute).UTC().Truncate(time.Millisecond), // it moves to another tier after 5 minutes, not within the test
		Watermarks: map[int]int64{0: 100}, Profiles: []snapshot.Profile{snapshot.DefaultProfile()}}, rows)

	kafka, secret := kafkatest.New(t, 3), secrets()
	var nodes [2]*node
	var dispatchers [2]*dispatch.Dispatcher
	for i := range nodes {
		nodes[i] = start(t, documents, func(c *Config) { c.NodeID, c.Kafka, c.ClickHouse = fmt.Sprintf("node-%d", i), kafka, ch }, secret)
	}
	for i, n := range nodes {
		n.ready()
		eventually(t, "the node has the snapshot", 10*time.Second, func() bool { return n.g.poller.Status().ID == "s-1" })
		g := n.g
		dispatchers[i] = dispatch.New(dispatch.Config{NodeID: g.cfg.NodeID, AutoModels: autoModels, Log: g.log}, g.tenants, g.events, g.state, g.poller, g.adapters)
	}

	serve := func(node int, id, key, body string) {
		t.Helper()
		out := &discard{}
		dispatchers[node].Serve(t.Context(), &dispatch.Request{ID: id, Endpoint: attempt.EndpointChat, Token: key, Header: http.Header{}, Body: []byte(body), ReadAt: time.Now()}, out)
		if out.failed != nil {
			t.Fatalf("%+v\n%.300s", out.failed, body)
		}
	}
	const sessions, requests = 200, 10_000
	strategies := []string{"auto", "price", "throughput", "latency"}
	oneState(t, nodes, sessions, strategies, func(body string) { serve(0, uuid.Must(uuid.NewV7()).String(), token, body) })

	words := strings.Repeat("word ", 4000)
	compared := map[string]bool{}
	for range requests {
		body := fmt.Sprintf(`{"model":"m","routing":%q,"max_tokens":%d,"stream":%t,"messages":[{"role":"user","content":%q}]}`,
			strategies[rng.IntN(4)], 1+rng.IntN(3000), rng.IntN(10) == 0, words[:5*(1+rng.IntN(200))])
		if rng.IntN(4) == 0 {
			body = fmt.Sprintf(`{"user":"u-%d",%s`, rng.IntN(sessions), body[1:])
		}
		id, key := uuid.Must(uuid.NewV7()).String(), []string{token, "to-plain"}[rng.IntN(2)]
		compared[id] = true
		serve(0, id, key, body)
		serve(1, id, key, body)
	}
	compareDecisions(t, kafka, compared)
}

// oneState makes pins of sessions and a preference of each strategy through one node, and waits until
// the other holds the same.
func oneState(t *testing.T, nodes [2]*node, sessions int, strategies []string, serve func(body string)) {
	t.Helper()
	var keys []string
	for i := range sessions {
		serve(fmt.Sprintf(`{"model":"m","user":"u-%d","messages":[{"role":"user","content":"hello"}]}`, i))
		keys = append(keys, state.PinKey("acme", "m", nodes[0].g.state.SessionHash("acme", fmt.Sprintf("u-%d", i))))
	}
	for _, s := range strategies {
		key := state.PreferenceKey("acme", "m", s)
		keys = append(keys, key)
		for range 100 { // exploration prefers nobody
			serve(fmt.Sprintf(`{"model":"m","routing":%q,"messages":[{"role":"user","content":"hello"}]}`, s))
			if _, ok := nodes[0].g.state.Place(key); ok {
				break
			}
		}
	}
	eventually(t, "both nodes hold the same state", 5*time.Second, func() bool {
		for _, key := range keys {
			a, ok := nodes[0].g.state.Place(key)
			if b, also := nodes[1].g.state.Place(key); !ok || !also || a != b {
				return false
			}
		}
		return true
	})
}

// quickUpstream serves every provider.
func quickUpstream(t *testing.T) string {
	u := newUpstreams(t)
	h := answer("hello")
	u.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h(w, r) }) // without the book of calls
	return u.URL
}

// compareDecisions reads the log and holds the two events of each request against each other.
func compareDecisions(t *testing.T, kafka kafkax.Config, compared map[string]bool) {
	t.Helper()
	client, err := kafkax.Open(kafka, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	type decision struct {
		Provider, Region, Reason, Strategy, Session, Original, Remembered string
		Seed                                                              uint64
		Draw                                                              any
		Propensity                                                        float64
		Considered                                                        []attempt.Considered
	}
	seen := map[string]map[string]decision{}
	reasons, providers, strategies := map[string]int{}, map[string]int{}, map[string]int{}
	left := 2 * len(compared)
	for p := range 3 {
		first, _, err := client.Bounds(ctx, topic.Attempts, p)
		if err != nil {
			t.Fatal(err)
		}
		f := client.NewFetcher(topic.Attempts, p, first)
		for quiet := 0; left > 0 && quiet < 8; {
			records, err := f.Fetch(ctx, 10_000)
			if err != nil {
				t.Fatal(err)
			}
			if quiet++; len(records) > 0 {
				quiet = 0
			}
			for _, r := range records {
				e, err := attempt.Decode(r.Value)
				if err != nil {
					t.Fatal(err)
				}
				if !compared[e.RequestID] {
					continue
				}
				left--
				if seen[e.RequestID] == nil {
					seen[e.RequestID] = map[string]decision{}
				}
				var draw any
				if e.Draw != nil {
					draw = *e.Draw
				}
				seen[e.RequestID][e.NodeID] = decision{e.Provider, e.Region, e.Reason, e.Strategy, e.SessionHash, e.OriginalProvider, e.RememberedProvider, e.Seed, draw, e.Propensity, e.Considered}
				reasons[e.Reason]++
				providers[e.Provider]++
				strategies[e.Strategy]++
			}
		}
		f.Close()
	}
	if len(seen) != len(compared) || left != 0 {
		t.Fatalf("%d requests in the log and %d events missing, want %d and 0", len(seen), left, len(compared))
	}
	different := 0
	for id, of := range seen {
		if a, b := of["node-0"], of["node-1"]; len(a.Considered) == 0 || !reflect.DeepEqual(a, b) {
			if different++; different <= 3 {
				x, _ := json.Marshal(a)
				y, _ := json.Marshal(b)
				t.Errorf("request %s:\n%s\n%s", id, x, y)
			}
		}
	}
	t.Logf("%d of %d decisions differ; reasons %v, providers %v, strategies %v", different, len(compared), reasons, providers, strategies)
	if len(reasons) < 3 || len(providers) < 6 || len(strategies) < 4 {
		t.Errorf("the requests are too much alike to show anything: reasons %v, providers %v, strategies %v", reasons, providers, strategies)
	}
}
