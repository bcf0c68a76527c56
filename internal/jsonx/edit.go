package jsonx

import (
	"cmp"
	"slices"
)

// Field is one field of an object by offsets into its document: the key's opening quote, the value's
// first byte, and behind the value.
type Field struct{ Key, Value, End int }

// Valid checks a whole document as Cursor.Reset and End would, without looking into it.
func Valid(data []byte) *SyntaxError {
	var c Cursor
	c.Reset(data)
	c.Skip()
	return c.End()
}

// Edit puts With in the place of data[Start:End]; Start == End inserts.
type Edit struct {
	Start, End int
	With       []byte
}

// Edits is a list of edits of one document. Ranges must not overlap; insertions at one offset keep the
// order they were added in, and stand before a range that begins there. All bytes outside the ranges are kept as they are.
type Edits []Edit

// Replace puts with in the place of data[start:end].
func (e *Edits) Replace(start, end int, with []byte) { *e = append(*e, Edit{start, end, with}) }

// Insert puts with before data[at].
func (e *Edits) Insert(at int, with []byte) { *e = append(*e, Edit{at, at, with}) }

// DeleteFields removes those of an object's fields that drop names by index, with the right commas.
// fields are all fields of the object, in order. It reports how many are left.
func (e *Edits) DeleteFields(fields []Field, drop func(i int) bool) (left int) {
	keptEnd := -1 // behind the last value kept so far
	for i := 0; i < len(fields); i++ {
		if !drop(i) {
			keptEnd = fields[i].End
			left++
			continue
		}
		first := i
		for i+1 < len(fields) && drop(i+1) {
			i++
		}
		switch {
		case i+1 < len(fields): // up to the next field that stays
			e.Replace(fields[first].Key, fields[i+1].Key, nil)
		case keptEnd >= 0: // from behind the last field that stays
			e.Replace(keptEnd, fields[i].End, nil)
		default:
			e.Replace(fields[first].Key, fields[i].End, nil)
		}
	}
	return left
}

// Apply appends the edited data to dst. It sorts the list.
func (e Edits) Apply(dst, data []byte) []byte {
	if len(e) > 1 {
		slices.SortStableFunc(e, func(a, b Edit) int { return cmp.Or(a.Start-b.Start, a.End-b.End) })
	}
	dst = slices.Grow(dst, len(data)+e.Growth())
	at := 0
	for i := range e {
		dst = append(dst, data[at:e[i].Start]...)
		dst = append(dst, e[i].With...)
		at = e[i].End
	}
	return append(dst, data[at:]...)
}

// Growth is by how many bytes the edits make the document longer; negative if shorter.
func (e Edits) Growth() int {
	n := 0
	for i := range e {
		n += len(e[i].With) - (e[i].End - e[i].Start)
	}
	return n
}
