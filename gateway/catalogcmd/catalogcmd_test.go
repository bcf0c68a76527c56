package catalogcmd

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"turnout/internal/lifecycle"
	"turnout/schemas/resource"
)

var update = flag.Bool("update", false, "write the golden files anew")

var builtIn = []resource.Source{{Name: "built-in.yaml", Data: []byte(`
{kind: provider, id: a, protocol: openai, base_url: "https://a.example.com"}
---
{kind: model, id: m, mappings: [{provider: a, upstream: x, price: {input: 0.5, cached_input: 0.05, output: 2}, context: 8000, regions: [{id: eu}, {id: us, price: {input: 0.25}, status: deprecated}]}]}
---
{kind: model, id: n, mappings: [{provider: a, upstream: y, price: {input: 1, output: 1}}]}
`)}}

func run(t *testing.T, args ...string) (stdout, stderr string, err error) {
	t.Helper()
	var out, errs bytes.Buffer
	env := lifecycle.Env{Args: args, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs}
	if len(args) > 0 && args[0] == "key" {
		env.Args = args[1:]
		err = KeyMain(context.Background(), env)
	} else {
		err = Main(context.Background(), env, builtIn)
	}
	return out.String(), errs.String(), err
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s:\ngot:\n%s\nwant:\n%s", name, got, want)
	}
}

// TestImport holds the whole outcome of a small api.json: resources and report.
func TestImport(t *testing.T) {
	stdout, stderr, err := run(t, "import", "models.dev", "testdata/api.json")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "import.yaml", stdout)
	golden(t, "import.report", stderr)

	dir := filepath.Join(t.TempDir(), "new", "folder")
	if _, again, err := run(t, "import", "models.dev", "testdata/api.json", "--out", dir); err != nil || again != stderr {
		t.Fatalf("%v\n%s", err, again)
	}
	folder, err := resource.ParseFiles([]string{dir})
	if err != nil {
		t.Fatal(err)
	}
	whole, err := resource.Parse(resource.Source{Name: "x", Data: []byte(stdout)})
	if err != nil {
		t.Fatal(err)
	}
	if folder.PriceVersion() != whole.PriceVersion() || len(folder.Models) != len(whole.Models) || len(folder.Providers) != len(whole.Providers) {
		t.Error("the folder holds something else than the standard output")
	}
	for _, name := range []string{"providers.yaml", "anthropic.yaml", "meta.yaml", "other.yaml"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err != nil {
			t.Error(err)
		}
	}
}

// TestImportOfAll takes the whole of models.dev, where it is there beside the repository.
func TestImportOfAll(t *testing.T) {
	path := filepath.Join("..", "..", "..", "shared", "data", "models.dev.json")
	if _, err := os.Stat(path); err != nil {
		path = "testdata/api.json"
	}
	if _, _, err := run(t, "import", "models.dev", path, "--out", t.TempDir()); err != nil {
		t.Fatal(err)
	}
}

func TestCheck(t *testing.T) {
	stdout, _, err := run(t, "check")
	if err != nil || !strings.Contains(stdout, "1 provider, 2 models, 2 mappings") {
		t.Errorf("%q %v", stdout, err)
	}
	dir := t.TempDir()
	broken := "kind: provider\nid: a\nprotocol: opnai\nbase_ulr: x\n---\nkind: model\nid: m\nmappings:\n  - provider: b\n    upstream: x\n    price: {input: 1, output: free}\n"
	if err := os.WriteFile(filepath.Join(dir, "x.yaml"), []byte(broken), 0o644); err != nil {
		t.Fatal(err)
	}
	stdout, _, err = run(t, "check", dir)
	if stdout != "" || lifecycle.Code(err) != 2 {
		t.Fatalf("%q, exit code %d", stdout, lifecycle.Code(err))
	}
	golden(t, "check.broken", strings.ReplaceAll(err.Error(), dir+string(filepath.Separator), "")+"\n")
	if _, _, err := run(t, "check", filepath.Join(dir, "none")); lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), "there is no file or folder") {
		t.Errorf("%v", err)
	}
}

// What a gateway would leave out is a mistake when it is looked for.
func TestCheckNamesProjectsThatBringOneHistoryTooMany(t *testing.T) {
	var b strings.Builder
	b.WriteString("kind: organization\nid: acme\n")
	for i := range 16 {
		fmt.Fprintf(&b, "---\n{kind: project, id: p%d, organization: acme, routing: {history: {window_minutes: %d}}}\n", i, 10+i)
	}
	path := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o644); err != nil {
		t.Fatal(err)
	}
	_, _, err := run(t, "check", path)
	if lifecycle.Code(err) != 2 || !strings.HasPrefix(err.Error(), "project p15: routing.history: ") || strings.Contains(err.Error(), "p14") {
		t.Errorf("%v", err)
	}
}

func TestList(t *testing.T) {
	stdout, _, err := run(t, "list")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "list.txt", stdout)
}

func TestKey(t *testing.T) {
	stdout, stderr, err := run(t, "key", "new", "--project", "web")
	if err != nil {
		t.Fatal(err)
	}
	token := regexp.MustCompile(`to-[0-9a-f]{40}`).FindString(stderr)
	if token == "" || strings.Contains(stdout, token) {
		t.Fatalf("the token does not stand on standard error alone: %q %q", stderr, stdout)
	}
	around := "{kind: organization, id: o}\n---\n{kind: project, id: web, organization: o}\n---\n"
	set, err := resource.Parse(resource.Source{Name: "x.yaml", Data: []byte(around + stdout)})
	if err != nil {
		t.Fatal(err)
	}
	if key := set.APIKeys[0]; key.Hash != Hash(token) || key.Project != "web" || !strings.HasPrefix(key.ID, "web-") {
		t.Errorf("%+v", key)
	}
	stdout, _, err = run(t, "key", "new", "--project=web", "--id", "mine")
	if err != nil || !strings.Contains(stdout, "id: mine\n") {
		t.Errorf("%q %v", stdout, err)
	}
	if one, two := NewToken(), NewToken(); one == two {
		t.Error("the same token twice")
	}
}

// TestRefused: mistakes of the caller end with exit code 2 and say what to do.
func TestRefused(t *testing.T) {
	for line, says := range map[string]string{
		"":                                "check, list or import",
		"chekc":                           "did you mean check?",
		"frobnicate":                      "check, list or import",
		"check --fast":                    "unknown flag --fast",
		"import":                          "FILE is models.dev's api.json",
		"import models.dev":               "FILE is models.dev's api.json",
		"import openrouter x.json":        "FILE is models.dev's api.json",
		"import models.dev nowhere.json":  "reading models.dev",
		"import models.dev import.go":     "reading models.dev",
		"import models.dev x --into y":    "into",
		"key":                             "new",
		"key old":                         "new",
		"key new":                         "--project is missing",
		"key new --project":               "project",
		"key new --project a/b":           "new: --project: \"a/b\" is not an id",
		"key new --project web extra":     `"extra" is too much`,
		"key new --project web --id a:b ": "new: --id: \"a:b\" is not an id",
	} {
		_, _, err := run(t, strings.Fields(line)...)
		if lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: exit code %d, %v", line, lifecycle.Code(err), err)
		}
	}
	for _, line := range []string{"help", "--help", "import --help", "check --help", "list -h", "key help", "key new --help"} {
		if stdout, _, err := run(t, strings.Fields(line)...); err != nil || !strings.Contains(stdout, "turnout ") {
			t.Errorf("%q: %q %v", line, stdout, err)
		}
	}
}
