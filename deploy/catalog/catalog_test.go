package catalog

import (
	"slices"
	"strings"
	"testing"
	"time"

	"turnout/gateway/catalog"
	"turnout/schemas/resource"
)

func parse(t testing.TB) *resource.Set {
	t.Helper()
	set, err := resource.Parse(Files()...)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

// TestWorth holds the catalogue to what it is said to be.
func TestWorth(t *testing.T) {
	set := parse(t)
	if len(set.Providers) < 20 || len(set.Models) < 150 {
		t.Errorf("%d providers and %d models", len(set.Providers), len(set.Models))
	}
	shared, cached, written, regional := 0, 0, 0, 0
	for _, m := range set.Models {
		var providers []string
		for _, mapping := range m.Mappings {
			if !slices.Contains(providers, mapping.Provider) {
				providers = append(providers, mapping.Provider)
			}
			if mapping.Price.CachedInput != nil {
				cached++
			}
			if mapping.Price.CacheWrite != nil {
				written++
			}
			for _, r := range mapping.Regions {
				if r.Price.Input != mapping.Price.Input {
					regional++
				}
			}
			free := m.Free || m.ID == "glm-4.7-flash" && mapping.Provider == "zai" // free there, not elsewhere
			if mapping.Price.Input == 0 && !free && mapping.Stability != resource.StabilityExperimental {
				t.Errorf("%s at %s costs nothing and is not marked as free or experimental", m.ID, mapping.Provider)
			}
			if slices.Equal(m.Output, []string{"text"}) && mapping.Price.Output == 0 && mapping.Price.Input != 0 {
				t.Errorf("%s at %s has no price for output", m.ID, mapping.Provider)
			}
			if c := mapping.Price.CachedInput; c != nil && *c > mapping.Price.Input {
				t.Errorf("%s at %s: cached input is dearer than input", m.ID, mapping.Provider)
			}
			if mapping.Capabilities == nil {
				t.Errorf("%s at %s says nothing of its capabilities", m.ID, mapping.Provider)
			}
			if mapping.Context == 0 {
				t.Errorf("%s at %s has no context", m.ID, mapping.Provider)
			}
		}
		if len(providers) >= 3 {
			shared++
		}
	}
	if shared < 80 || cached < 250 || written < 30 || regional < 15 {
		t.Errorf("%d models with three providers or more, %d mappings with a cached price, %d with a cache-write price, %d regions with a price of their own", shared, cached, written, regional)
	}
	t.Logf("%d providers, %d models, %d of them at three providers or more", len(set.Providers), len(set.Models), shared)
}

// TestAnchors are figures that were looked up by hand.
func TestAnchors(t *testing.T) {
	c := catalog.Build(parse(t))
	q := catalog.Query{Now: time.Date(2026, 7, 1, 0, 0, 0, 0, time.UTC)}
	for _, a := range []struct {
		id, provider, region  string
		input, cached, output resource.Rate
	}{
		{"gpt-5.4", "openai", "", 2.5e9, 0.25e9, 15e9},
		{"openai/gpt-5.4", "openai", "", 2.5e9, 0.25e9, 15e9},
		{"claude-sonnet-4.6", "anthropic", "", 3e9, 0.3e9, 15e9},
		{"amazon-bedrock/claude-sonnet-4-6:us-east-1", "amazon-bedrock", "us-east-1", 3e9, 0.3e9, 15e9},
		{"amazon-bedrock/claude-sonnet-4-6:eu-central-1", "amazon-bedrock", "eu-central-1", 3.3e9, 0.33e9, 16.5e9},
		{"google-vertex:claude-haiku-4-5:europe-west1", "google-vertex", "europe-west1", 1.1e9, 0.11e9, 5.5e9},
		{"google-vertex:claude-opus-4-8:eu", "google-vertex", "eu", 5.5e9, 0.55e9, 27.5e9},
		{"google-vertex:claude-sonnet-5:us", "google-vertex", "us", 2.2e9, 0.22e9, 11e9},
		{"gemini-2.5-pro", "google", "", 1.25e9, 0.125e9, 10e9},
		{"anthropic.claude-haiku-4-5-20251001-v1:0", "anthropic", "", 1e9, 0.1e9, 5e9},
	} {
		r, err := c.Resolve(a.id, q)
		if err != nil {
			t.Errorf("%s: %v", a.id, err)
			continue
		}
		at := slices.IndexFunc(r.Model.Candidates, func(c catalog.Candidate) bool { return c.Provider.ID == a.provider && c.Region == a.region })
		if at < 0 {
			t.Errorf("%s: %s:%s does not serve it", a.id, a.provider, a.region)
			continue
		}
		p := r.Model.Candidates[at].Price
		if p.Input != a.input || p.Output != a.output || p.CachedInput == nil || *p.CachedInput != a.cached {
			t.Errorf("%s: input %s, output %s, cached %v", a.id, p.Input, p.Output, p.CachedInput)
		}
	}
	for id, providers := range map[string][]string{
		"llama-3.3-70b-instruct": {"groq", "togetherai", "deepinfra", "amazon-bedrock", "azure", "google-vertex", "nebius"},
		"gpt-oss-120b":           {"groq", "cerebras", "fireworks-ai", "togetherai", "deepinfra", "amazon-bedrock"},
		"deepseek-v3.2":          {"amazon-bedrock", "azure", "deepinfra", "novita-ai"},
		"kimi-k2.6":              {"moonshotai", "fireworks-ai", "togetherai", "baseten"},
		"glm-5":                  {"zai", "togetherai", "deepinfra", "amazon-bedrock"},
		"qwen3-32b":              {"alibaba", "groq", "amazon-bedrock", "nebius"},
		"claude-opus-4-6":        {"anthropic", "azure-anthropic", "amazon-bedrock", "google-vertex"},
	} {
		m, ok := c.Model(id)
		if !ok {
			t.Errorf("no %s", id)
			continue
		}
		for _, p := range providers {
			if !slices.ContainsFunc(m.Candidates, func(c catalog.Candidate) bool { return c.Provider.ID == p }) {
				t.Errorf("%s is not served by %s", id, p)
			}
		}
	}
	for _, vendor := range []string{"meta-llama/Llama-3.3-70B-Instruct", "llama-3.3-70b-versatile", "deepseek-ai/DeepSeek-V3.2", "moonshotai.kimi-k2.5", "claude-opus-4-6@default"} {
		if _, ok := c.Model(vendor); !ok {
			t.Errorf("the vendor's spelling %s is unknown", vendor)
		}
	}
}

// TestExplicitStaysExplicit: no id or alias takes provider/model away from those who ask for the provider.
func TestExplicitStaysExplicit(t *testing.T) {
	set := parse(t)
	known := map[string]bool{}
	for _, p := range set.Providers {
		known[p.ID] = true
	}
	for _, m := range set.Models {
		for _, id := range append(m.Aliases, m.ID) {
			if first, _, slash := strings.Cut(id, "/"); slash && known[first] {
				t.Errorf("%s: %s begins with a provider", m.ID, id)
			}
		}
	}
}

// TestAuto: the built-in set of the model `auto` is there.
func TestAuto(t *testing.T) {
	c := catalog.Build(parse(t))
	for _, id := range []string{"claude-opus-4-6", "claude-sonnet-4-6", "claude-haiku-4-5", "gpt-5.4", "gpt-5.4-mini", "gpt-5.4-nano"} {
		if m, ok := c.Model(id); !ok || m.ID != id {
			t.Errorf("no %s", id)
		}
	}
}

func BenchmarkParse(b *testing.B) {
	files := Files()
	for b.Loop() {
		if _, err := resource.Parse(files...); err != nil {
			b.Fatal(err)
		}
	}
}

// Models that write and draw had the price of drawing for all they say, ten times too much for text.
func TestTextAndImagesHavePricesOfTheirOwn(t *testing.T) {
	for _, m := range parse(t).Models {
		if !slices.Contains(m.Output, "text") || !slices.Contains(m.Output, "image") {
			continue
		}
		for _, mapping := range m.Mappings {
			if p := mapping.Price; p.ImageOutput == nil || *p.ImageOutput <= p.Output {
				t.Errorf("%s at %s: output %v, images %v", m.ID, mapping.Provider, p.Output, p.ImageOutput)
			}
		}
	}
}
