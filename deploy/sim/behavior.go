package sim

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Kinds of errors a provider can answer with.
const (
	ErrorServer        = "server_error"   // 500
	ErrorUnavailable   = "unavailable"    // 503 with Retry-After
	ErrorRateLimited   = "rate_limited"   // 429 with Retry-After
	ErrorInvalidKey    = "invalid_key"    // 401
	ErrorContextLength = "context_length" // 400 context_length_exceeded
	ErrorHTML          = "html"           // 502 with an HTML page
	ErrorInBand        = "in_band"        // streams: an error event before any output; plain: as error_object
	ErrorObject        = "error_object"   // 200 with an error object instead of an answer
)

var errorKinds = []string{ErrorServer, ErrorUnavailable, ErrorRateLimited, ErrorInvalidKey, ErrorContextLength, ErrorHTML, ErrorInBand, ErrorObject}

// Behavior is what can be set on a provider while it runs. Rates are probabilities from 0 to 1. A
// call is silent, else an error, else a stream that stalls, else a stream that is cut.
type Behavior struct {
	TTFT         Dist     `json:"ttft_ms"`           // milliseconds to the first token
	TokenRate    Dist     `json:"tokens_per_second"` // 0: all at once
	OutputTokens Dist     `json:"output_tokens"`     // length of an answer nobody bounds
	ChunkTokens  int      `json:"chunk_tokens"`      // tokens in one event of a stream
	ErrorRate    float64  `json:"error_rate"`
	ErrorKinds   []string `json:"error_kinds"`         // drawn alike
	RetryAfter   int      `json:"retry_after_seconds"` // with 429 and 503; 0: no header
	RPM          int      `json:"rpm"`                 // requests a minute, as a bucket that starts full; 0: no limit
	CutRate      float64  `json:"cut_rate"`            // streams: the connection dies
	CutAfter     int      `json:"cut_after_chunks"`    // after this many events with output
	StallRate    float64  `json:"stall_rate"`          // streams: nothing more comes
	StallAfter   int      `json:"stall_after_chunks"`
	SilenceRate  float64  `json:"silence_rate"` // the call is accepted and never answered
	Cache        Cache    `json:"cache"`
}

// Cache sets the prompt cache. Another block size or capacity empties it.
type Cache struct {
	BlockTokens    int     `json:"block_tokens"`
	CapacityTokens int64   `json:"capacity_tokens"` // 0: nothing is cached
	TTLSeconds     float64 `json:"ttl_seconds"`     // since the last use; 0: for ever
}

// DefaultBehavior answers at once, always and in about 60 tokens.
func DefaultBehavior() Behavior {
	return Behavior{
		OutputTokens: Lognormal(60, 250),
		ChunkTokens:  4,
		ErrorKinds:   []string{ErrorServer},
		RetryAfter:   1,
		Cache:        Cache{BlockTokens: 128, CapacityTokens: 128 << 20, TTLSeconds: 3600},
	}
}

// Validate joins all mistakes, each with its field.
func (b Behavior) Validate() error {
	var mistakes []error
	wrong := func(field, format string, args ...any) {
		mistakes = append(mistakes, fmt.Errorf("%s: "+format, append([]any{field}, args...)...))
	}
	for _, f := range []struct {
		name string
		dist Dist
	}{{"ttft_ms", b.TTFT}, {"tokens_per_second", b.TokenRate}, {"output_tokens", b.OutputTokens}} {
		if err := f.dist.validate(); err != nil {
			wrong(f.name, "%w", err)
		}
	}
	for _, f := range []struct {
		name string
		rate float64
	}{{"error_rate", b.ErrorRate}, {"cut_rate", b.CutRate}, {"stall_rate", b.StallRate}, {"silence_rate", b.SilenceRate}} {
		if !(f.rate >= 0 && f.rate <= 1) {
			wrong(f.name, "%v is not a probability from 0 to 1", f.rate)
		}
	}
	for _, f := range []struct {
		name        string
		n, min, max int
	}{
		{"chunk_tokens", b.ChunkTokens, 1, 4096}, {"retry_after_seconds", b.RetryAfter, 0, 86400}, {"rpm", b.RPM, 0, 1 << 30},
		{"cut_after_chunks", b.CutAfter, 0, 1 << 30}, {"stall_after_chunks", b.StallAfter, 0, 1 << 30},
		{"cache.block_tokens", b.Cache.BlockTokens, 1, 1 << 16},
	} {
		if f.n < f.min || f.n > f.max {
			wrong(f.name, "%d is not within %d and %d", f.n, f.min, f.max)
		}
	}
	if b.Cache.CapacityTokens < 0 || b.Cache.CapacityTokens > 1<<32 {
		wrong("cache.capacity_tokens", "%d is not within 0 and %d", b.Cache.CapacityTokens, int64(1)<<32)
	}
	if !(b.Cache.TTLSeconds >= 0 && b.Cache.TTLSeconds <= 1e7) {
		wrong("cache.ttl_seconds", "%v is not within 0 and 1e7", b.Cache.TTLSeconds)
	}
	if b.ErrorRate > 0 && len(b.ErrorKinds) == 0 {
		wrong("error_kinds", "is empty: name at least one of %s", strings.Join(errorKinds, ", "))
	}
	for _, kind := range b.ErrorKinds {
		if !slices.Contains(errorKinds, kind) {
			wrong("error_kinds", "%q is unknown: use %s", kind, strings.Join(errorKinds, ", "))
		}
	}
	return errors.Join(mistakes...)
}

// with returns the behaviour with the fields of a JSON object changed.
func (b Behavior) with(change []byte) (Behavior, error) {
	b.ErrorKinds = slices.Clone(b.ErrorKinds) // the decoder writes into what is there
	decoder := json.NewDecoder(bytes.NewReader(change))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&b); err != nil {
		return b, fmt.Errorf("reading behaviour: %w", err)
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return b, errors.New("reading behaviour: text after the object")
	}
	return b, b.Validate()
}
