package main

import (
	"bytes"
	"context"
	"os"
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
