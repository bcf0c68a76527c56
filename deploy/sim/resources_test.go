package sim_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"turnout/deploy/sim"
	"turnout/internal/config"
	"turnout/internal/lifecycle"
	"turnout/schemas/resource"
)

func TestResourcesAreWhatTheGatewayReads(t *testing.T) {
	secret, err := sim.WriteKeys(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	hash := "sha256:" + strings.Repeat("ab", 32)
	text, err := sim.Resources(sim.ResourceOptions{BaseURL: "http://127.0.0.1:1234/", Secret: secret, Projects: []sim.Project{
		{ID: "local-dev", KeyHash: hash},
		{ID: "local-demo", KeyHash: hash[:69] + "cd", Strategy: "price", Routing: map[string]any{"history": map[string]any{"window_minutes": 1}, "thresholds": map[string]any{"exploration_rate": .05}}},
	}})
	if err != nil {
		t.Fatal(err)
	}
	set, err := resource.Parse(resource.Source{Name: "sim.yaml", Data: text})
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if len(set.Providers) != 5 || len(set.Models) != 4 || len(set.Projects) != 2 || len(set.APIKeys) != 2 {
		t.Fatalf("got %+v", set)
	}
	for _, p := range set.Providers {
		path, ok := strings.CutPrefix(p.Credentials[0].Secret, "file:")
		key, err := os.ReadFile(path)
		if !ok || err != nil || strings.TrimSpace(string(key)) != sim.Key(p.ID) || !p.Trace || !p.AllowPrivate || p.BaseURL != "http://127.0.0.1:1234/"+p.ID+"/v1" {
			t.Errorf("%v %+v", err, p)
		}
	}
	if r := set.Projects[1].Routing; r.History.WindowMinutes != 1 || r.Thresholds.ExplorationRate != .05 {
		t.Errorf("got %+v", r)
	}
	// The comparison of routing rules rests on these bounds.
	for _, m := range set.Models {
		if m.ID == sim.Embedder {
			continue
		}
		lo, hi := m.Mappings[0].Price.Input, m.Mappings[0].Price.Input
		for _, mapping := range m.Mappings {
			price := mapping.Price
			lo, hi = min(lo, price.Input), max(hi, price.Input)
			if share := float64(*price.CachedInput) / float64(price.Input); share < .0999 || share > .6001 {
				t.Errorf("%s at %s: cached input costs %.2f of input", m.ID, mapping.Provider, share)
			}
		}
		if len(m.Mappings) < 3 || float64(hi)/float64(lo) > 1.3 {
			t.Errorf("%s: %d mappings from %d to %d", m.ID, len(m.Mappings), lo, hi)
		}
	}
}

func TestMainServesUntilStopped(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	reader, writer := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- sim.Main(ctx, lifecycle.Env{Args: []string{"--sim.listen=127.0.0.1:0", "--sim.seed=3"}, Stdout: writer, Stderr: io.Discard}, nil)
		writer.Close()
	}()
	line := make([]byte, 4096)
	n, err := reader.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	go io.Copy(io.Discard, reader)
	base, _, ok := strings.Cut(string(line[:n]), "/sim-thrift/v1")
	if !ok {
		t.Fatalf("printed %q", line[:n])
	}
	c := sim.Client{URL: base}
	for range 100 { // the lines are printed after the server has begun
		if _, err = c.Ledger(t.Context(), 0); err == nil {
			break
		}
		time.Sleep(time.Millisecond)
	}
	if err != nil {
		t.Error(err)
	}
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestMainRefusals(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	for _, c := range []struct {
		args string
		want string
		code int
	}{
		{"--sim.listen=nowhere", "sim.listen", 2},
		{"--sim.ledger_entries=0", "sim.ledger_entries", 2},
		{"stray", "stray", 2},
		{"--sim.listen=" + taken.Addr().String(), "--sim.listen", 1},
	} {
		err := sim.Main(t.Context(), lifecycle.Env{Args: []string{c.args}, Stdout: io.Discard}, nil)
		if err == nil || !strings.Contains(err.Error(), c.want) || lifecycle.Code(err) != c.code {
			t.Errorf("%s: %v", c.args, err)
		}
	}
	var out bytes.Buffer
	if err := sim.Main(t.Context(), lifecycle.Env{Args: []string{"--check-config"}, Stdout: &out}, config.Keys(sim.DefaultConfig())); err != nil || !strings.Contains(out.String(), "fine") {
		t.Errorf("%v %s", err, out.String())
	}
}
