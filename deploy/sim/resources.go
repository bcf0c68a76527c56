package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// ResourceOptions say what Resources renders.
type ResourceOptions struct {
	BaseURL   string                       // of the simulator, such as http://127.0.0.1:8090
	Providers []Provider                   // none: Default()
	Secret    func(provider string) string // the reference to a provider's key: file:PATH or env:NAME
	Projects  []Project
}

// Project is a project of the organization "local" and the one key that opens it.
type Project struct {
	ID       string
	KeyHash  string         // sha256:... of the token
	Strategy string         // empty: auto
	Routing  map[string]any // the project's routing configuration; empty: the defaults
}

// Resources renders the resource documents (YAML) under which a gateway uses the simulated
// providers: providers, models, the organization "local", its projects and their keys.
func Resources(o ResourceOptions) ([]byte, error) {
	if o.Providers == nil {
		o.Providers = Default()
	}
	var b bytes.Buffer
	document := func(format string, args ...any) {
		if b.Len() > 0 {
			b.WriteString("---\n")
		}
		fmt.Fprintf(&b, format, args...)
	}
	for _, p := range o.Providers {
		document("kind: provider\nid: %s\nprotocol: openai\nbase_url: %s/%s/v1\n", p.ID, strings.TrimSuffix(o.BaseURL, "/"), p.ID)
		fmt.Fprintf(&b, "credentials: [{id: main, secret: %q}]\nallow_private: true\ntrace: true\n", o.Secret(p.ID))
	}
	for _, id := range modelIDs(o.Providers) {
		header := false
		for _, p := range o.Providers {
			for _, m := range p.Models {
				if m.ID != id {
					continue
				}
				if !header {
					output := "text"
					if m.Embedding {
						output = "embedding"
					}
					document("kind: model\nid: %s\noutput: [%s]\nmappings:\n", id, output)
					header = true
				}
				m.render(&b, p.ID)
			}
		}
	}
	document("kind: organization\nid: local\nworkload: api\n")
	for _, p := range o.Projects {
		document("kind: project\nid: %s\norganization: local\nmode: platform\n", p.ID)
		if p.Strategy != "" {
			fmt.Fprintf(&b, "default_strategy: %s\n", p.Strategy)
		}
		if len(p.Routing) > 0 {
			routing, err := json.Marshal(p.Routing) // JSON is YAML
			if err != nil {
				return nil, fmt.Errorf("project %s: routing: %w", p.ID, err)
			}
			fmt.Fprintf(&b, "routing: %s\n", routing)
		}
		document("kind: api_key\nid: %s-key\nproject: %s\nhash: %q\n", p.ID, p.ID, p.KeyHash)
	}
	return b.Bytes(), nil
}

func (m Model) render(b *bytes.Buffer, provider string) {
	fmt.Fprintf(b, "  - provider: %s\n    upstream: %s\n    price: {input: %s, output: %s", provider, m.ID, m.Price.Input, m.Price.Output)
	if m.Price.CachedInput != "" {
		fmt.Fprintf(b, ", cached_input: %s", m.Price.CachedInput)
	}
	b.WriteString("}\n")
	if m.Context > 0 {
		fmt.Fprintf(b, "    context: %d\n", m.Context)
	}
	switch {
	case m.Embedding:
	case m.Reasoning:
		fmt.Fprintf(b, "    max_output: %d\n    capabilities: [vision, tools, tool_choice, json_object, json_schema, n, reasoning]\n", maxOutput)
	default:
		fmt.Fprintf(b, "    max_output: %d\n    capabilities: [vision, tools, tool_choice, json_object, json_schema, n]\n", maxOutput)
	}
}

// WriteKeys writes the key of each default provider into DIR/<provider>.key and returns the Secret
// that refers to these files.
func WriteKeys(dir string) (func(provider string) string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("writing simulator keys: %w", err)
	}
	path := func(provider string) string { return filepath.Join(dir, provider+".key") }
	for _, p := range Default() {
		if err := os.WriteFile(path(p.ID), []byte(Key(p.ID)+"\n"), 0o600); err != nil {
			return nil, fmt.Errorf("writing simulator keys: %w", err)
		}
	}
	return func(provider string) string { return "file:" + path(provider) }, nil
}
