package modelsdev

import (
	"regexp"
	"strings"
)

// renamed are spellings that no rule brings to the id under which others have the same model.
var renamed = map[string]string{
	"anthropic/claude-opus-4-0":                             "claude-opus-4",
	"anthropic/claude-sonnet-4-0":                           "claude-sonnet-4",
	"nvidia/mistralai/mistral-7b-instruct-v03":              "mistral-7b-instruct-v0.3",
	"amazon-bedrock/deepseek.r1-v1:0":                       "deepseek-r1",
	"amazon-bedrock/deepseek.v3-v1:0":                       "deepseek-v3.1",
	"amazon-bedrock/deepseek.v3.2":                          "deepseek-v3.2",
	"amazon-bedrock/qwen.qwen3-235b-a22b-2507-v1:0":         "qwen3-235b-a22b-instruct-2507",
	"amazon-bedrock/qwen.qwen3-coder-30b-a3b-v1:0":          "qwen3-coder-30b-a3b-instruct",
	"amazon-bedrock/qwen.qwen3-coder-480b-a35b-v1:0":        "qwen3-coder-480b-a35b-instruct",
	"amazon-bedrock/qwen.qwen3-next-80b-a3b":                "qwen3-next-80b-a3b-instruct",
	"amazon-bedrock/qwen.qwen3-vl-235b-a22b":                "qwen3-vl-235b-a22b-instruct",
	"amazon-bedrock/mistral.mistral-large-3-675b-instruct":  "mistral-large-2512",
	"amazon-bedrock/mistral.devstral-2-123b":                "devstral-2512",
	"amazon-bedrock/mistral.magistral-small-2509":           "magistral-small-2509",
	"amazon-bedrock/nvidia.nemotron-super-3-120b":           "nemotron-3-super-120b-a12b",
	"amazon-bedrock/nvidia.nemotron-nano-3-30b":             "nemotron-3-nano-30b-a3b",
	"amazon-bedrock/mistral.pixtral-large-2502-v1:0":        "pixtral-large",
	"mistral/pixtral-large-latest":                          "pixtral-large",
	"groq/llama-3.3-70b-versatile":                          "llama-3.3-70b-instruct",
	"groq/llama-3.1-8b-instant":                             "llama-3.1-8b-instruct",
	"togetherai/meta-llama/Llama-3.3-70B-Instruct-Turbo":    "llama-3.3-70b-instruct",
	"deepinfra/meta-llama/Llama-3.3-70B-Instruct-Turbo":     "llama-3.3-70b-instruct",
	"deepinfra/Qwen/Qwen3-Coder-480B-A35B-Instruct-Turbo":   "qwen3-coder-480b-a35b-instruct",
	"togetherai/Qwen/Qwen3-235B-A22B-Instruct-2507-tput":    "qwen3-235b-a22b-instruct-2507",
	"togetherai/Qwen/Qwen2.5-7B-Instruct-Turbo":             "qwen2.5-7b-instruct",
	"togetherai/deepseek-ai/DeepSeek-V3-1":                  "deepseek-v3.1",
	"togetherai/pearl-ai/gemma-4-31b-it":                    "gemma-4-31b-it-pearl",
	"chutes/google/gemma-4-31B-turbo-TEE":                   "gemma-4-31b-it",
	"novita-ai/deepseek/deepseek-r1-turbo":                  "deepseek-r1",
	"novita-ai/deepseek/deepseek-v3-turbo":                  "deepseek-v3",
	"novita-ai/moonshotai/kimi-k2-instruct":                 "kimi-k2-0711",
	"huggingface/moonshotai/Kimi-K2-Instruct":               "kimi-k2-0711",
	"moonshotai/kimi-k2-0711-preview":                       "kimi-k2-0711",
	"moonshotai/kimi-k2-0905-preview":                       "kimi-k2-0905",
	"huggingface/moonshotai/Kimi-K2-Instruct-0905":          "kimi-k2-0905",
	"nvidia/moonshotai/kimi-k2-instruct-0905":               "kimi-k2-0905",
	"nvidia/mistralai/mistral-large-3-675b-instruct-2512":   "mistral-large-2512",
	"nvidia/mistralai/mistral-medium-3-instruct":            "mistral-medium-2505",
	"nvidia/mistralai/mistral-small-4-119b-2603":            "mistral-small-2603",
	"scaleway/mistral-small-3.2-24b-instruct-2506":          "mistral-small-2506",
	"ovhcloud/mistral-small-3.2-24b-instruct-2506":          "mistral-small-2506",
	"scaleway/devstral-2-123b-instruct-2512":                "devstral-2512",
	"scaleway/mistral-medium-3.5-128b":                      "mistral-medium-2604",
	"scaleway/pixtral-12b-2409":                             "pixtral-12b",
	"ovhcloud/mistral-nemo-instruct-2407":                   "mistral-nemo",
	"mistral/open-mistral-nemo":                             "mistral-nemo",
	"chutes/unsloth/Mistral-Nemo-Instruct-2407-TEE":         "mistral-nemo",
	"inference/mistral/mistral-nemo-12b-instruct":           "mistral-nemo",
	"alibaba/qwen3-vl-235b-a22b":                            "qwen3-vl-235b-a22b-instruct",
	"alibaba/qwen3-vl-30b-a3b":                              "qwen3-vl-30b-a3b-instruct",
	"baseten/nvidia/Nemotron-120B-A12B":                     "nemotron-3-super-120b-a12b",
	"nebius/nvidia/Nemotron-3-Nano-Omni":                    "nemotron-3-nano-omni-30b-a3b-reasoning",
	"xai/grok-4.20-0309-reasoning":                          "grok-4.20-reasoning",
	"xai/grok-4.20-0309-non-reasoning":                      "grok-4.20-non-reasoning",
	"azure/grok-4-20-reasoning":                             "grok-4.20-reasoning",
	"azure/grok-4-20-non-reasoning":                         "grok-4.20-non-reasoning",
	"azure/grok-4-1-fast-reasoning":                         "grok-4.1-fast-reasoning",
	"azure/grok-4-1-fast-non-reasoning":                     "grok-4.1-fast-non-reasoning",
	"azure/cohere-embed-v-4-0":                              "embed-v4.0",
	"azure/cohere-command-r-08-2024":                        "command-r-08-2024",
	"azure/cohere-command-r-plus-08-2024":                   "command-r-plus-08-2024",
	"azure/cohere-command-a":                                "command-a-03-2025",
	"stepfun/step-3.5-flash-2603":                           "step-3.5-flash-2603",
	"openai/gpt-5-chat-latest":                              "gpt-5-chat",
	"openai/gpt-5.1-chat-latest":                            "gpt-5.1-chat",
	"openai/gpt-5.2-chat-latest":                            "gpt-5.2-chat",
	"openai/gpt-5.3-chat-latest":                            "gpt-5.3-chat",
	"inference/google/gemma-3":                              "gemma-3-27b-it",
	"google-vertex/qwen/qwen3-235b-a22b-instruct-2507-maas": "qwen3-235b-a22b-instruct-2507",
	"novita-ai/qwen/qwen-2.5-72b-instruct":                  "qwen2.5-72b-instruct",
	"huggingface/Qwen/Qwen3-235B-A22B":                      "qwen3-235b-a22b",
	"amazon-bedrock/amazon.nova-2-lite-v1:0":                "nova-2-lite",
}

var (
	bedrockMaker = regexp.MustCompile(`^(amazon|anthropic|deepseek|google|meta|minimax|mistral|moonshot|moonshotai|nvidia|openai|qwen|writer|xai|zai)\.`)
	// A version at the end of a vendor's id: -v1:0, -v1, -1:0, @default, @20251001, -20251001,
	// -20251001-v1:0, -maas.
	vendorVersion = regexp.MustCompile(`((-v\d+:\d+|-v1|-\d:\d+|@[a-z0-9]+|-maas)?(-20\d{6})?|-20\d{6}(-v\d+:\d+|-v1))$`)
	// How it is served, not what: number format, enclave.
	serving     = regexp.MustCompile(`-(fp8|tee)$`)
	pointed     = regexp.MustCompile(`(\d)p(\d)`)
	underscored = regexp.MustCompile(`(\d)_(\d)`)
	dashedSmall = regexp.MustCompile(`^(qwen2|llama-?[34])-(\d)(-|$)`)
	gluedLlama  = regexp.MustCompile(`^llama(\d)`)
	claudeFlip  = regexp.MustCompile(`^claude-(\d)\.(\d)`)
	llamaMaker  = regexp.MustCompile(`^(meta-llama|meta-esm)-(\d)`)
	otherMaker  = regexp.MustCompile(`^(zai-glm|nvidia-nemotron|nvidia-nvidia-nemotron)-`)
	experts     = regexp.MustCompile(`^(llama-4-(?:maverick|scout)-17b)(-\d+e)?(-instruct)?$`)
)

// canonical is the id under which every provider's spelling of one model comes together.
func canonical(provider, id string) string {
	if name, ok := renamed[provider+"/"+id]; ok {
		return name
	}
	name := strings.ToLower(id)
	if provider == "amazon-bedrock" {
		name, _ = cutProfile(name)
		if whole, ok := renamed[provider+"/"+name]; ok {
			return whole
		}
		name = bedrockMaker.ReplaceAllString(name, "")
	}
	name = name[strings.LastIndexByte(name, '/')+1:]
	if provider == "fireworks-ai" {
		name = pointed.ReplaceAllString(name, "$1.$2")
	}
	name = underscored.ReplaceAllString(name, "$1.$2")
	name = serving.ReplaceAllString(name, "")
	if provider == "amazon-bedrock" || provider == "google-vertex" || strings.HasPrefix(name, "claude-") {
		name = vendorVersion.ReplaceAllString(name, "")
	}
	if otherMaker.MatchString(name) {
		name = name[strings.IndexByte(name, '-')+1:]
	}
	if m := llamaMaker.FindStringSubmatch(name); m != nil {
		name = strings.TrimPrefix(name, "meta-")
	}
	name = gluedLlama.ReplaceAllString(name, "llama-$1")
	name = dashedSmall.ReplaceAllString(name, "$1.$2$3")
	if m := experts.FindStringSubmatch(name); m != nil {
		name = m[1] + "-instruct"
	}
	// Claude 3.5 and before are written with the number in front: claude-3-5-sonnet.
	return claudeFlip.ReplaceAllString(name, "claude-$1-$2")
}

// cutProfile takes Bedrock's inference profile off: us.anthropic.claude... is anthropic.claude... in
// the region that stands for us.
func cutProfile(id string) (rest, region string) {
	for _, p := range bedrockRegions {
		if strings.HasPrefix(id, p.prefix) {
			return id[len(p.prefix):], p.region
		}
	}
	return id, ""
}

// makers says which file a model goes to, by how its id begins.
var makers = []struct {
	file string
	id   *regexp.Regexp
}{
	{"openai", regexp.MustCompile(`^(gpt-|chatgpt|o[134](-|$)|text-embedding|codex)`)},
	{"anthropic", regexp.MustCompile(`^claude-`)},
	{"google", regexp.MustCompile(`^(gemini|gemma|google-)`)},
	{"nvidia", regexp.MustCompile(`^(nemotron|llama-.*nem|nv-|mistral-nemotron)`)},
	{"meta", regexp.MustCompile(`^llama-`)},
	{"deepseek", regexp.MustCompile(`^deepseek`)},
	{"qwen", regexp.MustCompile(`^(qwen|qwq|qvq)`)},
	{"moonshot", regexp.MustCompile(`^kimi`)},
	{"zai", regexp.MustCompile(`^(glm|autoglm)`)},
	{"minimax", regexp.MustCompile(`^minimax`)},
	{"mistral", regexp.MustCompile(`^(labs-|open-)?(mistral|ministral|magistral|devstral|codestral|pixtral|voxtral|mixtral)`)},
	{"xai", regexp.MustCompile(`^grok`)},
	{"amazon", regexp.MustCompile(`^nova`)},
	{"cohere", regexp.MustCompile(`^(command|c4ai|embed-|north-|cohere)`)},
	{"microsoft", regexp.MustCompile(`^(phi|wizardlm)`)},
}

// File is the name of the file, without its ending, that a model of that id goes to.
func File(id string) string {
	for _, m := range makers {
		if m.id.MatchString(id) {
			return m.file
		}
	}
	return "other"
}
