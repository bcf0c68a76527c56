// Package jsonx reads and edits JSON by byte ranges, in one pass and without building values. It is
// strict (RFC 8259, checked UTF-8, nesting of at most MaxDepth, nothing after the value), reports byte
// offsets, and its edits keep every byte they were not asked to change.
package jsonx

import (
	"encoding/binary"
	"fmt"
	"math/bits"
)

// MaxDepth is how deep arrays and objects may nest.
const MaxDepth = 128

// SyntaxError says what is wrong with a document and at which byte, counted from 0.
type SyntaxError struct {
	Offset  int
	Problem string
}

func (e *SyntaxError) Error() string { return fmt.Sprintf("%s at byte %d", e.Problem, e.Offset) }

// What the scanner can find wrong. endProblem alone means that more bytes might have made it right.
const (
	endProblem   = "unexpected end of JSON"
	depthProblem = "nesting deeper than 128 levels"
)

// Truncated says whether the document merely ends too early.
func (e *SyntaxError) Truncated() bool { return e.Problem == endProblem }

const (
	lows  = 0x0101010101010101
	highs = 0x8080808080808080
)

// scanString finds the closing quote of a string whose first byte is at i. It returns the quote's
// offset and by how many bytes the escapes exceed the characters they mean (0: none), or a problem and
// its offset.
func scanString(data []byte, i int) (end, excess int, problem string) {
	high := -1 // where the escape of a high surrogate ended
	for {
		for len(data)-i >= 8 {
			x := binary.LittleEndian.Uint64(data[i:])
			q, b := x^(lows*'"'), x^(lows*'\\')
			m := ((q-lows)&^q | (b-lows)&^b | (x-lows*0x20)&^x) & highs
			if m != 0 {
				i += bits.TrailingZeros64(m) >> 3
				break
			}
			i += 8
		}
		for i < len(data) && data[i] != '"' && data[i] != '\\' && data[i] >= 0x20 {
			i++
			if len(data)-i >= 8 {
				break
			}
		}
		if i >= len(data) {
			return len(data), excess, endProblem
		}
		switch c := data[i]; {
		case c == '"':
			return i, excess, ""
		case c < 0x20:
			return i, excess, "control character in a string"
		case c != '\\':
			continue
		}
		if i+1 >= len(data) {
			return len(data), excess, endProblem
		}
		switch data[i+1] {
		case '"', '\\', '/', 'b', 'f', 'n', 'r', 't':
			excess++
			i += 2
		case 'u':
			r := 0
			for k := i + 2; k < i+6; k++ {
				if k >= len(data) {
					return len(data), excess, endProblem
				}
				h := hexValue(data[k])
				if h < 0 {
					return k, excess, "invalid \\u escape in a string"
				}
				r = r<<4 | h
			}
			excess += 5
			if r >= 0xDC00 && r <= 0xDFFF && high == i {
				excess++ // both halves are one character
			}
			i += 6
			if r >= 0xD800 && r < 0xDC00 {
				high = i
			}
		default:
			return i + 1, excess, "invalid escape in a string"
		}
	}
}

func hexValue(c byte) int {
	switch {
	case c >= '0' && c <= '9':
		return int(c - '0')
	case c >= 'a' && c <= 'f':
		return int(c-'a') + 10
	case c >= 'A' && c <= 'F':
		return int(c-'A') + 10
	}
	return -1
}

// scanNumber returns the offset behind the number at i.
func scanNumber(data []byte, i int) (end int, problem string) {
	if data[i] == '-' {
		i++
	}
	switch {
	case i >= len(data):
		return i, endProblem
	case data[i] == '0':
		i++
	case data[i] >= '1' && data[i] <= '9':
		i = digits(data, i)
	default:
		return i, "invalid number"
	}
	if i < len(data) && data[i] == '.' {
		start := i + 1
		if i = digits(data, start); i == start {
			return numberEnd(data, i)
		}
	}
	if i < len(data) && (data[i] == 'e' || data[i] == 'E') {
		i++
		if i < len(data) && (data[i] == '+' || data[i] == '-') {
			i++
		}
		start := i
		if i = digits(data, start); i == start {
			return numberEnd(data, i)
		}
	}
	return i, ""
}

func numberEnd(data []byte, i int) (int, string) {
	if i >= len(data) {
		return i, endProblem
	}
	return i, "invalid number"
}

func digits(data []byte, i int) int {
	for i < len(data) && data[i] >= '0' && data[i] <= '9' {
		i++
	}
	return i
}

func scanLiteral(data []byte, i int, word string) (end int, problem string) {
	for k := range len(word) {
		if i+k >= len(data) {
			return len(data), endProblem
		}
		if data[i+k] != word[k] {
			return i + k, "unexpected character, expected " + word
		}
	}
	return i + len(word), ""
}

func space(data []byte, i int) int {
	for i < len(data) && data[i] <= ' ' && (data[i] == ' ' || data[i] == '\n' || data[i] == '\r' || data[i] == '\t') {
		i++
	}
	return i
}

// scanScalar handles everything but arrays and objects; ok is false for those.
func scanScalar(data []byte, i int) (end int, problem string, ok bool) {
	switch c := data[i]; c {
	case '"':
		end, _, problem = scanString(data, i+1)
		if problem == "" {
			end++
		}
		return end, problem, true
	case 't':
		end, problem = scanLiteral(data, i, "true")
	case 'f':
		end, problem = scanLiteral(data, i, "false")
	case 'n':
		end, problem = scanLiteral(data, i, "null")
	case '{', '[':
		return i, "", false
	default:
		if c != '-' && (c < '0' || c > '9') {
			return i, "unexpected character, expected a value", true
		}
		end, problem = scanNumber(data, i)
	}
	return end, problem, true
}

// scanValue validates the value at i, which may follow white space, and returns the offset behind it.
// depth is how deep the value already stands.
func scanValue(data []byte, i, depth int) (end int, problem string) {
	var objects [MaxDepth/64 + 1]uint64 // one bit a level: is it an object?
	level := depth
value:
	i = space(data, i)
	if i >= len(data) {
		return i, endProblem
	}
	if e, problem, ok := scanScalar(data, i); ok {
		if problem != "" {
			return e, problem
		}
		i = e
		goto after
	}
	if level == MaxDepth {
		return i, depthProblem
	}
	level++
	if data[i] == '[' {
		objects[level>>6] &^= 1 << (level & 63)
		i = space(data, i+1)
		if i < len(data) && data[i] == ']' {
			i++
			level--
			goto after
		}
		goto value
	}
	objects[level>>6] |= 1 << (level & 63)
	i = space(data, i+1)
	if i < len(data) && data[i] == '}' {
		i++
		level--
		goto after
	}
key:
	i = space(data, i)
	if i >= len(data) {
		return i, endProblem
	}
	if data[i] != '"' {
		return i, "unexpected character, expected a key in quotes"
	}
	i, _, problem = scanString(data, i+1)
	if problem != "" {
		return i, problem
	}
	i = space(data, i+1)
	if i >= len(data) {
		return i, endProblem
	}
	if data[i] != ':' {
		return i, "unexpected character, expected ':'"
	}
	i++
	goto value
after:
	if level == depth {
		return i, ""
	}
	i = space(data, i)
	if i >= len(data) {
		return i, endProblem
	}
	object := objects[level>>6]&(1<<(level&63)) != 0
	switch c := data[i]; {
	case c == ',':
		i++
		if object {
			goto key
		}
		goto value
	case object && c == '}', !object && c == ']':
		i++
		level--
		goto after
	case object:
		return i, "unexpected character, expected ',' or '}'"
	}
	return i, "unexpected character, expected ',' or ']'"
}
