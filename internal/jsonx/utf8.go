package jsonx

import (
	"encoding/binary"
	"math/bits"
	"unicode/utf8"
)

// firstNonASCII returns the offset of the first byte above 0x7F, or len(data).
func firstNonASCII(data []byte) int {
	i := 0
	for ; len(data)-i >= 8; i += 8 {
		if m := binary.LittleEndian.Uint64(data[i:]) & highs; m != 0 {
			return i + bits.TrailingZeros64(m)>>3
		}
	}
	for ; i < len(data) && data[i] < utf8.RuneSelf; i++ {
	}
	return i
}

// firstInvalidUTF8 returns the offset of the first byte that is no UTF-8, or -1. It is for data known
// to be invalid.
func firstInvalidUTF8(data []byte) int {
	for i := 0; i < len(data); {
		r, n := utf8.DecodeRune(data[i:])
		if r == utf8.RuneError && n == 1 {
			return i
		}
		i += n
	}
	return -1
}

// continuations counts UTF-8 continuation bytes, so that len - continuations is the number of code
// points of valid UTF-8.
func continuations(data []byte) int {
	n, i := 0, 0
	for ; len(data)-i >= 8; i += 8 {
		x := binary.LittleEndian.Uint64(data[i:])
		n += bits.OnesCount64(x & ^(x << 1) & highs)
	}
	for ; i < len(data); i++ {
		if data[i]&0xC0 == 0x80 {
			n++
		}
	}
	return n
}
