package decide

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
)

// mutator changes scenarios. What a field may hold it knows from the vectors: every value that stands
// under the same path in any of them, whatever the index.
type mutator struct {
	values map[string][]any // path of a field -> values seen there
	fields map[string][]string
}

// odd values go anywhere, right or wrong.
var odd = []any{
	nil, true, false, "", "a", "auto", "m:cheap", "a/m", "a:m", "a/m:eu", 0.0, 1.0, -1.0, 0.5, 0.01, 0.15, 1e-320, 1e308, 1e-7,
	20.0, 84.9, 85.0, 89.9, 90.0, 95.0, 100.0, 100.1, 4096.0, 4999.0, 5000.0, 20000.0, 1e15, []any{}, map[string]any{},
}

func newMutator(t testing.TB, cases []vector) *mutator {
	m := &mutator{map[string][]any{}, map[string][]string{}}
	for _, c := range cases {
		var v any
		if err := json.Unmarshal(c.Scenario, &v); err != nil {
			t.Fatal(err)
		}
		m.learn("", v)
	}
	// What no vector uses.
	for path, values := range map[string][]any{
		".mappings[].cooldown":          {true, map[string]any{"ends_in_ms": 500.0, "cause": "rate_limit"}, map[string]any{"ends_in_ms": 9.0, "cause": "errors"}},
		".mappings[].custom":            {true},
		".mappings[].lock_region":       {"", "eu"},
		".mappings[].region":            {"eu", "us"},
		".mappings[].status":            {"deprecated", "deactivated"},
		".mappings[].stability":         {"unstable", "experimental"},
		".mappings[].rate_limited":      {true},
		".mappings[].discount":          {0.1, 1.0},
		".mappings[].metrics.attempts":  {0.0, 1.0, 19.0, 20.0},
		".mappings[].capabilities":      {[]any{}, []any{"tools", "vision"}, map[string]any{"reasoning": true}},
		".mappings[].reasoning_efforts": {[]any{"none", "low"}, []any{"high"}},
		".mappings[].credentials":       {[]any{}, []any{"byok"}, []any{"platform", "byok"}},
		".request.needs":                {map[string]any{"vision": true}, map[string]any{"tool_choice": true}, map[string]any{"reasoning_effort": "high"}, map[string]any{"no_reasoning": true}},
		".project.config":               {map[string]any{"weights": map[string]any{"cache": 1.0}}, map[string]any{"thresholds": map[string]any{"exploration_rate": 1.0}}, map[string]any{"enabled": false}},
		".draw":                         {0.0, 0.009, 0.999},
		".pick":                         {0.0, 0.5, 0.999},
	} {
		for _, v := range values {
			m.learn(path, v)
		}
	}
	for path, names := range m.fields {
		slices.Sort(names)
		m.fields[path] = slices.Compact(names)
	}
	return m
}

func (m *mutator) learn(path string, v any) {
	m.values[path] = append(m.values[path], v)
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			m.fields[path] = append(m.fields[path], name)
			m.learn(path+"."+name, v[name])
		}
	case []any:
		for _, element := range v {
			m.learn(path+"[]", element)
		}
	}
	for i := len(path) - 1; i > 0; i-- { // what is taught below the top is a field too
		if path[i] == '.' {
			m.fields[path[:i]] = append(m.fields[path[:i]], path[i+1:])
			break
		}
		if path[i] == ']' {
			break
		}
	}
}

// change makes one change for every three bytes: where, what, and which value.
func (m *mutator) change(scenario []byte, changes []byte) []byte {
	var top any
	if err := json.Unmarshal(scenario, &top); err != nil {
		panic(err)
	}
	for ; len(changes) >= 3; changes = changes[3:] {
		var nodes []spot
		spots(&nodes, "", top)
		m.apply(nodes[int(changes[0])%len(nodes)], changes[1], changes[2])
	}
	out, err := json.Marshal(top)
	if err != nil {
		panic(err)
	}
	return out
}

// spot is an object or a list of a scenario.
type spot struct {
	path   string
	object map[string]any
	list   *[]any
}

func spots(all *[]spot, path string, v any) {
	o, ok := v.(map[string]any)
	if !ok {
		return
	}
	*all = append(*all, spot{path: path, object: o})
	for _, name := range slices.Sorted(maps.Keys(o)) {
		at := path + "." + name
		list, ok := o[name].([]any)
		if !ok {
			spots(all, at, o[name])
			continue
		}
		*all = append(*all, spot{path: at, object: o, list: &list})
		for _, element := range list {
			spots(all, at+"[]", element)
		}
	}
}

func (m *mutator) apply(s spot, what, which byte) {
	if s.list != nil {
		m.list(s, what, which)
		return
	}
	names := m.fields[s.path]
	if len(names) == 0 {
		return
	}
	name := names[int(what>>2)%len(names)]
	if what&3 == 0 {
		delete(s.object, name)
		return
	}
	s.object[name] = copied(m.value(s.path+"."+name, which))
}

func (m *mutator) list(s spot, what, which byte) {
	list := slices.Clone(*s.list)
	n := len(list)
	switch {
	case what&3 == 0 && n > 0:
		list = slices.Delete(list, int(which)%n, int(which)%n+1)
	case what&3 == 1 && n > 1:
		i, j := int(which)%n, int(which>>4)%n
		list[i], list[j] = list[j], list[i]
	case what&3 == 2 && n > 0 && n < 70:
		again := copied(list[int(which)%n])
		if o, ok := again.(map[string]any); ok { // the same provider elsewhere
			o["region"] = string(rune('a'+n%26)) + "-" + string(rune('a'+n/26))
		}
		list = append(list, again)
	case n < 70:
		list = append(list, copied(m.value(s.path+"[]", which)))
	}
	s.object[s.path[len(s.path)-len(lastName(s.path)):]] = list
}

func lastName(path string) string {
	for i := len(path) - 1; i >= 0; i-- {
		if path[i] == '.' {
			return path[i+1:]
		}
	}
	return path
}

// value is one that was seen there, or an odd one.
func (m *mutator) value(path string, which byte) any {
	seen := m.values[path]
	if which < 32 || len(seen) == 0 {
		return odd[int(which)%len(odd)]
	}
	return seen[int(which)%len(seen)]
}

// copied keeps what is changed later apart from what was learned.
func copied(v any) any {
	switch v := v.(type) {
	case map[string]any:
		out := make(map[string]any, len(v))
		for k, x := range v {
			out[k] = copied(x)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, x := range v {
			out[i] = copied(x)
		}
		return out
	}
	return v
}

// Most changed vectors must still be scenarios, else the fuzzing of them is worth little.
func TestMutatedVectorsMostlyDecide(t *testing.T) {
	cases := loadVectors(t).Cases
	m := newMutator(t, cases)
	decided, all, seed := 0, 0, uint32(1)
	for i, c := range cases {
		for range 10 {
			changes := make([]byte, 6)
			for k := range changes {
				seed = seed*1664525 + 1013904223
				changes[k] = byte(seed >> 24)
			}
			scenario := m.change(c.Scenario, changes)
			if string(scenario) != string(m.change(c.Scenario, changes)) {
				t.Fatalf("vector %d is changed otherwise the second time", i)
			}
			sound(t, scenario)
			if _, err := Decide(scenario); err == nil {
				decided++
			}
			all++
		}
	}
	t.Logf("%d of %d decide", decided, all)
	if 2*decided < all {
		t.Errorf("only %d of %d changed vectors can be decided", decided, all)
	}
}
