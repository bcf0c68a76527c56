package jsonx

import (
	"bytes"
	"unicode/utf8"
)

// Kind is what a value begins as.
type Kind byte

// The kinds. Invalid: no value begins there, or the cursor has failed.
const (
	Invalid Kind = iota
	Null
	Bool
	Number
	String
	Array
	Object
)

var kindNames = [...]string{"nothing", "null", "a boolean", "a number", "a string", "an array", "an object"}

// String is the kind with its article, as it stands in error texts: "an array".
func (k Kind) String() string { return kindNames[k] }

var kindOf = func() (t [256]Kind) {
	for c := '0'; c <= '9'; c++ {
		t[c] = Number
	}
	t['-'], t['"'], t['['], t['{'] = Number, String, Array, Object
	t['t'], t['f'], t['n'] = Bool, Bool, Null
	return t
}()

// KindOf is the kind of a raw value.
func KindOf(raw []byte) Kind {
	if i := space(raw, 0); i < len(raw) {
		return kindOf[raw[i]]
	}
	return Invalid
}

// Cursor walks one document from front to back; every byte is looked at once and validated. The first
// error sticks: afterwards nothing moves and Err tells. The zero Cursor is empty; Reset points it at a
// document. A Cursor that is kept and reset does not allocate.
type Cursor struct {
	data   []byte
	pos    int
	depth  int
	unique bool
	ascii  bool
	err    *SyntaxError
	keys   [][]byte // of the objects being read, outermost first
}

// Reset begins at the front of a document whose UTF-8 is checked at once and whose objects, as far as
// they are entered, may hold no key twice. It is for what clients send.
func (c *Cursor) Reset(data []byte) {
	c.ResetLoose(data)
	c.unique = true
	n := firstNonASCII(data)
	c.ascii = n == len(data)
	if !c.ascii && !utf8.Valid(data[n:]) {
		c.fail(n+firstInvalidUTF8(data[n:]), "bytes that are no UTF-8")
	}
}

// ResetLoose is Reset without the checks of UTF-8 and of keys: for what upstreams send, where such
// faults are passed on as they came.
func (c *Cursor) ResetLoose(data []byte) {
	*c = Cursor{data: data, keys: c.keys[:0]}
}

// Err is the first error, or nil.
func (c *Cursor) Err() *SyntaxError { return c.err }

// Pos is the offset of the next byte to be read.
func (c *Cursor) Pos() int { return c.pos }

func (c *Cursor) fail(offset int, problem string) {
	if c.err == nil {
		c.err = &SyntaxError{Offset: offset, Problem: problem}
	}
}

// End checks that nothing but white space follows, and returns the first error.
func (c *Cursor) End() *SyntaxError {
	if c.err == nil {
		if i := space(c.data, c.pos); i < len(c.data) {
			c.fail(i, "text after the JSON value")
		}
	}
	return c.err
}

// Kind skips white space and says what comes next, without reading it.
func (c *Cursor) Kind() Kind {
	if c.err != nil {
		return Invalid
	}
	c.pos = space(c.data, c.pos)
	if c.pos >= len(c.data) {
		c.fail(c.pos, endProblem)
		return Invalid
	}
	k := kindOf[c.data[c.pos]]
	if k == Invalid {
		c.fail(c.pos, "unexpected character, expected a value")
	}
	return k
}

// Skip reads over one value of any kind.
func (c *Cursor) Skip() {
	if c.err != nil {
		return
	}
	end, problem := scanValue(c.data, c.pos, c.depth)
	if problem != "" {
		c.fail(end, problem)
		return
	}
	c.pos = end
}

// Raw reads one value of any kind and returns its bytes, nil after an error.
func (c *Cursor) Raw() []byte {
	if c.Kind() == Invalid {
		return nil
	}
	start := c.pos
	c.Skip()
	if c.err != nil {
		return nil
	}
	return c.data[start:c.pos]
}

// Text is a string as it stands in the document, without its quotes.
type Text struct {
	Raw     []byte
	Escaped bool // Raw holds escapes
	excess  int
	ascii   bool
}

// Text reads a string; Kind must have said so.
func (c *Cursor) Text() Text {
	if c.Kind() != String {
		c.fail(c.pos, "expected a string")
		return Text{}
	}
	end, excess, problem := scanString(c.data, c.pos+1)
	if problem != "" {
		c.fail(end, problem)
		return Text{}
	}
	t := Text{Raw: c.data[c.pos+1 : end], Escaped: excess > 0, excess: excess, ascii: c.ascii}
	c.pos = end + 1
	return t
}

// Bool reads a boolean; Kind must have said so.
func (c *Cursor) Bool() bool {
	raw := c.Raw()
	return len(raw) == len("true")
}

// Fields iterates over an object. Key is what the last Field found, unescaped.
type Fields struct {
	Key      []byte
	KeyStart int // offset of the key's quote
	valueAt  int
	mark     int
	many     map[string]struct{}
	first    bool
}

// Object enters an object; Kind must have said so.
func (c *Cursor) Object() Fields {
	if c.Kind() != Object {
		c.fail(c.pos, "expected an object")
		return Fields{}
	}
	c.enter()
	return Fields{mark: len(c.keys), first: true, valueAt: -1}
}

func (c *Cursor) enter() {
	if c.depth == MaxDepth {
		c.fail(c.pos, depthProblem)
		return
	}
	c.depth++
	c.pos++
}

// Next moves to the next field's value, skipping the last one if it was not read. It returns false at
// the end of the object, which is then left, and after an error.
func (c *Cursor) Next(f *Fields) bool {
	if c.pos == f.valueAt {
		c.Skip()
	}
	if c.err != nil {
		return false
	}
	i := space(c.data, c.pos)
	if i >= len(c.data) {
		c.fail(i, endProblem)
		return false
	}
	if c.data[i] == '}' {
		c.pos, f.valueAt = i+1, -1
		c.depth--
		c.keys = c.keys[:f.mark]
		return false
	}
	if !f.first {
		if c.data[i] != ',' {
			c.fail(i, "unexpected character, expected ',' or '}'")
			return false
		}
		i = space(c.data, i+1)
	}
	f.first = false
	return c.key(f, i)
}

func (c *Cursor) key(f *Fields, i int) bool {
	if i >= len(c.data) {
		c.fail(i, endProblem)
		return false
	}
	if c.data[i] != '"' {
		c.fail(i, "unexpected character, expected a key in quotes")
		return false
	}
	end, excess, problem := scanString(c.data, i+1)
	if problem != "" {
		c.fail(end, problem)
		return false
	}
	f.KeyStart = i
	f.Key = c.data[i+1 : end]
	if excess > 0 {
		f.Key = Unescape(nil, f.Key)
	}
	if c.unique && !c.addKey(f) {
		c.fail(i, "a key that stands twice in one object")
		return false
	}
	i = space(c.data, end+1)
	if i >= len(c.data) {
		c.fail(i, endProblem)
		return false
	}
	if c.data[i] != ':' {
		c.fail(i, "unexpected character, expected ':'")
		return false
	}
	c.pos = space(c.data, i+1)
	f.valueAt = c.pos
	return true
}

// manyKeys is from where on an object's keys are told apart by a map.
const manyKeys = 32

func (c *Cursor) addKey(f *Fields) bool {
	if f.many != nil {
		if _, twice := f.many[string(f.Key)]; twice {
			return false
		}
		f.many[string(f.Key)] = struct{}{}
		return true
	}
	seen := c.keys[f.mark:]
	for i := range seen {
		if bytes.Equal(seen[i], f.Key) {
			return false
		}
	}
	c.keys = append(c.keys, f.Key)
	if len(seen)+1 == manyKeys {
		f.many = make(map[string]struct{}, 2*manyKeys)
		for _, k := range c.keys[f.mark:] {
			f.many[string(k)] = struct{}{}
		}
	}
	return true
}

// Items iterates over an array. Index is what the last NextItem moved to, from 0.
type Items struct {
	Index   int
	valueAt int
}

// Array enters an array; Kind must have said so.
func (c *Cursor) Array() Items {
	if c.Kind() != Array {
		c.fail(c.pos, "expected an array")
		return Items{}
	}
	c.enter()
	return Items{Index: -1, valueAt: -1}
}

// NextItem moves to the next element, skipping the last one if it was not read. It returns false at
// the end of the array, which is then left, and after an error.
func (c *Cursor) NextItem(a *Items) bool {
	if c.pos == a.valueAt {
		c.Skip()
	}
	if c.err != nil {
		return false
	}
	i := space(c.data, c.pos)
	if i >= len(c.data) {
		c.fail(i, endProblem)
		return false
	}
	if c.data[i] == ']' {
		c.pos, a.valueAt = i+1, -1
		c.depth--
		return false
	}
	if a.Index >= 0 {
		if c.data[i] != ',' {
			c.fail(i, "unexpected character, expected ',' or ']'")
			return false
		}
		if i = space(c.data, i+1); i < len(c.data) && c.data[i] == ']' {
			c.fail(i, "unexpected character, expected a value")
			return false
		}
	}
	a.Index++
	c.pos, a.valueAt = i, i
	return true
}
