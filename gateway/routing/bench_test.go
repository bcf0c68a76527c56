package routing

import (
	"fmt"
	"testing"

	"turnout/gateway/pricing"
	"turnout/schemas/resource"
)

// benchmarkInput is a request with n providers, or with n/4 of four regions each, all metrics known.
func benchmarkInput(n int, regional bool) *Input {
	config := resource.DefaultRouting()
	in := &Input{Config: &config, Request: Request{
		ID: "0198c0de-7e57-7000-8000-000000000001", Stream: true, PromptTokens: 6000,
		Needs: Tools | JSONSchema,
	}}
	for i := range n {
		cached := resource.Rate(100_000_000 + 7_000_000*i)
		c := Candidate{
			Provider: fmt.Sprintf("provider-%02d", i), Model: "m", Priority: 1,
			Schedule: &pricing.Schedule{Price: resource.Price{
				Input: resource.Rate(1_000_000_000 + 13_000_000*i), Output: resource.Rate(2_000_000_000 + 11_000_000*i),
				CachedInput: &cached,
			}},
			Context: 128_000, MaxOutput: 16_384, Capabilities: EveryCapability, Credentials: Platform,
			Metrics: Metrics{
				Known:  KnownUptime | KnownThroughput | KnownLatency,
				Uptime: 99.9 - 0.123456789*float64(i%20), Throughput: 80.123456 + float64(i), Latency: 400.98765 + 3*float64(i),
			},
		}
		if regional {
			c.Provider, c.Region = fmt.Sprintf("provider-%02d", i/4), fmt.Sprintf("region-%d", i%4)
		}
		in.Candidates = append(in.Candidates, c)
	}
	return in
}

func BenchmarkDecide(b *testing.B) {
	run := func(name string, in *Input) {
		b.Run(name, func(b *testing.B) {
			var d Decision
			Decide(in, &d)
			b.ReportAllocs()
			for b.Loop() {
				Decide(in, &d)
			}
		})
	}
	for _, n := range []int{1, 10, 64} {
		run(fmt.Sprintf("candidates=%d", n), benchmarkInput(n, false))
	}
	run("regions=4,candidates=64", benchmarkInput(64, true))
	explicit := benchmarkInput(10, false)
	explicit.Request.Provider = "provider-03"
	run("explicit,candidates=10", explicit)
	session := benchmarkInput(10, false)
	session.Request.Session = true
	session.State.Pin = Place{Provider: "provider-07"}
	run("session,candidates=10", session)
}

func BenchmarkNext(b *testing.B) {
	in := benchmarkInput(10, false)
	retry := &Retry{Tried: []Credentials{Platform, Platform}}
	var d Decision
	b.ReportAllocs()
	for b.Loop() {
		Next(in, retry, &d)
	}
}
