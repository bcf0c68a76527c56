package gateway

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/topic"
)

// config reads the bodies of what stands in the configuration topic by key, and counts records.
func (n *node) config() map[string]json.RawMessage {
	n.t.Helper()
	out, _ := n.configRecords()
	return out
}

func (n *node) configRecords() (map[string]json.RawMessage, int) {
	n.t.Helper()
	client, err := kafkax.Open(n.kafka, slog.New(slog.DiscardHandler))
	if err != nil {
		n.t.Fatal(err)
	}
	defer client.Close()
	first, end, err := client.Bounds(n.t.Context(), topic.Config, 0)
	if err != nil {
		n.t.Fatal(err)
	}
	f := client.NewFetcher(topic.Config, 0, first)
	defer f.Close()
	out, count := map[string]json.RawMessage{}, 0
	for next := first; next < end; {
		records, err := f.Fetch(n.t.Context(), 1000)
		if err != nil {
			n.t.Fatal(err)
		}
		for _, r := range records {
			var v versionRecord
			if err := json.Unmarshal(r.Value, &v); err != nil || v.Kind+"/"+v.ID != string(r.Key) {
				n.t.Fatalf("record %q: %s, %v", r.Key, r.Value, err)
			}
			out[string(r.Key)] = v.Body
			count++
			next = r.Offset + 1
		}
	}
	return out, count
}

// A version is told once, whoever else serves by it, and one whose process died while Kafka was away
// is told by the next one in its place.
func TestVersionsAreToldOnceAndOutliveTheProcess(t *testing.T) {
	u := newUpstreams(t)
	broker := kafkatest.Start(t, 3)
	spool := filepath.Join(t.TempDir(), "spool")
	run := func(routing string) *node {
		return start(t, resources(u.URL, routing, providerSpec{id: "alpha"}), func(c *Config) { c.Kafka, c.Spool.Dir = broker.Config(), spool })
	}
	told := func(n *node, want int) map[string]json.RawMessage {
		t.Helper()
		eventually(t, "everything is told", 10*time.Second, func() bool { return len(n.g.versions.pending()) == 0 })
		all, records := n.configRecords()
		if len(all) != want || records != want {
			t.Errorf("%d records of %d versions, want %d", records, len(all), want)
		}
		return all
	}
	first := run(noExploration).ready()
	told(first, 2)
	first.stop()

	broker.Stop()
	second := run("{retry: {max_retries: 7}}")
	lost, _ := second.g.tenants.Current().Project("web")
	second.stop()
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(spool), "versions", "*")); len(names) != 2 {
		t.Fatalf("pending on the disk: %v", names)
	}
	broker.Start()
	third := run(noExploration).ready()
	all := told(third, 3)
	if body := string(all[topic.KindRoutingConfig+"/"+lost.ConfigVersion]); !strings.Contains(body, `"max_retries":7`) {
		t.Errorf("what the dead process served by: %s", body)
	}
	if names, _ := filepath.Glob(filepath.Join(filepath.Dir(spool), "versions", "*")); len(names) != 0 {
		t.Errorf("still on the disk: %v", names)
	}

	// A changed configuration is told while the node runs, and again nothing twice.
	text := strings.Replace(resources(u.URL, noExploration, providerSpec{id: "alpha"}), "{input: 1, output: 2}", "{input: 5, output: 6}", 1)
	if err := os.WriteFile(third.file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the new price book is told", 10*time.Second, func() bool { return len(third.config()) == 4 })
	third.stop()
	told(run(noExploration).ready(), 4)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := first.g.versions.tell(ctx, nil); err != nil { // nothing is pending: the writer is not touched
		t.Error(err)
	}
}
