package processor

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

// BenchmarkPipeline reads a topic of 12 partitions that was filled beforehand into ClickHouse, all
// columns, buckets and progress. Figures: events/s, and CPU per event of this process (the
// processor), of ClickHouse and of the embedded broker, each a process of its own.
func BenchmarkPipeline(b *testing.B) {
	const events = 1_000_000 // so many that joining the group is no part of the figure
	pollEvery = 250 * time.Millisecond
	for range b.N {
		b.StopTimer()
		w := worldOnBench(b)
		rng := rand.New(rand.NewPCG(3, 4))
		start := time.Now().Add(-time.Minute)
		for done := 0; done < events; {
			records := make([]kafkax.Record, 20_000)
			for i := range records {
				at := start.Add(time.Duration(done+i) * time.Minute / events)
				records[i] = record(benchEvent(rng, at), false)
			}
			if _, err := w.client.NewWriter(topic.Attempts).Write(b.Context(), records); err != nil {
				b.Fatal(err)
			}
			done += len(records)
		}
		self, others := selfCPU(), childCPU()
		b.StartTimer()
		began := time.Now()
		w.run(func(p *Processor) { p.batchDelay, p.publishInterval = batchDelay, publishInterval })
		w.caughtUp(5 * time.Minute)
		took := time.Since(began)
		b.StopTimer()
		if n := w.number("count() FROM attempts"); n != events {
			b.Fatalf("%d rows", n)
		}
		perEvent := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 / events }
		b.ReportMetric(events/took.Seconds(), "events/s")
		b.ReportMetric(perEvent(selfCPU()-self), "processor-cpu-us/event")
		for name, cpu := range childCPU() {
			b.ReportMetric(perEvent(cpu-others[name]), name+"-cpu-us/event")
		}
		b.ReportMetric(0, "ns/op")
	}
}

func worldOnBench(b *testing.B) *world {
	b.Helper()
	return worldOn(b, kafkatest.New(b, 12), chtest.New(b))
}

// benchEvent is an event with everything a decision among five candidates leaves behind.
func benchEvent(rng *rand.Rand, at time.Time) *attempt.Event {
	e := event(rng, at)
	e.ClientRequestID, e.SessionHash = "req-"+e.RequestID[:8], strings.Repeat("ab", 16)
	e.SnapshotID, e.ConfigVersion, e.PriceVersion = e.RequestID, "3f2a9c1d", "77e0b1aa"
	e.Client, e.Source, e.Strategy, e.Region = "openai-python", "bench", "auto", "eu-west-1"
	e.Provider, e.Model = fmt.Sprintf("provider-%d", rng.IntN(5)), fmt.Sprintf("model-%d", rng.IntN(10))
	draw := rng.Float64()
	e.Draw = &draw
	e.QueueUS, e.ConnectUS, e.OverheadUS = 120, 0, 340
	e.CostInputNanoUSD, e.CostOutputNanoUSD = e.CostNanoUSD/2, e.CostNanoUSD-e.CostNanoUSD/2
	e.BaselineKind, e.BaselineModel, e.BaselineProvider, e.BaselineNanoUSD = "provider", e.Model, "provider-4", 2*e.CostNanoUSD
	e.UsageSource, e.FinishReason, e.ProviderKeyHash = attempt.UsageReported, "stop", "1a2b3c4"
	e.Considered = nil
	for i := range 5 {
		score, uptime, latency, throughput := float64(i)/7, 99.5-float64(i), 300+10*float64(i), 80-float64(i)
		e.Considered = append(e.Considered, attempt.Considered{Provider: fmt.Sprintf("provider-%d", i), Region: "eu-west-1", Score: &score, Price: 1.25 + float64(i)/8, Uptime: &uptime, Latency: &latency, Throughput: &throughput, Priority: 1, CacheSupported: true})
	}
	e.ConsideredTotal = 5
	return e
}

func selfCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// childCPU is the CPU time of the engines, which are children of this process, by name.
func childCPU() map[string]time.Duration {
	out := map[string]time.Duration{}
	stats, _ := filepath.Glob("/proc/[0-9]*/stat")
	for _, name := range stats {
		text, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		_, rest, ok := bytes.Cut(text, []byte(") "))
		fields := strings.Fields(string(rest))
		if !ok || len(fields) < 13 || fields[1] != strconv.Itoa(os.Getpid()) {
			continue
		}
		command, _ := os.ReadFile(filepath.Join(filepath.Dir(name), "cmdline"))
		engine := "clickhouse"
		if bytes.Contains(command, []byte("kafka")) {
			engine = "broker"
		}
		user, _ := strconv.ParseInt(fields[11], 10, 64)
		system, _ := strconv.ParseInt(fields[12], 10, 64)
		out[engine] += time.Duration(user+system) * 10 * time.Millisecond // clock ticks
	}
	return out
}
