package modelsdev

import (
	"regexp"

	"turnout/schemas/resource"
)

// service is what models.dev does not say about a provider, or not in a way that a gateway can use.
type service struct {
	protocol string
	baseURL  string
	secret   string // environment variable of the credential; "": the first of models.dev's that names a key or token
	priority float64
	// endpoints it speaks itself, where they are more than its protocol says.
	endpoints []string
	// n says that the provider returns several choices for one request.
	n bool
	// trial marks prices of 0 that hold for trying out, not for traffic.
	trial bool
	// noStreamUsage says that it refuses stream_options.
	noStreamUsage bool
	// name replaces models.dev's.
	name string
}

// services are the providers whose base URL or protocol is curated. Others are taken over where
// models.dev gives an OpenAI-compatible base URL.
var services = map[string]service{
	"openai":         {protocol: resource.ProtocolOpenAI, baseURL: "https://api.openai.com/v1", endpoints: []string{"chat", "responses", "embeddings"}, n: true},
	"anthropic":      {protocol: resource.ProtocolAnthropic, baseURL: "https://api.anthropic.com/v1"},
	"google":         {protocol: resource.ProtocolGemini, baseURL: "https://generativelanguage.googleapis.com/v1beta", secret: "GEMINI_API_KEY", priority: 0.8, name: "Google AI Studio"},
	"google-vertex":  {protocol: resource.ProtocolVertex, baseURL: "https://aiplatform.googleapis.com/v1/projects/${GOOGLE_VERTEX_PROJECT}/locations/{region}", secret: "GOOGLE_VERTEX_SERVICE_ACCOUNT", name: "Google Vertex AI"},
	"azure":          {protocol: resource.ProtocolAzure, baseURL: "https://${AZURE_RESOURCE_NAME}.openai.azure.com/openai/v1", secret: "AZURE_API_KEY", n: true},
	azureAnthropic:   {protocol: resource.ProtocolAnthropic, baseURL: "https://${AZURE_RESOURCE_NAME}.services.ai.azure.com/anthropic/v1", secret: "AZURE_API_KEY", name: "Azure (Anthropic)"},
	"amazon-bedrock": {protocol: resource.ProtocolBedrock, baseURL: "https://bedrock-runtime.{region}.amazonaws.com", secret: "AWS_BEARER_TOKEN_BEDROCK"},
	"groq":           {protocol: resource.ProtocolOpenAI, baseURL: "https://api.groq.com/openai/v1"},
	"cerebras":       {protocol: resource.ProtocolOpenAI, baseURL: "https://api.cerebras.ai/v1"},
	"togetherai":     {protocol: resource.ProtocolOpenAI, baseURL: "https://api.together.xyz/v1", n: true},
	"fireworks-ai":   {protocol: resource.ProtocolOpenAI, baseURL: "https://api.fireworks.ai/inference/v1", n: true},
	"deepinfra":      {protocol: resource.ProtocolOpenAI, baseURL: "https://api.deepinfra.com/v1/openai", n: true},
	"deepseek":       {protocol: resource.ProtocolOpenAI, baseURL: "https://api.deepseek.com", priority: 1.2},
	"moonshotai":     {protocol: resource.ProtocolOpenAI, baseURL: "https://api.moonshot.ai/v1", priority: 1.2},
	"zai":            {protocol: resource.ProtocolOpenAI, baseURL: "https://api.z.ai/api/paas/v4", priority: 1.2},
	"minimax":        {protocol: resource.ProtocolOpenAI, baseURL: "https://api.minimax.io/v1", priority: 1.2},
	"xai":            {protocol: resource.ProtocolOpenAI, baseURL: "https://api.x.ai/v1", n: true},
	"mistral":        {protocol: resource.ProtocolOpenAI, baseURL: "https://api.mistral.ai/v1", n: true, noStreamUsage: true},
	"perplexity":     {protocol: resource.ProtocolOpenAI, baseURL: "https://api.perplexity.ai", noStreamUsage: true},
	"cohere":         {protocol: resource.ProtocolOpenAI, baseURL: "https://api.cohere.ai/compatibility/v1"},
	"huggingface":    {protocol: resource.ProtocolOpenAI, baseURL: "https://router.huggingface.co/v1", trial: true},
	"nvidia":         {protocol: resource.ProtocolOpenAI, baseURL: "https://integrate.api.nvidia.com/v1", trial: true},
}

// azureAnthropic is where Azure serves Claude: another address and another protocol than its own.
const azureAnthropic = "azure-anthropic"

// same are providers of models.dev whose rows another one has as well.
var same = map[string]string{"google-vertex-anthropic": "google-vertex"}

// compatible are the client packages that speak the OpenAI protocol to the base URL models.dev gives.
const compatible = "@ai-sdk/openai-compatible"

// vertexRegions are where Vertex AI serves a model, by the first row that its id fits. models.dev does not
// say. Of Claude, regions serve what came before Opus 4.7; what came since is in the whole world and in the
// multi-regions us and eu. Regions and multi-regions cost a tenth more for Claude from 4.5 on.
var vertexRegions = []placed{
	{regexp.MustCompile(`^claude-(fable|opus-4-[7-9]|(opus|sonnet|haiku)-[5-9])`), []string{"global", "us", "eu"}},
	{regexp.MustCompile(`^claude-3-5-haiku`), []string{"us-east5"}},
	{regexp.MustCompile(`^claude-`), []string{"global", "us-east5", "europe-west1"}},
	{regexp.MustCompile(`^gemini-3.*-preview`), []string{"global"}},
	{regexp.MustCompile(`^gemini-`), []string{"global", "us-central1", "europe-west4"}},
	{regexp.MustCompile(`^deepseek-v3\.1$`), []string{"us-west2"}},
	{regexp.MustCompile(`^llama-3\.3-`), []string{"us-central1"}},
	{regexp.MustCompile(`^llama-4-maverick`), []string{"us-east5"}},
	{regexp.MustCompile(``), []string{"global"}},
}

// placed is where the models are served whose ids fit.
type placed struct {
	model   *regexp.Regexp
	regions []string
}

// profileOnly are models that Bedrock serves in us-east-1 by the inference profile of the United States
// alone, and that models.dev names without it.
var profileOnly = []string{
	"amazon.nova-2-lite-v1:0",
	"meta.llama3-1-70b-instruct-v1:0",
	"meta.llama3-1-8b-instruct-v1:0",
	"meta.llama3-3-70b-instruct-v1:0",
	"mistral.pixtral-large-2502-v1:0",
	"writer.palmyra-x4-v1:0",
	"writer.palmyra-x5-v1:0",
}

// bedrockRegions are the regions that stand for Bedrock's inference profiles, in catalogue order.
var bedrockRegions = []struct{ prefix, region string }{
	{"global.", "global"},
	{"us.", "us-east-1"},
	{"eu.", "eu-central-1"},
	{"jp.", "ap-northeast-1"},
	{"au.", "ap-southeast-2"},
}
