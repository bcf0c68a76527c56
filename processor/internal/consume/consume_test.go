package consume

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/processor/internal/partition"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

func sample() *attempt.Event {
	score := 0.5
	return &attempt.Event{SchemaVersion: 1, EventID: "e", RequestID: "r", StartedAt: time.Unix(1_800_000_000, 0).UTC(), Outcome: attempt.Completed, ConsideredTotal: 2,
		Considered: []attempt.Considered{{Provider: `odd "]}[{ name`, Score: &score, Price: 1.5}, {Provider: "b", ExcludedCode: "vision"}}}
}

func TestTheListOfCandidatesIsKeptAsItCame(t *testing.T) {
	e := sample()
	c := new(Worker).decode(3, partition.New(), []kafkax.Record{{Offset: 7, Value: attempt.Append(nil, e)}})
	if len(c.Records) != 1 || len(c.Dead) != 0 {
		t.Fatalf("%+v", c)
	}
	if got, want := c.Records[0].Considered, string(attempt.AppendConsidered(nil, e.Considered)); got != want {
		t.Errorf("list: %s, want %s", got, want)
	}
	e.Considered = nil
	if !reflect.DeepEqual(c.Records[0].Event, e) {
		t.Errorf("rest: %+v, want %+v", c.Records[0].Event, e)
	}
}

// Another encoder may order and space things as it likes.
func TestEventsOfOtherEncodersAreRead(t *testing.T) {
	text := `{"considered": [ {"provider":"a","price":2} ], "schema_version":1,"event_id":"e","request_id":"r","started_at":"2026-01-01T00:00:00Z","outcome":"completed"}`
	c := new(Worker).decode(3, partition.New(), []kafkax.Record{{Partition: 3, Offset: 7, Value: []byte(text), Headers: []kafkax.Header{{Key: topic.HeaderReplayed, Value: []byte("1")}}}})
	if len(c.Records) != 1 || len(c.Dead) != 0 || !c.Records[0].Replayed || c.Last != 7 {
		t.Fatalf("%+v", c)
	}
	if got := c.Records[0].Considered; got != `[ {"provider":"a","price":2} ]` {
		t.Errorf("list: %s", got)
	}
}

// A time beyond what the tables hold would be stored as one in the past, in a slot that was never read.
func TestTimesThatNoTableHoldsAreDeadLetters(t *testing.T) {
	for text, dead := range map[string]bool{
		`"started_at":"2026-01-01T00:00:00Z"`:                                      false,
		`"started_at":"2026-01-01T00:00:00Z","finished_at":"2099-12-31T23:59:59Z"`: false,
		`"started_at":"1999-12-31T23:59:59Z"`:                                      true,
		`"started_at":"2100-01-01T00:00:01Z"`:                                      true,
		`"started_at":"2026-01-01T00:00:00Z","finished_at":"2107-01-01T00:00:00Z"`: true,
		`"started_at":"2026-01-01T00:00:00Z","finished_at":"1999-01-01T00:00:00Z"`: true,
	} {
		value := []byte(`{"schema_version":1,"event_id":"e","request_id":"r","outcome":"completed",` + text + `}`)
		c := new(Worker).decode(0, partition.New(), []kafkax.Record{{Offset: 7, Value: value}})
		if len(c.Dead) != 0 != dead || len(c.Records) != 0 == dead {
			t.Errorf("%s: %d records, %d dead letters", text, len(c.Records), len(c.Dead))
		}
	}
}

func TestGapsSayWhatIsMissingAndWhatToDo(t *testing.T) {
	for cause, want := range map[Cause][]string{
		Expired:       {"partition 2", "offset 10", "20 to 29", "9 records (11 to 19)", "--accept-gap 2:20", "turnout replay"},
		Hole:          {"9 records (11 to 19)", "--accept-gap 2:20"},
		OtherLog:      {"turnout replay", "--accept-gap 2:11"},
		LogEndsBefore: {"turnout replay --from earliest"},
	} {
		text := (&Gap{Partition: 2, Progress: 10, First: 20, Next: 30, Missing: [2]int64{11, 19}, Cause: cause}).Error()
		for _, part := range want {
			if !strings.Contains(text, part) {
				t.Errorf("%s: %q lacks %q", cause, text, part)
			}
		}
	}
}

func TestContiguous(t *testing.T) {
	if n := contiguous([]kafkax.Record{{Offset: 5}, {Offset: 6}, {Offset: 8}}); n != 2 {
		t.Errorf("%d", n)
	}
}
