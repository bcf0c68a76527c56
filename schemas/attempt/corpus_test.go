package attempt

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// The corpus is append-only: a file, once shipped, decodes for ever, and SHA256SUMS holds it to its
// bytes. -update writes the files that are missing and never touches one that is there.
var update = flag.Bool("update", false, "write corpus files that do not exist yet")

const corpus = "testdata/v1"

// varied returns the events the corpus was made of.
func varied() map[string]*Event {
	one := func(n int, change func(*Event)) *Event {
		e := realistic(uint64(len(corpus)+n), n)
		change(e)
		return e
	}
	free := func(e *Event) { // nothing was used
		e.InputTokens, e.CachedInputTokens, e.OutputTokens, e.ReasoningTokens, e.UsageSource = 0, 0, 0, 0, UsageMissing
		e.CostNanoUSD, e.CostInputNanoUSD, e.CostCachedNanoUSD, e.CostOutputNanoUSD = 0, 0, 0, 0
		e.BaselineKind, e.BaselineModel, e.BaselineProvider, e.BaselineNanoUSD = "", "", "", 0
		e.TTFTUS, e.FinishReason = nil, ""
	}
	failed := func(outcome Outcome, kind string, status int) func(*Event) {
		return func(e *Event) {
			free(e)
			e.Outcome, e.ErrorType, e.StatusCode, e.WillRetry = outcome, kind, status, true
		}
	}
	zero := 0.0
	return map[string]*Event{
		"completed-stream":    one(3, func(*Event) {}),
		"completed-plain":     one(0, func(e *Event) { e.Stream, e.TTFTUS = false, nil }),
		"ten-considered":      one(10, func(*Event) {}),
		"failed-then-retried": one(4, failed(UpstreamError, "server_error", 503)),
		"rate-limited":        one(2, failed(UpstreamError, "rate_limited", 429)),
		"retry":               one(0, func(e *Event) { e.AttemptNo, e.ModelAttemptNo, e.Considered, e.ConsideredTotal = 2, 2, nil, 0 }),
		"timeout":             one(0, failed(UpstreamTimeout, "timeout", 0)),
		"network-error":       one(0, failed(NetworkError, "network_error", 0)),
		"canceled-after-output": one(0, func(e *Event) {
			e.Outcome, e.ErrorType, e.FinishReason = Canceled, "canceled", ""
			e.UsageSource = UsageEstimated
		}),
		"canceled-before-output": one(1, func(e *Event) { free(e); e.Outcome, e.ErrorType, e.StatusCode = Canceled, "canceled", 0 }),
		"interrupted": one(2, func(e *Event) {
			free(e)
			e.Outcome, e.StatusCode, e.ErrorType, e.DurationUS, e.OverheadUS = Interrupted, 0, "", 0, 0
		}),
		"byok": one(2, func(e *Event) {
			e.CredentialSource, e.ProviderKeyID, e.ProviderKeyLabel, e.ProviderKeyHash = BYOK, "pk_0197", "team key", "00fa11e"
			e.RequestedProvider, e.Reason, e.NoFallback = "openai", "direct-provider-specified", true
		}),
		"cached": one(0, func(e *Event) {
			e.CachedInputTokens, e.CacheWriteTokens, e.CacheWrite1hTokens = 9000, 512, 128
			e.CostCacheWriteNanoUSD, e.Reason, e.ConnectUS = 192_000, "session-sticky", 0
		}),
		"content-filter": one(0, failed(ContentFilter, "content_filter", 400)),
		"client-error":   one(0, failed(ClientError, "client_error", 422)),
		"geo-blocked": one(0, func(e *Event) {
			failed(GatewayError, "gateway_error", 403)(e)
			e.GeoBlocked, e.CustomProvider = true, true
		}),
		"image-output": one(0, func(e *Event) {
			e.Model, e.ImageOutputTokens, e.OutputTokens = "gemini-2.5-flash-image", 1290, 1314
			e.Traits = []string{TraitImageOutput}
		}),
		"bound": one(1, func(e *Event) {
			e.Endpoint, e.Reason, e.Traits = EndpointResponses, "single-candidate-after-filtering", []string{TraitBoundTo + "openai", TraitReasoningBound}
		}),
		"multimodal": one(0, func(e *Event) {
			e.ImageInputTokens, e.AudioInputTokens, e.AudioOutputTokens = 1120, 300, 250
			e.CostImageInputNanoUSD, e.CostAudioNanoUSD, e.CostRequestNanoUSD = 700, 9_000, 10_000
			e.UsageFlag, e.ParentRequestID, e.ClientRequestID = "output_above_limit", "0197d000-0000-7000-8000-00000000000a", "żółć \"quoted\"\n🙂"
			e.Purpose, e.StrippedParameters, e.ConnectUS = PurposeProbe, []string{"tool_choice"}, 18_000
		}),
		"low-uptime-fallback": one(3, func(e *Event) {
			e.OriginalProvider, e.OriginalUptime, e.Reason = "groq", &zero, "low-uptime-fallback"
			e.Considered[0].LostToRegion, e.Considered[1].Model = "us-east-1", "gpt-5.4"
		}),
		"decided-again": one(3, func(e *Event) {
			rate := .25
			e.MaxTokens, e.Traits, e.ExplorationRate = 512, []string{TraitStrict, "tools", TraitEffort + "high"}, &rate
			e.RememberedProvider, e.RememberedRegion, e.Redecided = "groq", "us-east-1", true
			e.Considered[0].ExcludedCode, e.Considered[0].CooldownCause = "no_provider_key", "invalid_key"
		}),
		"minimal": {
			SchemaVersion: 1, EventID: "0197d000-0000-7000-8000-000000000002", RequestID: "0197d000-0000-7000-8000-000000000003",
			SpanID: "00f067aa0ba902b7", AttemptNo: 1, NodeID: "n", Endpoint: EndpointEmbeddings, Provider: "p", Model: "m",
			StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), Outcome: Completed,
		},
	}
}

func corpusFiles(t *testing.T) map[string][]byte {
	t.Helper()
	if *update {
		writeCorpus(t)
	}
	names, err := filepath.Glob(corpus + "/*.json")
	if err != nil || len(names) < 12 {
		t.Fatalf("%d files in %s, %v", len(names), corpus, err)
	}
	files := map[string][]byte{}
	for _, name := range names {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		files[filepath.Base(name)] = bytes.TrimSpace(text)
	}
	return files
}

func writeCorpus(t *testing.T) {
	t.Helper()
	if err := os.MkdirAll(corpus, 0o755); err != nil {
		t.Fatal(err)
	}
	events := varied()
	for _, name := range slices.Sorted(maps.Keys(events)) {
		path := filepath.Join(corpus, name+".json")
		if _, err := os.Stat(path); err == nil {
			continue
		}
		text := append(Append(nil, events[name]), '\n')
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
		sums, err := os.OpenFile(corpus+"/SHA256SUMS", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(sums, "%x  %s\n", sha256.Sum256(text), name+".json")
		if err := sums.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestCorpusIsAppendOnly(t *testing.T) {
	files := corpusFiles(t)
	sums, err := os.ReadFile(corpus + "/SHA256SUMS")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(sums)) {
		want, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		text, ok := files[name]
		if !ok {
			t.Errorf("%s is gone from the corpus", name)
			continue
		}
		if got := fmt.Sprintf("%x", sha256.Sum256(append(bytes.Clone(text), '\n'))); got != want {
			t.Errorf("%s was changed: add a new file instead", name)
		}
		delete(files, name)
	}
	for name := range files {
		t.Errorf("%s stands in the corpus but not in SHA256SUMS", name)
	}
}

func TestCorpusDecodes(t *testing.T) {
	seen := map[string]bool{}
	for name, text := range corpusFiles(t) {
		t.Run(name, func(t *testing.T) {
			got, err := Decode(text)
			if err != nil {
				t.Fatal(err)
			}
			var want Event
			dec := json.NewDecoder(bytes.NewReader(text))
			dec.DisallowUnknownFields() // a field that was renamed or dropped
			if err := dec.Decode(&want); err != nil {
				t.Fatal(err)
			}
			if !reflect.DeepEqual(got, &want) {
				t.Fatalf("got  %+v\nwant %+v", got, want)
			}
			if again := Append(nil, got); !bytes.Equal(again, text) {
				t.Fatalf("written again: %s\nwas            %s", again, text)
			}
		})
		var keys map[string]any
		if err := json.Unmarshal(text, &keys); err != nil {
			t.Fatal(err)
		}
		for key := range keys {
			seen[key] = true
		}
	}
	for _, field := range jsonFields(reflect.TypeFor[Event]()) {
		if !seen[field] {
			t.Errorf("no file of the corpus has the field %s", field)
		}
	}
}
