package fold

import (
	"time"

	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

// Figures answers what is known of a candidate: the rows of one profile of a snapshot, plus a node's
// own newer attempts. It never changes after NewFigures, so it may be shared.
type Figures struct {
	asOf   time.Time
	region map[snapshot.Key]snapshot.Row
	folded map[snapshot.Key]snapshot.Row // Region is ""
}

// NewFigures indexes the rows of one profile. A set that is nil knows nothing.
func NewFigures(set *snapshot.Set, profile string) *Figures {
	f := &Figures{region: map[snapshot.Key]snapshot.Row{}, folded: map[snapshot.Key]snapshot.Row{}}
	if set == nil {
		return f
	}
	f.asOf = set.Head.AsOf
	for _, row := range set.Rows[profile] {
		f.region[row.Key] = row
		key := row.Key
		key.Region = ""
		sum := f.folded[key]
		sum.Key = key
		AddRow(&sum, row)
		f.folded[key] = sum
	}
	return f
}

// Row returns what counts for a candidate at now: its region's own sums where these hold at least
// 20 attempts, otherwise those of all regions of its provider together. recent may be nil.
func (f *Figures) Row(key snapshot.Key, recent *Recent, h resource.History, now time.Time) snapshot.Row {
	age := max(now.Sub(f.asOf), 0)
	row := f.region[key]
	row.Key = key
	row = Shift(row, h, age)
	if recent != nil {
		AddRow(&row, tiers(recent.slots, key, h, now))
	}
	if total := Total(row); total.Counted() >= regionMinimum {
		return row
	}
	all := key
	all.Region = ""
	row = f.folded[all]
	row.Key = key
	row = Shift(row, h, age)
	if recent != nil {
		AddRow(&row, tiers(recent.folded, all, h, now))
	}
	return row
}

// Metrics is Weigh of Row.
func (f *Figures) Metrics(key snapshot.Key, recent *Recent, h resource.History, now time.Time) Metrics {
	return Weigh(f.Row(key, recent, h, now), h)
}
