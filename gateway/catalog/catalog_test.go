package catalog

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"turnout/schemas/resource"
)

const resources = `
{kind: provider, id: a, protocol: openai, base_url: "https://a.example.com", priority: 0.5}
---
{kind: provider, id: b, protocol: openai, base_url: "https://b.example.com"}
---
{kind: provider, id: openai, protocol: openai, base_url: "https://c.example.com"}
---
{kind: provider, id: own, protocol: openai, base_url: "https://own.example.com", organization: acme}
---
{kind: organization, id: acme}
---
kind: model
id: gpt-5.4-mini
aliases: [gpt-mini]
mappings:
  - {provider: openai, upstream: x, price: {input: 1, output: 2}}
  - {provider: a, upstream: y, price: {input: 3, output: 4}, priority: 2, context: 9, regions: [{id: eu}, {id: us, price: {input: 5}, priority: 3, context: 7, upstream: z}, {id: old, expires: 2026-01-01}, {id: off, status: deactivated, capabilities: [tools]}]}
---
{kind: model, id: "meta/llama-3:free", mappings: [{provider: a, upstream: x, price: {input: 0, output: 0}}]}
---
{kind: model, id: "a/compound", mappings: [{provider: a, upstream: x, price: {input: 0, output: 0}}]}
---
{kind: model, id: "amazon.nova-lite-v1:0", mappings: [{provider: a, upstream: x, price: {input: 0, output: 0}}]}
---
{kind: model, id: "turbo:fast", mappings: [{provider: a, upstream: x, price: {input: 0, output: 0}}]}
---
{kind: model, id: gone, mappings: [{provider: a, upstream: x, price: {input: 0, output: 0}, status: deactivated}, {provider: b, upstream: x, price: {input: 0, output: 0}, regions: [{id: eu, expires: 2026-01-01}]}]}
---
{kind: model, id: private, mappings: [{provider: own, upstream: x, price: {input: 0, output: 0}}]}
`

var now = time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)

func build(t interface{ Fatal(...any) }) *Catalog {
	set, err := resource.Parse(resource.Source{Name: "catalog.yaml", Data: []byte(resources)})
	if err != nil {
		t.Fatal(err)
	}
	return Build(set)
}

func TestResolve(t *testing.T) {
	c := build(t)
	type want struct {
		model, provider, region, strategy string
		strict, auto                      bool
	}
	for id, w := range map[string]want{
		"gpt-5.4-mini":              {model: "gpt-5.4-mini"},
		"gpt-mini":                  {model: "gpt-5.4-mini"},
		"gpt-5.4-mini:nitro":        {model: "gpt-5.4-mini", strategy: "throughput"},
		"gpt-mini:FAST":             {model: "gpt-5.4-mini", strategy: "latency"},
		"gpt-5.4-mini:Cheap":        {model: "gpt-5.4-mini", strategy: "price"},
		"turbo:fast":                {model: "turbo:fast"},
		"turbo:fast:fast":           {model: "turbo:fast", strategy: "latency"},
		"a/turbo:fast":              {model: "turbo:fast", provider: "a"},
		"a:turbo:fast":              {model: "turbo:fast", provider: "a", strict: true},
		"auto":                      {auto: true},
		"auto:cheap":                {auto: true, strategy: "price"},
		"a:gpt-5.4-mini":            {model: "gpt-5.4-mini", provider: "a", strict: true},
		"a:gpt-mini:us":             {model: "gpt-5.4-mini", provider: "a", region: "us", strict: true},
		"a:gpt-mini:us:nitro":       {model: "gpt-5.4-mini", provider: "a", region: "us", strict: true, strategy: "throughput"},
		"meta/llama-3:free":         {model: "meta/llama-3:free"},
		"a/meta/llama-3:free":       {model: "meta/llama-3:free", provider: "a"},
		"a:meta/llama-3:free":       {model: "meta/llama-3:free", provider: "a", strict: true},
		"a/compound":                {model: "a/compound"},
		"a/a/compound":              {model: "a/compound", provider: "a"},
		"amazon.nova-lite-v1:0":     {model: "amazon.nova-lite-v1:0"},
		"a/amazon.nova-lite-v1:0":   {model: "amazon.nova-lite-v1:0", provider: "a"},
		"a/gpt-5.4-mini":            {model: "gpt-5.4-mini", provider: "a"},
		"a/gpt-mini:eu":             {model: "gpt-5.4-mini", provider: "a", region: "eu"},
		"a/gpt-mini:eu:cheap":       {model: "gpt-5.4-mini", provider: "a", region: "eu", strategy: "price"},
		"openai/gpt-5.4-mini":       {model: "gpt-5.4-mini", provider: "openai"},
		"openai/gpt-5.4-mini:nitro": {model: "gpt-5.4-mini", provider: "openai", strategy: "throughput"},
	} {
		r, err := c.Resolve(id, Query{Now: now})
		if err != nil {
			t.Errorf("%s: %v", id, err)
			continue
		}
		got := want{provider: r.Provider, region: r.Region, strategy: r.Strategy, strict: r.Strict, auto: r.Auto}
		if r.Model != nil {
			got.model = r.Model.ID
		}
		if got != w {
			t.Errorf("%s: got %+v, want %+v", id, got, w)
		}
	}
}

func TestRefused(t *testing.T) {
	c := build(t)
	for id, w := range map[string]struct {
		status int
		code   string
		says   []string
	}{
		"":                                 {400, "model_not_found", []string{"empty"}},
		"smart":                            {400, "model_not_found", []string{"models.smart does not exist", "auto"}},
		"smart:cheap":                      {400, "model_not_found", []string{"models.smart does not exist", "auto"}},
		"dynamic/x":                        {404, "not_found", []string{`"x"`}},
		"@mine":                            {400, "unknown_preset", []string{`"mine"`}},
		"gpt-5.4-mni":                      {400, "model_not_found", []string{`"gpt-5.4-mni"`, "did you mean gpt-5.4-mini?"}},
		"vendor/gpt-5.4-mini":              {400, "model_not_found", []string{"did you mean gpt-5.4-mini?"}},
		"gpt-minny":                        {400, "model_not_found", []string{"did you mean gpt-5.4-mini?"}},
		"zzzzzzzzzzzz":                     {400, "model_not_found", []string{"GET /v1/models"}},
		"a/zzzzzzzzzzzz":                   {400, "model_not_found", []string{`"a/zzzzzzzzzzzz"`}},
		"b/gpt-5.4-mini":                   {400, "model_not_found", []string{"b does not serve gpt-5.4-mini", "served by openai, a"}},
		"b:gpt-5.4-mini":                   {400, "model_not_found", []string{"b does not serve"}},
		"b/gpt-5.4-mini:eu":                {400, "model_not_found", []string{"b does not serve"}},
		"a/gpt-5.4-mini:mars":              {400, "unknown_region", []string{`"mars"`, "valid there: eu, us"}},
		"a/gpt-5.4-mini:old":               {400, "unknown_region", []string{"valid there: eu, us"}},
		"a/gpt-5.4-mini:off":               {400, "unknown_region", []string{"valid there: eu, us"}},
		"a/gpt-5.4-mini:":                  {400, "unknown_region", []string{"valid there"}},
		"a:gpt-5.4-mini:mars":              {400, "unknown_region", []string{"valid there"}},
		"openai/gpt-5.4-mini:eu":           {400, "unknown_region", []string{"without regions"}},
		"gone":                             {410, "model_retired", []string{`"gone"`}},
		"a/gone":                           {410, "model_retired", nil},
		"b/gone:eu":                        {410, "model_retired", nil},
		"private":                          {400, "model_not_found", nil},
		"own/private":                      {400, "model_not_found", nil},
		"own:private":                      {400, "model_not_found", nil},
		strings.Repeat("x", 100_000):       {400, "model_not_found", nil},
		"@" + strings.Repeat("x", 100_000): {400, "unknown_preset", nil},
		"dynamic/" + strings.Repeat("x", 100_000):    {404, "not_found", nil},
		"a/gpt-mini:" + strings.Repeat("x", 100_000): {400, "unknown_region", nil},
	} {
		r, err := c.Resolve(id, Query{Now: now})
		if err == nil {
			t.Errorf("%.40s: accepted as %+v", id, r)
			continue
		}
		if err.Status != w.status || err.Code != w.code || err.Param != "model" || len(err.Message) > 1000 {
			t.Errorf("%.40s: %+v", id, *err)
		}
		for _, text := range w.says {
			if !strings.Contains(err.Message, text) {
				t.Errorf("%.40s: %q does not say %q", id, err.Message, text)
			}
		}
		if strings.Contains(err.Message, "did you mean private") {
			t.Errorf("%.40s: names another organization's model: %q", id, err.Message)
		}
	}
}

// TestCustomProvider: one organization's provider does not exist for another.
func TestCustomProvider(t *testing.T) {
	c := build(t)
	for _, id := range []string{"private", "own/private", "own:private"} {
		if r, err := c.Resolve(id, Query{Organization: "acme", Now: now}); err != nil || r.Model.ID != "private" {
			t.Errorf("%s: %v", id, err)
		}
		if _, err := c.Resolve(id, Query{Organization: "other", Now: now}); err == nil {
			t.Errorf("%s: another organization's model was found", id)
		}
	}
}

func TestPublisher(t *testing.T) {
	c := build(t)
	for id, want := range map[string]string{
		"openai/gpt-5.4-mini":       "gpt-5.4-mini",
		"whoever/gpt-mini":          "gpt-5.4-mini",
		"meta/llama-3:free":         "meta/llama-3:free",
		"openai/gpt-5.4-mini:cheap": "gpt-5.4-mini",
		"a:gpt-mini":                "gpt-5.4-mini",
	} {
		r, err := c.Resolve(id, Query{Publisher: true, Now: now})
		if err != nil || r.Model.ID != want {
			t.Errorf("%s: %v", id, err)
			continue
		}
		if wantProvider := strings.HasPrefix(id, "a:"); (r.Provider != "") != wantProvider {
			t.Errorf("%s: provider %q", id, r.Provider)
		}
	}
	if _, err := c.Resolve("a/gpt-mini:eu", Query{Publisher: true, Now: now}); err == nil || err.Code != "model_not_found" {
		t.Errorf("a region behind a publisher: %v", err)
	}
}

func TestFlatten(t *testing.T) {
	m, ok := build(t).Model("gpt-mini")
	if !ok {
		t.Fatal("no model")
	}
	var got []string
	for i, c := range m.Candidates {
		got = append(got, c.Provider.ID+":"+c.Region)
		if c.Index != i {
			t.Errorf("index %d at %d", c.Index, i)
		}
	}
	if strings.Join(got, " ") != "openai: a:eu a:us a:old a:off" {
		t.Errorf("%q", got)
	}
	us, eu := m.Candidates[2], m.Candidates[1]
	if us.Priority != 3 || us.Context != 7 || us.Upstream != "z" || us.Price.Input != 5e9 || us.Price.Output != 4e9 {
		t.Errorf("%+v", us)
	}
	if eu.Priority != 2 || eu.Context != 9 || eu.Upstream != "y" || eu.Price.Input != 3e9 {
		t.Errorf("%+v", eu)
	}
	if off := m.Candidates[4].Mapping; eu.Mapping.Capabilities != nil || len(off.Capabilities) != 1 || us.Mapping.Upstream != "z" {
		t.Errorf("mappings by region: %+v", off)
	}
	if other, _ := build(t).Model("a/compound"); other.Candidates[0].Priority != 0.5 {
		t.Errorf("priority %v is not the provider's", other.Candidates[0].Priority)
	}
	if m.Candidates[3].Live(now) || !m.Candidates[3].Live(now.AddDate(-1, 0, 0)) || m.Candidates[4].Live(now) {
		t.Error("expiry")
	}
}

func TestResolveAllocatesNothing(t *testing.T) {
	c := build(t)
	q := Query{Now: now}
	for _, id := range []string{"gpt-5.4-mini", "gpt-mini:nitro", "a/gpt-mini:eu", "a:gpt-mini", "auto", "meta/llama-3:free"} {
		if n := testing.AllocsPerRun(100, func() { _, _ = c.Resolve(id, q) }); n != 0 {
			t.Errorf("%s: %v allocations", id, n)
		}
	}
}

// checkLaws holds for every id: an error or a meaning, never both, and a meaning that can be written
// out in full and means the same again.
func checkLaws(t interface {
	Fatalf(string, ...any)
}, c *Catalog, id string, publisher bool) {
	q := Query{Now: now, Publisher: publisher}
	r, err := c.Resolve(id, q)
	if err != nil {
		if (r != Result{}) || err.Status < 400 || err.Code == "" || err.Message == "" || err.Param != "model" || len(err.Message) > 2000 {
			t.Fatalf("%q: %+v with %+v", id, r, *err)
		}
		return
	}
	if r.Auto == (r.Model != nil) || r.Strict && r.Provider == "" || r.Region != "" && r.Provider == "" {
		t.Fatalf("%q: %+v", id, r)
	}
	if r.Auto || publisher {
		return
	}
	full := r.Model.ID
	if r.Provider != "" {
		separator := "/"
		if r.Strict {
			separator = ":"
		}
		full = r.Provider + separator + full
		if r.Region != "" {
			full += ":" + r.Region
		}
		if !c.served[servedKey{r.Provider, r.Model}] {
			t.Fatalf("%q: %s does not serve %s", id, r.Provider, r.Model.ID)
		}
	}
	if suffix := map[string]string{"throughput": ":nitro", "latency": ":fast", "price": ":cheap"}[r.Strategy]; suffix != "" {
		full += suffix
	}
	again, err := c.Resolve(full, q)
	if err != nil || again != r {
		t.Fatalf("%q means %+v, but %q means %+v, %v", id, r, full, again, err)
	}
}

func TestResolveLaws(t *testing.T) {
	c := build(t)
	words := rapid.SampledFrom([]string{"a", "b", "own", "openai", "gpt-5.4-mini", "gpt-mini", "meta", "llama-3", "free", "compound", "amazon.nova-lite-v1", "0",
		"turbo", "fast", "NITRO", "cheap", "eu", "us", "old", "off", "mars", "gone", "private", "auto", "smart", "dynamic", "@x", ""})
	rapid.Check(t, func(t *rapid.T) {
		id := words.Draw(t, "word")
		for range rapid.IntRange(0, 4).Draw(t, "parts") {
			id += rapid.SampledFrom([]string{"/", ":"}).Draw(t, "separator") + words.Draw(t, "word")
		}
		checkLaws(t, c, id, rapid.Bool().Draw(t, "publisher"))
	})
}

func FuzzResolve(f *testing.F) {
	c := build(f)
	for _, id := range []string{"a/gpt-mini:eu:cheap", "a:gpt-5.4-mini", "turbo:fast:fast", "@x", "dynamic/", ":", "/", "a/:", "auto:auto", "\xff"} {
		f.Add(id, false)
		f.Add(id, true)
	}
	f.Fuzz(func(t *testing.T, id string, publisher bool) { checkLaws(t, c, id, publisher) })
}

func BenchmarkResolve(b *testing.B) {
	c := build(b)
	q := Query{Now: now}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := c.Resolve("a/gpt-mini:us:nitro", q); err != nil {
			b.Fatal(err)
		}
	}
}
