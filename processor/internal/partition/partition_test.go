package partition

import (
	"fmt"
	"math"
	"testing"
	"time"

	"turnout/schemas/attempt"
)

func FuzzParseID(f *testing.F) {
	f.Add("0190a2b4-0000-7000-8000-00000000abcd")
	f.Add("0190A2B4-0000-7000-8000-00000000ABCD")
	f.Fuzz(func(t *testing.T, text string) {
		id, ok := parseID(text)
		if !ok {
			return
		}
		if again := fmt.Sprintf("%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:]); again != text {
			t.Errorf("%q is read as %q", text, again)
		}
	})
}

func TestLateEventsApplyWhileTheirSpanIsKept(t *testing.T) {
	now := modelStart.Add(60 * time.Hour)
	h := Horizon{Now: now, OldestSlot: now.Add(-48 * time.Hour), OldestUsage: now.Add(-8 * 24 * time.Hour)}
	e := func(id string, age time.Duration) *attempt.Event {
		return &attempt.Event{EventID: id, Provider: "a", Model: "m", Endpoint: attempt.EndpointChat, CredentialSource: attempt.Platform, Outcome: attempt.Completed, FinishedAt: now.Add(-age)}
	}
	records := []Record{{Event: e("x", time.Minute), Offset: 0}, {Event: e("y", time.Hour), Offset: 1}, {Event: e("z", 50*time.Hour), Offset: 2}, {Event: e("z", 50*time.Hour), Offset: 3}}
	s := New()
	missing := s.Missing(records, h)
	if len(missing) != 2+2 { // the slot of z is gone; its hour is not
		t.Errorf("missing: %v", missing)
	}
	for _, at := range missing {
		s.Load(at, nil)
	}
	changed, stats := s.Apply(records, nil, h)
	if want := (Stats{Applied: 3, Late: 2, Dropped: 1, Duplicates: 1}); stats != want || len(changed) != 4 {
		t.Errorf("%+v, %d buckets; want %+v, 4", stats, len(changed), want)
	}
}

func TestMemoryForgetsTheOldest(t *testing.T) {
	var m memory
	id := func(i int) string { return fmt.Sprintf("00000000-0000-7000-8000-%012x", i) }
	for i := range 5 * remembered {
		if _, known := m.lowest(id(i), int64(i)); known {
			t.Fatalf("id %d is known", i)
		}
	}
	if held := len(m.young) + len(m.old); held > 2*remembered {
		t.Errorf("%d ids are held", held)
	}
	if offset, known := m.lowest(id(5*remembered-1), math.MaxInt64); !known || offset != 5*remembered-1 {
		t.Errorf("the last id: %d, %v", offset, known)
	}
	if _, known := m.get(id(0)); known {
		t.Error("the first id is still known")
	}
	if _, known := m.lowest("no uuid", 7); known {
		t.Error("an odd id is known")
	}
	if offset, known := m.lowest("no uuid", 9); !known || offset != 7 {
		t.Errorf("an odd id: %d, %v", offset, known)
	}
}
