package wire

import (
	"strings"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
)

// leastSecret is the length below which a part of a credential is no secret: words would go with it.
const leastSecret = 8

// Scrub takes the credential, each part of one with colons, and the token that was fetched for it, out of
// all that an upstream may have echoed them in.
func Scrub(e *llm.Error, call *provider.Call) *llm.Error {
	if e == nil {
		return nil
	}
	for _, text := range [...]*string{&e.Message, &e.Code, &e.Type, &e.Param} {
		if *text == "" {
			continue
		}
		for part := range strings.SplitSeq(call.Secret, ":") {
			*text = without(*text, strings.TrimSpace(part))
		}
		*text = without(*text, call.Token)
	}
	return e
}

// without is text without a secret, also where the text was cut in the middle of it.
func without(text, secret string) string {
	if len(secret) < leastSecret {
		return text
	}
	text = strings.ReplaceAll(text, secret, "***")
	for n := min(len(secret), len(text)); n >= leastSecret; n-- {
		if rest, ok := strings.CutSuffix(text, secret[:n]); ok {
			return rest + "***"
		}
	}
	return text
}
