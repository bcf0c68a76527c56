package decide

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"testing"
)

const vectorFile = "../routing/testdata/routing.json"

type vectors struct {
	Meta struct {
		ScoreTolerance float64 `json:"score_tolerance"`
	} `json:"meta"`
	Cases []vector `json:"cases"`
}

type vector struct {
	Name     string          `json:"name"`
	Scenario json.RawMessage `json:"scenario"`
	Expect   struct {
		Selected *where             `json:"selected"`
		Reason   string             `json:"reason"`
		Scores   map[string]float64 `json:"scores"`
		Excluded map[string]string  `json:"excluded"`
		Error    string             `json:"error"`
	} `json:"expect"`
}

func loadVectors(t testing.TB) vectors {
	t.Helper()
	data, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	var v vectors
	if err := json.Unmarshal(data, &v); err != nil {
		t.Fatal(err)
	}
	if len(v.Cases) < 83 {
		t.Fatalf("%d vectors, there are 83", len(v.Cases))
	}
	return v
}

func decided(t testing.TB, scenario []byte) *output {
	t.Helper()
	data, err := Decide(scenario)
	if err != nil {
		t.Fatal(err)
	}
	out := &output{}
	if err := json.Unmarshal(data, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestVectors(t *testing.T) {
	all := loadVectors(t)
	for _, v := range all.Cases {
		t.Run(v.Name, func(t *testing.T) {
			out := decided(t, v.Scenario)
			check(t, out, v, all.Meta.ScoreTolerance)
		})
	}
}

func check(t *testing.T, out *output, v vector, tolerance float64) {
	t.Helper()
	want := v.Expect
	if want.Selected != nil && (out.Selected == nil || *out.Selected != *want.Selected) {
		t.Errorf("selected %v, want %v", out.Selected, *want.Selected)
	}
	if want.Reason != "" && out.Reason != want.Reason {
		t.Errorf("reason %s, want %s", out.Reason, want.Reason)
	}
	scores := map[string]float64{}
	for _, s := range out.Scores {
		scores[s.key()] = s.Score
	}
	for key, score := range want.Scores {
		if got, ok := scores[key]; !ok || math.Abs(got-score) > tolerance {
			t.Errorf("score of %s %v, want %v", key, got, score)
		}
	}
	codes := map[string]string{}
	for _, x := range out.Excluded {
		codes[x.key()] = x.Code
	}
	for key, code := range want.Excluded {
		if codes[key] != code {
			t.Errorf("%s excluded with %q, want %q", key, codes[key], code)
		}
	}
	if want.Error != "" && (out.Error == nil || out.Error.Code != want.Error || out.Selected != nil) {
		t.Errorf("error %v, want %s", out.Error, want.Error)
	}
	if want.Error == "" && out.Error != nil {
		t.Errorf("error %v", *out.Error)
	}
}

func (w where) key() string {
	if w.Region == "" {
		return w.Provider
	}
	return w.Provider + ":" + w.Region
}

// TestVectorsAreTheOriginals compares the copy with the file it was copied from, where that exists.
func TestVectorsAreTheOriginals(t *testing.T) {
	mine, err := os.ReadFile(vectorFile)
	if err != nil {
		t.Fatal(err)
	}
	original, err := os.ReadFile(filepath.Join("..", "..", "..", "shared", "conformance", "routing.json"))
	if errors.Is(err, fs.ErrNotExist) {
		t.Log("the original is not here to compare with")
		return
	}
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(mine, original) {
		t.Error("testdata/routing.json differs from the original: copy it again")
	}
}
