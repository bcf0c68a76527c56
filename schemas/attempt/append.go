package attempt

import (
	"math"
	"strconv"
	"time"
	"unicode/utf8"
)

// The helpers below append a field, its key given with the comma before and the colon after it, or
// nothing when the value is empty.

func appendStringAlways(b []byte, key, v string) []byte {
	b = append(b, key...)
	return appendQuoted(b, v)
}

func appendString(b []byte, key, v string) []byte {
	if v == "" {
		return b
	}
	return appendStringAlways(b, key, v)
}

func appendIntAlways(b []byte, key string, v int64) []byte {
	b = append(b, key...)
	return strconv.AppendInt(b, v, 10)
}

func appendInt(b []byte, key string, v int64) []byte {
	if v == 0 {
		return b
	}
	return appendIntAlways(b, key, v)
}

func appendIntPointer(b []byte, key string, v *int64) []byte {
	if v == nil {
		return b
	}
	return appendIntAlways(b, key, *v)
}

func appendUint(b []byte, key string, v uint64) []byte {
	if v == 0 {
		return b
	}
	b = append(b, key...)
	return strconv.AppendUint(b, v, 10)
}

func appendBool(b []byte, key string, v bool) []byte {
	if !v {
		return b
	}
	b = append(b, key...)
	return append(b, "true"...)
}

func appendFloat(b []byte, key string, v float64) []byte {
	if v == 0 {
		return b
	}
	return appendFloatPointer(b, key, &v)
}

func appendFloatPointer(b []byte, key string, v *float64) []byte {
	if v == nil || math.IsNaN(*v) || math.IsInf(*v, 0) {
		return b
	}
	b = append(b, key...)
	return appendNumber(b, *v)
}

// appendNumber writes f with the fewest digits that read back as f, in encoding/json's format.
func appendNumber(b []byte, f float64) []byte {
	abs := math.Abs(f)
	if abs >= 1e-6 && abs < 1e7 {
		const scale = 1e8
		// At most 15 digits that read back as f are the fewest: no two such numbers share a float.
		if n := int64(abs*scale + .5); float64(n)/scale == abs {
			if f < 0 {
				b = append(b, '-')
			}
			return appendDecimal(b, n/scale, n%scale)
		}
	}
	if abs == 0 || (abs >= 1e-6 && abs < 1e21) {
		return strconv.AppendFloat(b, f, 'f', -1, 64)
	}
	b = strconv.AppendFloat(b, f, 'e', -1, 64)
	if n := len(b); b[n-4] == 'e' && b[n-3] == '-' && b[n-2] == '0' { // e-09 to e-9
		b[n-2] = b[n-1]
		b = b[:n-1]
	}
	return b
}

// appendDecimal writes a number of 1e-8 units below the point, without zeros at its end.
func appendDecimal(b []byte, whole, fraction int64) []byte {
	b = strconv.AppendInt(b, whole, 10)
	if fraction == 0 {
		return b
	}
	n := len(b) + 9
	b = append(b, ".00000000"...)
	for i := n - 1; fraction > 0; i-- {
		b[i] = byte('0' + fraction%10)
		fraction /= 10
	}
	for b[n-1] == '0' {
		n--
	}
	return b[:n]
}

func appendStrings(b []byte, key string, list []string) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(b, key...)
	b = append(b, '[')
	for i, v := range list {
		if i > 0 {
			b = append(b, ',')
		}
		b = appendQuoted(b, v)
	}
	return append(b, ']')
}

func appendTime(b []byte, key string, t time.Time) []byte {
	b = append(b, key...)
	b = append(b, '"')
	b = t.UTC().Truncate(time.Microsecond).AppendFormat(b, time.RFC3339Nano)
	return append(b, '"')
}

// plain tells the bytes that stand for themselves in a JSON string.
var plain = func() (table [256]bool) {
	for c := 0x20; c < utf8.RuneSelf; c++ {
		table[c] = c != '"' && c != '\\'
	}
	return table
}()

func appendQuoted(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		if !plain[s[i]] {
			b = append(b, s[:i]...)
			return append(appendEscaped(b, s[i:]), '"')
		}
	}
	b = append(b, s...)
	return append(b, '"')
}

const hexDigits = "0123456789abcdef"

// appendEscaped is appendQuoted's slow path: escapes, and U+FFFD for what is no UTF-8.
func appendEscaped(b []byte, s string) []byte {
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			b = appendEscapedByte(b, c)
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size == 1:
			b = append(b, `\ufffd`...)
		case r == '\u2028' || r == '\u2029': // no line ends in JavaScript's eyes
			b = append(b, `\u202`...)
			b = append(b, hexDigits[r&0xf])
		default:
			b = append(b, s[i:i+size]...)
		}
		i += size
	}
	return b
}

func appendEscapedByte(b []byte, c byte) []byte {
	switch c {
	case '"', '\\':
		return append(b, '\\', c)
	case '\b':
		return append(b, '\\', 'b')
	case '\f':
		return append(b, '\\', 'f')
	case '\n':
		return append(b, '\\', 'n')
	case '\r':
		return append(b, '\\', 'r')
	case '\t':
		return append(b, '\\', 't')
	}
	if c < 0x20 {
		return append(b, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&0xf])
	}
	return append(b, c)
}
