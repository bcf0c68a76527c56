package gateway

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnout/internal/testkit/chtest"
	"turnout/migrations"
)

// A node's clock is an hour off, either way: it says so, takes that hour off every time it stamps, and
// is as ready as any other. Only the clock that is compared with ClickHouse's is wrong here, the one that
// attempts are timed with is not: their times are off by what was taken off.
func TestAnHourOfClockSkewIsCorrected(t *testing.T) {
	cfg := chtest.New(t)
	if _, _, err := migrations.Up(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	for _, skew := range []time.Duration{time.Hour, -time.Hour} {
		t.Run(skew.String(), func(t *testing.T) {
			nodeClock = func() time.Time { return time.Now().Add(skew) }
			defer func() { nodeClock = time.Now }()
			u := newUpstreams(t)
			n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), func(c *Config) { c.ClickHouse, c.PollInterval = cfg, 100*time.Millisecond }).ready()
			eventually(t, "the skew is measured", 5*time.Second, func() bool { return (n.g.poller.Offset() - skew).Abs() < time.Second })
			r := n.do("GET", n.url+"/readyz", "")
			if text := fmt.Sprint(r.at("clock")); r.status != 200 || !strings.Contains(text, "0m0") && !strings.Contains(text, "59m59") || !strings.Contains(text, "check the time service") {
				t.Errorf("readyz: %d %s", r.status, r.body)
			}
			shown := math.NaN()
			for line := range strings.Lines(n.do("GET", n.admin+"/metrics", "").body) {
				if value, ok := strings.CutPrefix(strings.TrimSpace(line), "turnout_gateway_clock_offset_seconds "); ok {
					shown, _ = strconv.ParseFloat(value, 64)
				}
			}
			if math.Abs(shown-skew.Seconds()) > 1 {
				t.Errorf("the metric shows %v s", shown)
			}
			before := time.Now()
			if r := n.chat(chatBody); r.status != 200 {
				t.Fatalf("%d %s", r.status, r.body)
			}
			e := n.events(1)[0]
			if began, ended := before.Add(-skew), time.Now().Add(-skew); began.Sub(e.StartedAt) > time.Second || e.FinishedAt.Sub(ended) > time.Second {
				t.Errorf("stamped %s to %s, want %s to %s", e.StartedAt, e.FinishedAt, began, ended)
			}
			if offset := time.Duration(e.ClockOffsetUS) * time.Microsecond; (offset - skew).Abs() > time.Second {
				t.Errorf("the event says an offset of %s", offset)
			}
		})
	}
}
