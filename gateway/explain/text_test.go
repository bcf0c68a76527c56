package explain

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnout/gateway/routing"
	"turnout/schemas/attempt"
)

var update = flag.Bool("update", false, "write the golden files anew")

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

// TestDocs holds the page that docs/explain.md shows to what is printed.
func TestDocs(t *testing.T) {
	doc, err := os.ReadFile("../../docs/explain.md")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join("testdata", "retried.txt"))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(doc), "```\n"+string(page)+"```\n") {
		t.Error("docs/explain.md shows another page than testdata/retried.txt")
	}
}

func TestGolden(t *testing.T) {
	for name, s := range map[string]*Stored{"retried": sample(), "refused": refused()} {
		r := s.Report()
		var text strings.Builder
		if err := r.Write(&text); err != nil {
			t.Fatal(err)
		}
		golden(t, name+".txt", text.String())
		data, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name+".json", string(data)+"\n")
	}
}

// A request that went on after its last stored attempt has no result yet: the page says so.
func TestARequestUnderWayIsNoFailure(t *testing.T) {
	s := sample()
	s.Attempts = s.Attempts[:1]
	r := s.Report()
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	if want := ": upstream_error (the provider failed, 1 attempt so far; it went on, and no later attempt is stored (yet))\n"; !strings.Contains(text.String(), want) {
		t.Errorf("%q is not in\n%s", want, text.String())
	}
	if !r.Unfinished {
		t.Error("the data does not say so")
	}
	if whole := sample().Report(); whole.Unfinished {
		t.Error("a request that is over is called unfinished")
	}
}

// What is left out is left out for the one who was called: others might have taken it.
func TestWhatIsLeftOutIsNotBlamedOnEverybody(t *testing.T) {
	s := sample()
	s.Attempts[0].StrippedParameters = []string{"tool_choice", "top_k"}
	var text strings.Builder
	if err := s.Report().Write(&text); err != nil {
		t.Fatal(err)
	}
	if want := "  left out   tool_choice, top_k, which alpha does not take\n"; !strings.Contains(text.String(), want) {
		t.Errorf("%q is not in\n%s", want, text.String())
	}
}

// Where auto found nobody, the page says why of every model; which model it would choose is not decided again.
func TestARefusalOfAutoIsExplained(t *testing.T) {
	s := refused()
	e := s.Refusal
	e.RequestedModel, e.RequestedProvider, e.Traits = "auto", "", []string{"tools"}
	e.Considered = []attempt.Considered{{Provider: "alpha", Model: "big", ExcludedCode: "tools"}, {Provider: "alpha", Region: "eu", Model: "small", ExcludedCode: "context_size"}}
	e.ConsideredTotal = 2
	r := s.Report()
	if r.Again.Verdict != NotPossible || r.Again.Why != "which model auto chooses is not decided again" || len(r.Decision.Excluded) != 2 || r.Decision.Excluded[1].Model != "small" {
		t.Errorf("%+v %+v", r.Again, r.Decision)
	}
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"  alpha     big    tools         it has no tools\n", "  alpha:eu  small  context_size  prompt and answer"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}
}

// Replayed reasoning restricts the choice although nobody else was left out: the page says so.
func TestTheBindingIsTold(t *testing.T) {
	s := sample()
	s.Attempts = s.Attempts[:1]
	e := &s.Attempts[0]
	e.Provider, e.Region, e.Reason, e.Propensity, e.Draw = "beta", "eu", "single-candidate-after-filtering", 1, nil
	e.Traits = []string{attempt.TraitBoundTo + "beta", "tools"}
	r := s.Report()
	if r.Decision.BoundTo != "beta" || r.Again.Verdict != Same || r.Again.Selected.Provider != "beta" {
		t.Errorf("%+v %+v", r.Decision, r.Again)
	}
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"replays reasoning that only beta can read, so nobody else may serve it", "cannot read the reasoning", "needs      tools\n"} {
		if !strings.Contains(text.String(), want) {
			t.Errorf("%q is not in\n%s", want, text.String())
		}
	}

	e.Traits = nil // without the binding another choice would have been made
	if r = s.Report(); r.Again.Verdict != Different {
		t.Errorf("%+v", r.Again)
	}

	gone := refused()
	gone.Refusal.RequestedProvider, gone.Refusal.RequestedModel, gone.Refusal.ErrorCode = "", "m", routing.ErrReasoningProvider
	gone.Refusal.Traits = []string{attempt.TraitBoundTo + "gamma"}
	gone.Refusal.Considered = []attempt.Considered{{Provider: "alpha", Score: e.Considered[0].Score}, {Provider: "gamma", ExcludedCode: "no_provider_key"}}
	gone.Refusal.ConsideredTotal = 2
	r = gone.Report()
	if r.Decision.Why != "the request replays reasoning that only gamma can read, and that provider cannot serve it" || r.Again.ErrorCode != routing.ErrReasoningProvider {
		t.Errorf("%+v %+v", r.Decision, r.Again)
	}
}
