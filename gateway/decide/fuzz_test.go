package decide

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"turnout/schemas/resource"
)

// FuzzScenario: whatever bytes are read either are refused in one line or decide as they should.
func FuzzScenario(f *testing.F) {
	for _, v := range loadVectors(f).Cases {
		f.Add([]byte(v.Scenario))
	}
	f.Fuzz(func(t *testing.T, scenario []byte) { sound(t, scenario) })
}

// FuzzDecide changes the conformance vectors: fields are added, left out and given other values, and
// mappings are repeated, exchanged and left out, so that most of what comes out can be decided.
func FuzzDecide(f *testing.F) {
	cases := loadVectors(f).Cases
	m := newMutator(f, cases)
	for i := range cases {
		f.Add(uint16(i), []byte{})
		f.Add(uint16(i), []byte{byte(i), 1, 7, byte(3 * i), 0, 9, byte(5 * i), 2, 11})
	}
	f.Fuzz(func(t *testing.T, vector uint16, changes []byte) {
		sound(t, m.change(cases[int(vector)%len(cases)].Scenario, changes))
	})
}

// sound decides a scenario: refused in one line, or twice the same, with every mapping scored or
// excluded and with numbers that JSON can hold.
func sound(t *testing.T, scenario []byte) {
	answer, err := Decide(scenario)
	if err != nil {
		if strings.Contains(err.Error(), "\n") || err.Error() == "" {
			t.Errorf("not one line: %q", err)
		}
		return
	}
	again, err := Decide(scenario)
	if err != nil || string(again) != string(answer) {
		t.Fatalf("decided otherwise the second time: %v", err)
	}
	var out output
	if err := json.Unmarshal(answer, &out); err != nil {
		t.Fatal(err)
	}
	if (out.Selected == nil) != (out.Error != nil) {
		t.Errorf("selected %v, error %v", out.Selected, out.Error)
	}
	if s, err := read(scenario); err == nil && (out.Error == nil || out.Error.Code != "invalid_value" && out.Error.Code != "unknown_region") {
		if n := len(out.Scores) + len(out.Excluded); n != len(s.input.Candidates) {
			t.Errorf("%d mappings, %d accounted for", len(s.input.Candidates), n)
		}
	}
	if !(out.Propensity > 0 && out.Propensity <= 1) {
		t.Errorf("propensity %v", out.Propensity)
	}
	scored := map[where]bool{}
	for _, s := range out.Scores {
		scored[s.where] = true
		c := s.Contributions
		sum := c.Price + c.Uptime + c.Throughput + c.Latency + c.Cache + c.Priority + c.UptimePenalty
		if math.Abs(sum-s.Score) > 1e-9*max(1, math.Abs(s.Score)) {
			t.Errorf("%v scored %v, its contributions sum to %v", s.where, s.Score, sum)
		}
	}
	if out.Selected != nil && !scored[*out.Selected] {
		t.Errorf("%v was selected and not scored", *out.Selected)
	}
	for _, x := range out.Excluded {
		if scored[x.where] || x.Code == "" {
			t.Errorf("%v was excluded (%q) and scored", x.where, x.Code)
		}
	}
}

// FuzzConfig: a configuration is refused with a path below its own, or gives numbers in range and
// decides.
func FuzzConfig(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `{"enabled": false}`, `{"weights": {"price": 0, "uptime": 1e308, "imagePrice": 1e-320}}`,
		`{"thresholds": {"uptime_penalty": 0, "default_latency": 1e308, "cacheHitRate": 1, "exploration_rate": 1}}`,
		`{"sticky": {"scoreMargin": 1e308, "ttl_seconds": 1}, "session": {"enabled": false}}`,
		`{"history": {"windowMinutes": 1, "tier2_minutes": 99}}`, `{"provider_priorities": {"a": 1e-320, "b": 1e308}}`,
		`{"weights": {"price": -1}}`, `{"weights": 1, "weights": 2}`,
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, config string) {
		if !json.Valid([]byte(config)) {
			return
		}
		scenario := `{"request": {"stream": true}, "draw": 0.5, "project": {"config": ` + config + `}, "mappings": [
			{"provider": "a", "price": {"input": 1, "output": 1}, "metrics": {"uptime": 50, "throughput": 1e-300, "latency": 1e300}},
			{"provider": "b", "price": {"input": 0, "output": 1e-9}, "metrics": {"uptime": 0, "latency": 0}},
			{"provider": "c", "price": {"input": 1000000, "output": 1}}]}`
		answer, err := Decide([]byte(scenario))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "project.config") || strings.Contains(err.Error(), "\n") {
				t.Errorf("refused without its path: %q", err)
			}
			return
		}
		var out output
		if err := json.Unmarshal(answer, &out); err != nil {
			t.Fatal(err)
		}
		routing, err := resource.ParseRouting(resource.Source{Name: "c.json", Data: []byte(config)}, "c")
		if err != nil {
			t.Fatal(err)
		}
		w := routing.Weights
		for _, x := range []float64{w.Price, w.ImagePrice, w.Uptime, w.Throughput, w.Latency, w.Cache, routing.Sticky.ScoreMargin} {
			if !(x >= 0) || math.IsInf(x, 0) {
				t.Errorf("out of range: %+v", routing)
			}
		}
	})
}
