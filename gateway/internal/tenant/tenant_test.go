package tenant

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"turnout/gateway/catalog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const token = "to-aaaabbbbccccdddd"

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return hex.EncodeToString(sum[:])
}

func documents(secretFile string) string {
	return fmt.Sprintf(`
kind: provider
id: a
protocol: openai
base_url: https://${A_HOST}/v1/
credentials: [{id: main, secret: env:A_KEY}, {id: second, secret: env:A_MISSING}, {id: third, secret: "file:%s", region: eu, models: [m]}]
---
{kind: provider, id: b, protocol: openai, base_url: "https://${B_HOST}/v1", credentials: [{id: main, secret: env:A_KEY}]}
---
{kind: provider, id: trap, protocol: openai, base_url: "http://${TRAP}/v1", allow_private: true, credentials: [{id: main, secret: env:A_KEY}]}
---
{kind: model, id: m, mappings: [{provider: a, upstream: x, price: {input: 1, output: 2}}]}
---
{kind: organization, id: acme}
---
{kind: organization, id: other}
---
{kind: project, id: web, organization: acme, routing: {retry: {max_retries: 1}}}
---
{kind: project, id: app, organization: acme, routing: {retry: {max_retries: 3}}}
---
{kind: api_key, id: web-1, project: web, hash: "sha256:%s"}
---
{kind: api_key, id: web-2, project: web, hash: "sha256:%s", revoked: true}
---
{kind: provider_key, id: own, name: Ours, organization: acme, provider: a, secret: env:OWN, region: eu}
---
{kind: provider_key, id: lost, organization: acme, provider: b, secret: env:OWN}
---
{kind: provider_key, id: unset, organization: other, provider: a, secret: env:NOWHERE}
`, secretFile, hashOf(token), hashOf("to-revoked"))
}

func lookup(name string) (string, bool) {
	value, ok := map[string]string{"A_HOST": "a.example.com", "A_KEY": " key-a\n", "OWN": "key-own", "TRAP": "169.254.169.254", "EMPTY": ""}[name]
	return value, ok
}

func write(t *testing.T, path, data string) {
	t.Helper()
	temporary := path + ".tmp"
	if err := os.WriteFile(temporary, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(temporary, path); err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, paths []string, o Options) *Store {
	t.Helper()
	o.Lookup = lookup
	s, err := Open(paths, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

func TestView(t *testing.T) {
	dir := t.TempDir()
	secret := filepath.Join(dir, "secret")
	write(t, secret, "key-file\n")
	write(t, filepath.Join(dir, "all.yaml"), documents(secret))
	v := open(t, []string{dir}, Options{}).Current()

	access, ok := v.Access(token)
	if !ok || access.Key.ID != "web-1" || access.Project.ID != "web" || access.Organization.ID != "acme" || access.Project.Organization != access.Organization {
		t.Fatalf("%+v", access)
	}
	if revoked, ok := v.Access("to-revoked"); !ok || !revoked.Key.Revoked {
		t.Error("a revoked key is not found as revoked")
	}
	for _, wrong := range []string{"", "to-", token + " ", hashOf(token), "sha256:" + hashOf(token)} {
		if _, ok := v.Access(wrong); ok {
			t.Errorf("%q opens something", wrong)
		}
	}
	web, _ := v.Project("web")
	app, _ := v.Project("app")
	if web.ConfigVersion == app.ConfigVersion || web.ConfigVersion == "" || v.PriceVersion == "" {
		t.Error("versions")
	}
	if r, err := v.Catalog.Resolve("a/m", catalogQuery); err != nil || r.Provider != "a" {
		t.Error(err)
	}

	if got := v.BaseURL("a"); got != "https://a.example.com/v1" {
		t.Errorf("base URL %q", got)
	}
	if v.BaseURL("b") != "" || v.BaseURL("trap") != "" || v.BaseURL("nobody") != "" {
		t.Error("a base URL that cannot be used is given out")
	}
	platform := v.Platform("a")
	if len(platform) != 2 || platform[0].ID != "main" || platform[0].Secret.Reveal() != "key-a" || platform[0].BYOK ||
		platform[1].ID != "third" || platform[1].Secret.Reveal() != "key-file" || platform[1].Region != "eu" || platform[1].Models[0] != "m" {
		t.Errorf("platform credentials %+v", platform)
	}
	if len(v.Platform("b")) != 0 || len(v.Platform("trap")) != 0 {
		t.Error("credentials of a provider that cannot be reached")
	}
	own := v.BYOK("acme", "a")
	if len(own) != 1 || own[0].Secret.Reveal() != "key-own" || !own[0].BYOK || own[0].Name != "Ours" || own[0].Region != "eu" {
		t.Errorf("own credentials %+v", own)
	}
	if len(v.BYOK("other", "a")) != 0 || len(v.BYOK("acme", "b")) != 0 {
		t.Error("another organization's key, or one without a secret")
	}

	var problems []string
	for _, p := range v.Problems {
		problems = append(problems, p.Subject+": "+p.Message)
	}
	want := []string{
		"provider a credential second: the environment variable A_MISSING is not set",
		"provider b base_url: the environment variable B_HOST is not set",
		`provider trap base_url: "http://169.254.169.254/v1" is a link-local or metadata address: no provider is there`,
		"provider_key lost: the provider b cannot be reached: see its base_url",
		"provider_key unset: the environment variable NOWHERE is not set",
	}
	if strings.Join(problems, "\n") != strings.Join(want, "\n") {
		t.Errorf("problems:\n%s\nwant:\n%s", strings.Join(problems, "\n"), strings.Join(want, "\n"))
	}
	if text := fmt.Sprintf("%v %+v %#v", platform, platform, own); strings.Contains(text, "key-a") || strings.Contains(text, "key-own") {
		t.Error("a secret is printed")
	}
}

// Requests gather credentials by appending to these lists, many at once.
func TestAppendingToCredentialsWritesIntoNoOtherList(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all.yaml")
	write(t, path, `
{kind: provider, id: a, protocol: openai, base_url: "https://a.example.com/v1", credentials: [{id: c1, secret: env:A_KEY}, {id: c2, secret: env:A_KEY}, {id: c3, secret: env:A_KEY}]}
---
{kind: organization, id: acme}
---
{kind: provider_key, id: k1, organization: acme, provider: a, secret: env:OWN}
---
{kind: provider_key, id: k2, organization: acme, provider: a, secret: env:OWN}
---
{kind: provider_key, id: k3, organization: acme, provider: a, secret: env:OWN}
`)
	v := open(t, []string{path}, Options{}).Current()
	for what, list := range map[string]func() []Credential{
		"platform": func() []Credential { return v.Platform("a") },
		"byok":     func() []Credential { return v.BYOK("acme", "a") },
	} {
		mine, theirs := append(list(), Credential{ID: "mine"}), append(list(), Credential{ID: "theirs"})
		if len(mine) != 4 || mine[3].ID != "mine" || theirs[3].ID != "theirs" {
			t.Errorf("%s: %v and %v share memory", what, mine[3].ID, theirs[3].ID)
		}
	}
}

func TestAccessAllocatesNothing(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "all.yaml"), documents("none"))
	v := open(t, []string{dir}, Options{}).Current()
	if n := testing.AllocsPerRun(100, func() { v.Access(token); v.Platform("a"); v.BYOK("acme", "a") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// eventually fails unless ok holds within the 2 s in which a change must count.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(2 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("not within 2 s: %s", what)
}

func has(s *Store, organization string) bool {
	for _, o := range s.Current().Set.Organizations {
		if o.ID == organization {
			return true
		}
	}
	return false
}

// TestReload: a change counts, a broken one never does, with notes from the system and without.
func TestReload(t *testing.T) {
	for name, paths := range map[string]func(dir string) []string{
		"folder": func(dir string) []string { return []string{dir} },
		"file":   func(dir string) []string { return []string{filepath.Join(dir, "a.yaml")} },
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, "a.yaml")
			write(t, file, "{kind: organization, id: one}")
			var changes, errors atomic.Int64
			var last atomic.Pointer[error]
			s := open(t, paths(dir), Options{
				OnChange: func(*View) { changes.Add(1) },
				OnError:  func(err error) { errors.Add(1); last.Store(&err) },
			})
			write(t, file, "{kind: organization, id: two}")
			eventually(t, "the change counts", func() bool { return has(s, "two") })
			before := s.Current()

			write(t, file, "kind: organization\nid: three\nnmae: x\n")
			eventually(t, "the broken file is reported", func() bool { return errors.Load() == 1 })
			if s.Current() != before || s.Err() == nil {
				t.Error("a broken set replaced a good one")
			}
			if text := (*last.Load()).Error(); !strings.Contains(text, "a.yaml:3:1: organization three: nmae: unknown field") {
				t.Errorf("%s", text)
			}

			write(t, file, "{kind: organization, id: four}")
			eventually(t, "the mended file counts", func() bool { return has(s, "four") && s.Err() == nil })
			if n := changes.Load(); n != 2 || errors.Load() != 1 {
				t.Errorf("%d changes and %d errors told, want 2 and 1", n, errors.Load())
			}
		})
	}
}

func TestReloadOfFoldersAndSecrets(t *testing.T) {
	dir, elsewhere := t.TempDir(), t.TempDir()
	secret := filepath.Join(elsewhere, "secret")
	write(t, secret, "first")
	write(t, filepath.Join(dir, "all.yaml"), documents(secret))
	s := open(t, []string{dir}, Options{Every: 100 * time.Millisecond})

	if err := os.MkdirAll(filepath.Join(dir, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "sub", "more.json"), `{"kind": "organization", "id": "more"}`)
	eventually(t, "a new folder's file counts", func() bool { return has(s, "more") })
	if err := os.Remove(filepath.Join(dir, "sub", "more.json")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a removed file is gone", func() bool { return !has(s, "more") })

	write(t, secret, "second")
	eventually(t, "a changed secret counts", func() bool {
		platform := s.Current().Platform("a")
		return len(platform) == 2 && platform[1].Secret.Reveal() == "second"
	})
	if err := os.Remove(secret); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a lost secret is a problem", func() bool { return len(s.Current().Platform("a")) == 1 })
}

// TestFilesGone: files that vanish are an error, not an empty set.
func TestFilesGone(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, "{kind: organization, id: one}")
	s := open(t, []string{file}, Options{})
	if err := os.Remove(file); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the lost file is reported", func() bool { return s.Err() != nil })
	if !has(s, "one") {
		t.Error("the last good set is not served")
	}
	write(t, file, "{kind: organization, id: two}")
	eventually(t, "the file that came back counts", func() bool { return has(s, "two") && s.Err() == nil })
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "a.yaml"), "kind: organisation\nid: x\n")
	if _, err := Open([]string{dir}, Options{}); err == nil || !strings.Contains(err.Error(), `a.yaml:1:7`) {
		t.Errorf("%v", err)
	}
	if _, err := Open([]string{filepath.Join(dir, "none")}, Options{}); err == nil || !strings.Contains(err.Error(), "there is no file or folder") {
		t.Errorf("%v", err)
	}
	if s := open(t, nil, Options{}); s.Current() == nil || len(s.Current().Catalog.Models()) != 0 {
		t.Error("no paths are not an empty view")
	}
}

// TestWrittenInPlace: a file that is written bit by bit counts in the end, and the last good set until then.
func TestWrittenInPlace(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "a.yaml")
	write(t, file, "{kind: organization, id: one}")
	s := open(t, []string{dir}, Options{})
	f, err := os.Create(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []string{"{kind: orga", "nization, ", "id: two", "}\n"} {
		if _, err := f.WriteString(part); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * settle)
		if !has(s, "one") && !has(s, "two") {
			t.Fatal("half a file replaced a good one")
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the change counts", func() bool { return has(s, "two") && s.Err() == nil })
}

var catalogQuery = catalog.Query{Now: time.Date(2026, 6, 1, 0, 0, 0, 0, time.UTC)}
