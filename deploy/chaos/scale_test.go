package chaos

import (
	"context"
	"fmt"
	"testing"
	"time"
)

// Three gateways and three processors: one more processor joins under load, one leaves, the one that
// publishes snapshots is killed, and then all that are left: for a while nobody owns any partition.
// Every partition has an owner again each time, the duty of snapshots moves within 15 seconds, clients
// notice nothing, and in the end everything is held against everything.
func TestScale(t *testing.T) {
	r := newRig(t, 3, 3)
	r.owned(20*time.Second, "three processors share the partitions")
	stop := r.loaded()

	joins := r.anotherProcessor()
	began := time.Now()
	r.eventually(30*time.Second, "the new processor has partitions", func() error {
		if n := joins.metric("turnout_processor_partitions"); n < 1 {
			return fmt.Errorf("it has %v", n)
		}
		return nil
	})
	r.owned(30*time.Second, "four processors share the partitions")
	t.Logf("a fourth processor had its share after %s", time.Since(began).Round(10*time.Millisecond))

	leaves := r.leader()
	others := r.without(leaves)
	began = time.Now()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	if err := leaves.proc.Stop(ctx); err != nil {
		t.Fatal(err)
	}
	r.processors = others
	r.owned(30*time.Second, "three processors have all partitions after one left")
	r.leader()
	t.Logf("the leader left in order: all partitions had an owner after %s", time.Since(began).Round(10*time.Millisecond))

	dies := r.leader()
	heads, err := r.heads()
	if err != nil {
		t.Fatal(err)
	}
	dies.proc.Kill()
	began = time.Now()
	r.processors = r.without(dies)
	r.eventually(15*time.Second, "another processor publishes", func() error {
		now, err := r.heads()
		if err == nil && now <= heads {
			err = fmt.Errorf("%d heads, as before", now)
		}
		return err
	})
	took := time.Since(began)
	r.leader()
	r.owned(15*time.Second, "two processors have all partitions")
	t.Logf("the leader was killed: the next snapshot came after %s, all partitions had an owner after %s", took.Round(10*time.Millisecond), time.Since(began).Round(10*time.Millisecond))

	r.nobodyOwns()

	stop()
	r.eventsSeen()
	v := r.judge()
	t.Logf("%d calls, %d rows, %d of %d requests answered; lost %d, double %d, claimed without a call %d, wrong buckets %d, wrong snapshots %d",
		v.Entries, v.Rows, r.answered, r.requests, v.Lost, v.Double, v.Foreign, v.Buckets, v.Shots)
	if !v.clean() {
		t.Error(v.First)
	}
	if r.answered < r.requests*95/100 {
		t.Errorf("%d of %d requests were answered: clients are not to notice processors", r.answered, r.requests)
	}
}

// nobodyOwns kills every processor under load and starts one again after a while.
func (r *rig) nobodyOwns() {
	r.t.Helper()
	for _, n := range r.processors {
		n.proc.Kill()
	}
	before, err := r.behind(r.t.Context())
	if err != nil {
		r.t.Fatal(err)
	}
	r.eventually(20*time.Second, "the topic grows while nobody reads it", func() error {
		now, err := r.behind(r.t.Context())
		if err == nil && now < before+200 {
			err = fmt.Errorf("%d records are not folded, %d were when the last processor died", now, before)
		}
		return err
	})
	for _, g := range r.gateways {
		if status, body := get(g.url + "/readyz"); status != 200 {
			r.t.Errorf("%s is not ready without processors: %d %s", g.name, status, body)
		}
	}
	returns := r.processors[0]
	r.processors = r.processors[:1]
	r.start(returns)
	began := time.Now()
	r.owned(60*time.Second, "one processor takes all partitions")
	r.eventually(30*time.Second, "it catches up", func() error {
		now, err := r.behind(r.t.Context())
		if err == nil && now > 100 {
			err = fmt.Errorf("%d records are not folded", now)
		}
		return err
	})
	r.t.Logf("nobody owned a partition: %s after a processor was back it had all of them and had caught up", time.Since(began).Round(10*time.Millisecond))
}

func (r *rig) anotherProcessor() *node {
	r.t.Helper()
	like := r.processors[0]
	listen := r.address()
	args := append([]string{"--processor.listen", listen}, like.args[2:]...)
	n := r.node(fmt.Sprintf("processor-%d", len(r.processors)), "processor", args)
	n.url, n.admin = "http://"+listen, "http://"+listen
	r.processors = append(r.processors, n)
	r.start(n)
	return n
}

func (r *rig) without(gone *node) []*node {
	var left []*node
	for _, n := range r.processors {
		if n != gone {
			left = append(left, n)
		}
	}
	return left
}

// owned waits until the processors have all partitions between them, none of them twice and none of
// the processors without one.
func (r *rig) owned(within time.Duration, what string) {
	r.t.Helper()
	r.eventually(within, what, func() error {
		total, shares := 0, []int{}
		for _, n := range r.processors {
			share := int(n.metric("turnout_processor_partitions"))
			total += share
			shares = append(shares, share)
		}
		for _, share := range shares {
			if share < 1 || total != partitions {
				return fmt.Errorf("of %d partitions they have %v", partitions, shares)
			}
		}
		return nil
	})
}

// leader waits until exactly one processor publishes, and returns it.
func (r *rig) leader() *node {
	r.t.Helper()
	var leader *node
	r.eventually(20*time.Second, "one processor leads", func() error {
		leaders := 0
		for _, n := range r.processors {
			if n.metric("turnout_processor_leader") == 1 {
				leader = n
				leaders++
			}
		}
		if leaders != 1 {
			return fmt.Errorf("%d lead", leaders)
		}
		return nil
	})
	return leader
}

func (r *rig) heads() (n int64, err error) {
	err = r.db.QueryRow(r.t.Context(), "SELECT toInt64(count()) FROM snapshot_heads").Scan(&n)
	return n, err
}
