package responses

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"turnout/gateway/llm"
	"turnout/internal/jsonx"
)

const withTools = `{"model":"m","tools":[
	{"type":"function","name":"exec","parameters":{"type":"object"}},
	{"type":"custom","name":"apply_patch","description":"Edits files.","format":{"type":"grammar","syntax":"lark","definition":"start: x"}},
	{"type":"namespace","name":"agents","tools":[{"type":"function","name":"spawn","parameters":{"type":"object"}}]},
	{"type":"tool_search","execution":"client","parameters":{"type":"object"}}],
	"tool_choice":{"type":"function","namespace":"agents","name":"spawn"},"input":[{"type":"message","role":"user","content":"x"},
	{"type":"custom_tool_call","call_id":"c1","name":"apply_patch","input":"*** a\nb"},{"type":"custom_tool_call_output","call_id":"c1","output":"half"},{"type":"custom_tool_call_output","call_id":"c1","output":"done"},
	{"type":"tool_search_call","call_id":"c0","execution":"client","arguments":{"query":"q"}},{"type":"tool_search_output","call_id":"c0","execution":"client","tools":[{"type":"function","name":"exec","description":"found again"}]},
	{"type":"function_call","call_id":"c2","namespace":"agents","name":"spawn","arguments":"{}"},{"type":"function_call_output","call_id":"c2","output":"ok"}]}`

// Tools that take a text, namespaces of tools and the search for tools are functions where the upstream
// knows nothing else.
func TestToolsBecomeFunctions(t *testing.T) {
	if _, wrong := llm.ParseResponses([]byte(withTools)); wrong != nil {
		t.Fatal(wrong)
	}
	r, failure := Decode([]byte(withTools))
	if failure != nil {
		t.Fatal(failure)
	}
	var names []string
	for _, tool := range r.Tools {
		names = append(names, jsonx.RawText(tool.Name))
	}
	if got := strings.Join(names, " "); got != "exec apply_patch agents__spawn tool_search" {
		t.Errorf("tools %s", got)
	}
	if got := jsonx.RawText(r.Choice.Name); got != "agents__spawn" || jsonx.RawText(r.Tools[0].Description) != "found again" {
		t.Errorf("chosen %s; %s", got, r.Tools[0].Description)
	}
	if about := jsonx.RawText(r.Tools[1].Description); !strings.HasPrefix(about, "Edits files.") || !strings.Contains(about, "start: x") {
		t.Errorf("the grammar is lost: %q", about)
	}
	var calls, results []string
	for _, turn := range r.Messages {
		for _, p := range turn.Parts {
			if p.Kind == llm.PartCall {
				calls = append(calls, jsonx.RawText(p.Name)+" "+string(p.Input))
			}
			if p.Kind == llm.PartResult {
				text := jsonx.RawText(p.ID)
				for _, q := range p.Parts {
					text += " " + jsonx.RawText(q.Text)
				}
				results = append(results, text)
			}
		}
	}
	if got := strings.Join(results, "; "); !strings.HasPrefix(got, "c1 half done; c0 [{") || !strings.HasSuffix(got, "]; c2 ok") {
		t.Errorf("results %s", got)
	}
	if got := strings.Join(calls, "; "); got != `apply_patch {"input":"*** a\nb"}; tool_search {"query":"q"}; agents__spawn {}` {
		t.Errorf("calls %s", got)
	}
}

// Calls of them are told in the client's words, whole and in pieces.
func TestCallsInTheClientsWords(t *testing.T) {
	r, failure := Decode([]byte(withTools))
	if failure != nil {
		t.Fatal(failure)
	}
	stamp := llm.Stamp{ID: "1", Model: "m", Tools: r.Tools}
	calls := []struct{ name, arguments, want string }{
		{"exec", `{"cmd":"ls"}`, `{"type":"function_call","name":"exec","arguments":"{\"cmd\":\"ls\"}"}`},
		{"apply_patch", `{ "input" : "*** \u00e9\n\"q\" \ud83d\ude00" }`, `{"type":"custom_tool_call","name":"apply_patch","input":"*** é\n\"q\" 😀"}`},
		{"apply_patch", `{"patch":"p"}`, `{"type":"custom_tool_call","name":"apply_patch","input":"{\"patch\":\"p\"}"}`},
		{"agents__spawn", `{}`, `{"type":"function_call","name":"spawn","namespace":"agents","arguments":"{}"}`},
		{"tool_search", `{"query":"q"}`, `{"type":"tool_search_call","execution":"client","arguments":{"query":"q"}}`},
		{"tool_search", `{"query":`, `{"type":"tool_search_call","execution":"client","arguments":{"arguments":"{\"query\":"}}`},
	}
	answer := &llm.Response{Finish: llm.FinishTools}
	enc := NewEncoder(stamp, true)
	var stream []byte
	for i, c := range calls {
		id, name := jsonx.AppendString(nil, "c"), jsonx.AppendString(nil, c.name)
		answer.Parts = append(answer.Parts, llm.Part{Kind: llm.PartCall, ID: id, Name: name, Input: llm.Raw(c.arguments)})
		stream = enc.Append(stream, &llm.Event{Kind: llm.EventCall, Index: i, ID: id, Name: name})
		for _, b := range c.arguments {
			stream = enc.Append(stream, &llm.Event{Kind: llm.EventArguments, Index: i, Text: jsonx.AppendString(nil, string(b))})
		}
	}
	stream = enc.Append(stream, &llm.Event{Kind: llm.EventFinish, Finish: llm.FinishTools})
	stream, _ = enc.End(stream, nil)
	var last string
	deltas := map[string]string{}
	for event := range strings.SplitSeq(string(stream), "\n\n") {
		_, data, ok := strings.Cut(event, "\ndata: ")
		if !ok {
			continue
		}
		var e struct {
			Type, Delta string
			ItemID      string `json:"item_id"`
			Response    json.RawMessage
		}
		if err := json.Unmarshal([]byte(data), &e); err != nil {
			t.Fatalf("%v in %s", err, data)
		}
		if strings.HasSuffix(e.Type, ".delta") {
			deltas[e.ItemID] += e.Delta
		}
		last = string(e.Response)
	}
	for how, whole := range map[string]string{"plain": string(AppendResponse(nil, answer, stamp)), "streamed": last} {
		var out struct{ Output []map[string]any }
		if err := json.Unmarshal([]byte(whole), &out); err != nil || len(out.Output) != len(calls) {
			t.Fatalf("%s: %v in %s", how, err, whole)
		}
		for i, item := range out.Output {
			if told, ok := deltas[item["id"].(string)]; how == "streamed" && ok && told != item["input"] && told != item["arguments"] {
				t.Errorf("told %q in pieces, then %v", told, item)
			}
			for _, key := range []string{"id", "call_id", "status"} {
				delete(item, key)
			}
			var want map[string]any
			if err := json.Unmarshal([]byte(calls[i].want), &want); err != nil {
				t.Fatal(err)
			}
			got, _ := json.Marshal(item)
			if wanted, _ := json.Marshal(want); string(got) != string(wanted) {
				t.Errorf("%s: %s, want %s", how, got, wanted)
			}
		}
	}
}

// However the arguments are cut into pieces, what is told of the text is the text.
func TestTextInPiecesIsTheText(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringOf(rapid.RuneFrom([]rune("a\"\\\n\u00e9\u4e16😀\u2028/"))).Draw(t, "text")
		var arguments string
		if rapid.Bool().Draw(t, "escaped") {
			var b strings.Builder
			for _, unit := range text {
				quoted, _ := json.Marshal(string(unit))
				b.Write(quoted[1 : len(quoted)-1])
			}
			arguments = `{"input":"` + b.String() + `"}`
		} else {
			arguments = string(wrapped(jsonx.AppendString(nil, text)))
		}
		var u unwrapping
		told := ""
		for rest := arguments; rest != ""; {
			n := rapid.IntRange(1, min(len(rest), 5)).Draw(t, "n")
			for n < len(rest) && !utf8.RuneStart(rest[n]) {
				n++
			}
			if piece := u.take(jsonx.AppendString(nil, rest[:n])); piece != nil {
				told += jsonx.RawText(piece)
			}
			rest = rest[n:]
		}
		if rest := u.rest(); rest != nil {
			told += jsonx.RawText(rest)
		}
		if told != text {
			t.Fatalf("%q of %s, want %q", told, arguments, text)
		}
	})
}
