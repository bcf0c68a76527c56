package llm

import "turnout/internal/jsonx"

// Sealed reads a field of a message, a delta or a tool call that is known to hold reasoning which only its
// issuer can read: the last such payload, a raw string, nil where there is none or the field is no such
// field, which is then not read. OpenRouter has them in reasoning_details, LiteLLM in thinking_blocks,
// Google under extra_content, each with the payload in data, signature or thought_signature.
func Sealed(c *jsonx.Cursor, field []byte) (last []byte) {
	payload := func(key []byte) {
		switch string(key) {
		case "data", "signature", "thought_signature":
			if raw := c.RawString(); len(raw) > len(`""`) {
				last = raw
			}
		}
	}
	switch string(field) {
	case "reasoning_details", "thinking_blocks":
		c.EachItem(func(int) { c.EachField(payload) })
	case "extra_content":
		c.EachField(func(key []byte) {
			if string(key) == "google" {
				c.EachField(payload)
			}
		})
	}
	return last
}
