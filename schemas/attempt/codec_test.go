package attempt

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// drawEvent fills every field of an Event from its type, so that a new field is covered at once.
func drawEvent(t *rapid.T, text *rapid.Generator[string]) *Event {
	e := new(Event)
	drawStruct(t, reflect.ValueOf(e).Elem(), text)
	e.SchemaVersion = rapid.IntRange(1, 3).Draw(t, "schema_version")
	e.EventID, e.RequestID = "e"+e.EventID, "r"+e.RequestID
	e.Outcome = "o" + e.Outcome
	e.Traceparent = ""
	return e
}

func drawStruct(t *rapid.T, v reflect.Value, text *rapid.Generator[string]) {
	for i := range v.NumField() {
		name, f := v.Type().Field(i).Name, v.Field(i)
		if _, isTime := f.Interface().(time.Time); !isTime && rapid.Bool().Draw(t, name+" empty") {
			continue
		}
		drawField(t, name, f, text)
	}
}

func drawField(t *rapid.T, name string, f reflect.Value, text *rapid.Generator[string]) {
	six := rapid.Map(rapid.IntRange(-999_999, 999_999), func(n int) float64 { return float64(n) / 1e4 })
	float := rapid.OneOf(rapid.Float64(), rapid.Float64Range(-10, 1000), six, rapid.SampledFrom([]float64{0, 1e-7, -1e-9, 1e21, 5e-324, math.MaxFloat64, 0.1, 100}))
	switch x := f.Addr().Interface().(type) {
	case *time.Time:
		*x = time.UnixMicro(rapid.Int64Range(-1e15, 4e15).Draw(t, name)).UTC()
	case **float64:
		v := float.Draw(t, name)
		*x = &v
	case **int64:
		v := rapid.Int64().Draw(t, name)
		*x = &v
	case *[]string:
		*x = rapid.SliceOfN(text, 1, 3).Draw(t, name)
	case *[]Considered:
		*x = make([]Considered, rapid.IntRange(1, 5).Draw(t, name))
		for i := range *x {
			drawStruct(t, reflect.ValueOf(&(*x)[i]).Elem(), text)
		}
	default:
		switch f.Kind() {
		case reflect.String:
			f.SetString(text.Draw(t, name))
		case reflect.Int, reflect.Int64:
			f.SetInt(rapid.Int64().Draw(t, name))
		case reflect.Uint64:
			f.SetUint(rapid.Uint64().Draw(t, name))
		case reflect.Float64:
			f.SetFloat(float.Draw(t, name))
		case reflect.Bool:
			f.SetBool(true)
		default:
			t.Fatalf("field %s has a type that no generator draws", name)
		}
	}
}

var (
	anyText = rapid.OneOf(rapid.String(), rapid.StringMatching(`[a-z0-9-]{0,40}`),
		rapid.SampledFrom([]string{"", `a"b\c/d`, "line\nend\ttab\b\f\r", "\x00\x1f\x7f", "<&>", "\u2028\u2029", "žluť 世界 🙂"}))
	brokenText = rapid.OneOf(anyText, rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
)

func standardJSON(t require, v any) []byte {
	var buf bytes.Buffer
	enc := json.NewEncoder(&buf)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		t.Fatalf("encoding/json: %v", err)
	}
	return bytes.TrimSuffix(buf.Bytes(), []byte("\n"))
}

type require interface{ Fatalf(string, ...any) }

func TestAppendWritesWhatEncodingJSONWrites(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t, brokenText)
		want := standardJSON(t, e)
		if got := Append(nil, e); !bytes.Equal(got, want) {
			t.Fatalf("got  %s\nwant %s", got, want)
		}
		if len(e.Considered) > 0 {
			list := AppendConsidered(nil, e.Considered)
			if got := AppendReusing(nil, e, list); !bytes.Equal(got, want) {
				t.Fatalf("reusing the list: got  %s\nwant %s", got, want)
			}
		}
	})
}

func TestDecodeReadsWhatEncodingJSONReads(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := drawEvent(t, anyText)
		text := standardJSON(t, e)
		if rapid.Bool().Draw(t, "indented") {
			var buf bytes.Buffer
			_ = json.Indent(&buf, text, " ", "\t")
			text = buf.Bytes()
		}
		got, err := Decode(text)
		if err != nil {
			t.Fatalf("%v\n%s", err, text)
		}
		if !reflect.DeepEqual(got, e) {
			t.Fatalf("got  %+v\nwant %+v", got, e)
		}
	})
}

func TestAppendAllocatesNothing(t *testing.T) {
	e := realistic(1, 10)
	buf := make([]byte, 0, 8192)
	if n := testing.AllocsPerRun(100, func() { buf = Append(buf[:0], e) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestAppendLeavesOutWhatIsNoNumber(t *testing.T) {
	nan := math.NaN()
	e := realistic(1, 1)
	e.Draw, e.Propensity, e.Considered[0].Price = &nan, math.Inf(1), math.NaN()
	got, err := Decode(Append(nil, e))
	if err != nil || got.Draw != nil || got.Propensity != 0 || got.Considered[0].Price != 0 {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestAppendCutsTimesToMicrosecondsInUTC(t *testing.T) {
	e := realistic(1, 0)
	e.StartedAt = time.Date(2026, 3, 4, 5, 6, 7, 123456789, time.FixedZone("", 3600))
	if got := string(Append(nil, e)); !strings.Contains(got, `"started_at":"2026-03-04T04:06:07.123456Z"`) {
		t.Fatal(got)
	}
}

const minimal = `{"schema_version":1,"event_id":"e","request_id":"r","span_id":"","attempt_no":1,"node_id":"n","endpoint":"chat","provider":"p","model":"m","started_at":"2026-01-02T03:04:05Z","outcome":"completed"%s}`

func TestDecodeIsTolerant(t *testing.T) {
	for name, more := range map[string]string{
		"unknown fields":       `,"later":{"a":[1,-2.5e3,{"b":null}],"c":"\"]}"},"later_list":[[],[true,false]]`,
		"newer version":        `,"schema_version":7,"outcome":"some_new_outcome"`,
		"null":                 `,"region":null,"ttft_us":null,"considered":null,"draw":null,"stream":null,"stripped_parameters":null,"input_tokens":null,"finished_at":null`,
		"unknown in candidate": `,"considered":[{"provider":"p","new":[1]},null,{}]`,
		"white space":          " ,\t\"region\" :\r\n \"eu\" ",
		"other zone":           `,"finished_at":"2026-01-02T05:04:05+01:00"`,
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := Decode([]byte(fmt.Sprintf(minimal, more))); err != nil {
				t.Fatal(err)
			}
		})
	}
}

func TestDecodeNamesTheFieldThatIsWrong(t *testing.T) {
	for _, c := range []struct{ more, field, reason string }{
		{`,"region":1`, "region", "expected a string, found a number"},
		{`,"region":"a` + "\xff" + `"`, "region", "not UTF-8"},
		{`,"region":"a` + "\n" + `"`, "region", "control character"},
		{`,"region":"\u12x4"`, "region", "four hex digits"},
		{`,"region":"\q"`, "region", "unknown escape"},
		{`,"input_tokens":"1"`, "input_tokens", "expected an integer, found a string"},
		{`,"input_tokens":1.0`, "input_tokens", "expected an integer of 64 bits"},
		{`,"input_tokens":1e3`, "input_tokens", "expected an integer of 64 bits"},
		{`,"input_tokens":9223372036854775808`, "input_tokens", "64 bits"},
		{`,"input_tokens":01`, "input_tokens", "not a JSON number"},
		{`,"seed":-1`, "seed", "unsigned"},
		{`,"draw":1e999`, "draw", "out of range"},
		{`,"draw":1.`, "draw", "not a JSON number"},
		{`,"stream":"true"`, "stream", "expected true or false, found a string"},
		{`,"started_at":"yesterday"`, "started_at", "expected a time like"},
		{`,"started_at":"2026-02-30T00:00:00Z"`, "started_at", "expected a time like"},
		{`,"considered":{}`, "considered", "expected a list of candidates, found an object"},
		{`,"considered":[{"price":1},{"price":"2"}]`, "considered[1].price", "expected a number, found a string"},
		{`,"considered":[7]`, "considered[0]", "expected an object, found a number"},
		{`,"later":` + strings.Repeat("[", 200), "later", "nested more than 128 deep"},
		{`,"later":nul`, "later", "not a JSON value"},
		{`,"outcome":""`, "outcome", "is missing"},
		{`,"event_id":""`, "event_id", "is missing"},
		{`,"request_id":""`, "request_id", "is missing"},
		{`,"schema_version":0`, "schema_version", "must be 1 or more"},
		{`}{`, "", "trailing text"},
		{`,`, "", "expected a field name"},
		{`,"region" "x"`, "", "colon"},
	} {
		t.Run(c.more[:min(len(c.more), 40)], func(t *testing.T) {
			_, err := Decode([]byte(fmt.Sprintf(minimal, c.more)))
			var fe *FieldError
			if !errors.As(err, &fe) || fe.Field != c.field || !strings.Contains(fe.Reason, c.reason) {
				t.Fatalf("got %v, want field %q, reason %q", err, c.field, c.reason)
			}
		})
	}
}

func TestDecodeRefusesEveryCutRecord(t *testing.T) {
	text := Append(nil, realistic(3, 4))
	for i := range len(text) {
		if _, err := Decode(text[:i]); err == nil {
			t.Fatalf("cut after %d of %d bytes and taken all the same", i, len(text))
		}
	}
}

func TestDecodeKeepingKeepsTheListOfCandidatesAsItCame(t *testing.T) {
	const head, tail = `{"schema_version":1,"event_id":"e","request_id":"r",`, `"started_at":"2026-01-01T00:00:00Z","outcome":"completed"}`
	for field, want := range map[string]string{
		``:                      ``,
		`"considered":null,`:    ``,
		`"considered":[],`:      `[]`,
		`"considered": [ {} ],`: `[ {} ]`,
		`"considered":[{"provider":"odd \"]}[{ name","new":{"in":[1.5e3,null,true]}},{"price":2}],`: `[{"provider":"odd \"]}[{ name","new":{"in":[1.5e3,null,true]}},{"price":2}]`,
		`"considered":[1],"considered":[2],`: `[2]`,
	} {
		e, considered, err := DecodeKeeping(head + field + tail)
		if err != nil || considered != want || e.Considered != nil || e.EventID != "e" {
			t.Errorf("%s: %q, %v, want %q", field, considered, err, want)
		}
	}
	for _, field := range []string{`"considered":{},`, `"considered":"[]",`, `"considered":[,`, `"considered":[{"price":01}],`, `"considered":[{"a" 1}],`, `"considered":[}],`} {
		_, _, err := DecodeKeeping(head + field + tail)
		if wrong := (*FieldError)(nil); !errors.As(err, &wrong) || wrong.Field != "considered" {
			t.Errorf("%s: %v", field, err)
		}
	}
	if _, _, err := DecodeKeeping(head + `"started_at":"2026-01-01T00:00:00Z"}`); err == nil {
		t.Error("an event without an outcome is taken")
	}
}

func TestDecodeStartTakesAnAttemptUnderWay(t *testing.T) {
	e := realistic(1, 0)
	e.Outcome = ""
	text := Append(nil, e)
	if _, err := DecodeStart(text); err != nil {
		t.Fatal(err)
	}
	if _, err := Decode(text); err == nil {
		t.Fatal("an attempt without an outcome was taken for a finished one")
	}
}

func FuzzDecode(f *testing.F) {
	f.Add(Append(nil, realistic(1, 10)))
	f.Add([]byte(fmt.Sprintf(minimal, `,"x":[{}],"draw":-0.0e-0,"region":"\ud83d\ude42\ud83d"`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		e, err := Decode(data)
		if err != nil {
			if fe := (*FieldError)(nil); !errors.As(err, &fe) || fe.Reason == "" {
				t.Fatalf("no reason: %v", err)
			}
			return
		}
		if !json.Valid(data) {
			t.Fatal("took what is no JSON")
		}
		kept, considered, err := DecodeKeeping(string(data))
		if err != nil {
			t.Fatalf("%v, but Decode takes it", err)
		}
		if considered != "" {
			whole, err := Decode(fmt.Appendf(nil, minimal, `,"considered":`+considered))
			if err != nil {
				t.Fatalf("%v in the list %s", err, considered)
			}
			kept.Considered = whole.Considered
		}
		if got, want := Append(nil, kept), Append(nil, e); !bytes.Equal(got, want) {
			t.Fatalf("Decode reads %s\nDecodeKeeping %s", want, got)
		}
		for _, at := range []*time.Time{&e.StartedAt, &e.FinishedAt} {
			*at = at.Truncate(time.Microsecond)
			if at.Year() < 1 || at.Year() > 9999 {
				return
			}
		}
		text := Append(nil, e)
		again, err := Decode(text)
		if err != nil {
			t.Fatalf("%v in what was written: %s", err, text)
		}
		if second := Append(nil, again); !bytes.Equal(text, second) {
			t.Fatalf("unstable:\n%s\n%s", text, second)
		}
		var std Event
		if err := json.Unmarshal(text, &std); err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(&std, again) {
			t.Fatalf("encoding/json reads %+v\nDecode reads %+v", std, again)
		}
	})
}

func BenchmarkAppend(b *testing.B) {
	for _, n := range []int{0, 10} {
		b.Run(fmt.Sprintf("considered=%d", n), func(b *testing.B) {
			e, buf := realistic(1, n), make([]byte, 0, 8192)
			b.ReportAllocs()
			for b.Loop() {
				buf = Append(buf[:0], e)
			}
			b.SetBytes(int64(len(buf)))
		})
	}
}

func BenchmarkDecodeKeeping(b *testing.B) {
	for _, n := range []int{0, 10} {
		b.Run(fmt.Sprintf("considered=%d", n), func(b *testing.B) {
			text := string(Append(nil, realistic(1, n)))
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, _, err := DecodeKeeping(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for _, n := range []int{0, 10} {
		b.Run(fmt.Sprintf("considered=%d", n), func(b *testing.B) {
			text := Append(nil, realistic(1, n))
			b.SetBytes(int64(len(text)))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Decode(text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func TestNumbersAreWrittenAsEncodingJSONWritesThem(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		digits := rapid.Int64Range(-999_999_999_999_999_999, 999_999_999_999_999_999).Draw(t, "digits")
		v := float64(digits) / math.Pow10(rapid.IntRange(0, 25).Draw(t, "point"))
		for _, v := range []float64{v, math.Nextafter(v, 0), math.Nextafter(v, math.Inf(1))} {
			if got, want := string(appendNumber(nil, v)), string(standardJSON(t, v)); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	})
}
