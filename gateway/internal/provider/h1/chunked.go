package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
)

var errChunk = errors.New("malformed chunked encoding")

// chunks reads a chunked body up to its last chunk, without what may follow that. Unlike net/http's
// reader it never waits while it has something to give: the first events of a stream would wait for
// those that share a chunk with them.
type chunks struct {
	r     *bufio.Reader
	left  int64 // of the chunk under way
	begun bool  // a chunk was read, whose end of line is still to come
}

func (c *chunks) Read(p []byte) (n int, err error) {
	for n < len(p) {
		if c.left == 0 {
			if n > 0 && !c.headCame() {
				return n, nil
			}
			if err = c.head(); err != nil {
				return n, err
			}
		}
		if n > 0 && c.r.Buffered() == 0 {
			return n, nil
		}
		k, err := c.r.Read(p[n : n+int(min(int64(len(p)-n), c.left))])
		n += k
		c.left -= int64(k)
		if err != nil {
			return n, unexpected(err)
		}
	}
	return n, nil
}

// headCame says whether a whole chunk head has been read from the connection already.
func (c *chunks) headCame() bool {
	came, _ := c.r.Peek(c.r.Buffered())
	return len(came) > 2 && bytes.IndexByte(came[2:], '\n') >= 0
}

// head reads the head of the next chunk; io.EOF for the last one.
func (c *chunks) head() error {
	if c.begun {
		var end [2]byte
		if _, err := io.ReadFull(c.r, end[:]); err != nil {
			return unexpected(err)
		}
		if end != [2]byte{'\r', '\n'} {
			return errChunk
		}
	}
	size := 0
	line, err := readLine(c.r, &size)
	if err != nil {
		return unexpected(err)
	}
	if c.left, err = chunkSize(line); err != nil {
		return err
	}
	c.begun = true
	if c.left == 0 {
		return io.EOF
	}
	return nil
}

// chunkSize reads the hexadecimal number that a chunk's head begins with; extensions are passed over.
func chunkSize(line []byte) (n int64, err error) {
	line, _, _ = bytes.Cut(line, []byte(";"))
	line = bytes.TrimRight(line, " \t")
	if len(line) == 0 || len(line) > 15 {
		return 0, errChunk
	}
	for _, b := range line {
		switch {
		case b >= '0' && b <= '9':
			b -= '0'
		case lower(b) >= 'a' && lower(b) <= 'f':
			b = lower(b) - 'a' + 10
		default:
			return 0, errChunk
		}
		n = n<<4 | int64(b)
	}
	return n, nil
}
