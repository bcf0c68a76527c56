package llm

import (
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// Conversations that began elsewhere were refused by Bedrock and Anthropic for the ids of their calls.
func TestCallIDsOfOtherMakers(t *testing.T) {
	allowed := regexp.MustCompile(`^"[a-zA-Z0-9_-]{1,64}"$`)
	seen := map[string]string{}
	for _, id := range []string{
		"functions.read:0", "functions.read:1", "functions_read_0", "", " ", "ü", "a\"b", "call_65OReGAIB0M4612fiyF6YMbI|fc_0feebbbc39e113d4016969ff3539208191914ede46e71d5d06",
		strings.Repeat("x", 64), strings.Repeat("x", 65), strings.Repeat("x", 66), "toolu_01A-b", "tooluse_bRX9ftpYK3xO5tev2x4qtc",
	} {
		raw := Raw(strconv.Quote(id))
		got := string(NarrowCallID(raw))
		if !allowed.MatchString(got) {
			t.Errorf("%q became %s", id, got)
		}
		if again := string(NarrowCallID(raw)); again != got {
			t.Errorf("%q became %s, then %s", id, got, again)
		}
		if allowed.MatchString(string(raw)) && got != string(raw) {
			t.Errorf("%q needed no change, became %s", id, got)
		}
		if other, ok := seen[got]; ok {
			t.Errorf("%q and %q both became %s", id, other, got)
		}
		seen[got] = id
	}
	if got := string(NarrowCallID(nil)); !allowed.MatchString(got) {
		t.Errorf("nothing became %s", got)
	}
}
