package wire

import (
	"bytes"
	"errors"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// NotJSON says what a body is that does not even begin like an answer; "" if it does.
func NotJSON(body []byte) string {
	trimmed := bytes.TrimLeft(body, " \t\r\n")
	switch {
	case len(trimmed) == 0:
		return "an empty answer"
	case trimmed[0] == '<':
		return "HTML instead of an answer"
	case trimmed[0] == '{', trimmed[0] == '[':
		return ""
	case bytes.HasPrefix(trimmed, []byte("data:")), bytes.HasPrefix(trimmed, []byte("event:")), trimmed[0] == ':':
		return "a stream where a plain answer was asked"
	}
	return "text that is no JSON instead of an answer"
}

// BadAnswer is the failure of a plain answer that could not be read.
func BadAnswer(err error, openEnded bool) *llm.Error {
	if syntax := (*jsonx.SyntaxError)(nil); errors.As(err, &syntax) {
		if openEnded && syntax.Truncated() {
			return provider.Cut("the answer broke off", err)
		}
		return llm.Malformed("an answer that is no valid JSON", err)
	}
	return llm.Malformed(err.Error(), nil)
}
