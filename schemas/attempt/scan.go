package attempt

import (
	"math/bits"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// maxNesting bounds what is passed over unread.
const maxNesting = 128

// decoder reads one JSON text from front to back. After the first mistake err is set and every
// method returns a zero value at once, so that callers need not look after each step.
type decoder struct {
	data string
	pos  int
	err  *FieldError

	field  string // of the record
	item   int    // of that field's list, or -1
	within string // field of that item

	floats []float64 // what pointers point to, so that ten of them cost one allocation
}

func (d *decoder) fail(reason string) {
	if d.err != nil {
		return
	}
	name := d.field
	if d.item >= 0 {
		name += "[" + strconv.Itoa(d.item) + "]"
		if d.within != "" {
			name += "." + d.within
		}
	}
	d.err = &FieldError{Field: name, Offset: d.pos, Reason: reason}
}

// peek passes over white space and returns the byte that follows, 0 at the end.
func (d *decoder) peek() byte {
	if d.pos < len(d.data) && d.data[d.pos] > ' ' {
		return d.data[d.pos]
	}
	return d.space()
}

func (d *decoder) space() byte {
	for d.pos < len(d.data) {
		c := d.data[d.pos]
		if c != ' ' && c != '\n' && c != '\t' && c != '\r' {
			return c
		}
		d.pos++
	}
	return 0
}

// open reads the bracket that begins an object or a list.
func (d *decoder) open(bracket byte, what string) {
	if d.err != nil {
		return
	}
	if d.peek() != bracket {
		d.mismatch(what)
		return
	}
	d.pos++
}

// more says whether another element follows; it reads the comma before it or the closing bracket.
func (d *decoder) more(closing byte, first bool) bool {
	if d.err != nil {
		return false
	}
	c := d.peek()
	if c == closing {
		d.pos++
		return false
	}
	if first {
		return true
	}
	if c != ',' {
		d.fail("expected a comma or " + string(closing))
		return false
	}
	d.pos++
	return true
}

// key reads an object's key and the colon after it.
func (d *decoder) key() string {
	if d.peek() != '"' {
		d.fail("expected a field name in quotes")
		return ""
	}
	key := d.quoted()
	if d.err != nil {
		return ""
	}
	if d.peek() != ':' {
		d.fail("expected a colon after the field name")
	}
	d.pos++
	return key
}

// end demands that nothing follows.
func (d *decoder) end() {
	if d.err != nil {
		return
	}
	if d.peek(); d.pos < len(d.data) {
		d.field = ""
		d.fail("trailing text")
	}
}

// null reads a null if there is one.
func (d *decoder) null() bool {
	if d.peek() != 'n' {
		return false
	}
	if !strings.HasPrefix(d.data[d.pos:], "null") {
		d.fail("not a JSON value")
		return true
	}
	d.pos += 4
	return true
}

func (d *decoder) mismatch(want string) {
	if d.err != nil {
		return
	}
	got := "not a JSON value"
	switch c := d.peek(); {
	case c == 0:
		got = "the end"
	case c == '"':
		got = "a string"
	case c == '{':
		got = "an object"
	case c == '[':
		got = "a list"
	case c == 't', c == 'f':
		got = "a boolean"
	case c == '-', c >= '0' && c <= '9':
		got = "a number"
	}
	d.fail("expected " + want + ", found " + got)
}

func (d *decoder) string() string {
	if d.err != nil || d.null() {
		return ""
	}
	if d.peek() != '"' {
		d.mismatch("a string")
		return ""
	}
	return d.quoted()
}

// quoted reads a string whose opening quote is next. Without escapes it is a part of data.
func (d *decoder) quoted() string {
	start := d.pos + 1
	end := plainUntil(d.data, start)
	if end < len(d.data) && d.data[end] == '"' {
		d.pos = end + 1
		return d.data[start:end]
	}
	return d.odd()
}

// plainUntil returns where the first byte from i on stands that does not stand for itself in a
// string: it looks at eight bytes at a time where there are eight.
func plainUntil(s string, i int) int {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	for i+8 <= len(s) {
		w := s[i : i+8]
		x := uint64(w[0]) | uint64(w[1])<<8 | uint64(w[2])<<16 | uint64(w[3])<<24 |
			uint64(w[4])<<32 | uint64(w[5])<<40 | uint64(w[6])<<48 | uint64(w[7])<<56
		// The high bit of a byte that is below a space, a quote, a backslash or beyond ASCII. A borrow
		// can only reach past such a byte, so the lowest bit is right.
		odd := ((x - ' '*ones) | ((x ^ '"'*ones) - ones) | ((x ^ '\\'*ones) - ones) | x) & highs
		if odd != 0 {
			return i + bits.TrailingZeros64(odd)/8
		}
		i += 8
	}
	for i < len(s) && plain[s[i]] {
		i++
	}
	return i
}

// odd is quoted for strings with escapes or bytes beyond ASCII.
func (d *decoder) odd() string {
	start := d.pos + 1
	for i := start; i < len(d.data); i++ {
		switch c := d.data[i]; {
		case c == '"':
			if !utf8.ValidString(d.data[start:i]) {
				d.fail("a string that is not UTF-8")
				return ""
			}
			d.pos = i + 1
			return d.data[start:i]
		case c == '\\':
			return d.escaped(start, i)
		case c < ' ':
			d.pos = i
			d.fail("a control character in a string")
			return ""
		}
	}
	d.fail("a string without its closing quote")
	return ""
}

// escaped is quoted's slow path; the first escape stands at i.
func (d *decoder) escaped(start, i int) string {
	for j := i; j < len(d.data); j++ {
		switch c := d.data[j]; {
		case c == '\\':
			j++
		case c == '"':
			s, reason := unquote(d.data[start:j])
			if reason != "" {
				d.fail(reason)
				return ""
			}
			d.pos = j + 1
			return s
		case c < ' ':
			d.pos = j
			d.fail("a control character in a string")
			return ""
		}
	}
	d.fail("a string without its closing quote")
	return ""
}

func (d *decoder) bool() bool {
	if d.err != nil || d.null() {
		return false
	}
	d.peek()
	switch rest := d.data[d.pos:]; {
	case strings.HasPrefix(rest, "true"):
		d.pos += 4
		return true
	case strings.HasPrefix(rest, "false"):
		d.pos += 5
	default:
		d.mismatch("true or false")
	}
	return false
}

// number reads a JSON number and returns its text, and whether it is written as an integer.
func (d *decoder) number(want string) (text string, integer bool) {
	if c := d.peek(); c != '-' && (c < '0' || c > '9') {
		d.mismatch(want)
		return "", false
	}
	s, i := d.data, d.pos
	if s[i] == '-' {
		i++
	}
	first := i
	i = digits(s, i)
	valid := i > first && (s[first] != '0' || i == first+1)
	integer = true
	if i < len(s) && s[i] == '.' {
		integer = false
		next := digits(s, i+1)
		valid = valid && next > i+1
		i = next
	}
	if i < len(s) && (s[i] == 'e' || s[i] == 'E') {
		integer = false
		i++
		if i < len(s) && (s[i] == '+' || s[i] == '-') {
			i++
		}
		next := digits(s, i)
		valid = valid && next > i
		i = next
	}
	if !valid {
		d.fail("not a JSON number")
		return "", false
	}
	text = s[d.pos:i]
	d.pos = i
	return text, integer
}

func digits(s string, i int) int {
	for i < len(s) && s[i] >= '0' && s[i] <= '9' {
		i++
	}
	return i
}

func (d *decoder) int() int64 {
	if d.err != nil || d.null() {
		return 0
	}
	text, integer := d.number("an integer")
	if d.err != nil {
		return 0
	}
	if len(text) < 18 && integer { // cannot overflow
		return smallInt(text)
	}
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || !integer {
		d.fail("expected an integer of 64 bits, found " + text[:min(len(text), 40)])
		return 0
	}
	return v
}

func smallInt(text string) int64 {
	negative := text[0] == '-'
	if negative {
		text = text[1:]
	}
	var v int64
	for i := 0; i < len(text); i++ {
		v = v*10 + int64(text[i]-'0')
	}
	if negative {
		return -v
	}
	return v
}

func (d *decoder) uint() uint64 {
	if d.err != nil || d.null() {
		return 0
	}
	text, integer := d.number("an unsigned integer")
	if d.err != nil {
		return 0
	}
	v, err := strconv.ParseUint(text, 10, 64)
	if err != nil || !integer {
		d.fail("expected an unsigned integer of 64 bits, found " + text[:min(len(text), 40)])
		return 0
	}
	return v
}

func (d *decoder) intPointer() *int64 {
	if d.err != nil || d.null() {
		return nil
	}
	v := d.int()
	return &v
}

func (d *decoder) float() float64 {
	if d.err != nil || d.null() {
		return 0
	}
	text, integer := d.number("a number")
	if d.err != nil {
		return 0
	}
	if integer && len(text) < 16 && text != "-0" { // exact below 2^53
		return float64(smallInt(text))
	}
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		d.fail("a number out of range: " + text[:min(len(text), 40)])
		return 0
	}
	return v
}

func (d *decoder) floatPointer() *float64 {
	if d.err != nil || d.null() {
		return nil
	}
	v := d.float()
	if len(d.floats) == cap(d.floats) {
		d.floats = make([]float64, 0, max(4, min(2*cap(d.floats), 32)))
	}
	d.floats = append(d.floats, v)
	return &d.floats[len(d.floats)-1]
}

func (d *decoder) strings() []string {
	if d.err != nil || d.null() {
		return nil
	}
	list := []string{}
	d.open('[', "a list of strings")
	for first := true; d.more(']', first); first = false {
		list = append(list, d.string())
	}
	return list
}

// skip passes over one value of any type.
func (d *decoder) skip(depth int) {
	if d.err != nil {
		return
	}
	if depth > maxNesting {
		d.fail("nested more than 128 deep")
		return
	}
	switch c := d.peek(); c {
	case '{':
		d.pos++
		for first := true; d.more('}', first); first = false {
			d.key()
			d.skip(depth + 1)
		}
	case '[':
		d.pos++
		for first := true; d.more(']', first); first = false {
			d.skip(depth + 1)
		}
	case '"':
		d.quoted()
	case 't', 'f':
		d.bool()
	case 'n':
		d.null()
	default:
		d.number("a value")
	}
}

func (d *decoder) time() time.Time {
	if d.err != nil || d.null() {
		return time.Time{}
	}
	at := d.pos
	text := d.string()
	if d.err != nil {
		return time.Time{}
	}
	if t, ok := parseUTC(text); ok {
		return t
	}
	t, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		d.pos = at
		d.fail("expected a time like 2026-01-02T15:04:05.123456Z, found " + strconv.Quote(text[:min(len(text), 40)]))
		return time.Time{}
	}
	return t.UTC()
}

// parseUTC reads the layout that Append writes; ok is false for every other.
func parseUTC(s string) (t time.Time, ok bool) {
	n := len(s)
	if n < 20 || n > 30 || s[n-1] != 'Z' || s[4] != '-' || s[7] != '-' || s[10] != 'T' || s[13] != ':' || s[16] != ':' {
		return t, false
	}
	year, month, day := decimal(s[0:4]), decimal(s[5:7]), decimal(s[8:10])
	hour, minute, second := decimal(s[11:13]), decimal(s[14:16]), decimal(s[17:19])
	nanos := 0
	if n > 20 {
		if s[19] != '.' || n == 21 {
			return t, false
		}
		if nanos = decimal(s[20 : n-1]); nanos < 0 {
			return t, false
		}
		for i := n - 21; i < 9; i++ {
			nanos *= 10
		}
	}
	if year < 0 || month < 1 || month > 12 || day < 1 || hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return t, false
	}
	t = time.Date(year, time.Month(month), day, hour, minute, second, nanos, time.UTC)
	return t, t.Day() == day // the 31st of a month without one is time.Parse's to refuse
}

// decimal returns the value of up to nine digits, or -1.
func decimal(s string) int {
	v := 0
	for i := 0; i < len(s); i++ {
		c := s[i] - '0'
		if c > 9 {
			return -1
		}
		v = v*10 + int(c)
	}
	return v
}
