package h1

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// exchange is one request and its answer on a connection; as an io.ReadCloser it is the answer's body.
type exchange struct {
	client  *Client
	conn    *conn
	detach  func() bool // takes the connection out of the context's reach; false: it was interrupted
	writing chan error  // of a large request, holds the result when it is through

	body    io.Reader // nil: no body
	left    int64     // of a body with a length
	kind    bodyKind
	keep    bool // the connection may serve again once the body was read
	ended   bool
	given   bool
	failure error
}

type bodyKind byte

const (
	bodyNone bodyKind = iota
	bodyLength
	bodyChunked
	bodyOpen // until the connection's end
)

var (
	errMalformed = errors.New("no HTTP answer")
	errTooLarge  = errors.New("a head of more than 256 KiB")
	errFraming   = errors.New("an answer whose length is ambiguous")
)

// read reads the answer's head, passing over interim answers.
func (x *exchange) read() (*http.Response, error) {
	for range maxInterims {
		resp, err := x.readHead()
		if err != nil || resp.StatusCode >= 200 {
			return resp, err
		}
		if resp.StatusCode == http.StatusSwitchingProtocols {
			return nil, errMalformed
		}
	}
	return nil, errMalformed
}

func (x *exchange) readHead() (*http.Response, error) {
	r, size := x.conn.r, 0
	line, err := readLine(r, &size)
	if err != nil {
		return nil, unexpected(err)
	}
	resp := &http.Response{ProtoMajor: 1, ContentLength: -1}
	if len(line) < len("HTTP/1.1 200") || string(line[:7]) != "HTTP/1." || line[8] != ' ' || len(line) > 12 && line[12] != ' ' {
		return nil, errMalformed
	}
	if resp.StatusCode, err = strconv.Atoi(string(line[9:12])); err != nil || resp.StatusCode < 100 {
		return nil, errMalformed
	}
	modern := line[7] == '1'
	x.keep = modern
	length, chunked := int64(-1), false
	for {
		if line, err = readLine(r, &size); err != nil {
			return nil, unexpected(err)
		}
		if len(line) == 0 {
			break
		}
		colon := bytes.IndexByte(line, ':')
		if colon <= 0 || bytes.IndexByte(line[:colon], ' ') >= 0 || bytes.IndexByte(line[:colon], '\t') >= 0 {
			return nil, errMalformed
		}
		name, value := line[:colon], bytes.TrimSpace(line[colon+1:])
		switch {
		case equal(name, "content-length"):
			n, err := strconv.ParseInt(string(value), 10, 64)
			if err != nil || value[0] < '0' || value[0] > '9' || length >= 0 && n != length {
				return nil, errFraming
			}
			length = n
		case equal(name, "transfer-encoding"):
			if chunked || !modern || !strings.EqualFold(string(value), "chunked") {
				return nil, errFraming
			}
			chunked = true
		case equal(name, "connection"):
			if hasToken(value, "close") {
				x.keep = false
			}
		default:
			keepHeader(resp, name, value)
		}
	}
	x.frame(resp, length, chunked)
	return resp, nil
}

// frame decides where the body ends.
func (x *exchange) frame(resp *http.Response, length int64, chunked bool) {
	resp.Body = x
	switch {
	case resp.StatusCode == http.StatusNoContent || resp.StatusCode == http.StatusNotModified:
		resp.ContentLength = 0
		x.ended = true
	case chunked:
		if length >= 0 { // both: what smugglers send
			x.keep = false
		}
		resp.TransferEncoding = []string{"chunked"}
		x.kind, x.body = bodyChunked, &chunks{r: x.conn.r}
	case length >= 0:
		resp.ContentLength = length
		x.kind, x.left = bodyLength, length
		x.ended = length == 0
	default:
		x.kind, x.keep = bodyOpen, false
	}
}

// Read reads the body.
func (x *exchange) Read(p []byte) (n int, err error) {
	switch {
	case x.failure != nil:
		return 0, x.failure
	case x.given:
		return 0, http.ErrBodyReadAfterClose
	case x.ended:
		return 0, io.EOF
	}
	switch x.kind {
	case bodyChunked:
		n, err = x.body.Read(p)
		if errors.Is(err, io.EOF) {
			x.ended = true
			x.keep = x.keep && x.trailer()
		}
	case bodyLength:
		n, err = x.conn.r.Read(p[:min(int64(len(p)), x.left)])
		x.left -= int64(n)
		switch {
		case x.left == 0:
			x.ended, err = true, io.EOF
		default:
			err = unexpected(err)
		}
	default:
		if n, err = x.conn.r.Read(p); errors.Is(err, io.EOF) {
			x.ended = true
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		x.failure = err
	}
	return n, err
}

// trailer reads what follows the last chunk, as far as it has come: the connection is not worth a wait.
func (x *exchange) trailer() bool {
	for size := 0; ; {
		buffered, _ := x.conn.r.Peek(x.conn.r.Buffered())
		if bytes.IndexByte(buffered, '\n') < 0 {
			return false
		}
		if line, err := readLine(x.conn.r, &size); err != nil || len(line) == 0 {
			return err == nil
		}
	}
}

// Close gives the connection back if its answer was read to the end, or else closes it.
func (x *exchange) Close() error {
	x.give(x.ended && x.keep && x.failure == nil)
	return nil
}

func (x *exchange) give(keep bool) {
	if x.given {
		return
	}
	x.given = true
	if x.writing != nil {
		select {
		case err := <-x.writing:
			keep = keep && err == nil
		default: // it answered without reading everything
			keep = false
		}
	}
	if x.detach() && keep {
		x.client.put(x.conn)
		return
	}
	x.conn.Close()
}

// unexpected makes an end that should not be there an error.
func unexpected(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// readLine reads one line of a head, without its end. A line longer than the buffer is cut: no value
// that matters is that long.
func readLine(r *bufio.Reader, size *int) ([]byte, error) {
	line, err := r.ReadSlice('\n')
	*size += len(line)
	for full := errors.Is(err, bufio.ErrBufferFull); full; {
		line = bytes.Clone(line[:min(len(line), 256)])
		var more []byte
		more, err = r.ReadSlice('\n')
		if *size += len(more); *size > maxHead {
			return nil, errTooLarge
		}
		full = errors.Is(err, bufio.ErrBufferFull)
	}
	if err != nil {
		return nil, err
	}
	if *size > maxHead {
		return nil, errTooLarge
	}
	line = bytes.TrimSuffix(line, []byte("\n"))
	return bytes.TrimSuffix(line, []byte("\r")), nil
}

// kept are the headers a caller sees.
var kept = [...]string{"Content-Encoding", "Retry-After", "Retry-After-Ms", "X-Amzn-Errortype"}

func keepHeader(resp *http.Response, name, value []byte) {
	for _, k := range kept {
		if equal(name, k) {
			if resp.Header == nil {
				resp.Header = make(http.Header, 2)
			}
			resp.Header[k] = append(resp.Header[k], string(value))
			return
		}
	}
}

// equal compares ASCII without case.
func equal(b []byte, s string) bool {
	if len(b) != len(s) {
		return false
	}
	for i := range len(s) {
		if lower(b[i]) != lower(s[i]) {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}

func hasToken(list []byte, token string) bool {
	for part := range bytes.SplitSeq(list, []byte(",")) {
		if equal(bytes.TrimSpace(part), token) {
			return true
		}
	}
	return false
}
