package attempt

import (
	"math/bits"
	"strconv"
	"strings"
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

	keeping bool   // the list of candidates is kept as it came
	kept    string // that list

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

// list reads a list of anything and returns its text; that of null is empty.
func (d *decoder) list(what string) string {
	if d.err != nil || d.null() {
		return ""
	}
	if d.peek() != '[' {
		d.mismatch(what)
		return ""
	}
	from := d.pos
	d.skip(0)
	return d.data[from:d.pos]
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
		if _, _, _, ok := d.common(); !ok {
			d.number("a value")
		}
	}
}
