package resource

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
)

// decoder turns nodes into resources and keeps every mistake on the way.
type decoder struct {
	set      Set
	mistakes Errors
	defined  map[string]cursor // where an id was defined, by kind and id
	listed   map[string][]string
	aliases  map[string]string // model alias to id
	later    []func()          // checks that need all documents
}

func newDecoder() *decoder {
	return &decoder{defined: map[string]cursor{}, listed: map[string][]string{}, aliases: map[string]string{}}
}

// cursor is a place in a document.
type cursor struct {
	d        *decoder
	file     string
	document string
	path     string
	node     *node
}

func (c cursor) fail(format string, args ...any) {
	path := c.path
	if path == "" {
		path = "document"
	}
	c.d.mistakes = append(c.d.mistakes, &Error{
		File: c.file, Line: c.node.at.line, Column: c.node.at.column,
		Document: c.document, Path: path, Message: fmt.Sprintf(format, args...),
	})
}

// in is a field. A name with what cannot be printed is quoted: a mistake is one line.
func (c cursor) in(name string, n *node) cursor {
	if strings.ContainsFunc(name, func(r rune) bool { return !unicode.IsPrint(r) }) {
		name = strconv.Quote(name)
	}
	if c.path != "" {
		name = c.path + "." + name
	}
	c.path, c.node = name, n
	return c
}

// is refuses another kind of node than the wanted.
func (c cursor) is(want kind) bool {
	if c.node.kind == want {
		return true
	}
	hint := ""
	if want == text && (c.node.kind == number || c.node.kind == boolean) {
		hint = ": put it in quotes"
	}
	c.fail("is %s where %s belongs%s", kindNames[c.node.kind], kindNames[want], hint)
	return false
}

// fields is an object being read. It notes which names were asked for, so that what is left over can
// be refused.
type fields struct {
	cursor
	camel bool // accepts the camelCase spelling of its names too
	asked []string
	taken []bool
}

// object reads an object by asking for its fields.
func (c cursor) object(read func(*fields)) { c.objectAs(false, read) }

func (c cursor) objectAs(camel bool, read func(*fields)) {
	if !c.is(object) {
		return
	}
	o := &fields{cursor: c, camel: camel, taken: make([]bool, len(c.node.fields))}
	read(o)
	for i, f := range c.node.fields {
		if o.taken[i] {
			continue
		}
		at := c.in(f.key, &node{at: f.at})
		if slices.ContainsFunc(c.node.fields[:i], func(g field) bool { return o.same(g.key, f.key) }) {
			at.fail("stands here twice: keep one")
			continue
		}
		if near := Nearest(f.key, o.asked, 1); len(near) > 0 {
			at.fail("unknown field: did you mean %q?", near[0])
			continue
		}
		at.fail("unknown field: known here are %s", strings.Join(o.asked, ", "))
	}
}

func (o *fields) same(a, b string) bool {
	if a == b {
		return true
	}
	return o.camel && slices.ContainsFunc(o.asked, func(name string) bool {
		return (a == name || a == camelCase(name)) && (b == name || b == camelCase(name))
	})
}

// get finds a field that is there and not null.
func (o *fields) get(name string) (cursor, bool) {
	if !slices.Contains(o.asked, name) {
		o.asked = append(o.asked, name)
	}
	for i, f := range o.node.fields {
		if f.key == name || o.camel && f.key == camelCase(name) {
			o.taken[i] = true
			return o.in(f.key, f.value), f.value.kind != null
		}
	}
	return cursor{}, false
}

// need is get for a field that must be there.
func (o *fields) need(name, why string) (cursor, bool) {
	c, ok := o.get(name)
	if !ok {
		o.in(name, o.node).fail("is missing: %s", why)
	}
	return c, ok
}

func camelCase(name string) string {
	parts := strings.Split(name, "_")
	for i, p := range parts[1:] {
		if p != "" {
			parts[i+1] = strings.ToUpper(p[:1]) + p[1:]
		}
	}
	return strings.Join(parts, "")
}

func (o *fields) text(name string, into *string) {
	if c, ok := o.get(name); ok && c.is(text) {
		*into = c.node.value
	}
}

// word reads a text that must be one of the given.
func (o *fields) word(name string, into *string, words ...string) {
	if c, ok := o.get(name); ok {
		c.word(into, words)
	}
}

func (c cursor) word(into *string, words []string) bool {
	if !c.is(text) {
		return false
	}
	if !slices.Contains(words, c.node.value) {
		hint := ""
		if near := Nearest(c.node.value, words, 1); len(near) > 0 {
			hint = fmt.Sprintf(" (did you mean %q?)", near[0])
		}
		c.fail("%q is none of %s%s", c.node.value, strings.Join(words, ", "), hint)
		return false
	}
	*into = c.node.value
	return true
}

// words reads a list of words, each once. What is not there stays nil; an empty list does not.
func (o *fields) words(name string, into *[]string, words ...string) {
	o.each(name, func(c cursor) {
		var w string
		if c.word(&w, words) {
			c.once(into, w)
		}
	}, into)
}

// texts reads a list of texts, each once and none of them empty.
func (o *fields) texts(name string, into *[]string) {
	o.each(name, func(c cursor) {
		if !c.is(text) {
			return
		}
		if c.node.value == "" {
			c.fail("is empty")
			return
		}
		c.once(into, c.node.value)
	}, into)
}

func (c cursor) once(into *[]string, value string) {
	if slices.Contains(*into, value) {
		c.fail("%q stands here twice: keep one", value)
		return
	}
	*into = append(*into, value)
}

func (o *fields) each(name string, read func(cursor), into *[]string) {
	c, ok := o.get(name)
	if !ok || !c.is(list) {
		return
	}
	*into = []string{}
	c.items(read)
}

// items walks a list.
func (c cursor) items(read func(cursor)) {
	if !c.is(list) {
		return
	}
	for i, item := range c.node.items {
		at := c
		at.path, at.node = fmt.Sprintf("%s[%d]", c.path, i), item
		read(at)
	}
}

func (o *fields) bool(name string, into *bool) {
	if c, ok := o.get(name); ok && c.is(boolean) {
		*into = c.node.value == "true"
	}
}

// float reads a number from low to high; high may be infinite.
func (o *fields) float(name string, into *float64, low, high float64) {
	if c, ok := o.get(name); ok {
		c.float(into, low, high)
	}
}

func (o *fields) optional(name string, into **float64, low, high float64) {
	if c, ok := o.get(name); ok {
		var f float64
		if c.float(&f, low, high) {
			*into = &f
		}
	}
}

func (c cursor) float(into *float64, low, high float64) bool {
	if !c.is(number) {
		return false
	}
	f, err := strconv.ParseFloat(c.node.value, 64)
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		c.fail("%s is not a number", c.node.value)
		return false
	}
	if f < low || f > high {
		c.fail("%s is out of range: %s", c.node.value, span(low, high))
		return false
	}
	*into = f
	return true
}

func span(low, high float64) string {
	from, to := strconv.FormatFloat(low, 'f', -1, 64), strconv.FormatFloat(high, 'f', -1, 64)
	if math.IsInf(high, 1) {
		return "at least " + from
	}
	return "from " + from + " to " + to
}

// int reads a whole number from low to high.
func (o *fields) int(name string, into *int64, low, high int64) {
	c, ok := o.get(name)
	if !ok || !c.is(number) {
		return
	}
	value := c.node.value
	n, err := strconv.ParseInt(value, 10, 64)
	if err != nil || len(value) > 1 && value[0] == '0' || value[0] == '+' {
		c.fail("%s is not a whole number", value)
		return
	}
	if n < low || n > high {
		to := float64(high)
		if high == math.MaxInt64 {
			to = math.Inf(1)
		}
		c.fail("%d is out of range: %s", n, span(float64(low), to))
		return
	}
	*into = n
}

func (o *fields) smallInt(name string, into *int, low, high int64) {
	n := int64(*into)
	o.int(name, &n, low, high)
	*into = int(n)
}

// maxWait bounds every duration a host can set.
const maxWait = 24 * time.Hour

func (o *fields) duration(name string, into *time.Duration) {
	c, ok := o.get(name)
	if !ok {
		return
	}
	if c.node.kind != text {
		c.fail("is %s where a duration such as \"30s\" belongs", kindNames[c.node.kind])
		return
	}
	d, err := time.ParseDuration(c.node.value)
	if err != nil {
		c.fail("%q is not a duration such as \"30s\"", c.node.value)
		return
	}
	if d <= 0 || d > maxWait {
		c.fail("%s is out of range: above 0 and at most 24h", c.node.value)
		return
	}
	*into = d
}

// scaled reads a whole number of units, from low to high.
func (o *fields) scaled(name string, into *time.Duration, unit time.Duration, low, high int64) {
	n := int64(*into / unit)
	before := n
	o.int(name, &n, low, high)
	if n != before {
		*into = time.Duration(n) * unit
	}
}

// date reads a day or an instant; a day means its first instant in UTC.
func (o *fields) date(name string, into *time.Time) {
	c, ok := o.get(name)
	if !ok || !c.is(text) {
		return
	}
	for _, layout := range []string{time.DateOnly, time.RFC3339} {
		if t, err := time.Parse(layout, c.node.value); err == nil {
			*into = t.UTC()
			return
		}
	}
	c.fail("%q is not a date such as 2027-06-30 or 2027-06-30T12:00:00Z", c.node.value)
}

// rate reads a price.
func (o *fields) rate(name string, into *Rate) bool {
	c, ok := o.get(name)
	if !ok {
		return false
	}
	if c.node.kind != number && c.node.kind != text {
		c.fail("is %s where a price in USD such as 0.25 belongs", kindNames[c.node.kind])
		return true
	}
	r, err := ParseRate(c.node.value)
	if err != nil {
		c.fail("%q %s", c.node.value, err)
		return true
	}
	*into = r
	return true
}

func (o *fields) optionalRate(name string, into **Rate) {
	var r Rate
	if before := len(o.d.mistakes); o.rate(name, &r) && len(o.d.mistakes) == before {
		*into = &r
	}
}
