package gemini

import (
	"regexp"
	"strings"
	"testing"

	"turnout/gateway/llm"
)

// Gemini before 3 on Vertex refuses requests whose calls have ids; results then find their calls by order
// alone, whatever order the client has them in.
func TestResultsWithoutIDsStandInTheOrderOfTheirCalls(t *testing.T) {
	text := func(s string) []llm.Part { return []llm.Part{{Kind: llm.PartText, Text: llm.Raw(`"` + s + `"`)}} }
	call := func(id string) llm.Part {
		return llm.Part{Kind: llm.PartCall, ID: llm.Raw(`"` + id + `"`), Name: llm.Raw(`"read"`), Input: llm.Raw("{}")}
	}
	result := func(id string) llm.Part {
		return llm.Part{Kind: llm.PartResult, ID: llm.Raw(`"` + id + `"`), Parts: text("of " + id)}
	}
	user := []llm.Part{result("c"), {Kind: llm.PartText, Text: llm.Raw(`"and"`)}, result("a"), result("b")}
	r := &llm.Request{Messages: []llm.Message{{Parts: text("x")}, {Assistant: true, Parts: []llm.Part{call("a"), call("b"), call("c")}}, {Parts: user}}}
	for noIDs, want := range map[bool]string{true: "abc", false: "cab"} {
		body, _ := Append(nil, r, llm.Sending{Model: "gemini-2.5-pro", NoCallIDs: noIDs})
		var got string
		for _, m := range regexp.MustCompile(`of ([abc])"`).FindAllSubmatch(body, -1) {
			got += string(m[1])
		}
		if got != want || strings.Contains(string(body), `"id"`) == noIDs {
			t.Errorf("without ids %v: %s", noIDs, body)
		}
	}
	if string(user[0].ID) != `"c"` {
		t.Error("the request was changed")
	}
}

// Vertex refused images by address, whose type it wants to be told.
func TestTypesOfFilesByAddress(t *testing.T) {
	for address, want := range map[string]string{
		"https://x.org/a.png": `{"fileData":{"mimeType":"image/png","fileUri":"https://x.org/a.png"}}`, "https://x.org/A.JPG?size=2#x": `{"fileData":{"mimeType":"image/jpeg","fileUri":"https://x.org/A.JPG?size=2#x"}}`,
		"https://x.org/a.pdf": `{"fileData":{"mimeType":"application/pdf","fileUri":"https://x.org/a.pdf"}}`, "https://x.org/image": `{"fileData":{"fileUri":"https://x.org/image"}}`, "https://x.org/a.b/c": `{"fileData":{"fileUri":"https://x.org/a.b/c"}}`,
	} {
		r := &llm.Request{Messages: []llm.Message{{Parts: []llm.Part{{Kind: llm.PartImage, URL: llm.Raw(`"` + address + `"`)}}}}}
		if body, _ := Append(nil, r, llm.Sending{Model: "gemini-2.5-pro"}); !strings.Contains(string(body), want) {
			t.Errorf("%s is asked as %s", address, body)
		}
	}
}
