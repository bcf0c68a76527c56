package snapshot

import (
	"errors"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
)

func sample() *Set {
	rows := map[string][]Row{}
	for _, profile := range []string{"", "30-1-5"} {
		for i, provider := range []string{"a", "b", "c"} {
			row := Row{Key: Key{Provider: provider, Model: "m", Region: "eu", Class: ClassText}}
			row.Tier[i].Attempts = int64(i + 1)
			row.Tier[2].TTFTHistogram[11] = 7
			rows[profile] = append(rows[profile], row)
		}
	}
	stored := Flatten(rows)
	return &Set{Rows: rows, Head: Head{ID: "s", Generation: 2, AsOf: time.UnixMilli(1_700_000_000_123).UTC(), Watermarks: map[int]int64{0: 5, 3: 9},
		Rows: int64(len(stored)), Checksum: Checksum(stored), Profiles: []Profile{DefaultProfile(), NewProfile(30, 1, 5)}}}
}

func TestASetComesBackAsItWas(t *testing.T) {
	set := sample()
	row := set.Head.Stored()
	head, err := row.Head()
	if err != nil || !reflect.DeepEqual(head, set.Head) {
		t.Fatalf("head: %+v, %v", head, err)
	}
	stored := Flatten(set.Rows)
	rand.New(rand.NewPCG(1, 1)).Shuffle(len(stored), func(i, j int) { stored[i], stored[j] = stored[j], stored[i] })
	back, err := Assemble(head, stored)
	if err != nil || !reflect.DeepEqual(back, set) {
		t.Errorf("%+v\n%+v\n%v", back, set, err)
	}
}

func TestAssembleRefusesWhatIsNotWhole(t *testing.T) {
	for name, change := range map[string]func(h *Head, rows *[]StoredRow){
		"a row too few":      func(_ *Head, rows *[]StoredRow) { *rows = (*rows)[1:] },
		"a row twice":        func(_ *Head, rows *[]StoredRow) { (*rows)[0] = (*rows)[1] },
		"another number":     func(_ *Head, rows *[]StoredRow) { (*rows)[2].Sums.TTFTUS++ },
		"another provider":   func(_ *Head, rows *[]StoredRow) { (*rows)[2].Provider = "z" },
		"an unknown profile": func(h *Head, rows *[]StoredRow) { (*rows)[2].Profile = "z"; h.Checksum = Checksum(*rows) },
		"an unknown tier":    func(h *Head, rows *[]StoredRow) { (*rows)[2].HistoryTier = 4; h.Checksum = Checksum(*rows) },
	} {
		set := sample()
		rows := Flatten(set.Rows)
		change(&set.Head, &rows)
		if _, err := Assemble(set.Head, rows); err == nil || !strings.Contains(err.Error(), "snapshot s") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHeadRefusesNonsense(t *testing.T) {
	for name, change := range map[string]func(*StoredHead){
		"no id":             func(h *StoredHead) { h.ID = "" },
		"other watermarks":  func(h *StoredHead) { h.WatermarkSum++ },
		"broken profiles":   func(h *StoredHead) { h.Profiles = "[" },
		"negative rows":     func(h *StoredHead) { h.Rows = -1 },
		"no time to age by": func(h *StoredHead) { h.AsOf = time.Time{} },
	} {
		row := sample().Head.Stored()
		change(&row)
		if _, err := row.Head(); err == nil {
			t.Errorf("%s is taken for a head", name)
		}
	}
}

func TestRowsAreScannedAsTheyAreWritten(t *testing.T) {
	want := Flatten(sample().Rows)[1]
	values := want.Values("s", time.Now())[2:]
	var got StoredRow
	err := got.Scan(func(targets ...any) error {
		if len(targets) != len(values) {
			return errors.New("other columns")
		}
		for i, target := range targets {
			v := reflect.ValueOf(target).Elem()
			v.Set(reflect.ValueOf(values[i]).Convert(v.Type()))
		}
		return nil
	})
	if err != nil || got != want {
		t.Errorf("%+v, want %+v, %v", got, want, err)
	}
	if n := len(strings.Split(rowColumns, ", ")); n != len(values) {
		t.Errorf("%d columns are named, %d written", n, len(values))
	}
	if err := got.Sums.SetHistogram([]int64{1, 2}); err == nil {
		t.Error("a histogram of two buckets is taken")
	}
}

func TestNewerOrdersByGenerationThenWatermarksThenTime(t *testing.T) {
	head := func(g, w int64, seconds int64) Head {
		return Head{Generation: g, Watermarks: map[int]int64{0: w}, AsOf: time.Unix(seconds, 0)}
	}
	ascending := []Head{head(1, 5, 9), head(1, 6, 1), head(1, 6, 2), head(2, 0, 0)}
	for i, a := range ascending {
		for j, b := range ascending {
			if Newer(a, b) != (i > j) {
				t.Errorf("%v newer than %v: %v", a, b, Newer(a, b))
			}
		}
	}
}

func TestProfiles(t *testing.T) {
	p := NewProfile(30, 2, 10)
	if p.ID != "30-2-10" || DefaultProfile().ID != "" {
		t.Errorf("ids: %q %q", p.ID, DefaultProfile().ID)
	}
	for age, want := range map[time.Duration]int{0: Tier1, 2 * time.Minute: Tier1, 121 * time.Second: Tier2, 10 * time.Minute: Tier2, 601 * time.Second: Tier3, 30 * time.Minute: Tier3, 1801 * time.Second: -1} {
		if tier, ok := p.Tier(age); ok != (want >= 0) || ok && tier != want {
			t.Errorf("age %s: tier %d %v", age, tier, ok)
		}
	}
	if tier, _ := NewProfile(5, 10, 20).Tier(5 * time.Minute); tier != Tier1 {
		t.Error("tiers are not cut at the window")
	}
}

func TestProfileRecords(t *testing.T) {
	expires := time.UnixMilli(1_800_000_000_000).UTC()
	key, value := EncodeProfile(NewProfile(30, 2, 10), expires)
	p, until, withdrawn, ok, err := DecodeProfile([]byte(key), value)
	if err != nil || !ok || withdrawn || p != NewProfile(30, 2, 10) || !until.Equal(expires) || key != "profile/30-2-10" {
		t.Errorf("%s: %+v %s %v %v %v", key, p, until, withdrawn, ok, err)
	}
	if p, _, withdrawn, ok, err := DecodeProfile([]byte("profile/x"), nil); !withdrawn || !ok || err != nil || p.ID != "x" {
		t.Errorf("withdrawn: %+v %v %v %v", p, withdrawn, ok, err)
	}
	if _, _, _, ok, err := DecodeProfile([]byte("pin/x"), []byte("{")); ok || err != nil {
		t.Errorf("a pin: %v %v", ok, err)
	}
	for _, bad := range []string{`{`, `{"schema_version":0,"kind":"profile","id":"x","window_minutes":5}`, `{"schema_version":1,"kind":"pin","id":"x","window_minutes":5}`,
		`{"schema_version":1,"kind":"profile","id":"y","window_minutes":5}`, `{"schema_version":1,"kind":"profile","id":"x","window_minutes":121}`, `{"schema_version":1,"kind":"profile","id":"x","window_minutes":5,"tier1_minutes":-1}`} {
		if _, _, _, _, err := DecodeProfile([]byte("profile/x"), []byte(bad)); err == nil {
			t.Errorf("%s is taken", bad)
		}
	}
}

func FuzzDecodeProfile(f *testing.F) {
	key, value := EncodeProfile(NewProfile(30, 2, 10), time.Time{})
	f.Add([]byte(key), value)
	f.Fuzz(func(t *testing.T, key, value []byte) {
		p, expires, withdrawn, ok, err := DecodeProfile(key, value)
		if !ok || err != nil || withdrawn {
			return
		}
		again, value := EncodeProfile(p, expires)
		if back, until, _, _, err := DecodeProfile([]byte(again), value); err != nil || back != p || !until.Equal(expires) {
			t.Errorf("%+v became %+v, %v", p, back, err)
		}
	})
}
