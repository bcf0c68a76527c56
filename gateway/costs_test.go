package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"turnout/schemas/attempt"
)

// account is usage as a provider reports it, and what it must come to. Rates are USD per 1M tokens, so
// one of 1 is 1,000 nano-USD for a token; every figure of want was worked out by hand as its comment says.
type account struct {
	name, shape string // shape is whose wire format it comes in
	price       string
	usage       string
	tokens      tokens
	want        costs
}

// tokens are the buckets of the event, costs its parts in nano-USD.
type tokens struct {
	in, cached, write, write1h, out, reasoning, imageIn, audioIn, imageOut, audioOut int64
}
type costs struct {
	input, cached, write, output, image, audio, request, total int64
}

var accounts = []account{
	{
		name: "OpenAI chat: cached inside the prompt, reasoning inside the completion", shape: "chat",
		price:  "{input: 0.25, cached_input: 0.025, output: 2}",
		usage:  `{"prompt_tokens":2006,"completion_tokens":300,"total_tokens":2306,"prompt_tokens_details":{"cached_tokens":1920,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":192,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`,
		tokens: tokens{in: 2006, cached: 1920, out: 300, reasoning: 192},
		// 2006 - 1920 = 86 at 250 | 1920 at 25 | 300 at 2,000
		want: costs{input: 21_500, cached: 48_000, output: 600_000, total: 669_500},
	},
	{
		name: "OpenAI Responses", shape: "responses",
		price:  "{input: 0.25, cached_input: 0.025, output: 2}",
		usage:  `{"input_tokens":5120,"input_tokens_details":{"cached_tokens":4096},"output_tokens":777,"output_tokens_details":{"reasoning_tokens":640},"total_tokens":5897}`,
		tokens: tokens{in: 5120, cached: 4096, out: 777, reasoning: 640},
		// 5120 - 4096 = 1024 at 250 | 4096 at 25 | 777 at 2,000
		want: costs{input: 256_000, cached: 102_400, output: 1_554_000, total: 1_912_400},
	},
	{
		name: "OpenAI audio", shape: "chat",
		price:  "{input: 2.5, output: 10, audio_input: 32, audio_output: 64}",
		usage:  `{"prompt_tokens":145,"completion_tokens":320,"total_tokens":465,"prompt_tokens_details":{"cached_tokens":0,"text_tokens":20,"image_tokens":0,"audio_tokens":125},"completion_tokens_details":{"reasoning_tokens":0,"text_tokens":60,"audio_tokens":260,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0}}`,
		tokens: tokens{in: 145, out: 320, audioIn: 125, audioOut: 260},
		// 20 at 2,500 | 60 at 10,000 | audio: 125 at 32,000 = 4,000,000 and 260 at 64,000 = 16,640,000
		want: costs{input: 50_000, output: 600_000, audio: 20_640_000, total: 21_290_000},
	},
	{
		name: "Anthropic: cached and written beside the input, writes of both durations", shape: "messages",
		price:  "{input: 3, cached_input: 0.3, cache_write: 3.75, cache_write_1h: 6, output: 15}",
		usage:  `{"input_tokens":21,"cache_creation_input_tokens":1556,"cache_read_input_tokens":18000,"cache_creation":{"ephemeral_5m_input_tokens":456,"ephemeral_1h_input_tokens":1100},"output_tokens":503,"service_tier":"standard"}`,
		tokens: tokens{in: 19577, cached: 18000, write: 456, write1h: 1100, out: 503},
		// 21 at 3,000 | 18000 at 300 | 456 at 3,750 = 1,710,000 and 1100 at 6,000 = 6,600,000 | 503 at 15,000
		want: costs{input: 63_000, cached: 5_400_000, write: 8_310_000, output: 7_545_000, total: 21_318_000},
	},
	{
		name: "Anthropic: cached tokens count for the tier by length", shape: "messages",
		price:  "{input: 3, cached_input: 0.3, output: 15}, price_tiers: [{above: 200000, price: {input: 6, cached_input: 0.6, output: 22.5}}]",
		usage:  `{"input_tokens":10,"cache_creation_input_tokens":0,"cache_read_input_tokens":200000,"output_tokens":100}`,
		tokens: tokens{in: 200_010, cached: 200_000, out: 100},
		// 10 at 6,000 | 200000 at 600 | 100 at 22,500
		want: costs{input: 60_000, cached: 120_000_000, output: 2_250_000, total: 122_310_000},
	},
	{
		name: "Bedrock: as Anthropic, in other words", shape: "bedrock",
		price:  "{input: 3, cached_input: 0.3, cache_write: 3.75, cache_write_1h: 6, output: 15}",
		usage:  `{"inputTokens":21,"outputTokens":503,"totalTokens":20080,"cacheReadInputTokens":18000,"cacheWriteInputTokens":1556,"cacheDetails":[{"ttl":"5m","inputTokens":456},{"ttl":"1h","inputTokens":1100}]}`,
		tokens: tokens{in: 19577, cached: 18000, write: 456, write1h: 1100, out: 503},
		// the same call costs the same as directly
		want: costs{input: 63_000, cached: 5_400_000, write: 8_310_000, output: 7_545_000, total: 21_318_000},
	},
	{
		name: "Gemini: cached inside the prompt by modality, thoughts beside the answer", shape: "gemini",
		price: "{input: 0.3, cached_input: 0.03, audio_input: 1, output: 2.5}",
		usage: `{"promptTokenCount":3000,"cachedContentTokenCount":1200,"candidatesTokenCount":400,"thoughtsTokenCount":250,"totalTokenCount":3650,` +
			`"promptTokensDetails":[{"modality":"TEXT","tokenCount":1742},{"modality":"IMAGE","tokenCount":258},{"modality":"AUDIO","tokenCount":1000}],` +
			`"cacheTokensDetails":[{"modality":"TEXT","tokenCount":900},{"modality":"AUDIO","tokenCount":300}],"candidatesTokensDetails":[{"modality":"TEXT","tokenCount":400}]}`,
		tokens: tokens{in: 3000, cached: 1200, out: 650, reasoning: 250, imageIn: 258, audioIn: 700},
		// text 3000 - 1200 - 258 - 700 = 842 at 300 | 1200 at 30 | 400 + 250 = 650 at 2,500 |
		// images have no rate of their own: 258 at 300 | audio 1000 - 300 = 700 at 1,000
		want: costs{input: 252_600, cached: 36_000, output: 1_625_000, image: 77_400, audio: 700_000, total: 2_691_000},
	},
	{
		name: "Gemini that makes images", shape: "gemini",
		price: "{input: 0.3, output: 2.5, image_output: 30}",
		usage: `{"promptTokenCount":402,"candidatesTokenCount":1415,"thoughtsTokenCount":100,"toolUsePromptTokenCount":50,"totalTokenCount":1967,` +
			`"promptTokensDetails":[{"modality":"TEXT","tokenCount":144},{"modality":"IMAGE","tokenCount":258}],"candidatesTokensDetails":[{"modality":"IMAGE","tokenCount":1290}]}`,
		tokens: tokens{in: 452, out: 1515, reasoning: 100, imageIn: 258, imageOut: 1290},
		// text 144 and 50 of tools = 194 at 300 | 258 at 300 |
		// output: 1290 at 30,000 = 38,700,000, and 1415 + 100 - 1290 = 225 at 2,500 = 562,500
		want: costs{input: 58_200, output: 39_262_500, image: 77_400, total: 39_398_100},
	},
	{
		name: "DeepSeek: hits and misses", shape: "chat",
		price:  "{input: 0.14, cached_input: 0.0028, output: 0.28}",
		usage:  `{"prompt_tokens":1500,"completion_tokens":220,"total_tokens":1720,"prompt_cache_hit_tokens":1408,"prompt_cache_miss_tokens":92}`,
		tokens: tokens{in: 1500, cached: 1408, out: 220},
		// 92 at 140 | 1408 at 2.8 = 3,942.4 | 220 at 280
		want: costs{input: 12_880, cached: 3_942, output: 61_600, total: 78_422},
	},
	{
		name: "DeepSeek says it twice", shape: "chat",
		price:  "{input: 0.14, cached_input: 0.0028, output: 0.28}",
		usage:  `{"prompt_tokens":1500,"completion_tokens":220,"total_tokens":1720,"prompt_tokens_details":{"cached_tokens":1408},"completion_tokens_details":{"reasoning_tokens":180},"prompt_cache_hit_tokens":1408,"prompt_cache_miss_tokens":92}`,
		tokens: tokens{in: 1500, cached: 1408, out: 220, reasoning: 180},
		want:   costs{input: 12_880, cached: 3_942, output: 61_600, total: 78_422},
	},
	{
		name: "xAI: reasoning beside the completion", shape: "chat",
		price:  "{input: 3, cached_input: 0.75, output: 15}",
		usage:  `{"prompt_tokens":199,"completion_tokens":12,"total_tokens":571,"prompt_tokens_details":{"text_tokens":199,"audio_tokens":0,"image_tokens":0,"cached_tokens":163},"completion_tokens_details":{"reasoning_tokens":360,"audio_tokens":0,"accepted_prediction_tokens":0,"rejected_prediction_tokens":0},"num_sources_used":0}`,
		tokens: tokens{in: 199, cached: 163, out: 372, reasoning: 360},
		// 36 at 3,000 | 163 at 750 | 12 + 360 = 372 at 15,000
		want: costs{input: 108_000, cached: 122_250, output: 5_580_000, total: 5_810_250},
	},
	{
		name: "Groq: times among the counts", shape: "chat",
		price:  "{input: 0.15, cached_input: 0.075, output: 0.6}",
		usage:  `{"queue_time":0.037,"prompt_tokens":4641,"prompt_time":0.018,"completion_tokens":1817,"completion_time":1.5,"total_tokens":6458,"total_time":1.518,"prompt_tokens_details":{"cached_tokens":4608},"completion_tokens_details":{"reasoning_tokens":1200}}`,
		tokens: tokens{in: 4641, cached: 4608, out: 1817, reasoning: 1200},
		// 33 at 150 | 4608 at 75 | 1817 at 600
		want: costs{input: 4_950, cached: 345_600, output: 1_090_200, total: 1_440_750},
	},
	{
		name: "Mistral: no details", shape: "chat",
		price:  "{input: 0.5, output: 1.5}",
		usage:  `{"prompt_tokens":16,"total_tokens":50,"completion_tokens":34,"prompt_audio_seconds":null}`,
		tokens: tokens{in: 16, out: 34},
		// 16 at 500 | 34 at 1,500
		want: costs{input: 8_000, output: 51_000, total: 59_000},
	},
	{
		name: "Alibaba: a cache that came by itself", shape: "chat",
		price:  "{input: 0.4, cached_input: 0.08, output: 1.2}",
		usage:  `{"prompt_tokens":3019,"completion_tokens":104,"total_tokens":3123,"prompt_tokens_details":{"cached_tokens":2048}}`,
		tokens: tokens{in: 3019, cached: 2048, out: 104},
		// 971 at 400 | 2048 at 80 | 104 at 1,200
		want: costs{input: 388_400, cached: 163_840, output: 124_800, total: 677_040},
	},
	{
		name: "Alibaba: a cache that was asked for, written inside the prompt", shape: "chat",
		price:  "{input: 1.2, cached_input: 0.12, cache_write: 1.5, output: 6}",
		usage:  `{"prompt_tokens":1620,"completion_tokens":50,"total_tokens":1670,"prompt_tokens_details":{"cached_tokens":0,"cache_creation_input_tokens":1605,"cache_creation":{"ephemeral_5m_input_tokens":1605},"cache_type":"ephemeral"}}`,
		tokens: tokens{in: 1620, write: 1605, out: 50},
		// 15 at 1,200 | 1605 at 1,500 | 50 at 6,000
		want: costs{input: 18_000, write: 2_407_500, output: 300_000, total: 2_725_500},
	},
	{
		name: "Alibaba omni: audio in and out", shape: "chat",
		price:  "{input: 0.43, audio_input: 3.81, output: 1.66, audio_output: 15.11}",
		usage:  `{"prompt_tokens":1000,"completion_tokens":250,"total_tokens":1250,"prompt_tokens_details":{"text_tokens":100,"audio_tokens":900},"completion_tokens_details":{"text_tokens":50,"audio_tokens":200}}`,
		tokens: tokens{in: 1000, out: 250, audioIn: 900, audioOut: 200},
		// 100 at 430 | 50 at 1,660 | audio: 900 at 3,810 = 3,429,000 and 200 at 15,110 = 3,022,000
		want: costs{input: 43_000, output: 83_000, audio: 6_451_000, total: 6_577_000},
	},
	{
		name: "Moonshot: cached tokens at the top", shape: "chat",
		price:  "{input: 0.6, cached_input: 0.15, output: 2.5}",
		usage:  `{"prompt_tokens":8192,"completion_tokens":512,"total_tokens":8704,"cached_tokens":7936}`,
		tokens: tokens{in: 8192, cached: 7936, out: 512},
		// 256 at 600 | 7936 at 150 | 512 at 2,500
		want: costs{input: 153_600, cached: 1_190_400, output: 1_280_000, total: 2_624_000},
	},
	{
		name: "OpenRouter: writes among the details, images made", shape: "chat",
		price:  "{input: 3, cached_input: 0.3, cache_write: 3.75, output: 15, image_output: 40}",
		usage:  `{"prompt_tokens":10339,"completion_tokens":1060,"total_tokens":11399,"cost":0.08,"prompt_tokens_details":{"cached_tokens":0,"cache_write_tokens":10318,"audio_tokens":0},"completion_tokens_details":{"reasoning_tokens":0,"image_tokens":1000}}`,
		tokens: tokens{in: 10339, write: 10318, out: 1060, imageOut: 1000},
		// 21 at 3,000 | 10318 at 3,750 | 60 at 15,000 = 900,000 and 1000 at 40,000 = 40,000,000
		want: costs{input: 63_000, write: 38_692_500, output: 40_900_000, total: 79_655_500},
	},
	{
		name: "Perplexity: a price for the request", shape: "chat",
		price:  "{input: 1, output: 1, request: 0.005}",
		usage:  `{"prompt_tokens":14,"completion_tokens":300,"total_tokens":314,"search_context_size":"low"}`,
		tokens: tokens{in: 14, out: 300},
		// 14 at 1,000 | 300 at 1,000 | 0.005 USD
		want: costs{input: 14_000, output: 300_000, request: 5_000_000, total: 5_314_000},
	},
	{
		name: "rates that were not given", shape: "gemini",
		price:  "{input: 1, output: 4}",
		usage:  `{"promptTokenCount":100,"cachedContentTokenCount":40,"candidatesTokenCount":50,"promptTokensDetails":[{"modality":"AUDIO","tokenCount":30}],"candidatesTokensDetails":[{"modality":"AUDIO","tokenCount":20},{"modality":"IMAGE","tokenCount":10}]}`,
		tokens: tokens{in: 100, cached: 40, out: 50, audioIn: 30, imageOut: 10, audioOut: 20},
		// all input costs what input does, all output what output does: 100 - 40 - 30 = 30 at 1,000 | 40 at 1,000 |
		// 20 and 10 of images at 4,000 | audio: 30 at 1,000 and 20 at 4,000
		want: costs{input: 30_000, cached: 40_000, output: 120_000, audio: 110_000, total: 300_000},
	},
}

// serve answers in the account's wire format, plain or as a stream.
func (a *account) serve(w http.ResponseWriter, r *http.Request) {
	var q struct{ Stream bool }
	body, _ := io.ReadAll(r.Body)
	_ = json.Unmarshal(body, &q)
	out, events := "", []string{}
	switch a.shape {
	case "chat":
		out = `{"id":"c","object":"chat.completion","created":1,"model":"up","choices":[{"index":0,"message":{"role":"assistant","content":"hi"},"finish_reason":"stop"}],"usage":` + a.usage + `}`
		const chunk = `data: {"id":"c","object":"chat.completion.chunk","created":1,"model":"up","choices":`
		events = []string{chunk + `[{"index":0,"delta":{"role":"assistant","content":"hi"},"finish_reason":null}]}`, chunk + `[{"index":0,"delta":{},"finish_reason":"stop"}]}`,
			chunk + `[],"usage":` + a.usage + `}`, "data: [DONE]"}
	case "messages":
		const message = `{"id":"m","type":"message","role":"assistant","model":"up","content":[%s],"stop_reason":%s,"stop_sequence":null,"usage":%s}`
		out = fmt.Sprintf(message, `{"type":"text","text":"hi"}`, `"end_turn"`, a.usage)
		events = []string{"event: message_start\ndata: {\"type\":\"message_start\",\"message\":" + fmt.Sprintf(message, "", "null", a.usage) + "}",
			"event: content_block_start\ndata: {\"type\":\"content_block_start\",\"index\":0,\"content_block\":{\"type\":\"text\",\"text\":\"\"}}",
			"event: content_block_delta\ndata: {\"type\":\"content_block_delta\",\"index\":0,\"delta\":{\"type\":\"text_delta\",\"text\":\"hi\"}}",
			"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}",
			"event: message_delta\ndata: {\"type\":\"message_delta\",\"delta\":{\"stop_reason\":\"end_turn\",\"stop_sequence\":null},\"usage\":" + a.usage + "}",
			"event: message_stop\ndata: {\"type\":\"message_stop\"}"}
	case "responses":
		const response = `{"id":"r","object":"response","created_at":1,"status":%q,"model":"up","output":[%s],"usage":%s}`
		const item = `{"id":"msg","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":"hi","annotations":[]}]}`
		out = fmt.Sprintf(response, "completed", item, a.usage)
		events = []string{"event: response.created\ndata: {\"type\":\"response.created\",\"response\":" + fmt.Sprintf(response, "in_progress", "", "null") + "}",
			"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"item_id\":\"msg\",\"output_index\":0,\"content_index\":0,\"delta\":\"hi\"}",
			"event: response.completed\ndata: {\"type\":\"response.completed\",\"response\":" + out + "}"}
	case "gemini":
		out = `{"candidates":[{"content":{"role":"model","parts":[{"text":"hi"}]},"finishReason":"STOP"}],"usageMetadata":` + a.usage + `,"responseId":"r"}`
		events = []string{"data: " + out}
		q.Stream = r.URL.RawQuery == "alt=sse"
	case "bedrock":
		out = `{"output":{"message":{"role":"assistant","content":[{"text":"hi"}]}},"stopReason":"end_turn","usage":` + a.usage + `}`
	}
	if !q.Stream {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, out)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	_, _ = io.WriteString(w, strings.Join(events, "\n\n")+"\n\n")
}

// TestCostsByHand holds what each provider reports against what it must cost, on every surface, plain
// and as a stream.
func TestCostsByHand(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	var specs []providerSpec
	protocols := map[string]string{"chat": "openai", "responses": "openai\nendpoints: [responses]", "messages": "anthropic", "gemini": "gemini", "bedrock": "bedrock"}
	for i := range accounts {
		specs = append(specs, providerSpec{id: fmt.Sprintf("p%d", i), price: accounts[i].price, mapping: ", context: 1000000"})
	}
	doc := resources(u.URL, noExploration, specs...)
	for i := range accounts {
		id := specs[i].id
		doc = strings.Replace(doc, "id: "+id+"\nprotocol: openai", "id: "+id+"\nprotocol: "+protocols[accounts[i].shape], 1)
		u.script(id, accounts[i].serve)
	}
	n := start(t, doc, nil).ready()
	sent := 0
	for i := range accounts {
		bodies := map[string]string{
			"/v1/chat/completions": chatBody, "/v1/messages": messagesBody, "/v1/responses": `{"model":"m","input":"Hello world"}`,
		}
		streams := []string{"false", "true"}
		switch accounts[i].shape {
		case "responses": // a provider that speaks nothing else
			delete(bodies, "/v1/chat/completions")
			delete(bodies, "/v1/messages")
		case "bedrock": // its streams are binary; its own tests have them
			streams = streams[:1]
		}
		for path, body := range bodies {
			for _, stream := range streams {
				body := strings.Replace(body, `"m"`, `"`+specs[i].id+`:m","stream":`+stream, 1)
				if r := n.do("POST", n.url+path, body); r.status != 200 || strings.Contains(r.body, `"error":{`) {
					t.Errorf("%s: %s: %d %s", accounts[i].name, path, r.status, r.body)
				}
				sent++
			}
		}
	}
	events := n.events(sent)
	balanced(t, u, events)
	for _, e := range events {
		var i int
		if _, err := fmt.Sscanf(e.Provider, "p%d", &i); err != nil {
			t.Fatal(err)
		}
		a := &accounts[i]
		got := tokens{e.InputTokens, e.CachedInputTokens, e.CacheWriteTokens, e.CacheWrite1hTokens, e.OutputTokens, e.ReasoningTokens, e.ImageInputTokens, e.AudioInputTokens, e.ImageOutputTokens, e.AudioOutputTokens}
		if got != a.tokens || e.UsageSource != attempt.UsageReported || e.UsageFlag != "" {
			t.Errorf("%s (%s, stream %v): %s %s\ngot  %+v\nwant %+v", a.name, e.Endpoint, e.Stream, e.UsageSource, e.UsageFlag, got, a.tokens)
		}
		cost := costs{e.CostInputNanoUSD, e.CostCachedNanoUSD, e.CostCacheWriteNanoUSD, e.CostOutputNanoUSD, e.CostImageInputNanoUSD, e.CostAudioNanoUSD, e.CostRequestNanoUSD, e.CostNanoUSD}
		if cost != a.want {
			t.Errorf("%s (%s, stream %v)\ncost %+v\nwant %+v", a.name, e.Endpoint, e.Stream, cost, a.want)
		}
	}
}
