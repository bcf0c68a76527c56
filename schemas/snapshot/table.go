package snapshot

import (
	"cmp"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"slices"
	"time"
)

// How a snapshot stands in ClickHouse.
//
// snapshot_heads, one row a snapshot, written last:
//
//	snapshot_id   String                 UUIDv7
//	generation    Int64                  of the folds it was made from
//	as_of         DateTime64(3, 'UTC')   ages are relative to it
//	watermark_sum Int64                  Head.WatermarkSum
//	watermarks    Map(Int32, Int64)      partition -> offset of the last event in it
//	row_count     Int64                  of snapshot_rows, over all profiles
//	checksum      UInt64                 Checksum of those rows
//	profiles      String                 JSON, MarshalProfiles
//
// snapshot_rows, one row for each profile, key and history tier that counted anything:
//
//	snapshot_id, as_of                   the head's
//	profile                              Profile.ID
//	provider model region class organization_id   the Key
//	history_tier  UInt8                  1, 2, 3: youngest first
//	attempts ... ttft_histogram          the Sums; durations in microseconds
//
// Reader:
//
//	row := conn.QueryRow(ctx, snapshot.SelectHead)      // no rows: nothing was published yet
//	row.Scan(stored.Targets()...)                        // StoredHead
//	head, err := stored.Head()
//	rows := conn.Query(ctx, snapshot.SelectRows, head.ID) // each: StoredRow.Scan(rows.Scan)
//	set, err := snapshot.Assemble(head, all)              // compares row count and checksum
const (
	SelectHead = "SELECT " + headColumns + " FROM snapshot_heads ORDER BY generation DESC, watermark_sum DESC, as_of DESC LIMIT 1"
	// SelectHeads are the newest ones, the newest first: a reader that finds one corrupted takes the next.
	SelectHeads = "SELECT " + headColumns + " FROM snapshot_heads ORDER BY generation DESC, watermark_sum DESC, as_of DESC LIMIT 20"
	SelectRows  = "SELECT " + rowColumns + " FROM snapshot_rows WHERE snapshot_id = ?"
	InsertHead  = "INSERT INTO snapshot_heads (" + headColumns + ")"
	InsertRows  = "INSERT INTO snapshot_rows (snapshot_id, as_of, " + rowColumns + ")"

	headColumns = "snapshot_id, generation, as_of, watermark_sum, watermarks, row_count, checksum, profiles"
	rowColumns  = "profile, provider, model, region, class, organization_id, history_tier, " + SumColumns

	// SumColumns are the columns of Sums, in the order of Sums.Values and Sums.Targets.
	SumColumns = "attempts, client_errors, errors, rate_limited, geo_blocked, timeouts, canceled, " +
		"input_tokens, cached_input_tokens, output_tokens, throughput_tokens, throughput_us, ttft_count, ttft_us, ttft_histogram"
)

// StoredHead is a row of snapshot_heads.
type StoredHead struct {
	ID           string
	Generation   int64
	AsOf         time.Time
	WatermarkSum int64
	Watermarks   map[int32]int64
	Rows         int64
	Checksum     uint64
	Profiles     string
}

// Stored is the head as a row.
func (h Head) Stored() StoredHead {
	out := StoredHead{
		ID: h.ID, Generation: h.Generation, AsOf: h.AsOf, WatermarkSum: h.WatermarkSum(),
		Watermarks: make(map[int32]int64, len(h.Watermarks)), Rows: h.Rows, Checksum: h.Checksum,
	}
	for p, offset := range h.Watermarks {
		out.Watermarks[int32(p)] = offset
	}
	profiles, err := json.Marshal(h.Profiles)
	if err != nil { // a list of strings and numbers
		panic(fmt.Sprintf("snapshot: %v", err))
	}
	out.Profiles = string(profiles)
	return out
}

// Values are the columns of the row, as InsertHead names them.
func (s *StoredHead) Values() []any {
	return []any{s.ID, s.Generation, s.AsOf, s.WatermarkSum, s.Watermarks, s.Rows, s.Checksum, s.Profiles}
}

// Targets are where the columns of SelectHead go.
func (s *StoredHead) Targets() []any {
	return []any{&s.ID, &s.Generation, &s.AsOf, &s.WatermarkSum, &s.Watermarks, &s.Rows, &s.Checksum, &s.Profiles}
}

// Head checks the row and returns what it says.
func (s *StoredHead) Head() (Head, error) {
	h := Head{ID: s.ID, Generation: s.Generation, AsOf: s.AsOf.UTC(), Rows: s.Rows, Checksum: s.Checksum, Watermarks: make(map[int]int64, len(s.Watermarks))}
	for p, offset := range s.Watermarks {
		h.Watermarks[int(p)] = offset
	}
	if h.ID == "" || h.AsOf.IsZero() || h.Rows < 0 {
		return Head{}, fmt.Errorf("snapshot head %q: as_of %s, row_count %d: not a head", s.ID, s.AsOf, s.Rows)
	}
	if sum := h.WatermarkSum(); sum != s.WatermarkSum {
		return Head{}, fmt.Errorf("snapshot head %s: watermark_sum is %d, its watermarks sum to %d", s.ID, s.WatermarkSum, sum)
	}
	if err := json.Unmarshal([]byte(s.Profiles), &h.Profiles); err != nil {
		return Head{}, fmt.Errorf("snapshot head %s: reading profiles: %w", s.ID, err)
	}
	return h, nil
}

// StoredRow is a row of snapshot_rows.
type StoredRow struct {
	Profile string
	Key
	HistoryTier uint8 // from 1
	Sums        Sums
}

// Values are the columns of the row, as InsertRows names them; id and asOf are the head's.
func (r *StoredRow) Values(id string, asOf time.Time) []any {
	return append([]any{id, asOf, r.Profile, r.Provider, r.Model, r.Region, r.Class, r.Organization, r.HistoryTier}, r.Sums.Values()...)
}

// Scan reads the next of SelectRows: scan is the Scan of the database's rows.
func (r *StoredRow) Scan(scan func(targets ...any) error) error {
	var histogram []int64
	targets := append([]any{&r.Profile, &r.Provider, &r.Model, &r.Region, &r.Class, &r.Organization, &r.HistoryTier}, r.Sums.Targets(&histogram)...)
	if err := scan(targets...); err != nil {
		return err
	}
	return r.Sums.SetHistogram(histogram)
}

func (s *Sums) scalars() [14]*int64 {
	return [...]*int64{
		&s.Attempts, &s.ClientErrors, &s.Errors, &s.RateLimited, &s.GeoBlocked, &s.Timeouts, &s.Canceled,
		&s.InputTokens, &s.CachedTokens, &s.OutputTokens, &s.ThroughputTokens, &s.ThroughputUS, &s.TTFTCount, &s.TTFTUS,
	}
}

func (s *Sums) counters() []*int64 {
	scalars := s.scalars()
	out := scalars[:]
	for i := range s.TTFTHistogram {
		out = append(out, &s.TTFTHistogram[i])
	}
	return out
}

// Values are the sums as SumColumns names them.
func (s *Sums) Values() []any {
	out := make([]any, 0, 15)
	for _, v := range s.scalars() {
		out = append(out, *v)
	}
	return append(out, s.TTFTHistogram[:])
}

// Targets are where SumColumns go; the histogram is set by SetHistogram afterwards.
func (s *Sums) Targets(histogram *[]int64) []any {
	out := make([]any, 0, 15)
	for _, v := range s.scalars() {
		out = append(out, v)
	}
	return append(out, histogram)
}

// SetHistogram sets the histogram from its column; an empty one means that nothing was counted.
func (s *Sums) SetHistogram(column []int64) error {
	if len(column) != 0 && len(column) != TTFTBuckets {
		return fmt.Errorf("ttft_histogram has %d buckets, not %d", len(column), TTFTBuckets)
	}
	s.TTFTHistogram = [TTFTBuckets]int64{}
	copy(s.TTFTHistogram[:], column)
	return nil
}

// Flatten returns the rows of a set as they are stored, in a fixed order. Tiers that counted nothing
// are left out.
func Flatten(rows map[string][]Row) []StoredRow {
	var out []StoredRow
	for profile, list := range rows {
		for _, row := range list {
			for tier, sums := range row.Tier {
				if sums != (Sums{}) {
					out = append(out, StoredRow{Profile: profile, Key: row.Key, HistoryTier: uint8(tier + 1), Sums: sums})
				}
			}
		}
	}
	slices.SortFunc(out, func(a, b StoredRow) int {
		return cmp.Or(cmp.Compare(a.Profile, b.Profile), CompareKeys(a.Key, b.Key), cmp.Compare(a.HistoryTier, b.HistoryTier))
	})
	return out
}

// CompareKeys orders keys.
func CompareKeys(a, b Key) int {
	return cmp.Or(cmp.Compare(a.Provider, b.Provider), cmp.Compare(a.Model, b.Model), cmp.Compare(a.Region, b.Region),
		cmp.Compare(a.Class, b.Class), cmp.Compare(a.Organization, b.Organization))
}

// Checksum is the same for the same rows in any order.
func Checksum(rows []StoredRow) uint64 {
	var sum uint64
	var line []byte
	for i := range rows {
		r := &rows[i]
		line = line[:0]
		for _, text := range [...]string{r.Profile, r.Provider, r.Model, r.Region, r.Class, r.Organization} {
			line = appendNumber(line, uint64(len(text)))
			line = append(line, text...)
		}
		line = append(line, r.HistoryTier)
		for _, v := range r.Sums.counters() {
			line = appendNumber(line, uint64(*v))
		}
		h := fnv.New64a()
		h.Write(line)
		sum += h.Sum64()
	}
	return sum
}

func appendNumber(b []byte, v uint64) []byte {
	return append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24), byte(v>>32), byte(v>>40), byte(v>>48), byte(v>>56))
}

// Assemble makes a set of a head and all its rows, in any order. It is an error if there are more or
// fewer than the head says, or others.
func Assemble(head Head, stored []StoredRow) (*Set, error) {
	if int64(len(stored)) != head.Rows {
		return nil, fmt.Errorf("snapshot %s: %d rows were read, its head says %d", head.ID, len(stored), head.Rows)
	}
	if sum := Checksum(stored); sum != head.Checksum {
		return nil, fmt.Errorf("snapshot %s: checksum of its rows is %x, its head says %x", head.ID, sum, head.Checksum)
	}
	set := &Set{Head: head, Rows: make(map[string][]Row, len(head.Profiles))}
	for _, p := range head.Profiles {
		set.Rows[p.ID] = nil
	}
	type place struct {
		profile string
		key     Key
	}
	at := map[place]int{}
	for _, r := range stored {
		if r.HistoryTier < 1 || r.HistoryTier > TierCount {
			return nil, fmt.Errorf("snapshot %s: a row of %s/%s has history_tier %d", head.ID, r.Provider, r.Model, r.HistoryTier)
		}
		if _, ok := set.Rows[r.Profile]; !ok {
			return nil, fmt.Errorf("snapshot %s: rows of profile %q, which its head does not name", head.ID, r.Profile)
		}
		i, ok := at[place{r.Profile, r.Key}]
		if !ok {
			i = len(set.Rows[r.Profile])
			at[place{r.Profile, r.Key}] = i
			set.Rows[r.Profile] = append(set.Rows[r.Profile], Row{Key: r.Key})
		}
		set.Rows[r.Profile][i].Tier[r.HistoryTier-1].Add(r.Sums)
	}
	for _, rows := range set.Rows {
		slices.SortFunc(rows, func(a, b Row) int { return CompareKeys(a.Key, b.Key) })
	}
	return set, nil
}

// Newer says whether a is to replace b. A gateway never goes back.
func Newer(a, b Head) bool {
	return cmp.Or(cmp.Compare(a.Generation, b.Generation), cmp.Compare(a.WatermarkSum(), b.WatermarkSum()), a.AsOf.Compare(b.AsOf)) > 0
}
