package decide

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"turnout/schemas/resource"
)

// reader reads JSON strictly and remembers the first mistake with its path. After a mistake it goes
// on with zero values, so that callers need not ask after each field.
type reader struct{ err error }

func (r *reader) fail(path, format string, args ...any) {
	if r.err == nil {
		r.err = fmt.Errorf("%s: %s", path, fmt.Sprintf(format, args...))
	}
}

// object is a JSON object of which each field is taken once.
type object struct {
	r      *reader
	path   string // "" at the top
	names  []string
	values []json.RawMessage
	taken  []bool
	asked  []string
	lacked []string // mistakes of which done speaks last: a field that is missing may have been misspelled
}

// document checks that data is one JSON value, as a whole.
func (r *reader) document(data []byte) json.RawMessage {
	decoder := json.NewDecoder(bytes.NewReader(data))
	var raw json.RawMessage
	if err := decoder.Decode(&raw); err != nil {
		at := decoder.InputOffset()
		if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
			at = syntax.Offset
		}
		switch {
		case errors.Is(err, io.EOF):
			r.fail("scenario", "is empty: a JSON object belongs here")
		case errors.Is(err, io.ErrUnexpectedEOF):
			r.fail("scenario", "is no JSON: it breaks off at offset %d", len(data))
		default:
			r.fail("scenario", "is no JSON at offset %d: %s", at, err)
		}
		return nil
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		r.fail("scenario", "goes on after its end, at offset %d", decoder.InputOffset())
		return nil
	}
	return raw
}

// object opens an object; on a mistake it is empty.
func (r *reader) object(path string, raw json.RawMessage) *object {
	o := &object{r: r, path: path}
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		if r.err == nil {
			r.fail(o.name(), "must be an object, not %s", kindOf(raw))
		}
		return o
	}
	for decoder.More() {
		token, err := decoder.Token()
		name, ok := token.(string)
		var value json.RawMessage
		if err != nil || !ok || decoder.Decode(&value) != nil {
			r.fail(o.name(), "is no JSON object")
			return o
		}
		if slices.Contains(o.names, name) {
			r.fail(o.in(name), "stands here twice: keep one")
			return o
		}
		o.names, o.values, o.taken = append(o.names, name), append(o.values, value), append(o.taken, false)
	}
	return o
}

func (o *object) name() string {
	if o.path == "" {
		return "scenario"
	}
	return o.path
}

// in is the path of a field. A name with what cannot be printed is quoted: an error is one line.
func (o *object) in(name string) string {
	if strings.ContainsFunc(name, func(c rune) bool { return !unicode.IsPrint(c) }) {
		name = strconv.Quote(name)
	}
	if o.path == "" {
		return name
	}
	return o.path + "." + name
}

// take returns a field's value; false if it is absent or null.
func (o *object) take(name string) (json.RawMessage, bool) {
	o.asked = append(o.asked, name)
	i := slices.Index(o.names, name)
	if i < 0 {
		return nil, false
	}
	o.taken[i] = true
	return o.values[i], string(o.values[i]) != "null"
}

// lacks notes that a field is missing, and what belongs there.
func (o *object) lacks(name, want string) {
	o.lacked = append(o.lacked, fmt.Sprintf("%s: is missing: %s belongs here", o.in(name), want))
}

// done refuses the fields nobody took, and then what is missing.
func (o *object) done() {
	for i, name := range o.names {
		if o.taken[i] {
			continue
		}
		hint := ""
		if near := resource.Nearest(name, o.asked, 1); len(near) > 0 {
			hint = fmt.Sprintf(" (did you mean %s?)", near[0])
		}
		o.r.fail(o.in(name), "is not known here%s", hint)
		return
	}
	for _, mistake := range o.lacked {
		if o.r.err == nil {
			o.r.err = errors.New(mistake)
		}
	}
}

func (o *object) object(name string) (*object, bool) {
	raw, ok := o.take(name)
	if !ok {
		return nil, false
	}
	return o.r.object(o.in(name), raw), true
}

func (o *object) text(name string) string {
	raw, ok := o.take(name)
	if !ok {
		return ""
	}
	return o.r.text(o.in(name), raw)
}

func (r *reader) text(path string, raw json.RawMessage) string {
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		r.fail(path, "must be a text, not %s", kindOf(raw))
	}
	return s
}

func (o *object) bool(name string) bool {
	raw, ok := o.take(name)
	if !ok {
		return false
	}
	if s := string(raw); s != "true" && s != "false" {
		o.r.fail(o.in(name), "must be true or false, not %s", kindOf(raw))
	}
	return string(raw) == "true"
}

// count reads an integer that is not negative.
func (o *object) count(name string) int64 {
	raw, ok := o.take(name)
	if !ok {
		return 0
	}
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil || n < 0 {
		o.r.fail(o.in(name), "must be an integer of at least 0, not %s", shorten(raw))
		return 0
	}
	return n
}

// number reads a number in [low, high]; ok is false if it is absent.
func (o *object) number(name string, low, high float64) (x float64, ok bool) {
	raw, ok := o.take(name)
	if !ok {
		return 0, false
	}
	if kindOf(raw) != "a number" {
		o.r.fail(o.in(name), "must be a number, not %s", kindOf(raw))
		return 0, false
	}
	x, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || x < low || x > high {
		if high > math.MaxFloat64/2 {
			o.r.fail(o.in(name), "must be a number of at least %v, not %s", low, shorten(raw))
		} else {
			o.r.fail(o.in(name), "must be a number from %v to %v, not %s", low, high, shorten(raw))
		}
		return 0, false
	}
	return x, true
}

// fraction reads a number in [0, 1).
func (o *object) fraction(name string) *float64 {
	x, ok := o.number(name, -math.MaxFloat64, math.MaxFloat64)
	if !ok {
		return nil
	}
	if x < 0 || x >= 1 {
		o.r.fail(o.in(name), "must be a number from 0 to below 1, not %v", x)
	}
	return &x
}

// rate reads a price in USD, a number or a decimal text, exactly; nil if it is absent.
func (o *object) rate(name string) *resource.Rate {
	raw, ok := o.take(name)
	if !ok {
		return nil
	}
	decimal := string(raw)
	switch kindOf(raw) {
	case "a number":
	case "a text":
		decimal = o.r.text(o.in(name), raw)
	default:
		o.r.fail(o.in(name), "must be a price, not %s", kindOf(raw))
		return nil
	}
	rate, err := resource.ParseRate(decimal)
	if err != nil {
		o.r.fail(o.in(name), "%s: %s", shorten(raw), err)
		return nil
	}
	return &rate
}

// word reads one of some words into the value that belongs to it; absent leaves it alone.
func word[T any](o *object, name string, to *T, words map[string]T) {
	raw, ok := o.take(name)
	if !ok {
		return
	}
	*to = wordOf(o.r, o.in(name), raw, words)
}

func wordOf[T any](r *reader, path string, raw json.RawMessage, words map[string]T) T {
	value, ok := words[r.text(path, raw)]
	if !ok {
		known := make([]string, 0, len(words))
		for w := range words {
			known = append(known, w)
		}
		slices.Sort(known)
		r.fail(path, "%s is not known: use %s", shorten(raw), strings.Join(known, ", "))
	}
	return value
}

// list reads the elements of a list; ok is false if it is absent.
func (o *object) list(name string) (elements []json.RawMessage, ok bool) {
	raw, ok := o.take(name)
	if !ok {
		return nil, false
	}
	if err := json.Unmarshal(raw, &elements); err != nil {
		o.r.fail(o.in(name), "must be a list, not %s", kindOf(raw))
	}
	return elements, true
}

func (o *object) element(name string, i int) string { return fmt.Sprintf("%s[%d]", o.in(name), i) }

func kindOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "nothing"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "a list"
	case '"':
		return "a text"
	case 't', 'f':
		return string(raw)
	case 'n':
		return "null"
	default:
		return "a number"
	}
}

// shorten quotes a value in one line.
func shorten(raw json.RawMessage) string {
	const longest = 40
	s := strings.Join(strings.Fields(string(raw)), " ")
	if len(s) > longest {
		s = s[:longest] + "..."
	}
	return s
}
