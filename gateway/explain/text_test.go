package explain

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
