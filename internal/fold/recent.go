package fold

import (
	"hash/fnv"
	"time"

	"turnout/schemas/attempt"
	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

// Recent holds a node's own attempts that the snapshot it routes by does not hold yet, in the same
// slots: those acknowledged above the snapshot's watermark and those not acknowledged so far. It is
// not safe for concurrent use.
type Recent struct {
	slots   map[snapshot.Key]map[int64]*snapshot.Sums // by region
	folded  map[snapshot.Key]map[int64]*snapshot.Sums // over all regions; Region is ""
	pending map[int64]*waiting                        // by slot: no offset yet
	acked   map[int][]own                             // by partition
	series  map[snapshot.Key]int32                    // place in keys
	keys    []snapshot.Key                            // of all attempts ever held: few
}

// waiting is the attempts of a slot that Kafka has not acknowledged. While it is away there are very
// many, so of each only a short form of its id is held: an acknowledgement brings the attempt again.
type waiting struct {
	ids  map[uint64]struct{}
	sums map[int32]*snapshot.Sums // by series
}

// own is an acknowledged attempt.
type own struct {
	single
	series       int32
	slot, offset int64
}

// place is where an attempt counts.
type place struct {
	series int32
	slot   int64
}

func short(eventID string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(eventID))
	return h.Sum64()
}

// NewRecent returns an empty Recent.
func NewRecent() *Recent {
	return &Recent{
		slots: map[snapshot.Key]map[int64]*snapshot.Sums{}, folded: map[snapshot.Key]map[int64]*snapshot.Sums{},
		pending: map[int64]*waiting{}, acked: map[int][]own{}, series: map[snapshot.Key]int32{},
	}
}

// Add counts a finished attempt from now on. One that waits for its acknowledgement already is not
// counted again.
func (r *Recent) Add(e *attempt.Event) {
	key, sums, ok := Classify(e)
	if !ok {
		return
	}
	slot, id := SlotOf(EventTime(e)), short(e.EventID)
	w := r.pending[slot]
	if w == nil {
		w = &waiting{ids: map[uint64]struct{}{}, sums: map[int32]*snapshot.Sums{}}
		r.pending[slot] = w
	}
	if _, known := w.ids[id]; known {
		return
	}
	series, known := r.series[key]
	if !known {
		series = int32(len(r.keys))
		r.series[key], r.keys = series, append(r.keys, key)
	}
	if w.sums[series] == nil {
		w.sums[series] = new(snapshot.Sums)
	}
	w.ids[id] = struct{}{}
	w.sums[series].Add(sums)
	r.apply(key, slot, sums)
}

// Ack says where in the log an attempt stands. It goes on counting until Cover passes that place.
// Attempts that were not added are ignored.
func (r *Recent) Ack(e *attempt.Event, partition int, offset int64) {
	slot, id := SlotOf(EventTime(e)), short(e.EventID)
	w := r.pending[slot]
	if w == nil {
		return
	}
	if _, known := w.ids[id]; !known {
		return
	}
	key, sums, _ := Classify(e)
	series := r.series[key]
	w.sums[series].Add(sums.Negated())
	if delete(w.ids, id); len(w.ids) == 0 {
		delete(r.pending, slot)
	}
	r.acked[partition] = append(r.acked[partition], own{single: pack(sums), series: series, slot: slot, offset: offset})
}

// Cover forgets what a snapshot with these watermarks holds, and what is older than keep at now
// whether it was acknowledged or not.
func (r *Recent) Cover(watermarks map[int]int64, now time.Time, keep time.Duration) {
	oldest := SlotOf(now.Add(-keep))
	// Attempts are forgotten by the many, of few series and slots: summed first, taken away once.
	gone := map[place]*snapshot.Sums{}
	forget := func(at place, sums snapshot.Sums) {
		if gone[at] == nil {
			gone[at] = new(snapshot.Sums)
		}
		gone[at].Add(sums)
	}
	for partition, list := range r.acked {
		mark, known := watermarks[partition]
		kept := list[:0]
		for _, o := range list {
			if known && o.offset <= mark || o.slot < oldest {
				forget(place{o.series, o.slot}, o.sums())
				continue
			}
			kept = append(kept, o)
		}
		clear(list[len(kept):])
		if r.acked[partition] = kept; len(kept) == 0 {
			delete(r.acked, partition)
		}
	}
	for slot, w := range r.pending {
		if slot >= oldest {
			continue
		}
		delete(r.pending, slot)
		for series, sums := range w.sums {
			forget(place{series, slot}, *sums)
		}
	}
	for at, sums := range gone {
		r.apply(r.keys[at.series], at.slot, sums.Negated())
	}
}

// Len is how many attempts are held.
func (r *Recent) Len() int {
	n := 0
	for _, w := range r.pending {
		n += len(w.ids)
	}
	for _, list := range r.acked {
		n += len(list)
	}
	return n
}

func (r *Recent) apply(key snapshot.Key, slot int64, sums snapshot.Sums) {
	add(r.slots, key, slot, sums)
	key.Region = ""
	add(r.folded, key, slot, sums)
}

func add(to map[snapshot.Key]map[int64]*snapshot.Sums, key snapshot.Key, slot int64, sums snapshot.Sums) {
	slots := to[key]
	if slots == nil {
		slots = map[int64]*snapshot.Sums{}
		to[key] = slots
	}
	s := slots[slot]
	if s == nil {
		s = new(snapshot.Sums)
		slots[slot] = s
	}
	if s.Add(sums); *s == (snapshot.Sums{}) {
		if delete(slots, slot); len(slots) == 0 {
			delete(to, key)
		}
	}
}

func tiers(from map[snapshot.Key]map[int64]*snapshot.Sums, key snapshot.Key, h resource.History, now time.Time) snapshot.Row {
	row := snapshot.Row{Key: key}
	profile := bounds(h)
	for slot, sums := range from[key] {
		if age, ok := Age(slot, now); ok {
			if tier, ok := profile.Tier(age); ok {
				row.Tier[tier].Add(*sums)
			}
		}
	}
	return row
}
