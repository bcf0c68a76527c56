package openai

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"strconv"

	"turnout/internal/jsonx"
)

// recode reads one embedding and notes the edit that makes it what the client asked for: some upstreams
// know one encoding alone, and clients that get the other take it for numbers all the same. What is
// neither stays as it is.
func recode(c *jsonx.Cursor, edits *jsonx.Edits, asBase64 bool) {
	c.EachField(func(key []byte) {
		if string(key) != "embedding" {
			return
		}
		at := c.Pos()
		var with []byte
		switch kind := c.Kind(); {
		case kind == jsonx.Array && asBase64:
			with = packed(c)
		case kind == jsonx.String && !asBase64:
			with = unpacked(c.Raw())
		default:
			return
		}
		if with != nil {
			edits.Replace(at, c.Pos(), with)
		}
	})
}

// packed makes base64 of a list of numbers: 32 bits each, the lowest byte first. nil: it is none.
func packed(c *jsonx.Cursor) []byte {
	var raw []byte
	good := true
	c.EachItem(func(int) {
		f, err := strconv.ParseFloat(string(c.Raw()), 64)
		good = good && err == nil
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(float32(f)))
	})
	if !good || c.Err() != nil {
		return nil
	}
	out := append(make([]byte, 0, base64.StdEncoding.EncodedLen(len(raw))+2), '"')
	return append(base64.StdEncoding.AppendEncode(out, raw), '"')
}

// unpacked makes a list of numbers of such base64; nil: it is none.
func unpacked(text []byte) []byte {
	raw, err := base64.StdEncoding.DecodeString(jsonx.RawText(text))
	if err != nil || len(raw)%4 != 0 {
		return nil
	}
	out := append(make([]byte, 0, 4*len(raw)), '[')
	for ; len(raw) > 0; raw = raw[4:] {
		f := float64(math.Float32frombits(binary.LittleEndian.Uint32(raw)))
		if math.IsNaN(f) || math.IsInf(f, 0) {
			return nil
		}
		out = strconv.AppendFloat(jsonx.Comma(out), f, 'g', -1, 32)
	}
	return append(out, ']')
}
