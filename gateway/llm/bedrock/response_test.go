package bedrock

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
	"turnout/schemas/attempt"
)

// described is an answer in short.
func described(parts []llm.Part) string {
	var out []string
	for i := range parts {
		p := &parts[i]
		switch p.Kind {
		case llm.PartThinking:
			out = append(out, fmt.Sprintf("think %s sig %s sealed %s", p.Text, p.Signature, p.Redacted))
		case llm.PartCall:
			out = append(out, fmt.Sprintf("call %s %s %s", p.ID, p.Name, p.Input))
		default:
			out = append(out, string(p.Text))
		}
	}
	return strings.Join(out, "; ")
}

func TestAnswers(t *testing.T) {
	for name, tc := range map[string]struct {
		body, parts string
		finish      llm.Finish
		sequence    string
	}{
		"reasoning": {`{"output":{"message":{"role":"assistant","content":[{"reasoningContent":{"reasoningText":{"text":"Hm","signature":"c2ln"}}},{"reasoningContent":{"redactedContent":"eHg="}},{"text":"a"}]}},"stopReason":"end_turn"}`,
			`think "Hm" sig "c2ln" sealed ; think  sig  sealed "eHg="; "a"`, llm.FinishStop, ""},
		"a stop sequence": {`{"output":{"message":{"content":[{"text":"a"}]}},"stopReason":"stop_sequence","additionalModelResponseFields":{"stop_sequence":"END"}}`, `"a"`, llm.FinishSequence, `"END"`},
		"a guardrail":     {`{"output":{"message":{"content":[{"text":"Sorry"}]}},"stopReason":"guardrail_intervened","trace":{"guardrail":{}}}`, `"Sorry"`, llm.FinishFilter, ""},
		"filtered":        {`{"output":{"message":{"content":[]}},"stopReason":"content_filtered"}`, ``, llm.FinishFilter, ""},
		"refused":         {`{"output":{"message":{"content":[]}},"stopReason":"refusal"}`, ``, llm.FinishFilter, ""},
		"the window":      {`{"output":{"message":{"content":[{"text":"a"}]}},"stopReason":"model_context_window_exceeded"}`, `"a"`, llm.FinishLength, ""},
		"calls":           {`{"output":{"message":{"content":[{"toolUse":{"toolUseId":"c","name":"f"}},{"toolUse":{"toolUseId":"d","name":"g","input":{"x":1},"type":"server_tool_use"}},{"toolUse":{}}]}},"stopReason":"tool_use"}`, `call "c" "f" {}; call "d" "g" {"x":1}; call "" "" {}`, llm.FinishTools, ""},
		"citations":       {`{"output":{"message":{"content":[{"citationsContent":{"content":[{"text":"a"},{"text":"b"}],"citations":[{"title":"t"}]}}]}},"stopReason":"end_turn"}`, `"a"; "b"`, llm.FinishStop, ""},
		"what is to come": {`{"output":{"message":{"content":[{"hologram":{"bytes":"x"}},{"text":"a"}]}},"stopReason":"tired"}`, `"a"`, llm.FinishStop, ""},
	} {
		r, err := DecodeResponse([]byte(tc.body), 0)
		if err != nil || described(r.Parts) != tc.parts || r.Finish != tc.finish || string(r.Sequence) != tc.sequence || r.Upstream == "" {
			t.Errorf("%s: %s %+v %v", name, described(r.Parts), r, err)
		}
	}
	for _, word := range []string{"malformed_tool_use", "malformed_model_output"} {
		if r, err := DecodeResponse([]byte(`{"output":{"message":{"content":[{"text":"a"}]}},"stopReason":"`+word+`"}`), 0); err == nil || !strings.Contains(err.Error(), word) {
			t.Errorf("%s: %+v %v", word, r, err)
		}
	}
	for body, want := range map[string]error{`{}`: ErrNoAnswer, `{"output":{"message":{"content":null}}}`: ErrNoAnswer, `{"output":{"message":{"content":{}}}}`: ErrNoAnswer} {
		if _, err := DecodeResponse([]byte(body), 0); !errors.Is(err, want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	var syntax *jsonx.SyntaxError
	if _, err := DecodeResponse([]byte(`{"output":{"mess`), 0); !errors.As(err, &syntax) || !syntax.Truncated() {
		t.Errorf("%v", err)
	}
}

// Answers that hold no call ended in tool_calls where Bedrock said tool_use, and agents waited for a call;
// answers with calls ended in stop, and their calls were not made.
func TestFinishGoesByTheCallsThatThereAre(t *testing.T) {
	const text, call = `{"text":"a"}`, `{"toolUse":{"toolUseId":"c","name":"f"}}`
	const begins = `contentBlockStart {"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"c","name":"f"}}}`
	for _, tc := range []struct {
		content, event, word string
		want                 llm.Finish
	}{
		{text, `messageStart {}`, "tool_use", llm.FinishStop}, {call, begins, "tool_use", llm.FinishTools},
		{text, `messageStart {}`, "end_turn", llm.FinishStop}, {call, begins, "end_turn", llm.FinishTools},
		{call, begins, "max_tokens", llm.FinishLength}, {call, begins, "guardrail_intervened", llm.FinishFilter},
	} {
		r, err := DecodeResponse([]byte(`{"output":{"message":{"content":[`+tc.content+`]}},"stopReason":"`+tc.word+`"}`), 0)
		if err != nil || r.Finish != tc.want || r.Upstream != tc.word {
			t.Errorf("%s after %s: %+v %v", tc.word, tc.content, r, err)
		}
		d, got := NewDecoder(0), llm.FinishNone
		for _, e := range []string{tc.event, `messageStop {"stopReason":"` + tc.word + `"}`} {
			name, data, _ := strings.Cut(e, " ")
			if failure := d.Take([]byte(name), []byte(data), func(e *llm.Event) {
				if e.Kind == llm.EventFinish {
					got = e.Finish
				}
			}); failure != nil {
				t.Fatal(failure)
			}
		}
		if got != tc.want {
			t.Errorf("%s after %s: a stream ends in %s", tc.word, tc.event, got)
		}
	}
	for _, word := range []string{"malformed_tool_use", "malformed_model_output"} {
		if _, failure := streamed(NewDecoder(0), `messageStart {}`, `messageStop {"stopReason":"`+word+`"}`); failure == nil || failure.Class != "upstream_error" {
			t.Errorf("%s: %+v", word, failure)
		}
	}
}

// Cached and written tokens stand beside the input.
func TestUsage(t *testing.T) {
	for raw, want := range map[string]llm.Usage{
		`{"inputTokens":10,"outputTokens":5,"totalTokens":15}`:                                                                                       {InputTokens: 10, OutputTokens: 5, Source: "reported"},
		`{"inputTokens":10,"outputTokens":5,"cacheReadInputTokens":30,"cacheWriteInputTokens":20}`:                                                   {InputTokens: 60, CachedInputTokens: 30, CacheWriteTokens: 20, OutputTokens: 5, Source: "reported"},
		`{"inputTokens":10,"outputTokens":5,"cacheWriteInputTokens":20,"cacheDetails":[{"ttl":"1h","inputTokens":15},{"ttl":"5m","inputTokens":5}]}`: {InputTokens: 30, CacheWriteTokens: 5, CacheWrite1hTokens: 15, OutputTokens: 5, Source: "reported"},
		`{"inputTokens":10,"outputTokens":5,"cacheDetails":[],"cacheReadInputTokens":null}`:                                                          {InputTokens: 10, OutputTokens: 5, Source: "reported"},
		`{"cacheDetails":[{"ttl":"5m","inputTokens":5}]}`:                                                                                            {Source: "missing"},
		`{"inputTokens":0,"outputTokens":0}`:                                                                                                         {Source: "reported"},
		`{}`:                                                                                                                                         {Source: "missing"},
		`{"inputTokens":-1,"outputTokens":5}`:                                                                                                        {Source: "missing", Flag: "usage_negative"},
		`{"inputTokens":"7","outputTokens":5}`:                                                                                                       {Source: "missing", Flag: "usage_string"},
		`{"inputTokens":900000000000,"outputTokens":5}`:                                                                                              {Source: "missing", Flag: "usage_absurd"},
		`{"inputTokens":7,"outputTokens":5,"cacheReadInp`:                                                                                            {Source: "missing", Flag: "usage_malformed"},
		`{"inputTokens":7,"outputTokens":5,"cacheReadInputTokens":1.5}`:                                                                              {InputTokens: 7, OutputTokens: 5, Source: "reported", Flag: "detail_fractional"},
	} {
		if got := usageOf([]byte(raw), 0); got != want {
			t.Errorf("%s\ngot  %+v\nwant %+v", raw, got, want)
		}
	}
}

// streamed is what the events of a stream bring, in short, up to the first failure.
func streamed(d *Decoder, events ...string) (out []string, failure *llm.Error) {
	for _, e := range events {
		name, data, _ := strings.Cut(e, " ")
		if failure = d.Take([]byte(name), []byte(data), func(e *llm.Event) {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%d:%d %s %s %s %s%s", e.Kind, e.Index, e.ID, e.Name, e.Text, e.Upstream, e.Sequence)))
		}); failure != nil {
			return out, failure
		}
	}
	return out, nil
}

func TestStreams(t *testing.T) {
	d := NewDecoder(0)
	got, failure := streamed(d,
		`messageStart {"role":"assistant","p":"ab"}`,
		`contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"Hm"}}}`,
		`contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"c2ln"}}}`,
		`contentBlockDelta {"contentBlockIndex":0,"delta":{"reasoningContent":{"redactedContent":"eHg="}}}`,
		`contentBlockStop {"contentBlockIndex":0}`,
		`contentBlockDelta {"contentBlockIndex":1,"delta":{"text":"a\n"}}`,
		`contentBlockDelta {"contentBlockIndex":1,"delta":{"text":""}}`,
		`contentBlockStart {"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"c","name":"f"}}}`,
		`contentBlockStart {"contentBlockIndex":3,"start":{"toolUse":{"toolUseId":"d","name":"g"}}}`,
		`contentBlockStart {"contentBlockIndex":4,"start":{"image":{"format":"png"}}}`,
		`contentBlockDelta {"contentBlockIndex":3,"delta":{"toolUse":{"input":"{}"}}}`,
		`contentBlockDelta {"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"a\""}}}`,
		`contentBlockDelta {"contentBlockIndex":9,"delta":{"toolUse":{"input":"lost"}}}`,
		`somethingNew {"delta":{"text":"x"}}`,
		`messageStop {"stopReason":"stop_sequence","additionalModelResponseFields":{"stop_sequence":"END"}}`,
	)
	want := []string{
		"1:0", `3:0   "Hm"`, `4:0   "c2ln"`, `5:0   "eHg="`, `2:0   "a\n"`, `7:0 "c" "f"`, `7:1 "d" "g"`, `8:1   "{}"`, `8:0   "{\"a\""`, `9:0    stop_sequence"END"`,
	}
	if failure != nil || fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		t.Errorf("%v\ngot  %q\nwant %q", failure, got, want)
	}
	if usage := d.Usage(); !d.Whole() || d.Ended() || usage.Reported() {
		t.Errorf("whole %v, ended %v, %+v", d.Whole(), d.Ended(), d.Usage())
	}
	if _, failure := streamed(d, `metadata {"usage":{"inputTokens":1,"outputTokens":2,"cacheReadInputTokens":3},"metrics":{"latencyMs":1}}`); failure != nil || !d.Ended() || d.Usage() != (llm.Usage{InputTokens: 4, CachedInputTokens: 3, OutputTokens: 2, Source: "reported"}) {
		t.Errorf("%v %+v", failure, d.Usage())
	}
}

func TestStreamFailures(t *testing.T) {
	for event, want := range map[string]struct {
		class  attempt.Outcome
		status int
	}{
		`exception:throttlingException {"message":"Too many requests"}`:                      {attempt.UpstreamError, 429},
		`exception:modelStreamErrorException {"message":"x","originalStatusCode":424}`:       {attempt.UpstreamError, 500},
		`exception:internalServerException {"message":"x"}`:                                  {attempt.UpstreamError, 500},
		`exception:serviceUnavailableException {"message":"x"}`:                              {attempt.UpstreamError, 503},
		`exception:validationException {"message":"temperature is wrong"}`:                   {attempt.ClientError, 400},
		`exception:validationException {"message":"Input is too long for requested model."}`: {attempt.ClientError, 400},
		`exception:InternalError `:        {attempt.UpstreamError, 500},
		`contentBlockDelta {"delta":`:     {attempt.UpstreamError, 200},
		`contentBlockDelta `:              {attempt.UpstreamError, 200},
		`messageStop {}`:                  {attempt.UpstreamError, 200},
		`messageStop {"stopReason":null}`: {attempt.UpstreamError, 200},
	} {
		d := NewDecoder(0)
		_, failure := streamed(d, event)
		if failure == nil || failure.Class != want.class || failure.Status != want.status || d.Whole() {
			t.Errorf("%s: %+v", event, failure)
		} else if strings.Contains(event, "too long") != failure.ContextLength {
			t.Errorf("%s: context length %v", event, failure.ContextLength)
		}
	}
	if got, _ := streamed(NewDecoder(0), `contentBlockDelta {"delta":{"text":"a"}}`); fmt.Sprint(got) != `[1:0 2:0   "a"]` {
		t.Errorf("without a start: %q", got)
	}
}
