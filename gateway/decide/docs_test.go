package decide

import (
	"encoding/json"
	"math"
	"os"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"turnout/schemas/resource"
)

var (
	block = regexp.MustCompile("(?s)```json (scenario|expect)\n(.*?)```")
	bold  = regexp.MustCompile(`\*\*(-?[0-9]+(?:\.([0-9]+))?)\*\*`)
)

// TestDocs runs the scenarios of docs/routing.md: what it says comes out does, and every bold number
// stands in the output of the scenario before it.
func TestDocs(t *testing.T) {
	text, err := os.ReadFile("../../docs/routing.md")
	if err != nil {
		t.Fatal(err)
	}
	var out *output
	scenarios, numbers := 0, 0
	for at := 0; ; {
		found := block.FindSubmatchIndex(text[at:])
		prose := text[at:]
		if found != nil {
			prose = text[at : at+found[0]]
		}
		for _, m := range bold.FindAllSubmatch(prose, -1) {
			numbers++
			if out == nil || !shows(out, string(m[1]), len(m[2])) {
				t.Errorf("%s does not stand in the output of the scenario before it", m[0])
			}
		}
		if found == nil {
			break
		}
		kind, body := string(text[at+found[2]:at+found[3]]), text[at+found[4]:at+found[5]]
		at += found[1]
		if kind == "scenario" {
			scenarios++
			out = decided(t, body)
			continue
		}
		expected(t, out, body)
	}
	if scenarios < 9 || numbers < 13 {
		t.Errorf("only %d scenarios and %d numbers were found", scenarios, numbers)
	}
}

// TestDocsShowTheDefaults: the configuration that docs/routing.md shows is the one that holds.
func TestDocsShowTheDefaults(t *testing.T) {
	text, err := os.ReadFile("../../docs/routing.md")
	if err != nil {
		t.Fatal(err)
	}
	_, shown, found := strings.Cut(string(text), "```yaml\n")
	shown, _, closed := strings.Cut(shown, "```\n")
	if !found || !closed {
		t.Fatal("there is no block of YAML")
	}
	read, err := resource.ParseRouting(resource.Source{Name: "docs.yaml", Data: []byte(shown)}, "routing")
	if err != nil {
		t.Fatal(err)
	}
	if want := resource.DefaultRouting(); !reflect.DeepEqual(read, want) {
		t.Errorf("shown %+v\nwant  %+v", read, want)
	}
	for _, field := range []string{"enabled", "weights", "thresholds", "retry", "history", "sticky", "session", "provider_priorities"} {
		if !strings.Contains("\n"+shown, "\n"+field+":") {
			t.Errorf("%s is not shown", field)
		}
	}
}

func expected(t *testing.T, out *output, body []byte) {
	t.Helper()
	var want struct {
		Selected      *string
		Reason, Error string
		Scores        map[string]float64
		Excluded      map[string]string
	}
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&want); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	v := vector{}
	v.Expect.Reason, v.Expect.Error, v.Expect.Scores, v.Expect.Excluded = want.Reason, want.Error, want.Scores, want.Excluded
	if want.Selected != nil {
		provider, region, _ := strings.Cut(*want.Selected, ":")
		v.Expect.Selected = &where{provider, region}
	}
	check(t, out, v, 0.00005)
}

// shows says whether a number, written with so many decimals, stands in an output.
func shows(out *output, number string, decimals int) bool {
	x, err := strconv.ParseFloat(number, 64)
	if err != nil {
		return false
	}
	is := func(y float64) bool { return math.Abs(x-y) <= 0.5000001*math.Pow10(-decimals) }
	if is(out.Propensity) {
		return true
	}
	for _, s := range out.Scores {
		c := s.Contributions
		for _, y := range []float64{s.Score, s.Price, c.Price, c.Uptime, c.Throughput, c.Latency, c.Cache, c.Priority, c.UptimePenalty} {
			if is(y) {
				return true
			}
		}
	}
	return false
}
