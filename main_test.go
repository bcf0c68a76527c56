package main

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/loader"
	"github.com/compose-spec/compose-go/v2/types"

	"turnout/internal/lifecycle"
)

// What `docker compose config` would check, and more: every command of ours parses, and every setting
// in its environment exists and has a sensible value.
func TestCompose(t *testing.T) {
	data, err := os.ReadFile("docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	project, err := loader.LoadWithContext(t.Context(), types.ConfigDetails{
		WorkingDir:  ".",
		ConfigFiles: []types.ConfigFile{{Filename: "docker-compose.yml", Content: data}},
	}, func(o *loader.Options) { o.SetProjectName("turnout", true) })
	if err != nil {
		t.Fatal(err)
	}
	ours := 0
	for name, service := range project.Services {
		if service.Image == "" || !strings.Contains(service.Image, ":") || strings.HasSuffix(service.Image, ":latest") {
			t.Errorf("%s: image %q has no pinned tag", name, service.Image)
		}
		if service.HealthCheck == nil && !slices.Contains([]string{"topics", "migrate", "sim"}, name) {
			t.Errorf("%s: no health check", name)
		}
		if service.Image != "turnout:local" {
			continue
		}
		ours++
		var environ []string
		for key, value := range service.Environment {
			if value == nil {
				continue
			}
			for _, v := range service.Volumes { // the container's path is ours here
				if *value == v.Target {
					*value = v.Source
				}
			}
			environ = append(environ, key+"="+*value)
		}
		var out, errs bytes.Buffer
		env := lifecycle.Env{Args: append(slices.Clone([]string(service.Command[1:])), "--check-config"), Environ: environ, Stdout: &out, Stderr: &errs}
		if code := run(t.Context(), service.Command[0], env); code != 0 {
			t.Errorf("%s: %v ends with %d: %s", name, service.Command, code, errs.String())
		}
	}
	if ours < 7 {
		t.Errorf("only %d services are ours", ours)
	}
}

func TestAnUnknownSettingInTheEnvironmentIsRefused(t *testing.T) {
	var out, errs bytes.Buffer
	env := lifecycle.Env{Args: []string{"--check-config"}, Environ: []string{"TURNOUT_KAFKA_BROKRS=x"}, Stdout: &out, Stderr: &errs}
	if code := run(t.Context(), "gateway", env); code != 2 || !strings.Contains(errs.String(), "TURNOUT_KAFKA_BROKRS") {
		t.Errorf("code %d: %s", code, errs.String())
	}
}

func TestEveryCommandExplainsItself(t *testing.T) {
	for _, c := range commands() {
		if c.what == "" {
			continue
		}
		var out, errs bytes.Buffer
		code := run(t.Context(), c.name, lifecycle.Env{Args: []string{"--help"}, Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs})
		if code != 0 || out.Len() == 0 {
			t.Errorf("turnout %s --help ends with %d and says %q %q", c.name, code, out.String(), errs.String())
		}
	}
}

// What README and docs tell people to type exists: the command, and each of its flags.
func TestEveryCommandInTheDocsExists(t *testing.T) {
	pages, err := filepath.Glob("docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	typed := regexp.MustCompile("\\bturnout ([a-z]+)((?: +[^`|#;\\s]+)*)")
	seen := 0
	for _, page := range append(pages, "README.md") {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			if !strings.Contains(line, "`turnout ") && !strings.HasPrefix(line, "    ") {
				continue // prose
			}
			for _, m := range typed.FindAllStringSubmatch(line, -1) {
				seen++
				args := []string{"--help"}
				words := strings.Fields(m[2])
				if len(words) > 0 && (m[1] == "analytics" || m[1] == "spool" || m[1] == "topics") {
					args = []string{words[0], "--help"}
				}
				var out bytes.Buffer
				if code := run(t.Context(), m[1], lifecycle.Env{Args: args, Stdout: &out, Stderr: &out}); code != 0 {
					t.Errorf("%s: turnout %s %v ends with %d: %s", page, m[1], args, code, out.String())
				}
				for _, word := range words {
					name, isFlag := strings.CutPrefix(strings.Trim(word, "[]"), "--")
					if !isFlag {
						continue
					}
					name, _, _ = strings.Cut(name, "=")
					flags := strings.NewReplacer("-", "_", "[", " ", "]", " ").Replace(out.String())
					if !slices.Contains(strings.Fields(flags), "__"+strings.ReplaceAll(name, "-", "_")) {
						t.Errorf("%s: turnout %s has no --%s", page, m[1], name)
					}
				}
			}
		}
	}
	if seen < 20 {
		t.Errorf("only %d commands found", seen)
	}
}

var update = flag.Bool("update", false, "write docs/settings.md anew")

// TestSettingsPage holds docs/settings.md to what `turnout COMMAND --help` says.
func TestSettingsPage(t *testing.T) {
	const page = "docs/settings.md"
	text := settingsPage(t)
	if *update {
		if err := os.WriteFile(page, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(page); err != nil || string(got) != text {
		t.Errorf("%s is not what --help says (%v); `go test . -run TestSettingsPage -update` writes it anew", page, err)
	}
}

var helpLine = regexp.MustCompile(`(?m)^  --([a-z0-9_.]+)\n {8}(.*?)(?: \(default ([^()]*)\))?$`)

func settingsPage(t *testing.T) string {
	type setting struct{ help, value, dev, readBy string }
	shared, own := map[string]*setting{}, map[string][]string{}
	asking := []string{"replay", "explain", "analytics savings", "load"}
	for _, command := range slices.Concat([]string{"gateway", "processor", "analytics serve", "migrate", "topics", "sim", "dev", "spool ship"}, asking) {
		name, word, _ := strings.Cut(command, " ")
		var out bytes.Buffer
		if code := run(t.Context(), name, lifecycle.Env{Args: append(strings.Fields(word), "--help"), Stdout: &out, Stderr: &out}); code != 0 {
			t.Fatalf("turnout %s --help ends with %d", command, code)
		}
		for _, m := range helpLine.FindAllStringSubmatch(out.String(), -1) {
			key, help, value := m[1], m[2], m[3]
			if s := shared[key]; s != nil {
				if !strings.Contains(s.readBy, name) {
					s.readBy += ", " + name
				}
				if command == "dev" && value != s.value {
					s.dev = cmp.Or(value, "nothing")
				}
			} else if slices.Contains(asking, command) && command != "replay" || key == "from" || key == "verify" {
				own[command] = append(own[command], row("`--"+key+"`", code(value), help))
			} else {
				shared[key] = &setting{help: help, value: value, readBy: name}
			}
		}
	}

	var b strings.Builder
	b.WriteString("# Settings\n\nMade from what `turnout COMMAND --help` says by `go test . -run TestSettingsPage -update`, and held to it by the same test. Not to be edited by hand.\n\n" +
		"Flag > environment > YAML file (`--config FILE` or `TURNOUT_CONFIG`) > default. `kafka.brokers` is the flag `--kafka.brokers`, the variable `TURNOUT_KAFKA_BROKERS` and in YAML `kafka: {brokers: [...]}`. Lists have commas in flags and variables; durations are such as `30s` or `36h`. " +
		"Every command takes `--config`, `--check-config` and `--help`. What matters in production: [operations.md](operations.md).\n\n" +
		"## Of components\n\nAll may share one file and one environment: each reads its own. With `turnout dev` the addresses of engines say where they are to listen.\n\n" +
		row("setting", "default", "what", "read by") + row("---", "---", "---", "---"))
	for _, key := range slices.SortedFunc(maps.Keys(shared), func(a, b string) int {
		return cmp.Or(cmp.Compare(strings.Count(a, "."), 0)-cmp.Compare(strings.Count(b, "."), 0), cmp.Compare(a, b))
	}) {
		s := shared[key]
		value := code(s.value)
		switch s.dev {
		case "":
		case "nothing":
			value += "; `dev`: none"
		default:
			value += "; `dev`: " + code(s.dev)
		}
		b.WriteString(row("`"+key+"`", strings.TrimPrefix(value, "; "), s.help, s.readBy))
	}
	b.WriteString("\n## Of commands that ask or drive\n\nBeside these they read `clickhouse.*`, `replay` also `kafka.*` and `retention.*`.\n")
	for _, command := range asking {
		b.WriteString("\n`turnout " + command + "`" + map[string]string{"analytics savings": " (and `cost`, `health`, `retries`, `cache`)", "load": ", which reads nothing else"}[command] + ":\n\n" +
			row("flag", "default", "what") + row("---", "---", "---") + strings.Join(own[command], ""))
	}
	return b.String()
}

func row(cells ...string) string {
	return "| " + strings.Join(cells, " | ") + " |\n"
}

func code(value string) string {
	if value == "" {
		return ""
	}
	return "`" + value + "`"
}

// Help that lists flags alone does not say what may be asked for.
func TestHelpNamesTheWordsOfACommand(t *testing.T) {
	for name, want := range map[string]string{"topics": "turnout topics list", "analytics": "savings | cost", "explain": "turnout explain REQUEST_ID", "version": "--ready URL"} {
		var out bytes.Buffer
		if code := run(t.Context(), name, lifecycle.Env{Args: []string{"--help"}, Stdout: &out, Stderr: &out}); code != 0 || !strings.Contains(out.String(), want) {
			t.Errorf("turnout %s --help ends with %d and has no %q:\n%s", name, code, want, out.String())
		}
	}
}

func TestUnknownCommand(t *testing.T) {
	var out, errs bytes.Buffer
	if code := run(context.Background(), "gatway", lifecycle.Env{Stdout: &out, Stderr: &errs}); code != 2 || !strings.Contains(errs.String(), `no command "gatway"`) {
		t.Errorf("code %d: %s", code, errs.String())
	}
}
