package wire

import (
	"bytes"

	"turnout/gateway/internal/provider/sse"
	"turnout/internal/jsonx"
)

// Rewrite appends an event with edits of its data, and says where its data begin in what was appended.
// Without edits the bytes are those that came.
func Rewrite(dst []byte, e *sse.Event, edits jsonx.Edits) (out []byte, dataAt int) {
	start := len(dst)
	if e.Lines == 1 || e.Lines == 0 {
		dst = append(dst, e.Raw[:e.At]...)
		dst = edits.Apply(dst, e.Data)
		dst = append(dst, e.Raw[e.At+len(e.Data):]...)
		if !e.Whole { // the stream broke off before its empty line
			dst = append(dst[:start+len(bytes.TrimRight(dst[start:], "\r\n"))], "\n\n"...)
		}
		return dst, start + e.At
	}
	// Several data lines become one; line feeds in JSON are white space.
	if len(e.Name) > 0 {
		dst = append(append(append(dst, "event: "...), e.Name...), '\n')
	}
	dst = append(dst, "data: "...)
	dataAt = len(dst)
	dst = edits.Apply(dst, e.Data)
	for i := dataAt; i < len(dst); i++ {
		if dst[i] == '\n' {
			dst[i] = ' '
		}
	}
	return append(dst, "\n\n"...), dataAt
}
