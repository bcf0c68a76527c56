package decide

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"math"
	"strings"
	"testing"
	"testing/iotest"

	"turnout/internal/lifecycle"
)

const two = `"mappings": [{"provider": "a", "price": {"input": 1, "output": 1}, "metrics": {"uptime": 100}},
	{"provider": "b", "price": {"input": "2", "output": "2e0"}, "metrics": {"uptime": 100}}]`

func TestBadInput(t *testing.T) {
	mapping := func(fields string) string {
		return `{"mappings": [{"provider": "a", "price": {"input": 1, "output": 1}, ` + fields + `}]}`
	}
	for _, test := range []struct{ scenario, want string }{
		{``, "scenario: is empty: a JSON object belongs here"},
		{`{`, "scenario: is no JSON: it breaks off at offset 1"},
		{`{"mappings": [}`, "scenario: is no JSON at offset 15: invalid character '}' looking for beginning of value"},
		{`{"mappings": []} x`, "scenario: goes on after its end, at offset 17"},
		{`[]`, "scenario: must be an object, not a list"},
		{`{}`, "mappings: is missing: a list of who serves the model belongs here"},
		{`{"mappings": {}}`, "mappings: must be a list, not an object"},
		{`{"mappings": [], "extra": 1}`, "extra: is not known here"},
		{`{"mappings": [], "mappings": []}`, "mappings: stands here twice: keep one"},
		{`{"mappings": [], "draw": 1}`, "draw: must be a number from 0 to below 1, not 1"},
		{`{"mappings": [], "pick": -0.1}`, "pick: must be a number from 0 to below 1, not -0.1"},
		{`{"mappings": [], "request": {"modle": "m"}}`, "request.modle: is not known here (did you mean model?)"},
		{`{"mappings": [], "request": {"stream": "yes"}}`, "request.stream: must be true or false, not a text"},
		{`{"mappings": [], "request": {"prompt_tokens": 1.5}}`, "request.prompt_tokens: must be an integer of at least 0, not 1.5"},
		{`{"mappings": [], "request": {"routing": "best"}}`, `request.routing: "best" is not known: use auto, latency, price, throughput`},
		{`{"mappings": [], "request": {"needs": {"vision": 1}}}`, "request.needs.vision: must be true or false, not a number"},
		{`{"mappings": [], "request": {"needs": {"telepathy": true}}}`, "request.needs.telepathy: is not known here"},
		{`{"mappings": [], "request": {"needs": {"vision": true, "vision": true}}}`, "request.needs.vision: stands here twice: keep one"},
		{`{"mappings": [], "project": {"mode": "both"}}`, `project.mode: "both" is not known: use api-keys, byok, credits, hybrid, platform`},
		{`{"mappings": [], "project": {"config": {"weights": {"price": -1}}}}`, "project.config.weights.price: "},
		{`{"mappings": [], "project": {"config": {"sti\ncky": {}}}}`, `project.config."sti\ncky": unknown field: did you mean "sticky"?`},
		{`{"mappings": [], "project": {"config": {"provider_priorities": {"a\nb": -1}}}}`, `project.config.provider_priorities."a\nb": `},
		{`{"mappings": [], "project": {"config": {"sticky": {"scoreMargn": 1}}}}`, "project.config.sticky.scoreMargn: "},
		{`{"mappings": [], "project": {"config": {"sticky": {"ttl_seconds": 86401}}}}`, "project.config.sticky.ttl_seconds: "},
		{`{"mappings": [], "usage": {"by_provider": {"a": {"input": 1}}}}`, "usage.by_provider.a.input: is not known here"},
		{`{"mappings": [], "state": {"pin": {"provider": 1}}}`, "state.pin.provider: must be a text, not a number"},
		{`{"mappings": [{"price": {"input": 1, "output": 1}}]}`, "mappings[0].provider: is missing: the name of who serves the model belongs here"},
		{`{"mappings": [{"provider": "a"}]}`, "mappings[0].price: is missing: such as {\"input\": 0.5, \"output\": 2}, USD per 1M tokens, belongs here"},
		{`{"mapings": [{"provider": "a"}]}`, "mapings: is not known here (did you mean mappings?)"},
		{`{"mappings": [{"provider": "a", "prices": {"input": 1, "output": 1}}]}`, "mappings[0].prices: is not known here (did you mean price?)"},
		{`{"mappings": [{"Provider": "a", "price": {"input": 1, "output": 1}}]}`, "mappings[0].Provider: is not known here (did you mean provider?)"},
		{mapping(`"region": 3`), "mappings[0].region: must be a text, not a number"},
		{mapping(`"discount": 60`), "mappings[0].discount: must be a number from 0 to 1, not 60"},
		{mapping(`"priority": -1`), "mappings[0].priority: must be a number of at least 0, not -1"},
		{mapping(`"priority": 1e999`), "mappings[0].priority: must be a number of at least 0, not 1e999"},
		{mapping(`"metrics": {"uptime": 101}`), "mappings[0].metrics.uptime: must be a number from 0 to 100, not 101"},
		{mapping(`"capabilities": ["vision", "sight"]`), `mappings[0].capabilities[1]: "sight" is not known: use assistant_prefill, audio, `},
		{mapping(`"capabilities": true`), "mappings[0].capabilities: must be a list, not true"},
		{mapping(`"credentials": ["own"]`), `mappings[0].credentials[0]: "own" is not known: use byok, platform`},
		{mapping(`"cooldown": {"ends_in_ms": 1, "cause": "heat"}`), `mappings[0].cooldown.cause: "heat" is not known: use errors, rate_limit`},
		{mapping(`"cooldown": 5`), "mappings[0].cooldown: must be an object, not a number"},
		{mapping(`"status": "asleep"`), `mappings[0].status: "asleep" is not known: use active, deactivated, deprecated`},
		{mapping(`"reasoning_efforts": ["huge"]`), `mappings[0].reasoning_efforts[0]: "huge" is not known: use high, `},
		{`{"mappings": [{"provider": "a", "price": {"input": -1, "output": 1}}]}`, "mappings[0].price.input: -1: is negative: a price is at least 0"},
		{`{"mappings": [{"provider": "a", "price": {"input": true, "output": 1}}]}`, "mappings[0].price.input: must be a price, not true"},
		{`{"mappings": [{"provider": "a", "price": {"input": 1, "output": 1}}, {"provider": "a", "price": {"input": 1, "output": 1}}]}`, "mappings[1]: provider and region stand here twice: keep one"},
		{`{"request": {"model": "auto"}, ` + two + `}`, `request.model: "auto" names no single model of this scenario: write m, provider/m or provider/m:region`},
		{`{"request": {"model": "@fast"}, ` + two + `}`, `request.model: "@fast" names no single model of this scenario: write m, provider/m or provider/m:region`},
		{`{"request": {"model": "a/"}, ` + two + `}`, `request.model: "a/" names no single model of this scenario: write m, provider/m or provider/m:region`},
	} {
		_, err := Decide([]byte(test.scenario))
		if err == nil || !strings.HasPrefix(err.Error(), test.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s\n got  %v\n want %s", test.scenario, err, test.want)
		}
	}
}

func TestModelIDs(t *testing.T) {
	const regional = `"mappings": [{"provider": "a", "region": "eu", "price": {"input": 2, "output": 2}, "metrics": {"throughput": 90}},
		{"provider": "a", "region": "us", "price": {"input": 1, "output": 1}, "metrics": {"throughput": 10}},
		{"provider": "a", "region": "old", "status": "deactivated", "price": {"input": 1, "output": 1}},
		{"provider": "b", "price": {"input": 1.5, "output": 1.5}, "metrics": {"throughput": 400}}]`
	for _, test := range []struct{ model, selected, reason string }{
		{"", "b", "weighted-score"},
		{"m", "b", "weighted-score"},
		{"meta/llama-3:free", "b", "weighted-score"},
		{"m:CHEAP", "a:us", "weighted-score"},
		{"a/m", "a:eu", "direct-provider-specified"},
		{"a/m:Cheap", "a:us", "direct-provider-specified"},
		{"a/m:eu", "a:eu", "direct-provider-specified"},
		{"a/m:us:nitro", "a:us", "direct-provider-specified"},
		{"a:m", "a:eu", "direct-provider-specified"},
		{"a:m:eu", "a:eu", "direct-provider-specified"},
		{"b/amazon.nova-lite-v1:0", "b", "direct-provider-specified"},
		{"a/m:mars", "unknown_region", ""},
		{"a/m:old", "unknown_region", ""},
	} {
		out := decided(t, []byte(`{"request": {"model": "`+test.model+`"}, "draw": 0.5, `+regional+`}`))
		got := ""
		if out.Error != nil {
			got = out.Error.Code
		} else {
			got = out.Selected.key()
		}
		if got != test.selected || out.Reason != test.reason {
			t.Errorf("%q goes to %s (%s), want %s (%s)", test.model, got, out.Reason, test.selected, test.reason)
		}
	}
	out := decided(t, []byte(`{"request": {"model": "m"}, "mappings": [{"provider": "a", "status": "deactivated", "price": {"input": 1, "output": 1}}]}`))
	if out.Error.Code != "model_retired" || len(out.Excluded) != 1 {
		t.Errorf("a retired model: %+v", out)
	}
	out = decided(t, []byte(`{"mappings": []}`))
	if out.Error.Code != "no_provider_available" {
		t.Errorf("without mappings: %+v", out.Error)
	}
}

// TestOutput holds the output to the letter of decide.md.
func TestOutput(t *testing.T) {
	answer, err := Decide([]byte(`{"request": {"id": "r-1", "model": "m", "stream": true, "needs": {"tools": true, "tool_choice": true}}, "draw": 0.5, "mappings": [
		{"provider": "a", "region": "x", "price": {"input": 1, "output": 1}, "metrics": {"uptime": 90, "throughput": 80}, "capabilities": ["tools"]},
		{"provider": "a", "region": "y", "price": {"input": 2, "output": 2}, "metrics": {"uptime": 90, "throughput": 80}, "capabilities": {"tools": true}},
		{"provider": "b", "price": {"input": 2, "output": 2}, "metrics": {"uptime": 100, "latency": 500}, "capabilities": {"tools": true}},
		{"provider": "c", "price": {"input": 2, "output": 2}, "capabilities": []}]}`))
	if err != nil {
		t.Fatal(err)
	}
	var out map[string]any
	if err := json.Unmarshal(answer, &out); err != nil {
		t.Fatal(err)
	}
	keys := func(v any, want string) {
		t.Helper()
		var b bytes.Buffer
		for _, k := range strings.Fields(want) {
			if _, ok := v.(map[string]any)[k]; !ok {
				b.WriteString(k + " is missing; ")
			}
		}
		if b.Len() > 0 || len(v.(map[string]any)) != len(strings.Fields(want)) {
			t.Errorf("fields of %v, want %s: %s", v, want, b.String())
		}
	}
	keys(out, "selected reason scores excluded propensity stripped_parameters state error")
	keys(out["selected"], "provider region")
	scores := out["scores"].([]any)
	const always = "provider region score price uptime throughput latency priority contributions"
	keys(scores[0], always)
	keys(scores[1], always+" lost_to_region")
	keys(scores[2], always)
	for _, s := range scores {
		parts := s.(map[string]any)["contributions"].(map[string]any)
		keys(parts, "price uptime throughput latency cache priority uptime_penalty")
		sum := 0.0
		for _, p := range parts {
			sum += p.(float64)
		}
		if score := s.(map[string]any)["score"].(float64); math.Abs(sum-score) > 1e-12 {
			t.Errorf("contributions sum to %v, the score is %v", sum, score)
		}
	}
	if lost := scores[1].(map[string]any)["lost_to_region"]; lost != "x" {
		t.Errorf("lost to %v", lost)
	}
	if latency := scores[0].(map[string]any)["latency"]; latency != nil {
		t.Errorf("an unknown latency is shown as %v", latency)
	}
	excluded := out["excluded"].([]any)[0]
	keys(excluded, "provider region code")
	if code := excluded.(map[string]any)["code"]; code != "tools" {
		t.Errorf("code %v", code)
	}
	if stripped := out["stripped_parameters"].([]any); len(stripped) != 1 || stripped[0] != "tool_choice" {
		t.Errorf("stripped %v", stripped)
	}
	keys(out["state"], "preferred")
	keys(out["state"].(map[string]any)["preferred"], "provider region ttl_seconds")
	if out["propensity"] != 0.995 || out["error"] != nil {
		t.Errorf("propensity %v, error %v", out["propensity"], out["error"])
	}
}

func TestCommand(t *testing.T) {
	run := func(args []string, stdin io.Reader) (string, error) {
		var out bytes.Buffer
		err := Main(t.Context(), lifecycle.Env{Args: args, Stdin: stdin, Stdout: &out})
		return out.String(), err
	}
	out, err := run(nil, strings.NewReader(`{`+two+`, "draw": 0.5}`))
	if err != nil || !strings.Contains(out, `"reason": "weighted-score"`) || !strings.HasSuffix(out, "}\n") {
		t.Errorf("%s %v", out, err)
	}
	out, err = run(nil, strings.NewReader(`{"mappings": []}`))
	if err != nil || !strings.Contains(out, `"selected": null`) || !strings.Contains(out, "no_provider_available") {
		t.Errorf("no candidate is a decision too: %s %v", out, err)
	}
	for _, help := range []string{"help", "-h", "--help"} {
		if out, err := run([]string{help}, strings.NewReader("")); err != nil || !strings.Contains(out, "turnout decide < scenario.json") {
			t.Errorf("%s: %q %v", help, out, err)
		}
	}
	for _, bad := range []struct {
		args  []string
		stdin string
	}{{nil, `{"mappings": 1}`}, {[]string{"scenario.json"}, ``}} {
		out, err := run(bad.args, strings.NewReader(bad.stdin))
		if lifecycle.Code(err) != 2 || out != "" {
			t.Errorf("%v: code %d, output %q", err, lifecycle.Code(err), out)
		}
	}
	broken := errors.New("broken pipe")
	if _, err := run(nil, iotest.ErrReader(broken)); !errors.Is(err, broken) || lifecycle.Code(err) != 1 {
		t.Errorf("%v", err)
	}
}
