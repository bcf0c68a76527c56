package telemetry

import (
	"cmp"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/metrics.md anew")

const (
	root = "../.."
	page = root + "/docs/metrics.md"
)

// metric is one that the source registers.
type metric struct{ name, kind, help, labels string }

var kinds = map[string]string{
	"Counter": "counter", "CounterVec": "counter", "Gauge": "gauge", "GaugeVec": "gauge", "GaugeFunc": "gauge",
	"Histogram": "histogram", "HistogramVec": "histogram",
}

// registered finds every metric in the source: those with labels are in no /metrics until they have counted.
func registered(t *testing.T) (found []metric) {
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "node_modules" || name == "testdata") {
			return fs.SkipDir
		}
		if d.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") || filepath.Dir(path) == root+"/internal/telemetry" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(file.Imports, func(i *ast.ImportSpec) bool { return i.Path.Value == `"turnout/internal/telemetry"` }) {
			return nil
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || kinds[method.Sel.Name] == "" || len(call.Args) < 2 {
				return true
			}
			m := metric{name: literal(call.Args[0]), kind: kinds[method.Sel.Name], help: literal(call.Args[1])}
			if m.name == "" || m.help == "" {
				t.Errorf("%s: a metric whose name and help are no literals is on no page", path)
			}
			if strings.HasSuffix(method.Sel.Name, "Vec") {
				var labels []string
				for _, arg := range call.Args[2:] {
					if label := literal(arg); label != "" { // what is none are a histogram's bounds
						labels = append(labels, "`"+label+"`")
					}
				}
				m.labels = strings.Join(labels, ", ")
			}
			found = append(found, m)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(found, func(a, b metric) int { return cmp.Compare(a.name, b.name) })
	return found
}

func literal(e ast.Expr) string {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, err := strconv.Unquote(lit.Value)
	if err != nil {
		return ""
	}
	return text
}

// TestMetricsPage holds docs/metrics.md to the metrics that the source registers.
func TestMetricsPage(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Metrics\n\nMade from the source by `go test ./internal/telemetry -run TestMetricsPage -update`, and held to it by the same test. Not to be edited by hand.\n\n" +
		"In Prometheus's text format, beside those of the Go runtime (`go_*`) and the process (`process_*`). One with labels shows once it has counted. `deploy/prometheus/prometheus.yml` scrapes all three. What bad input moves which of them: [operations.md](operations.md).\n")
	found := registered(t)
	written := 0
	for _, part := range []struct{ prefix, title string }{
		{"turnout_gateway_", "Gateway: `/metrics` of `admin_listen`, with the `admin_token` as a bearer where there is one"},
		{"turnout_processor_", "Processor: `/metrics` of `processor.listen`"},
		{"turnout_analytics_", "Analytics: `/metrics` of `analytics.listen`"},
	} {
		b.WriteString("\n## " + part.title + "\n\n| metric | type | labels | what |\n|---|---|---|---|\n")
		for _, m := range found {
			if strings.HasPrefix(m.name, part.prefix) {
				b.WriteString("| `" + m.name + "` | " + m.kind + " | " + m.labels + " | " + m.help + " |\n")
				written++
			}
		}
	}
	if written != len(found) || written < 40 {
		t.Errorf("%d of %d metrics have a component's prefix", written, len(found))
	}
	if *update {
		if err := os.WriteFile(page, []byte(b.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != b.String() {
		t.Errorf("%s is not what the source registers (%v); `go test ./internal/telemetry -run TestMetricsPage -update` writes it anew", page, err)
	}
}

// A metric that is renamed must not live on in what operators are told to watch.
func TestOperationsNameMetricsThatExist(t *testing.T) {
	text, err := os.ReadFile(root + "/docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	found := registered(t)
	named := regexp.MustCompile(`turnout_(?:gateway|processor|analytics)_[a-z_]+`).FindAllString(string(text), -1)
	if len(named) < 10 {
		t.Errorf("only %d metrics are named", len(named))
	}
	for _, name := range named {
		if !slices.ContainsFunc(found, func(m metric) bool { return m.name == name }) {
			t.Errorf("docs/operations.md names %s, which nothing registers", name)
		}
	}
}
