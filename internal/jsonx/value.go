package jsonx

import (
	"bytes"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// String is the decoded text. It allocates.
func (t Text) String() string {
	if !t.Escaped {
		return string(t.Raw)
	}
	return string(Unescape(nil, t.Raw))
}

// Is compares the decoded text without allocating where nothing is escaped.
func (t Text) Is(s string) bool {
	if !t.Escaped {
		return string(t.Raw) == s
	}
	return t.String() == s
}

// Empty says whether the text has no character.
func (t Text) Empty() bool { return len(t.Raw) == 0 }

// Chars counts the Unicode characters (code points) of the decoded text; a surrogate pair in escapes is
// one, a lone one is one too.
func (t Text) Chars() int {
	n := len(t.Raw) - t.excess
	if !t.ascii {
		n -= continuations(t.Raw)
	}
	return n
}

func lowSurrogate(raw []byte) bool {
	if len(raw) < 6 || raw[0] != '\\' || raw[1] != 'u' {
		return false
	}
	r := hex4(raw[2:])
	return r >= 0xDC00 && r <= 0xDFFF
}

func hex4(raw []byte) rune {
	return rune(hexValue(raw[0])<<12 | hexValue(raw[1])<<8 | hexValue(raw[2])<<4 | hexValue(raw[3]))
}

// Unescape appends the text that valid raw string content means. Lone surrogates become U+FFFD.
func Unescape(dst, raw []byte) []byte {
	for len(raw) > 0 {
		k := bytes.IndexByte(raw, '\\')
		if k < 0 {
			return append(dst, raw...)
		}
		dst = append(dst, raw[:k]...)
		c := raw[k+1]
		raw = raw[k+2:]
		switch c {
		case 'b':
			dst = append(dst, '\b')
		case 'f':
			dst = append(dst, '\f')
		case 'n':
			dst = append(dst, '\n')
		case 'r':
			dst = append(dst, '\r')
		case 't':
			dst = append(dst, '\t')
		case 'u':
			r := hex4(raw)
			raw = raw[4:]
			if utf16.IsSurrogate(r) {
				if r < 0xDC00 && lowSurrogate(raw) {
					r = utf16.DecodeRune(r, hex4(raw[2:]))
					raw = raw[6:]
				} else {
					r = utf8.RuneError
				}
			}
			dst = utf8.AppendRune(dst, r)
		default:
			dst = append(dst, c)
		}
	}
	return dst
}

// Chars counts the Unicode characters of raw JSON as it stands, quotes and escapes included.
func Chars(raw []byte) int { return len(raw) - continuations(raw) }

// Int64 parses a raw value as an integer; ok is false for anything else, fractions and exponents
// included, and for what does not fit.
func Int64(raw []byte) (n int64, ok bool) {
	if len(raw) == 0 || len(raw) > 20 {
		return 0, false
	}
	digits := raw
	if raw[0] == '-' {
		digits = raw[1:]
	}
	if len(digits) == 0 || len(digits) > 18 {
		n, err := strconv.ParseInt(string(raw), 10, 64)
		return n, err == nil
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int64(c-'0')
	}
	if raw[0] == '-' {
		n = -n
	}
	return n, true
}

const hexDigits = "0123456789abcdef"

// AppendString appends s as a JSON string. Bytes that are no UTF-8 become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c >= 0x20 && c < utf8.RuneSelf && c != '"' && c != '\\' {
			i++
			continue
		}
		if c >= utf8.RuneSelf {
			r, n := utf8.DecodeRuneInString(s[i:])
			if r == utf8.RuneError && n == 1 {
				dst = append(dst, s[start:i]...)
				dst = append(dst, "\uFFFD"...)
				start = i + 1
			}
			i += n
			continue
		}
		dst = append(dst, s[start:i]...)
		switch c {
		case '"', '\\':
			dst = append(dst, '\\', c)
		case '\n':
			dst = append(dst, '\\', 'n')
		case '\r':
			dst = append(dst, '\\', 'r')
		case '\t':
			dst = append(dst, '\\', 't')
		default:
			dst = append(dst, '\\', 'u', '0', '0', hexDigits[c>>4], hexDigits[c&15])
		}
		i++
		start = i
	}
	dst = append(dst, s[start:]...)
	return append(dst, '"')
}
