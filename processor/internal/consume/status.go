package consume

import (
	"fmt"
	"maps"
	"slices"
	"sync"
)

// Cause is why a partition cannot go on.
type Cause string

// The causes of a Gap.
const (
	Expired       Cause = "records expired before they were read"
	LogEndsBefore Cause = "the log ends before what was read of it"
	OtherLog      Cause = "the log holds another record at the stored offset"
	Hole          Cause = "offsets are missing inside the log"
	// MadeAnew is written by a replay where the log was another one: raw rows stored before belong to
	// the old log, whose offsets say nothing about the new one.
	MadeAnew Cause = "the topic was made anew"
)

// Gap says that a partition's log does not go on where its stored progress ended.
type Gap struct {
	Partition   int
	Progress    int64    // stored
	First, Next int64    // what the log holds: First .. Next-1
	Missing     [2]int64 // first and last offset, where a range is missing
	Cause       Cause
}

func (g *Gap) Error() string {
	text := fmt.Sprintf("partition %d: %s: stored progress is offset %d, the log holds %d to %d", g.Partition, g.Cause, g.Progress, g.First, g.Next-1)
	switch g.Cause {
	case LogEndsBefore:
		return text + "; the topic was made anew or lost its end: rebuild with `turnout replay --from earliest`"
	case OtherLog:
		return text + fmt.Sprintf("; rebuild with `turnout replay --from earliest`, or go on at the next record with --accept-gap %d:%d", g.Partition, g.Progress+1)
	}
	return text + fmt.Sprintf("; %d records (%d to %d) were never read: rebuild with `turnout replay`, or go on without them with --accept-gap %d:%d",
		g.Missing[1]-g.Missing[0]+1, g.Missing[0], g.Missing[1], g.Partition, g.First)
}

// Status is what the partitions of this process are doing. Safe for concurrent use.
type Status struct {
	mu      sync.Mutex
	holders map[int]int // workers at it: for a moment there may be two
	next    map[int]int64
	stored  map[int]int64
	stopped map[int]*Gap
	changed chan struct{}
}

// NewStatus returns a status without partitions.
func NewStatus() *Status {
	return &Status{holders: map[int]int{}, next: map[int]int64{}, stored: map[int]int64{}, stopped: map[int]*Gap{}, changed: make(chan struct{}, 1)}
}

func (s *Status) begin(p int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders[p]++
	delete(s.stopped, p)
	s.notify()
}

func (s *Status) end(p int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders[p]--; s.holders[p] <= 0 {
		delete(s.holders, p)
		delete(s.next, p)
		delete(s.stored, p)
		delete(s.stopped, p)
	}
	s.notify()
}

func (s *Status) notify() {
	select {
	case s.changed <- struct{}{}:
	default:
	}
}

func (s *Status) stop(p int, gap *Gap) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.stopped[p] = gap
}

func (s *Status) read(p int, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.next[p] = next
}

// Stored says that everything of p before next is safe.
func (s *Status) Stored(p int, next int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.holders[p] > 0 {
		s.stored[p] = next
	}
}

// Progress returns the next offset to store of every partition of this process.
func (s *Status) Progress() map[int]int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.stored)
}

// Owns says whether a worker of this process has the partition.
func (s *Status) Owns(p int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.holders[p] > 0
}

// Changed receives after partitions came or went.
func (s *Status) Changed() <-chan struct{} { return s.changed }

// Partitions lists the partitions of this process.
func (s *Status) Partitions() []int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Sorted(maps.Keys(s.holders))
}

// Stopped lists the partitions that cannot go on, and why.
func (s *Status) Stopped() []*Gap {
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []*Gap
	for _, p := range slices.Sorted(maps.Keys(s.stopped)) {
		out = append(out, s.stopped[p])
	}
	return out
}
