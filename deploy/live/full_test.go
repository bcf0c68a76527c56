//go:build sdk

package live

import (
	"fmt"
	"testing"
	"time"

	"turnout/internal/testkit"
)

// TestANodeAsksForUsageOnceAMinute: the node that served the requests itself takes up the observed
// rates, within a minute and a few seconds, and no sooner.
func TestANodeAsksForUsageOnceAMinute(t *testing.T) {
	s := newStack(t, setup{hosts: []host{
		{id: "caching", input: "1", output: "2", cached: "0.1"},
		{id: "plain", input: "0.7", output: "2"},
	}, routing: steady}, true)
	n := s.gateway("g")
	began := time.Now()
	n.goes("plain", "", ask{tokens: 6000})
	for range 20 {
		n.goes("caching", "", ask{model: "caching/m", tokens: 2000})
	}
	s.awaitUsage("main", 21)
	n.goes("plain", "", ask{tokens: 6000})
	var took time.Duration
	testkit.Eventually(t, 80*time.Second, "observed rates count", func() error {
		took = time.Since(began)
		if got := n.send(ask{tokens: 6000}); got.Provider != "caching" {
			return fmt.Errorf("went to %s", got.Provider)
		}
		time.Sleep(time.Second)
		return nil
	})
	if took < 55*time.Second || took > 70*time.Second {
		t.Errorf("the rates were taken up after %s", took)
	}
	t.Logf("taken up after %s", took)
}
