package jsonx

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"
)

func TestSyntaxErrorsNameTheByte(t *testing.T) {
	for _, tc := range []struct {
		in      string
		offset  int
		problem string
	}{
		{``, 0, endProblem},
		{`  `, 2, endProblem},
		{`{"a":1`, 6, endProblem},
		{`{"a"`, 4, endProblem},
		{`[1,2`, 4, endProblem},
		{`"abc`, 4, endProblem},
		{`"ab\`, 4, endProblem},
		{`"ab\u12`, 7, endProblem},
		{`tru`, 3, endProblem},
		{`-`, 1, endProblem},
		{`1.`, 2, endProblem},
		{`{"a":1} x`, 8, "text after the JSON value"},
		{`{"a":1}{}`, 7, "text after the JSON value"},
		{`{"a":1,}`, 7, "unexpected character, expected a key in quotes"},
		{`[1,]`, 3, "unexpected character, expected a value"},
		{`{a:1}`, 1, "unexpected character, expected a key in quotes"},
		{`{"a" 1}`, 5, "unexpected character, expected ':'"},
		{`{"a":1 "b":2}`, 7, "unexpected character, expected ',' or '}'"},
		{`[1 2]`, 3, "unexpected character, expected ',' or ']'"},
		{`[01]`, 2, "unexpected character, expected ',' or ']'"},
		{`[+1]`, 1, "unexpected character, expected a value"},
		{`[1.x]`, 3, "invalid number"},
		{`[nul1]`, 4, "unexpected character, expected null"},
		{"\"a\nb\"", 2, "control character in a string"},
		{`"a\x"`, 3, "invalid escape in a string"},
		{`"a\u00g0"`, 6, `invalid \u escape in a string`},
		{"\"a\xffb\"", 2, "bytes that are no UTF-8"},
		{"\"long enough \xe2\x82 cut\"", 13, "bytes that are no UTF-8"},
		{strings.Repeat("[", 129) + strings.Repeat("]", 129), 128, depthProblem},
		{strings.Repeat(`{"a":`, 129) + "1" + strings.Repeat("}", 129), 128 * 5, depthProblem},
	} {
		err := Valid([]byte(tc.in))
		if err == nil || err.Offset != tc.offset || err.Problem != tc.problem {
			t.Errorf("Valid(%q) = %v, want %q at %d", tc.in, err, tc.problem, tc.offset)
		}
	}
	for _, in := range []string{`{}`, `[]`, ` "é" `, `-0.5e+10`, `[[],{},null,true,false]`,
		strings.Repeat("[", 128) + strings.Repeat("]", 128)} {
		if err := Valid([]byte(in)); err != nil {
			t.Errorf("Valid(%q) = %v", in, err)
		}
	}
}

func TestKeysTwice(t *testing.T) {
	enter := func(in string) *SyntaxError {
		var c Cursor
		c.Reset([]byte(in))
		for f := c.Object(); c.Next(&f); {
			if string(f.Key) == "in" {
				for g := c.Object(); c.Next(&g); {
				}
			}
		}
		return c.End()
	}
	many := func(last string) string {
		var b strings.Builder
		b.WriteByte('{')
		for i := range 200 {
			fmt.Fprintf(&b, `"k%d":%d,`, i, i)
		}
		b.WriteString(`"` + last + `":0}`)
		return b.String()
	}
	for in, offset := range map[string]int{
		`{"a":1,"a":2}`:               7,
		`{"a":1,"\u0061":2}`:          7,
		`{"in":{"b":1,"b":1}}`:        13,
		`{"b":0,"in":{"b":1},"b":2}`:  20,
		`{"a":{"c":1,"c":1},"b":2}`:   -1, // not entered
		`{"b":0,"in":{"b":1},"c":2}`:  -1,
		many("k7"):                    len(many("k7")) - 7,
		many("new"):                   -1,
		`{"in":` + many("k199") + `}`: len(`{"in":`+many("k199")) - 9,
	} {
		err := enter(in)
		if (err == nil) != (offset < 0) || err != nil && (err.Offset != offset || !strings.Contains(err.Problem, "twice")) {
			t.Errorf("%.60s: %v, want offset %d", in, err, offset)
		}
	}
}

func TestDepthCountsEnteredLevels(t *testing.T) {
	in := `{"a":` + strings.Repeat("[", 128) + strings.Repeat("]", 128) + `}`
	var c Cursor
	c.Reset([]byte(in))
	for f := c.Object(); c.Next(&f); {
	}
	if err := c.End(); err == nil || err.Problem != depthProblem {
		t.Fatalf("got %v", err)
	}
}

func TestTextChars(t *testing.T) {
	for raw, want := range map[string]int{
		`Hello world`:                  11,
		`a\n\"\u00e9`:                  4,
		`日本語`:                          3,
		`\ud83d\ude00!`:                2,
		`\ud83d!`:                      2,
		`\ud83d\ud83d\ude00`:           2,
		`é😀` + strings.Repeat("é", 20): 22,
	} {
		var c Cursor
		c.Reset([]byte(`"` + raw + `"`))
		text := c.Text()
		if err := c.End(); err != nil {
			t.Fatal(err)
		}
		if got := text.Chars(); got != want {
			t.Errorf("%s: %d characters, want %d", raw, got, want)
		}
		if got := utf8.RuneCountInString(text.String()); got != want {
			t.Errorf("%s: decoded %q has %d", raw, text.String(), got)
		}
	}
}

func TestInt64(t *testing.T) {
	for raw, want := range map[string]int64{"0": 0, "-5": -5, "123456789012345678": 123456789012345678,
		"9223372036854775807": 9223372036854775807, "-9223372036854775808": -9223372036854775808} {
		if n, ok := Int64([]byte(raw)); !ok || n != want {
			t.Errorf("%s: %d %v", raw, n, ok)
		}
	}
	for _, raw := range []string{"", "-", "1.0", "1e2", `"1"`, "null", "9223372036854775808", "99999999999999999999999", "{}"} {
		if n, ok := Int64([]byte(raw)); ok {
			t.Errorf("%s: accepted as %d", raw, n)
		}
	}
}

func TestPath(t *testing.T) {
	doc := `{"model":"m","messages":[{"role":"user"},{"content":[{"x":1},{"type": 5}]}]}`
	for mark, want := range map[string]string{`"m"`: "model", `5}`: "messages[1].content[1].type", `[{"x"`: "messages[1].content", `{"x"`: "messages[1].content[0]"} {
		if got := Path([]byte(doc), strings.Index(doc, mark)); got != want {
			t.Errorf("%s: %q, want %q", mark, got, want)
		}
	}
}

func fieldsOf(t interface{ Fatalf(string, ...any) }, doc []byte) []Field {
	var c Cursor
	c.ResetLoose(doc)
	var fields []Field
	for f := c.Object(); c.Next(&f); {
		field := Field{Key: f.KeyStart, Value: c.Pos()}
		c.Skip()
		field.End = c.Pos()
		fields = append(fields, field)
	}
	if err := c.End(); err != nil {
		t.Fatalf("%s: %v", doc, err)
	}
	return fields
}

// Any set of fields can be deleted, and another value replaced: the rest keeps its bytes and order.
func TestDeleteFieldsLaw(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 8).Draw(t, "n")
		gap := func() string { return rapid.SampledFrom([]string{"", " ", "\n\t"}).Draw(t, "gap") }
		drop := make([]bool, n)
		doc, left := "{"+gap(), []string{}
		for i := range n {
			if i > 0 {
				doc += gap() + "," + gap()
			}
			field := fmt.Sprintf("%q%s:%s[%d, {}]", string(rune('a'+i)), gap(), gap(), i)
			doc += field
			if drop[i] = rapid.Bool().Draw(t, "drop"); !drop[i] {
				left = append(left, field)
			}
		}
		doc += gap() + "}"
		var e Edits
		if got := e.DeleteFields(fieldsOf(t, []byte(doc)), func(i int) bool { return drop[i] }); got != len(left) {
			t.Fatalf("left %d, want %d", got, len(left))
		}
		out := e.Apply(nil, []byte(doc))
		if len(out) != len(doc)+e.Growth() {
			t.Fatalf("growth %d, but %d -> %d", e.Growth(), len(doc), len(out))
		}
		var got []string
		for _, f := range fieldsOf(t, out) {
			got = append(got, string(out[f.Key:f.End]))
		}
		if strings.Join(got, "|") != strings.Join(left, "|") {
			t.Fatalf("%s -> %s, want fields %q", doc, out, left)
		}
	})
}

func TestEditsTogether(t *testing.T) {
	doc := []byte(`{"a":1,"b":"x","c":3}`)
	fields := fieldsOf(t, doc)
	var e Edits
	e.Insert(len(doc)-1, []byte(`,"d":4`))
	e.Insert(len(doc)-1, []byte(`,"e":5`))
	e.Replace(fields[1].Value, fields[1].End, []byte(`"yy"`))
	e.DeleteFields(fields, func(i int) bool { return i == 2 })
	if got := string(e.Apply([]byte("> "), doc)); got != `> {"a":1,"b":"yy","d":4,"e":5}` {
		t.Fatal(got)
	}
}

func FuzzAgainstStdlib(f *testing.F) {
	for _, s := range []string{`{"a":[1,-2.5e3,"x\u00e9\n",null,true]}`, `[`, `"\ud800"`, "\"\x80\"", `{"a":1}]`, `[1,]`, "\ufeff{}"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		err := Valid(data)
		want := json.Valid(data) && utf8.Valid(data)
		if (err == nil) != want {
			if err != nil && err.Problem == depthProblem {
				return
			}
			t.Fatalf("Valid(%q) = %v, encoding/json says %v", data, err, want)
		}
		if err != nil {
			if err.Offset < 0 || err.Offset > len(data) {
				t.Fatalf("offset %d of %d", err.Offset, len(data))
			}
			return
		}
		walk(t, data)
	})
}

// walk reads the document with the entering half of the cursor, which must agree with the skipping half.
func walk(t *testing.T, data []byte) {
	var c Cursor
	c.Reset(data)
	var visit func()
	visit = func() {
		switch c.Kind() {
		case Object:
			for f := c.Object(); c.Next(&f); {
				visit()
			}
		case Array:
			for a := c.Array(); c.NextItem(&a); {
				visit()
			}
		case String:
			text := c.Text()
			if c.Err() != nil {
				return
			}
			var want string
			if err := json.Unmarshal([]byte(`"`+string(text.Raw)+`"`), &want); err != nil || text.String() != want {
				t.Fatalf("%q: %q, want %q (%v)", text.Raw, text.String(), want, err)
			}
			if text.Chars() != utf8.RuneCountInString(want) {
				t.Fatalf("%q: %d characters", text.Raw, text.Chars())
			}
			again := AppendString(nil, want)
			var back string
			if err := json.Unmarshal(again, &back); err != nil || back != want {
				t.Fatalf("AppendString(%q) = %s (%v)", want, again, err)
			}
		default:
			c.Skip()
		}
	}
	visit()
	if err := c.End(); err != nil && !strings.Contains(err.Problem, "twice") {
		t.Fatalf("%q: skipping accepts, entering says %v", data, err)
	}
}

func TestNoAllocations(t *testing.T) {
	doc := benchBody(4 << 10)
	var c Cursor
	read := func() {
		c.Reset(doc)
		for f := c.Object(); c.Next(&f); {
			if string(f.Key) == "messages" {
				for a := c.Array(); c.NextItem(&a); {
					for m := c.Object(); c.Next(&m); {
						if c.Kind() == String {
							c.Text()
						}
					}
				}
			}
		}
		if c.End() != nil {
			t.Fatal(c.Err())
		}
	}
	read()
	if n := testing.AllocsPerRun(100, read); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func benchBody(size int) []byte {
	text := strings.Repeat("The quick brown fox jumps over the lazy dog, twice. ", size/52/2+1)
	return []byte(`{"model":"gpt-x","messages":[{"role":"system","content":"` + text + `"},{"role":"user","content":"` + text + `"}],"temperature":0.5,"stream":true}`)
}

func BenchmarkValid(b *testing.B) {
	agent := []byte(`{"messages":[` + strings.Repeat(`{"role":"tool","tool_call_id":"call_1","content":"func main() {\n\tfmt.Println(\"hi\")\n}\n"},`, 300) + `{}]}`)
	for name, doc := range map[string][]byte{
		"text1K": benchBody(1 << 10), "text64K": benchBody(64 << 10), "agent": agent,
		"cjk64K": bytes.ReplaceAll(benchBody(64<<10), []byte("quick brown"), []byte("敏捷的棕色狐狸")),
	} {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			b.ReportAllocs()
			for b.Loop() {
				if err := Valid(doc); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(name+"/encoding_json", func(b *testing.B) {
			b.SetBytes(int64(len(doc)))
			for b.Loop() {
				if !json.Valid(doc) {
					b.Fatal("invalid")
				}
			}
		})
	}
}
