package modelsdev

import (
	"os"
	"slices"
	"testing"

	"turnout/schemas/resource"
)

// TestCanonical: spellings of one model come together, others stay apart.
func TestCanonical(t *testing.T) {
	for want, spellings := range map[string][][2]string{
		"claude-haiku-4-5": {
			{"anthropic", "claude-haiku-4-5"}, {"anthropic", "claude-haiku-4-5-20251001"}, {"google-vertex", "claude-haiku-4-5@20251001"},
			{"amazon-bedrock", "anthropic.claude-haiku-4-5-20251001-v1:0"}, {"amazon-bedrock", "us.anthropic.claude-haiku-4-5-20251001-v1:0"}, {"azure", "claude-haiku-4-5"},
		},
		"claude-opus-4-6":               {{"amazon-bedrock", "global.anthropic.claude-opus-4-6-v1"}, {"google-vertex", "claude-opus-4-6@default"}},
		"claude-sonnet-4":               {{"anthropic", "claude-sonnet-4-0"}, {"anthropic", "claude-sonnet-4-20250514"}, {"google-vertex", "claude-sonnet-4@20250514"}},
		"llama-3.3-70b-instruct":        {{"groq", "llama-3.3-70b-versatile"}, {"togetherai", "meta-llama/Llama-3.3-70B-Instruct-Turbo"}, {"ovhcloud", "meta-llama-3_3-70b-instruct"}, {"amazon-bedrock", "meta.llama3-3-70b-instruct-v1:0"}, {"google-vertex", "meta/llama-3.3-70b-instruct-maas"}},
		"llama-4-maverick-17b-instruct": {{"azure", "llama-4-maverick-17b-128e-instruct-fp8"}, {"amazon-bedrock", "us.meta.llama4-maverick-17b-instruct-v1:0"}, {"deepinfra", "meta-llama/Llama-4-Maverick-17B-128E-Instruct-FP8"}},
		"glm-5.1":                       {{"fireworks-ai", "accounts/fireworks/models/glm-5p1"}, {"zai", "glm-5.1"}, {"chutes", "zai-org/GLM-5.1-TEE"}},
		"glm-5.1-fast":                  {{"fireworks-ai", "accounts/fireworks/routers/glm-5p1-fast"}},
		"glm-4.7":                       {{"cerebras", "zai-glm-4.7"}, {"amazon-bedrock", "zai.glm-4.7"}, {"google-vertex", "zai-org/glm-4.7-maas"}},
		"gpt-oss-120b":                  {{"amazon-bedrock", "openai.gpt-oss-120b-1:0"}, {"groq", "openai/gpt-oss-120b"}, {"google-vertex", "openai/gpt-oss-120b-maas"}},
		"deepseek-v3.2":                 {{"amazon-bedrock", "deepseek.v3.2"}, {"chutes", "deepseek-ai/DeepSeek-V3.2-TEE"}, {"google-vertex", "deepseek-ai/deepseek-v3.2-maas"}},
		"deepseek-r1":                   {{"amazon-bedrock", "us.deepseek.r1-v1:0"}, {"amazon-bedrock", "deepseek.r1-v1:0"}, {"togetherai", "deepseek-ai/DeepSeek-R1"}},
		"qwen2.5-72b-instruct":          {{"alibaba", "qwen2-5-72b-instruct"}, {"siliconflow", "Qwen/Qwen2.5-72B-Instruct"}, {"novita-ai", "qwen/qwen-2.5-72b-instruct"}},
		"nova-lite":                     {{"amazon-bedrock", "amazon.nova-lite-v1:0"}},
		"nemotron-nano-9b-v2":           {{"amazon-bedrock", "nvidia.nemotron-nano-9b-v2"}, {"nvidia", "nvidia/nvidia-nemotron-nano-9b-v2"}},
		"claude-3-5-sonnet":             {{"anthropic", "claude-3-5-sonnet-20241022"}},
		"gpt-4o-2024-08-06":             {{"openai", "gpt-4o-2024-08-06"}},
		"deepseek-r1-0528":              {{"huggingface", "deepseek-ai/DeepSeek-R1-0528"}},
	} {
		for _, s := range spellings {
			if got := canonical(s[0], s[1]); got != want {
				t.Errorf("%s/%s is %q, want %q", s[0], s[1], got, want)
			}
		}
	}
}

func TestFile(t *testing.T) {
	for id, want := range map[string]string{
		"gpt-5.4": "openai", "o3-mini": "openai", "gpt-oss-120b": "openai", "claude-opus-4-6": "anthropic", "gemma-3-27b-it": "google", "llama-3.3-70b-instruct": "meta",
		"llama-3.1-nemotron-ultra-253b-v1": "nvidia", "qwq-plus": "qwen", "kimi-k2.6": "moonshot", "sonar": "other", "open-mixtral-8x22b": "mistral", "osmosis-structure-0.6b": "other",
	} {
		if got := File(id); got != want {
			t.Errorf("%s goes to %s, want %s", id, got, want)
		}
	}
}

func TestDearer(t *testing.T) {
	cached := resource.Rate(300_000_001)
	p := dearer(resource.Price{Input: 3e9, Output: 15e9, CachedInput: &cached})
	if p.Input != 3.3e9 || p.Output != 16.5e9 || *p.CachedInput != 330_000_001 || cached != 300_000_001 {
		t.Errorf("%+v %d", p, cached)
	}
}

// FuzzImport: whatever comes, an import ends, and what it makes is a valid catalogue or an error.
func FuzzImport(f *testing.F) {
	data, err := os.ReadFile("../testdata/api.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(data)
	f.Add([]byte(`{"groq": {"models": {"a b": {"id": "a b", "cost": {"input": 1, "output": 1}, "modalities": {"input": ["text"], "output": ["text"]}}}}}`))
	f.Add([]byte(`{"groq": {"env": ["A KEY", "GROQ_API_KEY"], "models": {"a": {"id": "a", "cost": {"input": 1, "output": 1}, "modalities": {"input": ["text"], "output": ["text"]}}}}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		set, report, err := Import(data)
		if err != nil {
			return
		}
		if report.Models != len(set.Models) || report.Providers != len(set.Providers) {
			t.Fatal("the report counts wrong")
		}
		if _, err := resource.Parse(resource.Source{Name: "x.yaml", Data: resource.Encode(set)}); err != nil {
			t.Fatalf("%v\n%s", err, resource.Encode(set))
		}
	})
}

// An import undid what was mended by hand: text of models that draw had the price of drawing, GPT-5.1 drew
// and spoke, and OpenAI no longer spoke Responses.
func TestImportKeepsWhatWasMended(t *testing.T) {
	set, _, err := Import([]byte(`{
		"google": {"name": "Google", "models": {"gemini-2.5-flash-image": {"id": "gemini-2.5-flash-image", "cost": {"input": 0.3, "output": 30},
			"limit": {"context": 32768, "output": 32768}, "modalities": {"input": ["text"], "output": ["text", "image"]}}}},
		"openai": {"name": "OpenAI", "models": {"gpt-5.1": {"id": "gpt-5.1", "cost": {"input": 1.25, "output": 10},
			"limit": {"context": 400000, "output": 128000}, "modalities": {"input": ["text"], "output": ["text", "image", "audio"]}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Models) != 2 || len(set.Providers) != 2 {
		t.Fatalf("%d models of %d providers", len(set.Models), len(set.Providers))
	}
	if p := set.Models[0].Mappings[0].Price; p.Output != 2.5e9 || p.ImageOutput == nil || *p.ImageOutput != 30e9 {
		t.Errorf("text costs %s, images %v", p.Output, p.ImageOutput)
	}
	if got := set.Models[1].Output; !slices.Equal(got, []string{"text"}) {
		t.Errorf("gpt-5.1 gives %v", got)
	}
	if got := set.Providers[1].Endpoints; !slices.Equal(got, []string{"chat", "responses", "embeddings"}) {
		t.Errorf("OpenAI speaks %v", got)
	}
}
