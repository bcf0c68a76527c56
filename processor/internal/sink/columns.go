package sink

import (
	"math"
	"strings"
	"time"

	"turnout/internal/chx"
	"turnout/schemas/attempt"
)

type event = attempt.Event

// The columns of attempts by type, each with where it comes from. Together they are every field of
// the event; a test compares them with the table.
var (
	textColumns = []column[string]{
		{"event_id", func(e *event) string { return e.EventID }},
		{"request_id", func(e *event) string { return e.RequestID }},
		{"client_request_id", func(e *event) string { return e.ClientRequestID }},
		{"parent_request_id", func(e *event) string { return e.ParentRequestID }},
		{"span_id", func(e *event) string { return e.SpanID }},
		{"session_hash", func(e *event) string { return e.SessionHash }},
		{"snapshot_id", func(e *event) string { return e.SnapshotID }},
	}
	// wordColumns are LowCardinality.
	wordColumns = []column[string]{
		{"purpose", func(e *event) string { return e.Purpose }},
		{"node_id", func(e *event) string { return e.NodeID }},
		{"organization_id", func(e *event) string { return e.OrganizationID }},
		{"project_id", func(e *event) string { return e.ProjectID }},
		{"api_key_id", func(e *event) string { return e.APIKeyID }},
		{"requested_model", func(e *event) string { return e.RequestedModel }},
		{"requested_provider", func(e *event) string { return e.RequestedProvider }},
		{"endpoint", func(e *event) string { return e.Endpoint }},
		{"client", func(e *event) string { return e.Client }},
		{"source", func(e *event) string { return e.Source }},
		{"coding_client", func(e *event) string { return e.CodingClient }},
		{"strategy", func(e *event) string { return e.Strategy }},
		{"provider", func(e *event) string { return e.Provider }},
		{"model", func(e *event) string { return e.Model }},
		{"upstream_model", func(e *event) string { return e.UpstreamModel }},
		{"region", func(e *event) string { return e.Region }},
		{"credential_source", func(e *event) string { return e.CredentialSource }},
		{"provider_key_hash", func(e *event) string { return e.ProviderKeyHash }},
		{"provider_key_id", func(e *event) string { return e.ProviderKeyID }},
		{"provider_key_label", func(e *event) string { return e.ProviderKeyLabel }},
		{"service_tier", func(e *event) string { return e.ServiceTier }},
		{"reason", func(e *event) string { return e.Reason }},
		{"config_version", func(e *event) string { return e.ConfigVersion }},
		{"original_provider", func(e *event) string { return e.OriginalProvider }},
		{"remembered_provider", func(e *event) string { return e.RememberedProvider }},
		{"remembered_region", func(e *event) string { return e.RememberedRegion }},
		{"outcome", func(e *event) string { return string(e.Outcome) }},
		{"error_type", func(e *event) string { return e.ErrorType }},
		{"finish_reason", func(e *event) string { return e.FinishReason }},
		{"usage_source", func(e *event) string { return string(e.UsageSource) }},
		{"usage_flag", func(e *event) string { return e.UsageFlag }},
		{"price_version", func(e *event) string { return e.PriceVersion }},
		{"baseline_kind", func(e *event) string { return e.BaselineKind }},
		{"baseline_model", func(e *event) string { return e.BaselineModel }},
		{"baseline_provider", func(e *event) string { return e.BaselineProvider }},
	}
	boolColumns = []column[bool]{
		{"will_retry", func(e *event) bool { return e.WillRetry }},
		{"stream", func(e *event) bool { return e.Stream }},
		{"custom_provider", func(e *event) bool { return e.CustomProvider }},
		{"no_fallback", func(e *event) bool { return e.NoFallback }},
		{"redecided", func(e *event) bool { return e.Redecided }},
		{"geo_blocked", func(e *event) bool { return e.GeoBlocked }},
	}
	smallColumns = []column[int32]{
		{"attempt_no", func(e *event) int32 { return clamp(e.AttemptNo) }},
		{"model_attempt_no", func(e *event) int32 { return clamp(e.ModelAttemptNo) }},
		{"algorithm_version", func(e *event) int32 { return clamp(e.AlgorithmVersion) }},
		{"eligible_provider_keys", func(e *event) int32 { return clamp(e.EligibleProviderKeys) }},
		{"considered_total", func(e *event) int32 { return clamp(e.ConsideredTotal) }},
		{"status_code", func(e *event) int32 { return clamp(e.StatusCode) }},
	}
	countColumns = []column[int64]{
		{"prompt_tokens_estimate", func(e *event) int64 { return e.PromptTokensEstimate }},
		{"max_tokens", func(e *event) int64 { return e.MaxTokens }},
		{"clock_offset_us", func(e *event) int64 { return e.ClockOffsetUS }},
		{"queue_us", func(e *event) int64 { return e.QueueUS }},
		{"connect_us", func(e *event) int64 { return e.ConnectUS }},
		{"duration_us", func(e *event) int64 { return e.DurationUS }},
		{"overhead_us", func(e *event) int64 { return e.OverheadUS }},
		{"input_tokens", func(e *event) int64 { return e.InputTokens }},
		{"cached_input_tokens", func(e *event) int64 { return e.CachedInputTokens }},
		{"cache_write_tokens", func(e *event) int64 { return e.CacheWriteTokens }},
		{"cache_write_1h_tokens", func(e *event) int64 { return e.CacheWrite1hTokens }},
		{"output_tokens", func(e *event) int64 { return e.OutputTokens }},
		{"reasoning_tokens", func(e *event) int64 { return e.ReasoningTokens }},
		{"image_input_tokens", func(e *event) int64 { return e.ImageInputTokens }},
		{"audio_input_tokens", func(e *event) int64 { return e.AudioInputTokens }},
		{"image_output_tokens", func(e *event) int64 { return e.ImageOutputTokens }},
		{"audio_output_tokens", func(e *event) int64 { return e.AudioOutputTokens }},
		{"cost_nano_usd", func(e *event) int64 { return e.CostNanoUSD }},
		{"cost_input_nano_usd", func(e *event) int64 { return e.CostInputNanoUSD }},
		{"cost_cached_nano_usd", func(e *event) int64 { return e.CostCachedNanoUSD }},
		{"cost_cache_write_nano_usd", func(e *event) int64 { return e.CostCacheWriteNanoUSD }},
		{"cost_output_nano_usd", func(e *event) int64 { return e.CostOutputNanoUSD }},
		{"cost_image_input_nano_usd", func(e *event) int64 { return e.CostImageInputNanoUSD }},
		{"cost_audio_nano_usd", func(e *event) int64 { return e.CostAudioNanoUSD }},
		{"cost_request_nano_usd", func(e *event) int64 { return e.CostRequestNanoUSD }},
		{"baseline_nano_usd", func(e *event) int64 { return e.BaselineNanoUSD }},
	}
	optionalColumns = []column[*float64]{
		{"draw", func(e *event) *float64 { return e.Draw }},
		{"original_uptime", func(e *event) *float64 { return e.OriginalUptime }},
		{"hit_rate", func(e *event) *float64 { return e.HitRate }},
		{"output_ratio", func(e *event) *float64 { return e.OutputRatio }},
		{"exploration_rate", func(e *event) *float64 { return e.ExplorationRate }},
	}
	timeColumns = []column[time.Time]{
		{"started_at", func(e *event) time.Time { return e.StartedAt }},
		{"finished_at", func(e *event) time.Time { return orEpoch(e.FinishedAt) }},
	}
	// oneColumns are those of a type of their own, in the order of columns.send.
	oneColumns = []string{"schema_version", "propensity", "seed", "ttft_us", "stripped_parameters", "traits", "considered_json", "kafka_partition", "kafka_offset", "version"}
)

type column[T any] struct {
	name string
	of   func(*event) T
}

func clamp(n int) int32 { return int32(min(max(n, math.MinInt32), math.MaxInt32)) }

func orEpoch(t time.Time) time.Time {
	if t.IsZero() {
		return time.Unix(0, 0)
	}
	return t
}

// insertAttempts names the columns in the order in which columns.send appends them.
var insertAttempts = func() string {
	var names []string
	names = appendNames(names, textColumns)
	names = appendNames(names, wordColumns)
	names = appendNames(names, boolColumns)
	names = appendNames(names, smallColumns)
	names = appendNames(names, countColumns)
	names = appendNames(names, optionalColumns)
	names = appendNames(names, timeColumns)
	names = append(names, oneColumns...)
	return "INSERT INTO attempts (" + strings.Join(names, ", ") + ")"
}()

func appendNames[T any](to []string, columns []column[T]) []string {
	for _, c := range columns {
		to = append(to, c.name)
	}
	return to
}

// columns holds a batch the way the server wants it: the rows are walked once, so that each event is
// in the processor's cache once, and the slices are used again for the next batch.
type columns struct {
	text     [][]string
	words    [][]any
	interned []map[string]any
	bools    [][]bool
	small    [][]int32
	counts   [][]int64
	optional [][]*float64
	times    [][]time.Time

	schema     []uint16
	propensity []float64
	seed       []uint64
	ttft       []*int64
	stripped   [][]string
	traits     [][]string
	considered []string
	partition  []int32
	offset     []int64
	version    []uint64
}

func newColumns() *columns {
	c := &columns{
		text: make([][]string, len(textColumns)), words: make([][]any, len(wordColumns)), interned: make([]map[string]any, len(wordColumns)),
		bools: make([][]bool, len(boolColumns)), small: make([][]int32, len(smallColumns)), counts: make([][]int64, len(countColumns)),
		optional: make([][]*float64, len(optionalColumns)), times: make([][]time.Time, len(timeColumns)),
	}
	for i := range c.interned {
		c.interned[i] = map[string]any{}
	}
	return c
}

func fill[T any](to [][]T, from []column[T], e *event) {
	for i := range from {
		to[i] = append(to[i], from[i].of(e))
	}
}

func (c *columns) add(e *event, considered string, partition int, offset int64) {
	fill(c.text, textColumns, e)
	for i := range wordColumns {
		c.words[i] = append(c.words[i], c.word(i, wordColumns[i].of(e)))
	}
	fill(c.bools, boolColumns, e)
	fill(c.small, smallColumns, e)
	fill(c.counts, countColumns, e)
	fill(c.optional, optionalColumns, e)
	fill(c.times, timeColumns, e)

	c.schema = append(c.schema, uint16(min(max(e.SchemaVersion, 0), math.MaxUint16)))
	c.propensity = append(c.propensity, e.Propensity)
	c.seed = append(c.seed, e.Seed)
	c.ttft = append(c.ttft, e.TTFTUS)
	c.stripped = append(c.stripped, e.StrippedParameters)
	c.traits = append(c.traits, e.Traits)
	c.considered = append(c.considered, considered)
	c.partition = append(c.partition, int32(partition))
	c.offset = append(c.offset, offset)
	c.version = append(c.version, version(offset))
}

// version makes the row of the lowest offset win.
func version(offset int64) uint64 { return math.MaxUint64 - uint64(offset) }

// maxInterned bounds how many words of a column are kept from one batch to the next.
const maxInterned = 4096

// word returns the string as an interface that was made before: the driver takes one for each value.
func (c *columns) word(i int, text string) any {
	if n := len(c.words[i]); n > 0 {
		if last := c.words[i][n-1]; last.(string) == text {
			return last
		}
	}
	known, ok := c.interned[i][text]
	if !ok {
		if len(c.interned[i]) >= maxInterned {
			clear(c.interned[i])
		}
		text = strings.Clone(text) // an event's strings keep its whole record alive
		known = text
		c.interned[i][text] = known
	}
	return known
}

func (c *columns) reset() {
	empty(c.text)
	empty(c.words)
	empty(c.bools)
	empty(c.small)
	empty(c.counts)
	empty(c.optional)
	empty(c.times)
	clear(c.ttft)
	clear(c.stripped)
	clear(c.traits)
	clear(c.considered)
	c.schema, c.propensity, c.seed, c.ttft, c.stripped = c.schema[:0], c.propensity[:0], c.seed[:0], c.ttft[:0], c.stripped[:0]
	c.traits = c.traits[:0]
	c.considered, c.partition, c.offset, c.version = c.considered[:0], c.partition[:0], c.offset[:0], c.version[:0]
}

func empty[T any](lists [][]T) {
	for i := range lists {
		clear(lists[i])
		lists[i] = lists[i][:0]
	}
}

// send appends everything to a batch begun with insertAttempts.
func (c *columns) send(batch chx.Batch) error {
	next := 0
	appendOne := func(values any) error {
		next++
		return batch.Column(next - 1).Append(values)
	}
	if err := appendAll(appendOne, c.text); err != nil {
		return err
	}
	for _, words := range c.words {
		to := batch.Column(next)
		next++
		for _, word := range words {
			if err := to.AppendRow(word); err != nil {
				return err
			}
		}
	}
	if err := appendAll(appendOne, c.bools); err != nil {
		return err
	}
	if err := appendAll(appendOne, c.small); err != nil {
		return err
	}
	if err := appendAll(appendOne, c.counts); err != nil {
		return err
	}
	if err := appendAll(appendOne, c.optional); err != nil {
		return err
	}
	if err := appendAll(appendOne, c.times); err != nil {
		return err
	}
	for _, values := range []any{c.schema, c.propensity, c.seed, c.ttft} {
		if err := appendOne(values); err != nil {
			return err
		}
	}
	for _, lists := range [][][]string{c.stripped, c.traits} {
		to := batch.Column(next)
		next++
		for _, list := range lists {
			if err := to.AppendRow(list); err != nil {
				return err
			}
		}
	}
	if err := c.makeRoom(batch.Columns()[next]); err != nil {
		return err
	}
	for _, values := range []any{c.considered, c.partition, c.offset, c.version} {
		if err := appendOne(values); err != nil {
			return err
		}
	}
	return nil
}

// makeRoom gives the batch's column of candidates, by far the longest, the room it needs at once: it
// grows by a quarter at a time, so that every byte would be copied five times.
func (c *columns) makeRoom(to interface {
	AppendRow(v any) error
	Reset()
}) error {
	n := 0
	for _, text := range c.considered {
		n += len(text)
	}
	err := to.AppendRow(strings.Repeat(" ", n))
	to.Reset()
	return err
}

func appendAll[T any](appendOne func(any) error, lists [][]T) error {
	for _, list := range lists {
		if err := appendOne(list); err != nil {
			return err
		}
	}
	return nil
}
