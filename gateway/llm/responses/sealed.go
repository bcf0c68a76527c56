package responses

import (
	"strings"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

// Reasoning that its issuer signed, or that it alone can read, travels as encrypted_content, under marks by
// which it is known from OpenAI's when the client brings it back.
const (
	signedMark   = llm.SealMark + "signed:"
	redactedMark = llm.SealMark + "redacted:"
)

// Seal is the encrypted_content of a signature or of reasoning that is redacted.
func Seal(payload llm.Raw, redacted bool) llm.Raw {
	mark := signedMark
	if redacted {
		mark = redactedMark
	}
	return jsonx.AppendString(nil, mark+jsonx.RawText(payload))
}

// unseal makes reasoning of an item with such a content; what others encrypted is nobody's here.
func unseal(content, summary llm.Raw) llm.Part {
	p := llm.Part{Kind: llm.PartThinking, Text: llm.Raw(`""`)}
	text := jsonx.RawText(content)
	if signature, ok := strings.CutPrefix(text, signedMark); ok {
		p.Text, p.Signature = llm.OrEmpty(summary), jsonx.AppendString(nil, signature)
	} else if data, ok := strings.CutPrefix(text, redactedMark); ok {
		p.Redacted = jsonx.AppendString(nil, data)
	}
	return p
}
