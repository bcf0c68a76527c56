package chaos

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
	"time"
)

// The points of gateways and processors, in the order in which an event passes them.
var (
	gatewayPoints   = []string{"start", "called", "end", "rotate", "ack", "acked"}
	processorPoints = []string{"partition assigned", "batch taken", "raw stored", "dead letters written", "folds stored", "snapshot rows written", "head written"}
)

var meaning = map[string]string{
	"start": "start record written, call not yet made", "called": "call answered, end not yet written", "end": "end written, client not yet answered in full",
	"rotate": "segment just rotated", "ack": "Kafka has it, the spool does not know", "acked": "acknowledged and noted",
	"partition assigned": "in the middle of a rebalance", "batch taken": "before the raw rows", "raw stored": "raw rows stored, buckets not", "dead letters written": "before buckets and progress",
	"folds stored": "buckets and progress stored", "snapshot rows written": "before the head row", "head written": "head row written", random: "at any moment",
}

const random = "random"

// strike is who is killed when a process comes to a point. at is the role that comes there; where it
// is not among the victims it stands still until they are dead.
type strike struct {
	at, point string
	victims   []string
}

func (s strike) name() string { return s.at + "\t" + s.point + "\t" + strings.Join(s.victims, " + ") }

const engines = 2 // the last ones of parts

var parts = []string{"gateway", "processor", "kafka", "clickhouse"}

// matrix is each point with each victim alone and with each pair that the point's process is one of,
// each engine alone while the process stands at the point, both engines, and all of it at random.
func matrix() []strike {
	var all []strike
	for role, points := range map[string][]string{"gateway": gatewayPoints, "processor": processorPoints} {
		for _, point := range points {
			all = append(all, strike{role, point, []string{role}})
			for _, other := range parts {
				if other != role {
					all = append(all, strike{role, point, []string{role, other}})
				}
			}
			for _, engine := range parts[engines:] {
				all = append(all, strike{role, point, []string{engine}})
			}
		}
	}
	for i, a := range parts {
		all = append(all, strike{random, random, []string{a}})
		for _, b := range parts[i+1:] {
			all = append(all, strike{random, random, []string{a, b}})
		}
	}
	slices.SortFunc(all, func(a, b strike) int { return strings.Compare(a.name(), b.name()) })
	return all
}

// few is what ordinary tests have time for.
func few() []strike {
	return []strike{
		{"gateway", "called", []string{"gateway"}},
		{"processor", "raw stored", []string{"processor"}},
		{"gateway", "ack", []string{"gateway", "kafka"}},
		{"processor", "dead letters written", []string{"clickhouse"}},
		{"gateway", "end", []string{"gateway", "processor"}},
		{"processor", "folds stored", []string{"processor", "clickhouse"}},
		{random, random, []string{"kafka", "clickhouse"}},
		{random, random, []string{"gateway", "processor"}},
	}
}

// tally is one line of the table.
type tally struct {
	strike
	rounds, kills, wrong int
}

// A round is a few strikes under load, one after the other, and then a judgement of everything.
func TestChaos(t *testing.T) {
	strikes, kills, perRound := few(), 0, 4
	if long {
		strikes, kills, perRound = matrix(), 200, 4
	}
	r := newRig(t, 2, 2)
	r.rng.Shuffle(len(strikes), func(i, j int) { strikes[i], strikes[j] = strikes[j], strikes[i] })
	tallies := make([]tally, len(strikes))
	for i, s := range strikes {
		tallies[i].strike = s
	}
	began, killed, rounds, missed := time.Now(), 0, 0, 0
	var total, last verdict
	for next := 0; next < len(tallies) || killed < kills; rounds++ {
		stop := r.loaded()
		time.Sleep(300 * time.Millisecond) // so that something is under way
		var struck []*tally
		for range perRound {
			one := &tallies[next%len(tallies)]
			n, err := r.strike(one.strike)
			if err != nil {
				missed++
				t.Errorf("%s: %v", strings.ReplaceAll(one.name(), "\t", ", "), err)
			}
			one.rounds, one.kills = one.rounds+1, one.kills+n
			killed += n
			struck = append(struck, one)
			if next++; next >= len(tallies) && killed >= kills {
				break
			}
		}
		time.Sleep(time.Duration(r.rng.IntN(500)) * time.Millisecond)
		stop()
		r.eventsSeen()
		last = r.judge()
		total.Lost, total.Double, total.Foreign, total.Buckets, total.Shots = total.Lost+last.Lost, total.Double+last.Double, total.Foreign+last.Foreign, total.Buckets+last.Buckets, total.Shots+last.Shots
		if long || !last.clean() {
			t.Logf("round %d: %d kills so far, %d calls, %d rows, drained and judged in %s", rounds+1, killed, last.Entries, last.Rows, last.Took.Round(100*time.Millisecond))
		}
		if !last.clean() {
			for _, one := range struck {
				one.wrong++
			}
			t.Errorf("round %d: lost %d, double %d, claimed without a call %d, wrong buckets %d, wrong snapshots %d: %s", rounds+1, last.Lost, last.Double, last.Foreign, last.Buckets, last.Shots, strings.Join(last.First, "; "))
			break // what is wrong stays wrong
		}
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "process\tpoint\tkilled\trounds\tkills\trounds with a fault\tmeaning")
	for _, one := range tallies {
		if one.rounds > 0 {
			fmt.Fprintf(w, "%s\t%d\t%d\t%d\t%s\n", one.name(), one.rounds, one.kills, one.wrong, meaning[one.point])
		}
	}
	_ = w.Flush()
	t.Logf("%s, %d rounds in %s under %d requests/s: %d kills at %d points and victims, %d points never reached\n%s"+
		"%d calls, %d rows, %d of %d requests answered; lost %d, double %d, claimed without a call %d, wrong buckets %d, wrong snapshots %d",
		broker(), rounds, time.Since(began).Round(time.Second), rate*len(r.gateways), killed, len(tallies), missed, b.String(),
		last.Entries, last.Rows, r.answered, r.requests, total.Lost, total.Double, total.Foreign, total.Buckets, total.Shots)
	if !t.Failed() {
		r.seesFaults(t)
	}
	if last.Entries < 20*killed {
		t.Errorf("%d calls for %d kills: too little traffic to show anything", last.Entries, killed)
	}
}

func broker() string {
	if v := os.Getenv("TURNOUT_TEST_KAFKA"); v != "" {
		return "Kafka: " + v
	}
	return "Kafka: embedded"
}

// strike waits until a process of the role comes to the point, kills the victims, and starts them
// again a moment later. It returns how many processes were killed.
func (r *rig) strike(s strike) (killed int, err error) {
	r.t.Helper()
	var struck []*node
	if s.point == random {
		time.Sleep(time.Duration(r.rng.IntN(1200)) * time.Millisecond)
	} else {
		self := slices.Contains(s.victims, s.at)
		for _, n := range r.of(s.at) {
			// All are set: a point may be passed by one alone, such as the processor that publishes.
			t := trap{Point: s.point, Nth: 1 + r.rng.Int64N(3)}
			if strings.HasPrefix(s.point, "snapshot") || s.point == "head written" || s.point == "rotate" || s.point == "partition assigned" {
				t.Nth = 1
			}
			if !self {
				t.Hold = n.hold
			}
			if err := n.set(t); err != nil {
				return 0, err
			}
		}
		defer func() {
			for _, n := range r.of(s.at) {
				if e := n.set(trap{}); e != nil && err == nil {
					err = e
				}
				_ = os.Remove(n.hold) // there only where it was held
			}
		}()
		if s.point == "partition assigned" {
			r.rebalance()
		}
		if err := until(45*time.Second, func() error {
			for _, n := range r.of(s.at) {
				_, held := os.Stat(n.hold)
				if n.dead() || held == nil {
					struck = append(struck, n)
				}
			}
			if len(struck) == 0 {
				return fmt.Errorf("no %s came to the point within 45 s", s.at)
			}
			return nil
		}); err != nil {
			r.revive()
			return 0, err
		}
		if self {
			killed = len(struck)
		}
	}
	for _, v := range s.victims {
		switch {
		case v == "kafka":
			r.kafka.Kill()
			killed++
		case v == "clickhouse":
			r.clickhouse.Kill()
			killed++
		case v != s.at:
			list := r.of(v)
			n := list[r.rng.IntN(len(list))]
			if !n.dead() {
				n.proc.Kill()
				killed++
			}
		}
	}
	for _, n := range r.of(s.at) {
		if e := n.set(trap{}); e != nil {
			return killed, e
		}
		_ = os.Remove(n.hold)
	}
	time.Sleep(time.Duration(50+r.rng.IntN(700)) * time.Millisecond) // how long they are away
	if slices.Contains(s.victims, "kafka") {
		r.kafka.Start()
	}
	if slices.Contains(s.victims, "clickhouse") {
		r.clickhouse.Start()
	}
	for _, n := range r.nodes() { // one that dies a moment later, at the same point, counts too
		if n.dead() && n.role == s.at && !slices.Contains(struck, n) && slices.Contains(s.victims, n.role) && s.point != random {
			killed++
		}
	}
	r.revive()
	return killed, nil
}

// rebalance has a processor leave in good order, so that partitions are assigned anew.
func (r *rig) rebalance() {
	n := r.processors[r.rng.IntN(len(r.processors))]
	if n.dead() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if err := n.proc.Stop(ctx); err != nil {
		r.t.Error(err)
	}
	r.start(n)
}
