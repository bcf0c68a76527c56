package gateway

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"turnout/schemas/resource"
)

// A protocol is reported as not spoken exactly if no adapter speaks it.
func TestOnlyProtocolsWithoutAdapterAreReported(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "resources.yaml")
	docs := `{kind: provider, id: one, protocol: openai, base_url: "https://one.example.com/v1"}
---
{kind: provider, id: two, protocol: anthropic, base_url: "https://two.example.com/v1"}
---
{kind: provider, id: three, protocol: bedrock, base_url: "https://three.example.com/v1"}
`
	if err := os.WriteFile(file, []byte(docs), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg := DefaultConfig()
	cfg.Resources, cfg.Spool.Dir, cfg.HashKey = []string{file}, filepath.Join(dir, "spool"), "one key for all nodes of tests"
	cfg.Kafka.Brokers = []string{"127.0.0.1:1"}
	var logs bytes.Buffer
	g, err := New(cfg, slog.New(slog.NewTextHandler(&logs, nil)), nil)
	if err != nil {
		t.Fatal(err)
	}
	g.release(context.Background())
	if said := logs.String(); strings.Contains(said, "is not spoken") {
		t.Errorf("said:\n%s", said)
	}
	logs.Reset()
	delete(g.adapters, resource.ProtocolBedrock)
	g.reportProblems(g.tenants.Current())
	said := logs.String()
	logs.Reset()
	g.reportProblems(g.tenants.Current()) // as after a change elsewhere
	if logs.Len() > 0 {
		t.Errorf("a change repeats what the log has:\n%s", logs.String())
	}
	if strings.Contains(said, "provider one") || strings.Contains(said, "provider two") || !strings.Contains(said, "provider three") {
		t.Errorf("said:\n%s", said)
	}
}
