// Package partition is the pure heart of the processor: what the events of one Kafka partition add
// to which bucket, so that counting is exact whatever is killed and whenever (pipeline.md 6 and 8).
//
// Three rules carry it. A record is a duplicate exactly if the same event id stands at a lower offset
// of its partition. A bucket is an absolute value that is valid as of an offset, and an event is
// applied to it only above that offset. Progress is stored together with the buckets. A bucket's
// value at an offset is therefore a function of the log alone: whoever writes it, however often and
// in whatever order, writes the same.
package partition

import (
	"time"

	"turnout/internal/fold"
	"turnout/schemas/attempt"
	"turnout/schemas/snapshot"
)

// Record is a decoded record of the log.
type Record struct {
	Event *attempt.Event
	// Considered is the event's list of candidates as JSON; Event.Considered need not be set.
	Considered string
	Offset     int64
	// Replayed: the sender says that it may stand in the log already.
	Replayed bool
}

// Kind tells buckets apart.
type Kind uint8

// The kinds of bucket.
const (
	Slot  Kind = iota + 1 // ten seconds of a provider
	Usage                 // an hour of a project
)

// Span is a stretch of time of one kind: buckets are read back a span at a time.
type Span struct {
	Kind Kind
	At   int64 // its beginning, in seconds since 1970
}

// Key names a bucket. Region and Class belong to slots, Project to usage.
type Key struct {
	Span
	Provider, Model, Region, Class, Organization, Project string
}

// Bucket is what was counted up to and with the event at Offset.
type Bucket struct {
	Offset int64
	Slot   snapshot.Sums
	Usage  fold.Usage
}

// Changed is a bucket to be written.
type Changed struct {
	Key
	Bucket
}

// Horizon says which spans are still kept. An event of an earlier one is no longer applied.
type Horizon struct {
	Now         time.Time
	OldestSlot  time.Time
	OldestUsage time.Time
}

func (h Horizon) keeps(s Span) bool {
	if s.Kind == Slot {
		return s.At >= h.OldestSlot.Unix()
	}
	return s.At >= h.OldestUsage.Unix()
}

// lateAfter is how old an event may be before it is counted as late.
const lateAfter = 10 * time.Minute

// EarlyAfter is how far ahead of now an event may end before it is counted as early: snapshots leave
// its slot out until then.
const EarlyAfter = time.Minute

// Stats is what Apply did.
type Stats struct {
	Applied    int // events that are in their buckets now
	Duplicates int
	Late       int // events more than ten minutes old, applied where their span is still kept
	Early      int // events of more than a minute ahead, applied: a node's clock is wrong
	Dropped    int // events whose slot or hour is no longer kept
}

// State is what is known of one partition. It is not safe for concurrent use.
type State struct {
	spans map[Span]*span
	seen  memory
	turn  int
}

type span struct {
	buckets map[Key]*held
	turn    int // of last use
}

// held is a bucket in memory.
type held struct {
	Changed
	turn int // of the last call of Apply that changed it
}

// New returns a state that knows nothing. It reads back what it needs, so it may begin anywhere.
func New() *State { return &State{spans: map[Span]*span{}} }

// Missing returns the spans that Apply will need and that have to be loaded before.
func (s *State) Missing(records []Record, h Horizon) []Span {
	var out []Span
	asked := map[Span]bool{}
	for _, r := range records {
		for _, at := range spansOf(r.Event) {
			if s.spans[at] == nil && !asked[at] && h.keeps(at) {
				asked[at] = true
				out = append(out, at)
			}
		}
	}
	return out
}

func spansOf(e *attempt.Event) [2]Span {
	t := fold.EventTime(e)
	return [2]Span{{Slot, fold.SlotOf(t)}, {Usage, fold.HourOf(t)}}
}

// Load says what is stored for a span; nothing is fine. What is there already stays if it is newer.
func (s *State) Load(at Span, buckets []Changed) {
	known := s.spans[at]
	if known == nil {
		known = &span{buckets: map[Key]*held{}, turn: s.turn}
		s.spans[at] = known
	}
	for _, b := range buckets {
		if have := known.buckets[b.Key]; have == nil || have.Offset < b.Offset {
			known.buckets[b.Key] = &held{Changed: b}
		}
	}
}

// Suspects returns the records that have to be looked up among the stored ones: those marked as
// replayed of which no lower offset is remembered.
func (s *State) Suspects(records []Record) []Record {
	var out []Record
	for _, r := range records {
		if !r.Replayed {
			continue
		}
		if lowest, ok := s.seen.get(r.Event.EventID); !ok || lowest >= r.Offset {
			out = append(out, r)
		}
	}
	return out
}

// Apply counts records, in order of offset, and returns the buckets that changed, each once. Spans
// that are Missing must have been loaded. stored is the lowest stored offset of the suspects by event
// id; the records themselves may be among what is stored.
func (s *State) Apply(records []Record, stored map[string]int64, h Horizon) ([]Changed, Stats) {
	var stats Stats
	s.turn++
	var touched []*held
	touch := func(b *held, offset int64) {
		b.Offset = offset
		if b.turn != s.turn {
			b.turn = s.turn
			touched = append(touched, b)
		}
	}
	for _, r := range records {
		if lowest, ok := s.seen.lowest(r.Event.EventID, r.Offset); ok && lowest < r.Offset {
			stats.Duplicates++
			continue
		}
		if lowest, ok := stored[r.Event.EventID]; ok && lowest < r.Offset {
			stats.Duplicates++
			continue
		}
		stats.Applied++
		switch age := h.Now.Sub(fold.EventTime(r.Event)); {
		case age > lateAfter:
			stats.Late++
		case age < -EarlyAfter:
			stats.Early++
		}
		at := spansOf(r.Event)
		dropped := false
		if !h.keeps(at[0]) {
			dropped = true
		} else if key, sums, ok := fold.Classify(r.Event); ok {
			k := Key{Span: at[0], Provider: key.Provider, Model: key.Model, Region: key.Region, Class: key.Class, Organization: key.Organization}
			if b := s.bucket(k); b.Offset < r.Offset {
				b.Slot.Add(sums)
				touch(b, r.Offset)
			}
		}
		if !h.keeps(at[1]) {
			dropped = true
		} else {
			key, usage := fold.ClassifyUsage(r.Event)
			k := Key{Span: at[1], Provider: key.Provider, Model: key.Model, Organization: key.Organization, Project: key.Project}
			if b := s.bucket(k); b.Offset < r.Offset {
				b.Usage.Add(usage)
				touch(b, r.Offset)
			}
		}
		if dropped {
			stats.Dropped++
		}
	}
	out := make([]Changed, 0, len(touched))
	for _, b := range touched {
		out = append(out, b.Changed)
	}
	return out, stats
}

// bucket returns the bucket of a span that is loaded, with strings of its own: those of an event keep
// its whole record alive.
func (s *State) bucket(k Key) *held {
	at := s.spans[k.Span]
	if at == nil {
		panic("partition: a span was not loaded") // Apply without Missing
	}
	at.turn = s.turn
	if b := at.buckets[k]; b != nil {
		return b
	}
	k = k.cloned()
	b := &held{Changed: Changed{Key: k, Bucket: Bucket{Offset: -1}}}
	at.buckets[k] = b
	return b
}

// Forget lets go of spans that the last so many calls of Apply did not use. What Apply returned for
// them must have been stored: they are read back when an event of theirs comes.
func (s *State) Forget(calls int) {
	for at, known := range s.spans {
		if s.turn-known.turn > calls {
			delete(s.spans, at)
		}
	}
}

// Spans is how many spans are held.
func (s *State) Spans() int { return len(s.spans) }
