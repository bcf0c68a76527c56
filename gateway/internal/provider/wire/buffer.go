package wire

import "sync"

// maxPooled is the largest buffer that is kept for other calls.
const maxPooled = 1 << 20

var buffers = sync.Pool{New: func() any { b := make([]byte, 0, 4<<10); return &b }}

// GetBuffer returns an empty buffer.
func GetBuffer() *[]byte {
	b := buffers.Get().(*[]byte)
	*b = (*b)[:0]
	return b
}

// PutBuffer keeps a buffer for other calls, unless it has grown large.
func PutBuffer(b *[]byte) {
	if cap(*b) <= maxPooled {
		buffers.Put(b)
	}
}
