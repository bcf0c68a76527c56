package openai

import (
	"encoding/json"
	"strings"
	"testing"
)

// Whatever an upstream answers: no panic, and what is taken for an answer stays valid JSON with the
// metadata in it.
func FuzzAnswer(f *testing.F) {
	f.Add([]byte(`{"model":"m","choices":[{"index":0,"finish_reason":"stop"}],"usage":{"prompt_tokens":1},"metadata":null,"turnout":{}}`))
	f.Add([]byte(`[{"error":{"code":503}}]`))
	f.Add([]byte(`{"choices":[{"finish_reason":"error","error":{}}]} `))
	call := newCall(f, "http://x", ``)
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, failure := parseAnswer(call, body, false)
		if (answer == nil) == (failure == nil) {
			t.Fatalf("%v %v", answer, failure)
		}
		if answer == nil {
			return
		}
		defer answer.Release()
		with := string(answer.Body[:answer.SpliceAt]) + `,"turnout":{}` + string(answer.Body[answer.SpliceAt:])
		if !json.Valid([]byte(with)) {
			t.Fatalf("%q -> %q", body, with)
		}
	})
}

// The same of chunks, two of them in a row, since their state is shared.
func FuzzChunks(f *testing.F) {
	f.Add([]byte(`{"choices":[{"index":0,"delta":{"tool_calls":[{"id":"a"},{"index":0,"id":"b"},{}]}}],"model":"m","usage":null}`), []byte(`{"choices":[{"delta":{"tool_calls":[{"index":null}]},"finish_reason":"x","index":5}]}`))
	f.Fuzz(func(t *testing.T, first, second []byte) {
		var p chunkParser
		for _, data := range [][]byte{first, second} {
			if err := p.parse(data); err != nil {
				if json.Valid(data) && !strings.Contains(err.Error(), "128") {
					t.Fatalf("%q: %v", data, err)
				}
				return
			}
			p.edit(&p.edits, data, []byte(`"catalogue/model"`), true)
			if out := p.edits.Apply(nil, data); !json.Valid(out) {
				t.Fatalf("%q -> %q", data, out)
			}
		}
	})
}
