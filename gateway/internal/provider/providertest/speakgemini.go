package providertest

import (
	"fmt"
	"strings"

	"turnout/gateway/llm"
)

// Gemini is Google's generateContent.
var Gemini = Speech{Plain: geminiPlain, Events: geminiEvents, Failed: geminiFailed, FailedEvent: "data: " + geminiFailed + "\n\n"}

const geminiFailed = `{"error":{"code":500,"message":"An internal error has occurred","status":"INTERNAL"}}`

var geminiReasons = map[llm.Finish]string{llm.FinishStop: "STOP", llm.FinishTools: "STOP", llm.FinishLength: "MAX_TOKENS", llm.FinishFilter: "SAFETY"}

func geminiUsageText(u llm.Usage) string {
	if u.Source == "" {
		return ""
	}
	return fmt.Sprintf(`,"usageMetadata":{"promptTokenCount":%d,"cachedContentTokenCount":%d,"candidatesTokenCount":%d,"totalTokenCount":%d}`,
		u.InputTokens, u.CachedInputTokens, u.OutputTokens, u.InputTokens+u.OutputTokens)
}

func geminiParts(s Said) (out []string) {
	if s.Thinking != "" {
		out = append(out, `{"text":`+quoted(s.Thinking)+`,"thought":true}`)
	}
	if s.Text != "" {
		half := strings.LastIndexByte(s.Text, ' ') + 1
		out = append(out, `{"text":`+quoted(s.Text[:half])+`}`, `{"text":`+quoted(s.Text[half:])+`}`)
	}
	for _, c := range s.Calls {
		out = append(out, fmt.Sprintf(`{"functionCall":{"id":%q,"name":%q,"args":%s},"thoughtSignature":"c2ln"}`, c.ID, c.Name, c.Arguments))
	}
	return out
}

func geminiAnswer(parts, finish, usage string) string {
	if finish != "" {
		finish = `,"finishReason":"` + finish + `"`
	}
	return `{"candidates":[{"content":{"role":"model","parts":[` + parts + `]}` + finish + `,"index":0}]` + usage + `,"modelVersion":"m","responseId":"r1"}`
}

func geminiPlain(s Said) string {
	return geminiAnswer(strings.Join(geminiParts(s), ","), geminiReasons[s.Finish], geminiUsageText(s.Usage))
}

func geminiEvents(s Said) (out []string) {
	for _, p := range geminiParts(s) {
		out = append(out, "data: "+geminiAnswer(p, "", geminiUsageText(s.Usage))+"\r\n\r\n")
	}
	return append(out, "data: "+geminiAnswer(`{"text":""}`, geminiReasons[s.Finish], geminiUsageText(s.Usage))+"\r\n\r\n")
}
