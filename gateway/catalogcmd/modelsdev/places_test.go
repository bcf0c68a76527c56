package modelsdev

import (
	"slices"
	"testing"

	"turnout/deploy/catalog"
	"turnout/schemas/resource"
)

// Claude from Opus 4.7 on was said to be in single regions, where Vertex does not serve it, and not in the
// multi-regions, where it does; Haiku 3.5 and several open models to be in the whole world.
func TestPlacesOnVertex(t *testing.T) {
	for id, want := range map[string][]string{
		"claude-opus-4-8": {"global", "us", "eu"}, "claude-opus-4-7": {"global", "us", "eu"}, "claude-sonnet-5": {"global", "us", "eu"}, "claude-fable-5": {"global", "us", "eu"},
		"claude-opus-4-6": {"global", "us-east5", "europe-west1"}, "claude-haiku-4-5": {"global", "us-east5", "europe-west1"}, "claude-sonnet-4": {"global", "us-east5", "europe-west1"},
		"claude-3-5-haiku": {"us-east5"}, "gemini-3.1-pro-preview": {"global"}, "gemini-2.5-pro": {"global", "us-central1", "europe-west4"},
		"deepseek-v3.1": {"us-west2"}, "deepseek-v3.2": {"global"}, "llama-4-maverick-17b-instruct": {"us-east5"}, "gpt-oss-120b": {"global"},
	} {
		m := &resource.Mapping{Provider: "google-vertex"}
		vertexPlaces(id, m)
		if got := ids(m.Regions); !slices.Equal(got, want) {
			t.Errorf("%s is in %v, want %v", id, got, want)
		}
	}
}

// What is shipped says of Vertex what an import would say.
func TestShippedPlacesOnVertex(t *testing.T) {
	set, err := resource.Parse(catalog.Files()...)
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, model := range set.Models {
		for _, mapping := range model.Mappings {
			if mapping.Provider != "google-vertex" {
				continue
			}
			n++
			want := &resource.Mapping{Provider: "google-vertex"}
			vertexPlaces(model.ID, want)
			if got := ids(mapping.Regions); !slices.Equal(got, ids(want.Regions)) {
				t.Errorf("%s is in %v, an import would say %v", model.ID, got, ids(want.Regions))
			}
		}
	}
	if n < 20 {
		t.Errorf("%d models on Vertex", n)
	}
}

func ids(regions []resource.Region) (out []string) {
	for _, r := range regions {
		out = append(out, r.ID)
	}
	return out
}

// Models that stand in no region by themselves were asked for by their own ids, which Bedrock refuses:
// "with on-demand throughput isn't supported".
func TestModelsOfProfilesAlone(t *testing.T) {
	m := &resource.Mapping{Provider: "amazon-bedrock", Upstream: "amazon.nova-2-lite-v1:0"}
	bedrockOrder(m)
	if m.Upstream != "us.amazon.nova-2-lite-v1:0" || !slices.Equal(ids(m.Regions), []string{"us-east-1"}) {
		t.Errorf("%s in %v", m.Upstream, ids(m.Regions))
	}
	set, err := resource.Parse(catalog.Files()...)
	if err != nil {
		t.Fatal(err)
	}
	for _, model := range set.Models {
		for _, mapping := range model.Mappings {
			if mapping.Provider == "amazon-bedrock" && slices.Contains(profileOnly, mapping.Upstream) {
				t.Errorf("%s is asked for as %s", model.ID, mapping.Upstream)
			}
		}
	}
}
