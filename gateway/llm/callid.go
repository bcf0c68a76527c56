package llm

import (
	"hash/fnv"
	"strconv"
	"strings"

	"turnout/internal/jsonx"
)

// longestCallID is what Amazon takes; Anthropic takes no other characters than Amazon.
const longestCallID = 64

// NarrowCallID is the id of a tool call for an upstream that takes letters, digits, _ and - alone. One of another
// maker, such as functions.read:0, becomes one of those, always the same, so that call and result still
// find each other.
func NarrowCallID(raw Raw) Raw {
	n := len(raw) - len(`""`)
	ok := n > 0 && n <= longestCallID
	for i := 1; ok && i <= n; i++ {
		ok = inCallID(raw[i])
	}
	if ok {
		return raw
	}
	text := jsonx.RawText(raw)
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text)) // it never fails
	tail := "_" + strconv.FormatUint(sum.Sum64(), 36)
	var out strings.Builder
	for i := 0; i < len(text) && i < longestCallID-len(tail); i++ {
		if c := text[i]; inCallID(c) {
			out.WriteByte(c)
		} else {
			out.WriteByte('_')
		}
	}
	return jsonx.AppendString(nil, out.String()+tail)
}

func inCallID(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-'
}
