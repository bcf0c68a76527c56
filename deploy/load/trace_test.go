package load

import (
	"errors"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"turnout/deploy/sim"
)

// original is where the traces themselves stand, beside the repository, if they do.
func original(name string) string { return filepath.Join("..", "..", "..", "shared", "data", name) }

func TestTraces(t *testing.T) {
	type figures struct{ requests, sessions, multi, longest, in, out int }
	for _, c := range []struct {
		path string
		want figures
		last time.Duration
		orig bool
	}{
		{"testdata/mooncake-sample.jsonl", figures{10, 4, 2, 4, 0, 0}, 5700 * time.Millisecond, false},
		{"testdata/azure-sample.csv", figures{3, 0, 0, 0, 782, 156}, 4314579 * time.Microsecond, false},
		{original("mooncake-conversation.jsonl"), figures{12031, 8028, 2028, 43, 0, 0}, 3536999 * time.Millisecond, true},
		{original("azure-llm-trace-2023-code.csv"), figures{requests: 8819}, 0, true},
		{original("azure-llm-trace-2023-conv.csv"), figures{requests: 19366}, 0, true},
	} {
		requests, err := ReadTrace(c.path)
		if c.orig && errors.Is(err, fs.ErrNotExist) {
			t.Logf("%s is not here: its copy in small stands in testdata", c.path)
			continue
		}
		if err != nil {
			t.Error(err)
			continue
		}
		got := figures{requests: len(requests)}
		if requests[0].Blocks != nil {
			turns := map[int]int{}
			for _, s := range Sessions(requests) {
				turns[s]++
			}
			got.sessions = len(turns)
			for _, n := range turns {
				got.longest = max(got.longest, n)
				if n > 1 {
					got.multi++
				}
			}
		}
		if c.want.in > 0 {
			for _, r := range requests {
				got.in, got.out = got.in+r.InputTokens, got.out+r.OutputTokens
			}
		}
		if got != c.want {
			t.Errorf("%s: %+v, want %+v", c.path, got, c.want)
		}
		if last := requests[len(requests)-1].At; c.last > 0 && last != c.last || requests[0].At != 0 {
			t.Errorf("%s: from %s to %s", c.path, requests[0].At, last)
		}
	}
}

// The share of blocks that caches hit, with one endless cache and scattered over five, is what the
// traces' description says: 36.6 % and 16.9 %.
func TestPrefixShares(t *testing.T) {
	for _, c := range []struct {
		path        string
		together    float64
		atLeast, to float64 // scattered over five
	}{
		{"testdata/mooncake-sample.jsonl", 56.25, 0, 56.25},
		{original("mooncake-conversation.jsonl"), 36.6, 16.5, 17.5},
	} {
		requests, err := ReadTrace(c.path)
		if errors.Is(err, fs.ErrNotExist) {
			t.Logf("%s is not here", c.path)
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		share := func(caches int) float64 {
			seen := make([]map[uint64]bool, caches)
			for i := range seen {
				seen[i] = map[uint64]bool{}
			}
			hits, blocks := 0, 0
			for i, r := range requests {
				cache, front := seen[mix(uint64(i))%uint64(caches)], true
				for _, id := range r.Blocks {
					if front = front && cache[id]; front {
						hits++
					}
				}
				for _, id := range r.Blocks {
					cache[id] = true
				}
				blocks += len(r.Blocks)
			}
			return 100 * float64(hits) / float64(blocks)
		}
		if got := share(1); math.Abs(got-c.together) > .05 {
			t.Errorf("%s: %.2f %% hit one cache, want %.2f", c.path, got, c.together)
		}
		if got := share(5); got < c.atLeast || got > c.to {
			t.Errorf("%s: %.2f %% hit five caches, want %.2f to %.2f", c.path, got, c.atLeast, c.to)
		}
	}
}

func TestBrokenTraces(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{"", "holds no request"},
		{"\n\n", "holds no request"},
		{azureHeader + "\n", "holds no request"},
		{"time,in,out\n1,2,3\n", "line 1"},
		{azureHeader + "\n2023-11-16 18:17:03,1\n", "line 2: has 2 fields"},
		{azureHeader + "\nyesterday,1,2\n", "line 2: TIMESTAMP"},
		{azureHeader + "\n1999-11-16 18:17:03,1,2\n", "not within 2023"},
		{azureHeader + "\n2023-11-16 18:17:03,x,2\n", "ContextTokens"},
		{azureHeader + "\n2023-11-16 18:17:03,1,-2\n", "GeneratedTokens: -2"},
		{azureHeader + "\n2023-11-16 18:17:03,99999999,2\n", "ContextTokens: 99999999"},
		{`{"timestamp": 0`, "line 1"},
		{`{"input_length": 1, "output_length": 1, "hash_ids": [1]}`, "timestamp"},
		{`{"timestamp": -1, "input_length": 1, "output_length": 1, "hash_ids": [1]}`, "timestamp"},
		{`{"timestamp": 0, "output_length": 1, "hash_ids": [1]}`, "input_length: is missing"},
		{`{"timestamp": 0, "input_length": 1, "hash_ids": [1]}`, "output_length: is missing"},
		{`{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1]}`, "hash_ids: 1 ids, but 513 tokens are 2 blocks"},
		{`{"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": ["a"]}`, "hash_ids"},
	} {
		if _, err := ParseTrace(strings.NewReader(c.text)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%q: %v, want %q", c.text, err, c.want)
		}
	}
}

func TestAzure2024TimesAreRead(t *testing.T) {
	r, err := ParseTrace(strings.NewReader(azureHeader + "\n2024-05-10 00:00:00.009930+00:00,2162,5\n2024-05-10 00:00:01.009930+00:00,1,1\n"))
	if err != nil || len(r) != 2 || r[1].At != time.Second {
		t.Errorf("%v %+v", err, r)
	}
}

func fuzzTrace(t *testing.T, text string) {
	requests, err := ParseTrace(strings.NewReader(text))
	if err != nil {
		return
	}
	if len(requests) == 0 || requests[0].At != 0 {
		t.Fatalf("%q: %+v", text, requests)
	}
	for i, r := range requests {
		if r.At < 0 || i > 0 && r.At < requests[i-1].At || r.InputTokens < 0 || r.OutputTokens < 0 || r.Blocks != nil && len(r.Blocks) != (r.InputTokens+511)/512 {
			t.Fatalf("%q: request %d is %+v", text, i, r)
		}
	}
	sessions := Sessions(requests)
	if len(sessions) != len(requests) || slices.Min(sessions) != 1 || slices.Max(sessions) > len(requests) {
		t.Fatalf("%q: sessions %v", text, sessions)
	}
}

func FuzzAzure(f *testing.F) {
	f.Add("2023-11-16 18:17:03.9799600,4808,10\n2023-11-16 18:17:04.0319600,3180,8")
	f.Add("2024-05-10 00:00:00.009930+00:00,2162,5")
	f.Fuzz(func(t *testing.T, lines string) { fuzzTrace(t, azureHeader+"\n"+lines) })
}

func FuzzMooncake(f *testing.F) {
	f.Add(`{"timestamp": 0, "input_length": 600, "output_length": 5, "hash_ids": [0, 1]}` + "\n" + `{"timestamp": 3, "input_length": 1100, "output_length": 5, "hash_ids": [0, 1, 2]}`)
	f.Add(`{"timestamp": 1e5, "input_length": 0, "output_length": 0, "hash_ids": []}`)
	f.Fuzz(func(t *testing.T, lines string) { fuzzTrace(t, "{"+strings.TrimPrefix(lines, "{")) })
}

func TestTextIsCountedAsAsked(t *testing.T) {
	seen := map[string]bool{}
	for seed := range uint64(50) {
		for _, tokens := range []int{1, 3, 4, 512, 1000} {
			text := string(appendText(nil, seed, tokens))
			if sim.CountTokens(text) != tokens || strings.ContainsAny(text, "\"\\") {
				t.Errorf("%d tokens are %d: %.40q", tokens, sim.CountTokens(text), text)
			}
			if tokens == 512 {
				seen[text[:16]] = true
			}
		}
	}
	if len(seen) != 50 {
		t.Errorf("only %d of 50 texts begin differently", len(seen))
	}
	if a, b := appendBlocks(nil, []uint64{0, 7, 9}, 1100), appendBlocks(nil, []uint64{0, 7, 8}, 1500); string(a[:4096]) != string(b[:4096]) || string(a[4096:4200]) == string(b[4096:4200]) || len(a) != 4400 {
		t.Error("equal ids must have equal texts, others not")
	}
}
