package sim

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"pgregory.net/rapid"
)

// naiveCache is what prefixCache does, written the slow way.
type naiveCache struct {
	limit  int
	ttl    time.Duration
	newest []naiveBlock
}

type naiveBlock struct {
	hash uint64
	used time.Time
}

func (c *naiveCache) use(blocks []uint64, now time.Time) (hits int) {
	for ; hits < len(blocks); hits++ {
		i := slices.IndexFunc(c.newest, func(b naiveBlock) bool { return b.hash == blocks[hits] })
		if i < 0 || c.ttl > 0 && now.Sub(c.newest[i].used) > c.ttl {
			break
		}
	}
	for _, hash := range slices.Backward(blocks[:min(len(blocks), c.limit)]) {
		c.newest = slices.DeleteFunc(c.newest, func(b naiveBlock) bool { return b.hash == hash })
		c.newest = slices.Insert(c.newest, 0, naiveBlock{hash, now})
		c.newest = c.newest[:min(len(c.newest), c.limit)]
	}
	return hits
}

func TestPrefixCacheLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cfg := Cache{BlockTokens: 4, CapacityTokens: rapid.Int64Range(0, 40).Draw(t, "capacity"), TTLSeconds: rapid.SampledFrom([]float64{0, 5}).Draw(t, "ttl")}
		fast, slow := newPrefixCache(cfg), naiveCache{limit: int(cfg.CapacityTokens / 4), ttl: time.Duration(cfg.TTLSeconds) * time.Second}
		now := time.Unix(1000, 0)
		for range rapid.IntRange(1, 60).Draw(t, "calls") {
			now = now.Add(time.Duration(rapid.IntRange(0, 3).Draw(t, "seconds")) * time.Second)
			// hashes of a prompt are distinct: each covers all before it
			blocks := rapid.SliceOfNDistinct(rapid.Uint64Range(1, 12), 0, 12, rapid.ID[uint64]).Draw(t, "blocks")
			if got, want := fast.use(blocks, now), slow.use(blocks, now); got != want {
				t.Fatalf("%d hits, want %d", got, want)
			}
			if fast.size() != len(slow.newest) {
				t.Fatalf("holds %d, want %d", fast.size(), len(slow.newest))
			}
		}
	})
}

// How a text is cut into messages' parts changes neither count nor hashes; another front changes all.
func TestPromptLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		text := rapid.StringN(0, 200, -1).Draw(t, "text")
		runes := []rune(text)
		cut := rapid.IntRange(0, len(runes)).Draw(t, "cut")
		read := func(model string, parts ...string) *prompt {
			p := new(prompt)
			p.begin(model, 3)
			for _, part := range parts {
				p.text(part)
			}
			return p
		}
		whole, halves, other := read("m", text), read("m", string(runes[:cut]), string(runes[cut:])), read("x", text)
		if !slices.Equal(whole.blocks, halves.blocks) || whole.tokens() != halves.tokens() {
			t.Fatal("cutting a text changes it")
		}
		if n := utf8.RuneCountInString(text); whole.tokens() != (n+3)/4 || whole.tokens() != CountTokens(text) || len(whole.blocks) != n/12 {
			t.Fatalf("%d characters are %d tokens in %d blocks", n, whole.tokens(), len(whole.blocks))
		}
		if len(whole.blocks) > 0 && whole.blocks[0] == other.blocks[0] {
			t.Fatal("two models share a block")
		}
		if joined := strings.Join(pieces(text, 2), ""); joined != text {
			t.Fatalf("pieces make %q", joined)
		}
	})
}

func TestFillerIsOneTokenAWord(t *testing.T) {
	for _, n := range []int{1, 2, 50, maxOutput} {
		if text := fillerText(1<<63+5, n); CountTokens(text) != n || strings.ContainsAny(text, "\"\\\n") {
			t.Errorf("%d tokens are %d", n, CountTokens(text))
		}
	}
}

func FuzzBehavior(f *testing.F) {
	f.Add([]byte(`{"ttft_ms":{"lognormal":{"p50":1,"p99":4}},"error_kinds":["html"],"error_rate":0.5,"cache":{"block_tokens":512}}`))
	f.Add([]byte(`{"ttft_ms":null,"output_tokens":{"uniform":[1,2]}}`))
	f.Fuzz(func(t *testing.T, change []byte) {
		before := DefaultBehavior()
		after, err := before.with(change)
		if before.ErrorKinds[0] != ErrorServer {
			t.Fatal("the change reached the original")
		}
		if err != nil {
			return
		}
		if ms := after.TTFT.At(.999999); !(ms >= 0 && ms < 1e300) {
			t.Fatalf("%s: %v ms", change, ms)
		}
		newPrefixCache(after.Cache).use([]uint64{1, 2, 3}, time.Unix(1, 0))
	})
}

func FuzzChatRequest(f *testing.F) {
	s, err := New(Options{Providers: []Provider{{ID: "p", Models: []Model{{ID: "m"}}, Behavior: DefaultBehavior()}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(`{"model":"m","messages":[{"role":"user","content":[{"type":"text","text":"é"},{"type":"image_url","image_url":{"url":"x"}}]}],"n":2}`))
	f.Add([]byte(`{"model":"m","stream":true,"messages":[{"role":"u","content":"a\"b"}],"tools":[{"function":{"name":"f\n","parameters":{"required":["a"]}}}],"tool_choice":"required"}`))
	f.Fuzz(func(t *testing.T, body []byte) { checkAnswer(t, s, body) })
}
