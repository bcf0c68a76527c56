package attempt

import (
	"strings"
	"unicode/utf16"
	"unicode/utf8"
)

// unquote resolves the escapes of a JSON string's inside. A half of a surrogate pair becomes
// U+FFFD, as in encoding/json. reason is empty if all is well.
func unquote(s string) (text, reason string) {
	b := make([]byte, 0, len(s))
	for {
		i := strings.IndexByte(s, '\\')
		if i < 0 {
			b = append(b, s...)
			break
		}
		b = append(b, s[:i]...)
		s = s[i+1:]
		c := s[0] // a backslash is never the last byte: the closing quote would be escaped
		s = s[1:]
		switch c {
		case '"', '\\', '/':
			b = append(b, c)
		case 'b':
			b = append(b, '\b')
		case 'f':
			b = append(b, '\f')
		case 'n':
			b = append(b, '\n')
		case 'r':
			b = append(b, '\r')
		case 't':
			b = append(b, '\t')
		case 'u':
			r, ok := hex4(s)
			if !ok {
				return "", "a \\u escape without four hex digits"
			}
			s = s[4:]
			if utf16.IsSurrogate(r) {
				low, ok := rune(0), false
				if strings.HasPrefix(s, `\u`) {
					low, ok = hex4(s[2:])
				}
				if pair := utf16.DecodeRune(r, low); ok && pair != utf8.RuneError {
					r = pair
					s = s[6:]
				} else {
					r = utf8.RuneError
				}
			}
			b = utf8.AppendRune(b, r)
		default:
			return "", "an unknown escape in a string"
		}
	}
	if !utf8.Valid(b) {
		return "", "a string that is not UTF-8"
	}
	return string(b), ""
}

func hex4(s string) (rune, bool) {
	if len(s) < 4 {
		return 0, false
	}
	var r rune
	for i := range 4 {
		c := s[i]
		switch {
		case c >= '0' && c <= '9':
			c -= '0'
		case c >= 'a' && c <= 'f':
			c -= 'a' - 10
		case c >= 'A' && c <= 'F':
			c -= 'A' - 10
		default:
			return 0, false
		}
		r = r<<4 | rune(c)
	}
	return r, true
}
