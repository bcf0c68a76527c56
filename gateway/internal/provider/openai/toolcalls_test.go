package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"turnout/internal/testkit/upstream"
)

func TestToolCallIndexes(t *testing.T) {
	for _, tc := range []struct {
		name   string
		deltas []string // elements of tool_calls, one chunk each; | separates elements of one chunk
		want   []string
	}{
		{"right", []string{`{"index":0,"id":"a"}`, `{"index":0,"function":{"arguments":"x"}}`, `{"index":1,"id":"b"}`, `{"index":0,"x":1}`, `{"index":1,"y":1}`},
			[]string{`{"index":0,"id":"a"}`, `{"index":0,"function":{"arguments":"x"}}`, `{"index":1,"id":"b"}`, `{"index":0,"x":1}`, `{"index":1,"y":1}`}},
		{"missing", []string{`{"id":"a","function":{"name":"f"}}`, `{"function":{"arguments":"x"}}`, `{"id":"b"}`, `{"function":{"arguments":"y"}}`, `{}`},
			[]string{`{"index":0,"id":"a","function":{"name":"f"}}`, `{"index":0,"function":{"arguments":"x"}}`, `{"index":1,"id":"b"}`, `{"index":1,"function":{"arguments":"y"}}`, `{"index":1}`}},
		{"null", []string{`{"index":null,"id":"a"}`, `{"id":"b","index": null}`}, []string{`{"index":0,"id":"a"}`, `{"id":"b","index": 1}`}},
		{"all zero", []string{`{"index":0,"id":"a"}`, `{"index":0,"x":1}`, `{"index":0,"id":"b"}`, `{"index":0,"y":1}`, `{"index":0,"id":"c"}`},
			[]string{`{"index":0,"id":"a"}`, `{"index":0,"x":1}`, `{"index":1,"id":"b"}`, `{"index":1,"y":1}`, `{"index":2,"id":"c"}`}},
		{"all zero in one chunk", []string{`{"index":0,"id":"a"}|{"index":0,"id":"b"}`, `{"index":0,"id":"a"}|{"index":0,"id":"b"}`},
			[]string{`{"index":0,"id":"a"}|{"index":1,"id":"b"}`, `{"index":0,"id":"a"}|{"index":1,"id":"b"}`}},
		{"missing ids, named twice", []string{`{"function":{"name":"f"}}`, `{"function":{"arguments":"x"}}`, `{"function":{"name":"g"}}`},
			[]string{`{"index":0,"function":{"name":"f"}}`, `{"index":0,"function":{"arguments":"x"}}`, `{"index":1,"function":{"name":"g"}}`}},
		{"id repeated", []string{`{"index":0,"id":"a"}`, `{"index":0,"id":"a","x":1}`}, []string{`{"index":0,"id":"a"}`, `{"index":0,"id":"a","x":1}`}},
		{"id empty afterwards", []string{`{"index":0,"id":"a"}`, `{"index":0,"id":"","x":1}`}, []string{`{"index":0,"id":"a"}`, `{"index":0,"id":"","x":1}`}},
	} {
		var script, want strings.Builder
		for i := range tc.deltas {
			chunk := `{"choices":[{"index":0,"delta":{"tool_calls":[%s]}}]}`
			fmt.Fprintf(&script, " chunk:%q", fmt.Sprintf(chunk, strings.ReplaceAll(tc.deltas[i], "|", ",")))
			fmt.Fprintf(&want, "data: "+chunk+"\n\n", strings.ReplaceAll(tc.want[i], "|", ","))
		}
		up := upstream.New(t, "200 sse"+script.String()+` chunk:"{\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"tool_calls\"}]}" done`)
		adapter := newAdapter(t)
		r := relay(t, adapter, context.Background(), newCall(t, up.URL, usageToo))
		if r.err != nil || !strings.HasPrefix(r.text, want.String()) || r.result.FinishReason != "tool_calls" {
			t.Errorf("%s: %v\n got %s\nwant %s", tc.name, r.err, r.text, want.String())
		}
		up.Close()
		adapter.client.Transports.CloseIdle()
	}
}

// Whatever way an upstream numbers its calls, the client can put each call's arguments together again.
func TestToolCallIdentityLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		calls := rapid.IntRange(1, 5).Draw(t, "calls")
		style := rapid.SampledFrom([]string{"right", "missing", "zero", "null"}).Draw(t, "style")
		repeatIDs := rapid.Bool().Draw(t, "ids on every delta")
		var p chunkParser
		got := map[int64]string{}
		want := []string{}
		for call := range calls {
			args := ""
			for part := range rapid.IntRange(1, 4).Draw(t, "parts") {
				piece := fmt.Sprintf("%d.%d;", call, part)
				args += piece
				fields := []string{`"function":{"arguments":"` + piece + `"}`}
				if part == 0 || repeatIDs {
					fields = append(fields, fmt.Sprintf(`"id":"call_%d"`, call))
				}
				switch style {
				case "right":
					fields = append(fields, fmt.Sprintf(`"index":%d`, call))
				case "zero":
					fields = append(fields, `"index":0`)
				case "null":
					fields = append(fields, `"index":null`)
				}
				if rapid.Bool().Draw(t, "index first") {
					sort.Strings(fields)
				}
				data := []byte(`{"choices":[{"index":0,"delta":{"tool_calls":[{` + strings.Join(fields, ",") + `}]}}]}`)
				if err := p.parse(data); err != nil {
					t.Fatal(err)
				}
				out := p.edits.Apply(nil, data)
				var v struct {
					Choices []struct {
						Delta struct {
							Calls []struct {
								Index    *int64
								Function struct{ Arguments string }
							} `json:"tool_calls"`
						}
					}
				}
				if err := json.Unmarshal(out, &v); err != nil || v.Choices[0].Delta.Calls[0].Index == nil {
					t.Fatalf("%s: %v", out, err)
				}
				c := v.Choices[0].Delta.Calls[0]
				got[*c.Index] += c.Function.Arguments
			}
			want = append(want, args)
		}
		for i, args := range want {
			if got[int64(i)] != args || len(got) != len(want) {
				t.Fatalf("style %s: %v, want %v", style, got, want)
			}
		}
	})
}
