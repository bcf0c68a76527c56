package jsonx

import "strconv"

// Comma appends a comma unless an array or object has just begun.
func Comma(dst []byte) []byte {
	if n := len(dst); n > 0 {
		if last := dst[n-1]; last == '{' || last == '[' || last == ',' {
			return dst
		}
	}
	return append(dst, ',')
}

// AddKey appends a key, with the comma before it where one is due. The key needs no escapes.
func AddKey(dst []byte, key string) []byte {
	dst = append(Comma(dst), '"')
	dst = append(dst, key...)
	return append(dst, '"', ':')
}

// Add appends a field with a raw value; nothing for nil.
func Add(dst []byte, key string, raw []byte) []byte {
	if raw == nil {
		return dst
	}
	return append(AddKey(dst, key), raw...)
}

// AddString appends a field with a text.
func AddString(dst []byte, key, text string) []byte {
	return AppendString(AddKey(dst, key), text)
}

// AddInt appends a field with a number.
func AddInt(dst []byte, key string, n int64) []byte {
	return strconv.AppendInt(AddKey(dst, key), n, 10)
}
