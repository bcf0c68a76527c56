package gateway

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Every code that a client may be told stands in docs/http.md, and no other.
func TestEveryErrorCodeIsDocumented(t *testing.T) {
	said := regexp.MustCompile(`(?:Code: +|invalid\(http\.\w+, |\bErr\w+ += |&Error\{\d+, |\b(?:e\.C|c)ode = )"([a-z]+_[a-z_]+)"`)
	var codes []string
	for _, dir := range []string{"llm", "routing", "catalog", "internal/httpapi", "internal/dispatch"} {
		files, err := filepath.Glob(dir + "/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s: %d files, %v", dir, len(files), err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			for _, m := range said.FindAllStringSubmatch(string(text), -1) {
				codes = append(codes, m[1])
			}
		}
	}
	page, err := os.ReadFile("../docs/http.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(page), "\n## Errors\n")
	table, _, _ = strings.Cut(table, "\n## ")
	var documented []string
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) < 4 {
			continue
		}
		for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[2], -1) {
			documented = append(documented, m[1])
		}
	}
	for _, code := range codes {
		if !slices.Contains(documented, code) {
			t.Errorf("docs/http.md has no %s", code)
		}
	}
	for _, code := range documented {
		if !slices.Contains(append(codes, "code", "timeout", "overloaded"), code) { // those without an underscore are not looked for
			t.Errorf("docs/http.md has %s, which nothing says", code)
		}
	}
}
