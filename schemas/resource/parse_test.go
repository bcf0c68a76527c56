package resource

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

var update = flag.Bool("update", false, "write the golden files anew")

// TestBroken holds, for every broken file, each mistake with its place.
func TestBroken(t *testing.T) {
	names, err := filepath.Glob("testdata/broken/*.*")
	if err != nil || len(names) == 0 {
		t.Fatal("no broken files", err)
	}
	for _, name := range names {
		if strings.HasSuffix(name, ".golden") {
			continue
		}
		t.Run(filepath.Base(name), func(t *testing.T) {
			data, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			set, err := Parse(Source{Name: filepath.Base(name), Data: data})
			if err == nil || set != nil {
				t.Fatal("accepted")
			}
			var all Errors
			if !errors.As(err, &all) {
				t.Fatalf("%T is not Errors", err)
			}
			for _, one := range all {
				if one.Line < 1 || one.Column < 1 || one.Path == "" || one.Message == "" || one.File == "" {
					t.Errorf("incomplete: %+v", one)
				}
			}
			golden := name + ".golden"
			if *update {
				if err := os.WriteFile(golden, []byte(err.Error()+"\n"), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, readErr := os.ReadFile(golden)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if err.Error()+"\n" != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", err, want)
			}
		})
	}
}

func parseOne(t *testing.T, name, data string) *Set {
	t.Helper()
	set, err := Parse(Source{Name: name, Data: []byte(data)})
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestWhole reads every field there is, from YAML and from JSON, to the same set.
func TestWhole(t *testing.T) {
	set, err := ParseFiles([]string{"testdata/whole.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	rate := func(s string) *Rate {
		r, err := ParseRate(s)
		if err != nil {
			t.Fatal(err)
		}
		return &r
	}
	no, two, half := false, 2.0, 0.5
	price := Price{Input: 3e9, Output: 15e9, CachedInput: rate("0.3"), CacheWrite: rate("3.75"), CacheWrite1h: rate("6"), Request: rate("0.000000001")}
	eu := price
	eu.Input, eu.CachedInput = 3.3e9, rate("0.33")
	tiers := []PriceTier{{Above: 200000, Price: Price{Input: 6e9, Output: 22.5e9}}}
	want := &Set{
		Providers: []Provider{
			{
				ID: "alpha", Name: "Alpha", Protocol: "openai", BaseURL: "http://127.0.0.1:9/v1", Priority: &two, HTTP: 2,
				Credentials: []Credential{
					{ID: "main", Secret: "env:ALPHA_KEY"},
					{ID: "eu", Secret: "file:/run/secrets/alpha", Region: "eu", Models: []string{"sonnet"}, ServiceTiers: []string{"priority"}},
				},
				Timeouts: Timeouts{Connect: 10 * time.Second, FirstByte: 5 * time.Minute, FirstOutput: time.Minute, Idle: 2 * time.Minute, Plain: 10 * time.Minute, Stream: 20 * time.Minute},
				Cooldown: Cooldown{Base: 5 * time.Second, Max: 15 * time.Second}, Trace: true, AllowPrivate: true,
				ForwardHeaders: []string{"x-beta"}, StreamUsage: &no, Endpoints: []string{"chat", "embeddings"},
			},
			{ID: "beta", Protocol: "anthropic", BaseURL: "https://${BETA_NAME}.example.com/{region}", HTTP: 1, Organization: "acme"},
		},
		Models: []Model{{
			ID: "sonnet", Name: "Sonnet: the 4th", Aliases: []string{"sonnet-4", "lab/sonnet:free"}, Family: "sonnet",
			Output: []string{"text"}, Input: []string{"text", "image"}, ReasoningBound: true, Free: true,
			Mappings: []Mapping{
				{
					Provider: "alpha", Upstream: "lab.sonnet-v1:0", Price: price, PriceTiers: tiers,
					ServiceTiers: []ServiceTier{{ID: "priority", Price: Price{Input: 6e9, Output: 30e9}}},
					Context:      1000000, MaxOutput: 64000, Capabilities: []string{"vision", "tools"}, ReasoningEfforts: []string{"low", "max"},
					ImageTokens: 1600, Priority: &half, Status: "deprecated", Stability: "beta", Timeouts: Timeouts{Idle: time.Second},
					Regions: []Region{
						{ID: "us", Expires: time.Date(2027, 6, 30, 0, 0, 0, 0, time.UTC), Upstream: "lab.sonnet-v1:0", Price: price, PriceTiers: tiers, Context: 1000000, MaxOutput: 64000, Status: "deprecated", Stability: "beta", Priority: &half},
						{ID: "eu", Expires: time.Date(2027, 6, 30, 10, 0, 0, 0, time.UTC), Upstream: "eu.sonnet", Price: eu, PriceTiers: []PriceTier{{Above: 5, Price: Price{Input: 1e9, Output: 1e9}}}, Context: 5, MaxOutput: 4, Status: "active", Stability: "stable", Priority: &two},
					},
				},
				{Provider: "beta", Upstream: "s", Price: Price{}, Capabilities: []string{}, Status: "active", Stability: "stable"},
			},
		}},
		Organizations: []Organization{{ID: "acme", Name: "Acme", Workload: "coding", Discounts: []Discount{{Provider: "alpha", Percent: 12.5}, {Model: "sonnet", Percent: 1}}}},
		Projects: []Project{
			{ID: "web", Name: "Web", Organization: "acme", Mode: "byok", ModelIDs: "publisher", DefaultStrategy: "latency", Routing: DefaultRouting()},
			{ID: "plain", Organization: "acme", Mode: "platform", ModelIDs: "provider", DefaultStrategy: "auto", Routing: DefaultRouting()},
		},
		APIKeys:      []APIKey{{ID: "web-1", Project: "web", Hash: strings.Repeat("0f", 32), Revoked: true, Models: []string{"sonnet"}}},
		ProviderKeys: []ProviderKey{{ID: "own", Name: "Ours", Organization: "acme", Provider: "beta", Secret: "env:OWN", Region: "eu", Models: []string{"sonnet"}}},
	}
	r := &want.Projects[0].Routing
	r.Weights.Price, r.Weights.ImagePrice, r.Weights.Cache = 0, 0.9, 1.5
	r.Thresholds.CacheHitRate, r.Thresholds.ExplorationRate, r.Thresholds.CachePromptTokens = &half, 0, 1
	r.Retry.MaxRetries = 0
	r.Timeouts = RoutingTimeouts{Gateway: time.Second, Streaming: 2 * time.Second, Plain: 3 * time.Second, FirstByte: 4 * time.Second, FirstOutput: 5 * time.Second, Idle: 6 * time.Millisecond}
	r.History = History{WindowMinutes: 3, Tier1Minutes: 2, Tier2Minutes: 3, Tier1Weight: 10, Tier2Weight: 3, Tier3Weight: 0.5}
	r.Sticky = Sticky{Enabled: false, TTL: time.Minute, UptimeThreshold: 50, ScoreMargin: 0.01}
	r.Session = Session{Enabled: true, UseUserField: false, TTL: 24 * time.Hour, UptimeThreshold: 85}
	r.ProviderPriorities = map[string]float64{"alpha": 0, "beta": 1.5}
	diff(t, want, set)

	again := parseOne(t, "again.yaml", string(Encode(set)))
	diff(t, set, again)

	fromJSON, err := ParseFiles([]string{"testdata/whole.json"})
	if err != nil {
		t.Fatal(err)
	}
	diff(t, set, fromJSON)
}

func diff(t *testing.T, want, got *Set) {
	t.Helper()
	if reflect.DeepEqual(want, got) {
		return
	}
	w, g := strings.Split(string(Encode(want)), "\n"), strings.Split(string(Encode(got)), "\n")
	for i := range max(len(w), len(g)) {
		if i >= len(w) || i >= len(g) || w[i] != g[i] {
			t.Fatalf("line %d of the encoding differs:\nwant %q\ngot  %q", i+1, w[min(i, len(w)-1)], g[min(i, len(g)-1)])
		}
	}
	t.Fatalf("sets differ in what the encoding does not show:\nwant %+v\ngot  %+v", want, got)
}

func TestDocumentsApart(t *testing.T) {
	const a, b = "kind: organization\nid: a\n", "kind: organization\nid: b\n"
	for name, data := range map[string]string{
		"a comment's document":   a + "---\n# nothing\n---\n" + b,
		"empty documents":        "---\n---\n" + a + "---\n---\n" + b + "---\n",
		"content on the line":    "--- {kind: organization, id: a}\n--- {kind: organization, id: b}\n",
		"an end mark":            a + "...\n" + b,
		"windows lines":          strings.ReplaceAll(a+"---\n"+b, "\n", "\r\n"),
		"a byte order mark":      "\ufeff" + a + "---\n" + b,
		"a mark inside a block":  "kind: organization\nid: a\nname: |\n  x\n---\n" + b,
		"null counts as not set": a + "name:\n---\n" + b + "name: null\n",
	} {
		t.Run(name, func(t *testing.T) {
			set := parseOne(t, "x.yaml", data)
			if len(set.Organizations) != 2 || set.Organizations[0].ID != "a" || set.Organizations[1].ID != "b" {
				t.Errorf("%+v", set.Organizations)
			}
		})
	}
	for name, data := range map[string]string{
		"an array":      `[{"kind":"organization","id":"a"},{"kind":"organization","id":"b"}]`,
		"one by one":    "{\"kind\":\"organization\",\"id\":\"a\"}\n\t{\"kind\":\"organization\",\"id\":\"b\"}",
		"with null":     `{"kind":"organization","id":"a","name":null} {"kind":"organization","id":"b"}`,
		"escaped slash": `{"kind":"organization","id":"a","name":"x\/y"} {"kind":"organization","id":"b"}`,
	} {
		t.Run(name, func(t *testing.T) {
			set := parseOne(t, "x.json", data)
			if len(set.Organizations) != 2 || set.Organizations[0].ID != "a" || set.Organizations[1].ID != "b" {
				t.Errorf("%+v", set.Organizations)
			}
		})
	}
}

func TestRoutingSpellings(t *testing.T) {
	for _, data := range []string{
		`{"sticky": {"scoreMargin": 0.01}, "retry": {"maxRetries": 0}, "providerPriorities": {"a": 2}, "session": {"ttlSeconds": 60, "useUserField": false}, "timeouts": {"gatewayMs": 2000}}`,
		`{"sticky": {"score_margin": 0.01}, "retry": {"max_retries": 0}, "provider_priorities": {"a": 2}, "session": {"ttl_seconds": 60, "use_user_field": false}, "timeouts": {"gateway_ms": 2000}}`,
	} {
		got, err := ParseRouting(Source{Name: "scenario.json", Data: []byte(data)}, "project.config")
		if err != nil {
			t.Fatal(err)
		}
		want := DefaultRouting()
		want.Sticky.ScoreMargin, want.Retry.MaxRetries = 0.01, 0
		want.ProviderPriorities = map[string]float64{"a": 2}
		want.Session.TTL, want.Session.UseUserField = time.Minute, false
		want.Timeouts.Gateway = 2 * time.Second
		if !reflect.DeepEqual(got, want) {
			t.Errorf("got %+v\nwant %+v", got, want)
		}
	}
}

// TestRoutingRefused walks the ranges of a project's configuration, each with its path.
func TestRoutingRefused(t *testing.T) {
	for data, want := range map[string]string{
		`{"retry": {"max_retries": 11}}`:                    "project.config.retry.max_retries: 11 is out of range: from 0 to 10",
		`{"retry": {"max_retries": -1}}`:                    "project.config.retry.max_retries: -1 is out of range",
		`{"retry": {"max_retries": 1.5}}`:                   "project.config.retry.max_retries: 1.5 is not a whole number",
		`{"history": {"window_minutes": 0}}`:                "project.config.history.window_minutes: 0 is out of range: from 1 to 120",
		`{"history": {"windowMinutes": 121}}`:               "project.config.history.windowMinutes: 121 is out of range",
		`{"sticky": {"ttl_seconds": 86401}}`:                "project.config.sticky.ttl_seconds: 86401 is out of range: from 1 to 86400",
		`{"session": {"ttl_seconds": 0}}`:                   "project.config.session.ttl_seconds: 0 is out of range",
		`{"thresholds": {"exploration_rate": 1.01}}`:        "project.config.thresholds.exploration_rate: 1.01 is out of range: from 0 to 1",
		`{"thresholds": {"cache_hit_rate": -0.1}}`:          "project.config.thresholds.cache_hit_rate: -0.1 is out of range",
		`{"thresholds": {"uptime_penalty": 101}}`:           "project.config.thresholds.uptime_penalty: 101 is out of range",
		`{"weights": {"price": -1}}`:                        "project.config.weights.price: -1 is out of range: at least 0",
		`{"weights": {"price": "1"}}`:                       "project.config.weights.price: is a text where a number belongs",
		`{"weights": {"prices": 1}}`:                        `project.config.weights.prices: unknown field: did you mean "price"?`,
		`{"weights": []}`:                                   "project.config.weights: is a list where an object belongs",
		`{"provider_priorities": {"a": -1}}`:                "project.config.provider_priorities.a: -1 is out of range",
		`{"enabled": "yes"}`:                                "project.config.enabled: is a text where true or false belongs",
		`{"sticky": {"scoreMargin": 1, "score_margin": 2}}`: "stands here twice",
		`[]`:                           "project.config: is a list where an object belongs",
		`{} {}`:                        "project.config: is a second document",
		`{"timeouts": {"idle_ms": 0}}`: "project.config.timeouts.idle_ms: 0 is out of range",
		`{"enabled": false, "retry": {"max_retries": 99}}`: "project.config.retry.max_retries: 99 is out of range",
		`{"history": {"tier1_weight": 1e999}}`:             "project.config.history.tier1_weight: 1e999 is not a number",
	} {
		_, err := ParseRouting(Source{Name: "s.json", Data: []byte(data)}, "project.config")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s:\ngot  %v\nwant %s", data, err, want)
		}
	}
	off, err := ParseRouting(Source{Name: "s.json", Data: []byte(`{"enabled": false, "retry": {"max_retries": 9}}`)}, "c")
	if err != nil || !reflect.DeepEqual(off, DefaultRouting()) {
		t.Errorf("enabled false is not the defaults: %+v %v", off, err)
	}
}
