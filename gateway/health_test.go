package gateway

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"turnout/deploy/sim"
	"turnout/gateway/internal/httpapi"
	"turnout/gateway/routing"
	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/migrations"
	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
	"turnout/schemas/topic"
)

// What counts against a provider and what does not, end to end.
func TestHealthAccounting(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), nil).ready()
	var wg sync.WaitGroup
	at := func(times int, script http.HandlerFunc, do func()) {
		u.script("alpha", script)
		limit := make(chan struct{}, 8)
		for range times {
			limit <- struct{}{}
			wg.Go(func() { defer func() { <-limit }(); do() })
		}
		wg.Wait()
	}
	at(100, status(400, "bad temperature"), func() { n.chat(chatBody) })
	u.script("alpha", silence)
	for range 50 { // leave once the call is under way, before any output
		ctx, cancel := context.WithCancel(context.Background())
		r, _ := http.NewRequestWithContext(ctx, "POST", n.url+"/v1/chat/completions", strings.NewReader(streamBody))
		r.Header.Set("Authorization", "Bearer "+token)
		r.Header.Set("Content-Type", "application/json")
		before := len(u.called(""))
		wg.Go(func() {
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
			}
		})
		eventually(t, "the upstream is called", 5*time.Second, func() bool { return len(u.called("")) > before })
		cancel()
		wg.Wait()
	}
	at(50, answer("one two"), func() { n.chat(streamBody) })
	at(20, inBand("one"), func() { n.chat(streamBody) })
	eventually(t, "every request has ended", 5*time.Second, func() bool { return n.g.api.InFlight() == 0 })
	balanced(t, u, n.events(220))
	keys := []snapshot.Key{{Provider: "alpha", Model: "m", Class: snapshot.ClassText}}
	m := n.g.poller.Watch(keys, resource.DefaultRouting().History, 20).Read(n.g.poller.Now()).Metrics[0]
	if m.Known&routing.KnownUptime == 0 || math.Abs(m.Uptime-71.43) > .005 {
		t.Errorf("uptime %v (known %b), want 71.43", m.Uptime, m.Known)
	}
}

// A provider that fails is left by the node that sees it and, through the state topic, by the other
// one, which never called it; after the cooldown one request probes.
func TestCooldownTravels(t *testing.T) {
	u := newUpstreams(t)
	broker := kafkatest.New(t, 3)
	doc := resources(u.URL, "{weights: {uptime: 0, throughput: 0, latency: 0}, thresholds: {exploration_rate: 0, uptime_min_attempts: 10000}, sticky: {enabled: false}}",
		providerSpec{id: "alpha", extra: "cooldown: {base: 1s, max: 3s}"}, providerSpec{id: "beta", price: "{input: 3, output: 6}"})
	shared := secrets()
	a := start(t, doc, func(c *Config) { c.Kafka, c.NodeID = broker, "a" }, shared).ready()
	b := start(t, doc, func(c *Config) { c.Kafka, c.NodeID = broker, "b" }, shared).ready()
	u.script("alpha", status(500, "down"))
	for range 3 {
		a.chat(chatBody)
	}
	if got := len(u.called("alpha")); got != 3 {
		t.Fatalf("%d calls to alpha, want 3", got)
	}
	if r := a.chat(chatBody); r.at("metadata.routing.0.provider") != "beta" {
		t.Fatalf("%s", r.body)
	}
	eventually(t, "the other node has heard", time.Second, func() bool {
		r := b.chat(chatBody, "X-Turnout-Explain", "true")
		return r.at("metadata.considered.0.excluded_code") == "cooldown"
	})
	heard := len(u.called("alpha"))
	// The cooldown ends: of many requests at once exactly one probes on each node.
	time.Sleep(1100 * time.Millisecond)
	slow := make(chan struct{})
	u.script("alpha", func(w http.ResponseWriter, r *http.Request) { <-slow; status(500, "still down")(w, r) })
	var wg sync.WaitGroup
	var others atomic.Int64
	for range 10 {
		wg.Go(func() {
			if r := a.chat(chatBody); r.at("metadata.routing.0.provider") == "beta" {
				others.Add(1)
			}
		})
	}
	eventually(t, "the others pass by the probe", 5*time.Second, func() bool { return others.Load() == 9 })
	if got := len(u.called("alpha")) - heard; got != 1 {
		t.Errorf("%d probes, want 1", got)
	}
	close(slow)
	wg.Wait()
	probe := false
	for _, e := range a.events(len(u.called(""))) {
		probe = probe || e.Purpose == "probe" && e.Provider == "alpha"
	}
	if !probe {
		t.Error("no event says that it was a probe")
	}
	c := a.g.state.Keys().Get(a.keyID("alpha"), time.Second, 3*time.Second).Cooldown()
	if c.Length != 2*time.Second {
		t.Errorf("after a failed probe the cooldown is %v, want 2s", c.Length)
	}
	// It recovers: the next probe brings it back.
	u.script("alpha", nil)
	eventually(t, "alpha is back", 5*time.Second, func() bool { return a.chat(chatBody).at("metadata.routing.0.provider") == "alpha" })
}

// Each call that the simulators' ledger knows has exactly one event, whatever became of it.
func TestLedgerBalances(t *testing.T) {
	noLeaks(t)
	s, err := sim.New(sim.Options{Seed: 7})
	if err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.Start(l)
	t.Cleanup(func() { _ = s.Close() })
	providers := sim.Default()
	for _, p := range providers {
		if err := s.Set(p.ID, []byte(`{"error_rate":0.2,"error_kinds":["server_error","unavailable","html","in_band","error_object"],"cut_rate":0.05,"cut_after_chunks":2,"ttft_ms":1}`)); err != nil {
			t.Fatal(err)
		}
	}
	doc, err := sim.Resources(sim.ResourceOptions{BaseURL: "http://" + l.Addr().String(), Secret: func(p string) string { return "env:K_" + strings.ReplaceAll(p, "-", "_") },
		Projects: []sim.Project{{ID: "p", KeyHash: "sha256:" + hexSum(token), Routing: map[string]any{"thresholds": map[string]any{"exploration_rate": .2}}}}})
	if err != nil {
		t.Fatal(err)
	}
	n := start(t, string(doc), nil, func(name string) (string, bool) {
		p, ok := strings.CutPrefix(name, "K_")
		return sim.Key(strings.ReplaceAll(p, "_", "-")), ok
	}).ready()
	model := providers[0].Models[0].ID
	var wg sync.WaitGroup
	var served atomic.Int64
	for w := range 8 {
		wg.Go(func() {
			for i := range 60 {
				body := fmt.Sprintf(`{"model":%q,"max_tokens":20,"stream":%v,"messages":[{"role":"user","content":"question %d of %d"}]}`, model, i%2 == 0, i, w)
				if r := n.chat(body); r.status == 200 {
					served.Add(1)
				}
			}
		})
	}
	wg.Wait()
	if served.Load() < 400 {
		t.Errorf("only %d of 480 were served", served.Load())
	}
	ledger := s.Ledger(0)
	rows := map[string]int{}
	for _, e := range n.events(len(ledger)) {
		rows[e.SpanID]++
	}
	for _, e := range ledger {
		if rows[e.SpanID] != 1 {
			t.Fatalf("%d events of the call %+v", rows[e.SpanID], e)
		}
	}
}

// publish writes a snapshot as the processor does.
func publish(t *testing.T, conn *chx.Conn, head snapshot.Head, rows []snapshot.Row) {
	t.Helper()
	ctx := context.Background()
	stored := snapshot.Flatten(map[string][]snapshot.Row{"": rows})
	head.Rows, head.Checksum = int64(len(stored)), snapshot.Checksum(stored)
	batch, err := conn.PrepareBatch(chx.SyncInsert(ctx), snapshot.InsertRows)
	if err != nil {
		t.Fatal(err)
	}
	for i := range stored {
		if err := batch.Append(stored[i].Values(head.ID, head.AsOf)...); err != nil {
			t.Fatal(err)
		}
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	heads, err := conn.PrepareBatch(chx.SyncInsert(ctx), snapshot.InsertHead)
	if err != nil {
		t.Fatal(err)
	}
	h := head.Stored()
	if err := heads.Append(h.Values()...); err != nil {
		t.Fatal(err)
	}
	if err := heads.Send(); err != nil {
		t.Fatal(err)
	}
}

// Snapshots steer requests; a gateway never goes back, keeps the last one while ClickHouse is away,
// and counts its own attempts exactly once.
func TestSnapshots(t *testing.T) {
	server := chtest.Start(t)
	cfg := server.Config()
	if _, _, err := migrations.Up(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	conn, err := chx.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	u := newUpstreams(t)
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}, providerSpec{id: "beta", price: "{input: 1.05, output: 2.1}"}),
		func(c *Config) { c.ClickHouse, c.PollInterval = cfg, 100*time.Millisecond }).ready()
	if r := n.chat(chatBody); r.at("metadata.used_provider") != "alpha" || r.at("metadata.snapshot_age_s") != nil {
		t.Fatalf("%s", r.body)
	}
	row := func(p string, attempts, errors int64) snapshot.Row {
		r := snapshot.Row{Key: snapshot.Key{Provider: p, Model: "m", Class: snapshot.ClassText}}
		r.Tier[0] = snapshot.Sums{Attempts: attempts, Errors: errors}
		return r
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	publish(t, conn, snapshot.Head{ID: "s-2", Generation: 1, AsOf: now, Watermarks: map[int]int64{0: 100}, Profiles: []snapshot.Profile{snapshot.DefaultProfile()}},
		[]snapshot.Row{row("alpha", 100_000, 40_000), row("beta", 100_000, 0)})
	eventually(t, "the snapshot steers", 5*time.Second, func() bool {
		r := n.chat(chatBody)
		return r.at("metadata.used_provider") == "beta" && r.at("metadata.snapshot_age_s") != nil
	})
	publish(t, conn, snapshot.Head{ID: "s-1", Generation: 1, AsOf: now.Add(time.Second), Watermarks: map[int]int64{0: 50}, Profiles: []snapshot.Profile{snapshot.DefaultProfile()}},
		[]snapshot.Row{row("alpha", 1000, 0), row("beta", 1000, 999)})
	time.Sleep(300 * time.Millisecond)
	if id := n.g.poller.Status().ID; id != "s-2" {
		t.Fatalf("the gateway went back to %s", id)
	}
	keys := []snapshot.Key{{Provider: "alpha", Model: "m", Class: snapshot.ClassText}}
	watch := n.g.poller.Watch(keys, resource.DefaultRouting().History, 20)
	if m := watch.Read(n.g.poller.Now()).Metrics[0]; math.Abs(m.Uptime-60) > 1 {
		t.Errorf("alpha's uptime is %v, want about 60", m.Uptime)
	}

	storedVersions(t, n)
	observedUsage(t, n, conn)
	adminAnswers(t, n, conn)

	server.Stop()
	eventually(t, "the problem shows", 10*time.Second, func() bool { return n.g.poller.Status().Problem != "" })
	for range 20 {
		if r := n.chat(chatBody); r.status != 200 || r.at("metadata.used_provider") != "beta" {
			t.Fatalf("while ClickHouse is away: %d %s", r.status, r.body)
		}
	}
	if why := n.g.Ready(); len(why) > 0 {
		t.Errorf("not ready because ClickHouse is away: %v", why)
	}
	server.Start()
	publish(t, conn, snapshot.Head{ID: "s-3", Generation: 1, AsOf: now.Add(2 * time.Second), Watermarks: map[int]int64{0: 1000, 1: 1000, 2: 1000}, Profiles: []snapshot.Profile{snapshot.DefaultProfile()}},
		[]snapshot.Row{row("alpha", 1000, 0), row("beta", 1000, 500)})
	eventually(t, "the next snapshot arrives", 10*time.Second, func() bool { return n.g.poller.Status().ID == "s-3" })
	// What is acknowledged below the watermarks stands in the snapshot: it is not counted again.
	eventually(t, "own attempts are covered", 5*time.Second, func() bool { return n.g.poller.Status().Own == 0 })
	eventually(t, "it steers", 2*time.Second, func() bool { return n.chat(chatBody).at("metadata.used_provider") == "alpha" })
}

// Without Kafka requests are served and nothing is lost; at the start it is waited for.
func TestKafkaAway(t *testing.T) {
	broker := kafkatest.Start(t, 3)
	u := newUpstreams(t)
	broker.Stop()
	var cfg kafkax.Config = broker.Config()
	n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), func(c *Config) { c.Kafka = cfg })
	eventually(t, "the log names the address", 10*time.Second, func() bool {
		return strings.Contains(n.logs.String(), "Kafka cannot be reached") && strings.Contains(n.logs.String(), cfg.Brokers[0])
	})
	if r := n.do("GET", n.url+"/readyz", ""); r.status != 503 || !strings.Contains(r.body, "topic") {
		t.Fatalf("%d %s", r.status, r.body)
	}
	broker.Start()
	n.ready()
	n.chat(chatBody)
	n.events(1)
	broker.Stop()
	for range 20 {
		if r := n.chat(chatBody); r.status != 200 {
			t.Fatalf("while Kafka is away: %d %s", r.status, r.body)
		}
	}
	if why := n.g.Ready(); len(why) > 0 {
		t.Errorf("not ready because Kafka is away later: %v", why)
	}
	broker.Start()
	balanced(t, u, n.events(21))
}

// storedVersions checks that what events name as versions can be read back as it was.
func storedVersions(t *testing.T, n *node) {
	t.Helper()
	view := n.g.tenants.Current()
	p, _ := view.Project("web")
	body := func(key string) (body []byte) {
		eventually(t, "the configuration topic holds "+key, 5*time.Second, func() bool {
			body = n.config()[key]
			return body != nil
		})
		return body
	}
	config, err := resource.ParseResolved(body(topic.KindRoutingConfig + "/" + p.ConfigVersion))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(config, p.Resolved()) {
		t.Errorf("stored %+v", config)
	}
	book, err := resource.ParsePriceBook(body(topic.KindPriceBook + "/" + view.PriceVersion))
	if err != nil {
		t.Fatal(err)
	}
	if resource.Version(book.Encode()) != view.PriceVersion {
		t.Error("the stored price book has another version")
	}
}

// observedUsage checks that the project's real token mix replaces the workload's guess.
func observedUsage(t *testing.T, n *node, conn *chx.Conn) {
	t.Helper()
	if n.g.poller.Usage("web", "m") != nil {
		t.Error("usage is known before there is any")
	}
	insert := `INSERT INTO folds (kind, generation, at, organization_id, project_id, model, provider, successes, input_tokens, cached_input_tokens, output_tokens, kafka_offset)
		SELECT 'usage', (SELECT max(generation) FROM fold_generations), toStartOfHour(now()), 'acme', 'web', 'm', 'alpha', 30, 40000, 30000, 8000, 1`
	if err := conn.Exec(chx.SyncInsert(context.Background()), insert); err != nil {
		t.Fatal(err)
	}
	n.g.poller.Usage("web-2", "m") // any first use starts a round of asking
	known, err := n.g.poller.ReadUsage(context.Background(), []string{"web", "nobody"})
	if err != nil {
		t.Fatal(err)
	}
	if u := known["web"]["m"]; len(known) != 1 || u == nil || !u.Combined.Enough() || u.Combined.HitRate() != .75 || u.ByProvider["alpha"].OutputRatio() != .2 {
		t.Errorf("usage %+v", known)
	}
}

func adminAnswers(t *testing.T, n *node, conn *chx.Conn) {
	t.Helper()
	if r := n.do("GET", n.admin+"/admin/v1/decisions/nobody", ""); r.status != 404 || r.at("error.code") != "not_found" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if err := conn.Exec(chx.SyncInsert(context.Background()), "INSERT INTO refusals (event_id, request_id, error_code, at) VALUES ('01a22e4e-3820-795d-b987-35e3dd05fa15', 'r-1', 'not_allowed', now64(3))"); err != nil {
		t.Fatal(err)
	}
	if r := n.do("GET", n.admin+"/admin/v1/decisions/r-1", ""); r.status != 200 || r.at("refusal.error_code") != "not_allowed" || r.at("again.verdict") != "no_decision" {
		t.Errorf("%d %s", r.status, r.body)
	}
	r := n.do("GET", n.admin+"/admin/v1/health", "")
	if r.at("ready") != true || r.at("keys.0.provider") != "alpha" || r.at("keys.0.state") != "ready" || r.at("snapshot_id") != "s-2" {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := n.do("GET", n.admin+"/metrics", ""); r.status != 200 || !strings.Contains(r.body, `turnout_gateway_requests_total{route="chat",status="200"}`) {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// The admin address used to point at the clients' paths.
func TestAnUnknownAdminPathNamesTheAdminPaths(t *testing.T) {
	server := httpapi.NewAdmin(nil, http.NotFoundHandler(), "", slog.New(slog.DiscardHandler))
	w := httptest.NewRecorder()
	server.Handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/admin", nil))
	if w.Code != http.StatusNotFound || !strings.Contains(w.Body.String(), "/admin/v1/health") || strings.Contains(w.Body.String(), "/v1/models") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
