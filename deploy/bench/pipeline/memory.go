package main

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"turnout/migrations"
	"turnout/schemas/topic"
)

const (
	ahead      = 500_000 // events that the topic may be ahead of the rows, so that the broker's memory is no matter
	perLine    = 1_000_000
	askedEvery = time.Second
	sumsWithin = 20 * time.Second // sums are stored behind their rows
)

// memory runs the processor over very many events and prints its memory as it goes: flat is what it
// should be. The topic is filled while it reads, so the speed is not that of a topic filled beforehand.
func (b *bench) memory(ctx context.Context, partitions int) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	if err := b.startTopics(ctx, partitions); err != nil {
		return err
	}
	if err := b.ownClickHouse(ctx); err != nil {
		return err
	}
	if _, _, err := migrations.Up(ctx, b.clickhouse.Config()); err != nil {
		return err
	}
	t := &turnout{}
	if err := t.begin(ctx, b); err != nil {
		return err
	}
	defer t.stop()
	stored := make(chan int64, 1) // the newest count of rows
	filled := make(chan error, 1)
	go func() { filled <- b.feed(ctx, stored) }()

	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "events\tevents/s\tprocessor RSS MiB\t")
	began, last, line, moved := time.Now(), time.Now(), int64(perLine), time.Now()
	for have := int64(0); have < b.events; {
		time.Sleep(askedEvery)
		now, err := b.number(ctx, "SELECT toInt64(sum(rows)) FROM system.parts WHERE database = currentDatabase() AND table = 'attempts' AND active")
		if err != nil {
			return err
		}
		if now > have {
			have, moved = now, time.Now()
		}
		if time.Since(moved) > time.Minute {
			return fmt.Errorf("nothing has moved for a minute at %d events: %s", have, t.complaint(ctx, b))
		}
		select {
		case err := <-filled:
			if err != nil {
				return err
			}
			filled = nil // and nobody waits for it again
		default:
		}
		select {
		case <-stored: // what it holds is old
		default:
		}
		stored <- have
		if have >= line {
			rss, err := residentMiB(t.proc.Pid())
			if err != nil {
				return err
			}
			fmt.Fprintf(w, "%d\t%.0f\t%.0f\t\n", have, float64(perLine)/time.Since(last).Seconds(), rss)
			_ = w.Flush()
			line, last = line+perLine, time.Now()
		}
	}
	took, counted := time.Since(began), int64(0)
	for end := time.Now().Add(sumsWithin); counted < b.events && time.Now().Before(end); time.Sleep(askedEvery) {
		now, err := b.number(ctx, "SELECT toInt64(sum(attempts)) FROM "+t.counted())
		if err != nil {
			return err
		}
		counted = now
	}
	fmt.Printf("%d events in %s; %d counted in the sums\n", b.events, took.Round(time.Second), counted)
	return nil
}

// feed fills the topic, never further ahead of the rows than it may be.
func (b *bench) feed(ctx context.Context, stored <-chan int64) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	defer client.Close()
	writer, g := client.NewWriter(topic.Attempts), newGenerator()
	for written, have := int64(0), int64(0); written < b.events; {
		for written-have > ahead {
			select {
			case have = <-stored:
			case <-ctx.Done():
				return ctx.Err()
			}
		}
		g.start = time.Now().Add(-time.Minute)
		records := g.records(min(10*gatewayRound, b.events-written))
		if _, err := writer.Write(ctx, records); err != nil {
			return fmt.Errorf("filling the topic: %w", err)
		}
		written += int64(len(records))
	}
	return nil
}

func residentMiB(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, fmt.Errorf("reading memory: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if rest, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
			return kib / 1024, err
		}
	}
	return 0, fmt.Errorf("reading memory of %d: no VmRSS", pid)
}
