package fold

import (
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
	pending map[string]own                            // by event id: no offset yet
	acked   map[int][]own                             // by partition
}

type own struct {
	key    snapshot.Key
	slot   int64
	offset int64
	sums   snapshot.Sums
}

// NewRecent returns an empty Recent.
func NewRecent() *Recent {
	return &Recent{
		slots: map[snapshot.Key]map[int64]*snapshot.Sums{}, folded: map[snapshot.Key]map[int64]*snapshot.Sums{},
		pending: map[string]own{}, acked: map[int][]own{},
	}
}

// Add counts a finished attempt from now on. An id that is there already is not counted again.
func (r *Recent) Add(e *attempt.Event) {
	key, sums, ok := Classify(e)
	if _, known := r.pending[e.EventID]; known || !ok {
		return
	}
	o := own{key: key, slot: SlotOf(EventTime(e)), sums: sums}
	r.pending[e.EventID] = o
	r.apply(o.key, o.slot, o.sums)
}

// Ack says where in the log an attempt stands. It goes on counting until Cover passes that place.
func (r *Recent) Ack(eventID string, partition int, offset int64) {
	o, ok := r.pending[eventID]
	if !ok {
		return
	}
	delete(r.pending, eventID)
	o.offset = offset
	r.acked[partition] = append(r.acked[partition], o)
}

// Cover forgets what a snapshot with these watermarks holds, and what is older than keep at now
// whether it was acknowledged or not.
func (r *Recent) Cover(watermarks map[int]int64, now time.Time, keep time.Duration) {
	oldest := SlotOf(now.Add(-keep))
	for partition, list := range r.acked {
		mark, known := watermarks[partition]
		kept := list[:0]
		for _, o := range list {
			if known && o.offset <= mark || o.slot < oldest {
				r.apply(o.key, o.slot, o.sums.Negated())
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
			r.apply(o.key, o.slot, o.sums.Negated())
		}
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
