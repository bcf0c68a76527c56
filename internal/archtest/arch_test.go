// Package archtest holds the import rules of the design as a test that plain `go test` runs.
package archtest

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const module = "turnout"

type pkg struct {
	ImportPath string
	Dir        string
	Standard   bool
	Imports    []string
	GoFiles    []string
}

// pure packages compute: no clock, no randomness, no I/O, no goroutine.
var pure = []string{
	"schemas/attempt", "schemas/snapshot", "schemas/topic", "schemas/resource",
	"gateway/routing", "gateway/pricing", "gateway/llm", "gateway/llm/chat", "gateway/llm/messages", "gateway/llm/responses", "gateway/llm/gemini", "gateway/llm/bedrock", "gateway/catalog",
	"processor/internal/partition",
	"internal/fold", "internal/jsonx",
	"analytics/savings", "analytics/whatif",
}

// impure are the parts of the standard library that a pure package may not reach for itself.
var impure = []string{"os", "net", "net/http", "os/exec", "os/signal", "database/sql", "log", "log/slog", "math/rand", "math/rand/v2", "crypto/rand", "syscall", "sync/atomic", "testing"}

// exceptions of pure packages: resource reads its files, and has the YAML parser; llm uses the names of
// status codes and the parser of HTTP dates.
var exceptions = map[string][]string{
	"gateway/llm":      {"net/http"},
	"schemas/resource": {"os", "github.com/goccy/go-yaml", "github.com/goccy/go-yaml/ast", "github.com/goccy/go-yaml/parser", "github.com/goccy/go-yaml/token"},
}

// vendors appear in the named places only (prefixes of package paths).
var vendors = map[string][]string{
	"github.com/labstack/echo":         {"gateway/internal/httpapi", "analytics/internal/api"},
	"github.com/segmentio/kafka-go":    {"internal/kafkax"},
	"github.com/ClickHouse/":           {"internal/chx", "migrations"},
	"github.com/dgraph-io/ristretto":   {"gateway/internal/state"},
	"github.com/golang-migrate":        {"migrations"},
	"github.com/prometheus/":           {"internal/telemetry"},
	"github.com/knadh/koanf":           {"internal/config"},
	"github.com/spf13/pflag":           {"internal/config"},
	"github.com/go-viper/mapstructure": {"internal/config"},
	"github.com/twmb/franz-go":         {"deploy/local"},
	"github.com/ebitengine/purego":     {"deploy/local"},
	"github.com/goccy/go-yaml":         {"schemas/resource"},
	"github.com/fsnotify/fsnotify":     {"gateway/internal/tenant"},
	"github.com/aws/":                  {"gateway/internal/provider/bedrock"},
	"golang.org/x/oauth2":              {"gateway/internal/provider/vertex"},
}

// walls: a package under the key may not import a package under the values.
var walls = map[string][]string{
	"gateway":                   {"processor", "analytics", "deploy"},
	"processor":                 {"gateway", "analytics", "deploy"},
	"analytics":                 {"processor", "gateway/internal", "deploy"},
	"schemas":                   {"gateway", "processor", "analytics", "internal", "deploy", "migrations"},
	"internal":                  {"gateway", "processor", "analytics", "deploy", "migrations"},
	"migrations":                {"gateway", "processor", "analytics", "deploy"},
	"gateway/internal/httpapi":  {"gateway/internal/provider", "gateway/internal/emit", "gateway/internal/poll"},
	"gateway/internal/provider": {"gateway/internal/dispatch", "gateway/internal/httpapi", "gateway/internal/emit", "gateway/internal/state", "gateway/internal/poll", "gateway/internal/tenant"},
	"gateway/internal/emit":     {"gateway/internal/dispatch", "gateway/internal/httpapi", "gateway/internal/provider", "gateway/internal/state", "gateway/internal/poll", "gateway/internal/tenant"},
	"gateway/internal/state":    {"gateway/internal/dispatch", "gateway/internal/httpapi", "gateway/internal/provider", "gateway/internal/emit", "gateway/internal/poll", "gateway/internal/tenant"},
	"gateway/internal/poll":     {"gateway/internal/dispatch", "gateway/internal/httpapi", "gateway/internal/provider", "gateway/internal/emit", "gateway/internal/tenant"},
	"gateway/internal/tenant":   {"gateway/internal/dispatch", "gateway/internal/httpapi", "gateway/internal/provider", "gateway/internal/emit", "gateway/internal/state", "gateway/internal/poll"},
}

// wallExceptions: the harness of engines stands in deploy/local and is what testkit starts.
var wallExceptions = []string{"internal/testkit"}

func TestImportRules(t *testing.T) {
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		for _, imported := range p.Imports {
			checkWall(t, path, imported)
			checkVendor(t, path, imported)
			checkPure(t, path, imported)
		}
	}
}

func checkWall(t *testing.T, path, imported string) {
	target, ok := strings.CutPrefix(imported, module+"/")
	if !ok || slices.ContainsFunc(wallExceptions, func(e string) bool { return under(path, e) }) {
		return
	}
	for from, closed := range walls {
		if !under(path, from) {
			continue
		}
		for _, c := range closed {
			if under(target, c) {
				t.Errorf("%s imports %s: %s is closed to %s", path, target, c, from)
			}
		}
	}
}

func checkVendor(t *testing.T, path, imported string) {
	for vendor, homes := range vendors {
		if !strings.HasPrefix(imported, vendor) {
			continue
		}
		if !slices.ContainsFunc(homes, func(home string) bool { return under(path, home) }) {
			t.Errorf("%s imports %s, which belongs to %s alone", path, imported, strings.Join(homes, ", "))
		}
	}
}

func checkPure(t *testing.T, path, imported string) {
	if !slices.Contains(pure, path) || slices.Contains(exceptions[path], imported) {
		return
	}
	if target, ok := strings.CutPrefix(imported, module+"/"); ok {
		if !slices.Contains(pure, target) {
			t.Errorf("%s is pure and imports %s, which is not", path, target)
		}
		return
	}
	if strings.Contains(strings.SplitN(imported, "/", 2)[0], ".") {
		t.Errorf("%s is pure and imports %s", path, imported)
	}
	if slices.Contains(impure, imported) {
		t.Errorf("%s is pure and imports %s", path, imported)
	}
}

// calls that a pure package may not make although it may import their package.
var forbidden = regexp.MustCompile(`\btime\.(Now|Since|Until|After|Sleep|Tick|NewTimer|NewTicker|AfterFunc)\(|^\s*go (func|\w+[.(])`)

func TestPurePackagesHaveNoClockAndNoGoroutine(t *testing.T) {
	for _, p := range list(t) {
		path := strings.TrimPrefix(p.ImportPath, module+"/")
		if !slices.Contains(pure, path) {
			continue
		}
		for _, name := range p.GoFiles {
			data, err := os.ReadFile(filepath.Join(p.Dir, name))
			if err != nil {
				t.Fatal(err)
			}
			for i, line := range strings.Split(string(data), "\n") {
				if code, _, _ := strings.Cut(line, "//"); forbidden.MatchString(code) {
					t.Errorf("%s/%s:%d: %s", path, name, i+1, strings.TrimSpace(line))
				}
			}
		}
	}
}

// banned names say nothing about what a package holds.
var banned = []string{"util", "utils", "common", "helper", "helpers", "manager", "misc", "shared", "base"}

func TestPackageNamesSayWhatTheyHold(t *testing.T) {
	for _, p := range list(t) {
		if name := filepath.Base(p.ImportPath); slices.Contains(banned, name) {
			t.Errorf("%s: %s is no name", p.ImportPath, name)
		}
	}
}

// The top level is what the design says, and nothing else.
func TestTopLevel(t *testing.T) {
	allowed := []string{"main.go", "main_test.go", "gateway", "processor", "analytics", "schemas", "migrations", "deploy", "internal", "docs", "docker-compose.yml", "go.mod", "go.sum", "README.md", "Makefile", "CHANGELOG.md", "LICENSE"}
	out, err := exec.Command("git", "-C", root(t), "ls-files").Output()
	if err != nil {
		t.Fatalf("listing files: %v", err)
	}
	for _, file := range strings.Fields(string(out)) {
		if top, _, _ := strings.Cut(file, "/"); !strings.HasPrefix(top, ".") && !slices.Contains(allowed, top) {
			t.Errorf("%s does not belong at the top", top)
		}
	}
}

func under(path, prefix string) bool {
	return path == prefix || strings.HasPrefix(path, prefix+"/")
}

func root(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,Standard,Imports,GoFiles", "./...")
	cmd.Dir = root(t)
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("listing packages: %v", err)
	}
	var pkgs []pkg
	dec := json.NewDecoder(strings.NewReader(string(out)))
	for {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		pkgs = append(pkgs, p)
	}
	if len(pkgs) < 10 {
		t.Fatalf("only %d packages listed: the rules would guard nothing", len(pkgs))
	}
	return pkgs
}
