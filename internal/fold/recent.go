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
	pending map[id]own                                // by event id: no offset yet
	acked   map[int][]own                             // by partition
	series  map[snapshot.Key]int32                    // place in keys
	keys    []snapshot.Key                            // of all attempts ever held: few
}

// own is one attempt. While Kafka is away very many are held, so it is small.
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

// id is an event id, shortened.
type id [16]byte

func idOf(eventID string) (short id) {
	h := fnv.New128a()
	_, _ = h.Write([]byte(eventID))
	h.Sum(short[:0])
	return short
}

// NewRecent returns an empty Recent.
func NewRecent() *Recent {
	return &Recent{
		slots: map[snapshot.Key]map[int64]*snapshot.Sums{}, folded: map[snapshot.Key]map[int64]*snapshot.Sums{},
		pending: map[id]own{}, acked: map[int][]own{}, series: map[snapshot.Key]int32{},
	}
}

// Add counts a finished attempt from now on. An id that is there already is not counted again.
func (r *Recent) Add(e *attempt.Event) {
	key, sums, ok := Classify(e)
	short := idOf(e.EventID)
	if _, known := r.pending[short]; known || !ok {
		return
	}
	series, known := r.series[key]
	if !known {
		series = int32(len(r.keys))
		r.series[key], r.keys = series, append(r.keys, key)
	}
	o := own{single: pack(sums), series: series, slot: SlotOf(EventTime(e))}
	r.pending[short] = o
	r.apply(key, o.slot, sums)
}

// Ack says where in the log an attempt stands. It goes on counting until Cover passes that place.
func (r *Recent) Ack(eventID string, partition int, offset int64) {
	short := idOf(eventID)
	o, ok := r.pending[short]
	if !ok {
		return
	}
	delete(r.pending, short)
	o.offset = offset
	r.acked[partition] = append(r.acked[partition], o)
}

// Cover forgets what a snapshot with these watermarks holds, and what is older than keep at now
// whether it was acknowledged or not.
func (r *Recent) Cover(watermarks map[int]int64, now time.Time, keep time.Duration) {
	oldest := SlotOf(now.Add(-keep))
	// Attempts are forgotten by the many, of few series and slots: summed first, taken away once.
	gone := map[place]*snapshot.Sums{}
	forget := func(o own) {
		at := place{o.series, o.slot}
		if gone[at] == nil {
			gone[at] = new(snapshot.Sums)
		}
		gone[at].Add(o.sums())
	}
	for partition, list := range r.acked {
		mark, known := watermarks[partition]
		kept := list[:0]
		for _, o := range list {
			if known && o.offset <= mark || o.slot < oldest {
				forget(o)
				continue
			}
			kept = append(kept, o)
		}
		clear(list[len(kept):])
		if r.acked[partition] = kept; len(kept) == 0 {
			delete(r.acked, partition)
		}
	}
	for id, o := range r.pending {
		if o.slot < oldest {
			delete(r.pending, id)
			forget(o)
		}
	}
	for at, sums := range gone {
		r.apply(r.keys[at.series], at.slot, sums.Negated())
	}
}

// Len is how many attempts are held.
func (r *Recent) Len() int {
	n := len(r.pending)
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
