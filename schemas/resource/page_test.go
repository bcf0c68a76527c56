package resource

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestResourcesPage holds docs/resources.md to the decoder: what it shows is valid, `routing` shows the
// defaults, and no field is left out.
func TestResourcesPage(t *testing.T) {
	page, err := os.ReadFile("../../docs/resources.md")
	if err != nil {
		t.Fatal(err)
	}
	var blocks []string
	for _, m := range regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(string(page), -1) {
		blocks = append(blocks, m[1])
	}
	shown := strings.Join(blocks, "---\n")
	set, err := Parse(Source{Name: "docs/resources.md", Data: []byte(shown)})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := set.Projects[0].Routing, DefaultRouting(); !reflect.DeepEqual(got, want) {
		t.Errorf("routing shows\n%+v\nand the defaults are\n%+v", got, want)
	}
	names := fieldNames(t)
	for _, rate := range new(Price).optional() {
		names = append(names, rate.name)
	}
	if len(names) < 80 {
		t.Errorf("only %d fields found in the decoder", len(names))
	}
	for _, name := range names {
		if !regexp.MustCompile(`(?m)(^|[ {,-])` + name + `:`).MatchString(shown) {
			t.Errorf("docs/resources.md does not show the field %s", name)
		}
	}
}

// fieldNames are those that the decoder reads: the first argument of what it asks its fields for.
func fieldNames(t *testing.T) []string {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, path := range files {
		if strings.HasSuffix(path, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			method, ok := call.Fun.(*ast.SelectorExpr)
			if !ok {
				return true
			}
			if on, ok := method.X.(*ast.Ident); !ok || on.Name != "o" {
				return true
			}
			for _, arg := range call.Args[:min(2, len(call.Args))] { // behind a kind, in references
				lit, ok := arg.(*ast.BasicLit)
				if !ok || lit.Kind != token.STRING {
					continue
				}
				if name, err := strconv.Unquote(lit.Value); err == nil {
					names = append(names, name)
				}
				break
			}
			return true
		})
	}
	slices.Sort(names)
	return slices.Compact(names)
}
