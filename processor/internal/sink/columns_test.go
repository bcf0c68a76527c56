package sink

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"turnout/internal/chx"
	"turnout/internal/testkit/chtest"
	"turnout/schemas/attempt"
)

func TestMain(m *testing.M) { chtest.Main(m) }

// numbered is an event whose every field has a value of its own.
func numbered(t *testing.T) *attempt.Event {
	e := new(attempt.Event)
	v := reflect.ValueOf(e).Elem()
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		switch f := v.Field(i).Addr().Interface().(type) {
		case *string:
			*f = name
		case *attempt.Outcome:
			*f = attempt.Outcome(name)
		case *attempt.UsageSource:
			*f = attempt.UsageSource(name)
		case *int:
			*f = 100 + i
		case *int64:
			*f = int64(1000 + i)
		case *uint64:
			*f = 1<<63 + uint64(i)
		case *float64:
			*f = float64(i) + 0.5
		case *bool:
			*f = true
		case **float64:
			x := float64(i) + 0.25
			*f = &x
		case **int64:
			x := int64(10_000 + i)
			*f = &x
		case *time.Time:
			*f = time.Now().UTC().Add(time.Duration(-i) * time.Second).Truncate(time.Microsecond)
		case *[]string:
			*f = []string{"a", name}
		case *[]attempt.Considered:
			*f = []attempt.Considered{{Provider: name, Price: 1.5}}
		default:
			t.Fatalf("field %s has a new type", name)
		}
	}
	return e
}

func insert(t *testing.T, conn *chx.Conn, events ...*attempt.Event) {
	t.Helper()
	c := newColumns()
	for range 2 { // a buffer that is used again holds nothing of before
		c.reset()
		for i, e := range events {
			c.add(e, string(attempt.AppendConsidered(nil, e.Considered)), 3, int64(40+i))
		}
	}
	batch, err := conn.PrepareBatch(chx.SyncInsert(context.Background()), insertAttempts)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close()
	if err := c.send(batch); err != nil {
		t.Fatal(err)
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
}

func TestEveryFieldArrivesInItsColumn(t *testing.T) {
	_, conn := chtest.Migrated(t)
	full, bare := numbered(t), &attempt.Event{SchemaVersion: 1, EventID: "bare", StartedAt: time.Now()}
	insert(t, conn, full, bare)

	v := reflect.ValueOf(full).Elem()
	for i := range v.NumField() {
		name, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ",")
		if name == "-" {
			continue
		}
		var got, empty string
		query := "SELECT toString(" + name + ") FROM attempts WHERE event_id = ?"
		if name == "considered" {
			query = "SELECT considered[1].provider FROM attempts WHERE event_id = ?"
		}
		if err := conn.QueryRow(t.Context(), "SELECT ifNull(("+query+"), 'NULL')", full.EventID).Scan(&got); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if err := conn.QueryRow(t.Context(), "SELECT ifNull(("+query+"), 'NULL')", bare.EventID).Scan(&empty); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		want := fmt.Sprint(reflect.Indirect(v.Field(i)).Interface())
		switch x := v.Field(i).Interface().(type) {
		case time.Time:
			want = x.Format("2006-01-02 15:04:05.000000")
		case []string:
			want = "['a','" + v.Type().Field(i).Name + "']"
		case []attempt.Considered:
			want = x[0].Provider
		}
		if got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
		if _, optional := v.Field(i).Interface().(*float64); optional && empty != "NULL" {
			t.Errorf("%s that is absent is %q", name, empty)
		}
	}
	var partition int32
	var offset int64
	var lowestWins uint64
	if err := conn.QueryRow(t.Context(), "SELECT kafka_partition, kafka_offset, version FROM attempts WHERE event_id = ?", full.EventID).Scan(&partition, &offset, &lowestWins); err != nil || partition != 3 || offset != 40 || lowestWins != version(40) || version(40) <= version(41) {
		t.Errorf("place: %d %d %d %v", partition, offset, lowestWins, err)
	}
	var considered string
	if err := conn.QueryRow(t.Context(), "SELECT considered_json FROM attempts WHERE event_id = ?", full.EventID).Scan(&considered); err != nil {
		t.Fatal(err)
	}
	var back []attempt.Considered
	if err := json.Unmarshal([]byte(considered), &back); err != nil || !reflect.DeepEqual(back, full.Considered) {
		t.Errorf("considered: %s, %v", considered, err)
	}
}

func TestWordsAreBoundedAndTheirOwn(t *testing.T) {
	c := newColumns()
	for i := range 3 * maxInterned {
		text := fmt.Sprintf("word-%d", i)
		if got := c.word(0, text); got != any(text) {
			t.Fatalf("%v for %s", got, text)
		}
	}
	if n := len(c.interned[0]); n > maxInterned {
		t.Errorf("%d words are kept", n)
	}
}

// The list of candidates is kept as it came, so one of another encoder must not spoil anybody's query.
func TestListsOfOtherShapesSpoilNoQuery(t *testing.T) {
	_, conn := chtest.Migrated(t)
	lists := []string{``, `[]`, `[1]`, `[null]`, `[[{}]]`, `["a"]`, `[{"provider":1,"price":"x","score":[],"cache_supported":"no","cooldown_ends_ms":1e400}]`,
		`[{"provider":"\ud800","price":-0,"new":{"in":[1.5e3]}}]`, strings.Repeat("[", 120) + strings.Repeat("]", 120), ` [ {"provider" : "a"} ] `}
	c := newColumns()
	for i, list := range append(lists, `[{"provider":"kept","price":1.5}]`) {
		e := &attempt.Event{SchemaVersion: 1, EventID: fmt.Sprint(i), RequestID: fmt.Sprint(i), StartedAt: time.Now(), Outcome: attempt.Completed}
		text := `{"considered":` + cmp.Or(list, "null") + `,` + string(attempt.Append(nil, e))[1:]
		if _, kept, err := attempt.DecodeKeeping(text); err != nil || kept != strings.TrimSpace(list) {
			t.Errorf("%s is kept as %q, %v", list, kept, err)
		}
		c.add(e, list, 0, int64(i))
	}
	batch, err := conn.PrepareBatch(chx.SyncInsert(t.Context()), insertAttempts)
	if err != nil {
		t.Fatal(err)
	}
	defer batch.Close()
	if err := c.send(batch); err != nil {
		t.Fatal(err)
	}
	if err := batch.Send(); err != nil {
		t.Fatal(err)
	}
	var rows, candidates uint64
	if err := conn.QueryRow(t.Context(), "SELECT count(), sum(length(considered)) FROM attempts_unique").Scan(&rows, &candidates); err != nil || rows != uint64(len(lists)+1) {
		t.Errorf("%d rows with %d candidates, %v", rows, candidates, err)
	}
	var price float64
	if err := conn.QueryRow(t.Context(), "SELECT sum(arraySum(c -> c.price, considered)) FROM attempts_unique WHERE considered[1].provider = 'kept'").Scan(&price); err != nil || price != 1.5 {
		t.Errorf("the price is %v, %v", price, err)
	}
}
