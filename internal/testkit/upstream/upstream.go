// Package upstream is a scripted provider over real sockets: one line of a script says what one call is
// answered with, byte by byte, so that a fault is a small test.
//
// A line is a list of steps separated by spaces; arguments that hold spaces stand in Go quotes:
//
//	200 sse role text:"Hel" pause:20ms text:"lo" finish:stop usage:5,2 done
//	429 h:"Retry-After: 2" json:"{}"
//	200 sse role text:a rst
//
// Steps:
//
//	NNN            status; the header goes out with the first byte of the body
//	h:"K: V"       a header
//	sse            content-type text/event-stream, chunked
//	len:N          Content-Length N instead of chunks
//	open           neither: the end of the connection ends the body
//	gzip           the body is sent compressed
//	json:"..."     content-type application/json (if none was set) and these bytes
//	body:"..."     these bytes
//	wire:"..."     these bytes on the connection as they stand, instead of any response
//	chat:"text"    a whole plain answer
//	role           a chunk with the role alone
//	text:"..."     a chunk with content
//	think:"..."    a chunk with reasoning_content
//	chunk:"{...}"  an event with these data
//	finish:word    a chunk with finish_reason
//	usage:in,out   a chunk with usage and without choices
//	done           data: [DONE]
//	repeat:N,"..." these bytes N times
//	pause:DUR      nothing for a while
//	drip:DUR       from here on one byte at a time, with this pause behind each
//	hold           nothing until the other side closes
//	fin            close the connection, without the body's proper end
//	rst            reset the connection
//
// Without fin, rst or hold the body is ended properly and the connection serves the next call.
package upstream

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"
)

// Call is what the upstream saw of one call.
type Call struct {
	Method, Path string
	Query        string
	Header       http.Header
	Body         []byte
	Traceparent  string
	Connection   int       // number of the connection it came on, from 1
	At           time.Time // when it had been read
}

// Server answers calls by its script, one line a call; the last line serves all further calls.
type Server struct {
	URL string // http://127.0.0.1:port, or https

	t        testing.TB
	listener net.Listener
	wg       sync.WaitGroup

	mu      sync.Mutex
	lines   [][]step
	calls   []Call
	gone    int // calls whose other side closed while they were held or paused
	conns   map[net.Conn]struct{}
	serials int
	closed  bool
}

// New starts an upstream. It is stopped when the test ends.
func New(t testing.TB, lines ...string) *Server { return start(t, nil, lines) }

// NewTLS is New with TLS by a configuration of the test's.
func NewTLS(t testing.TB, config *tls.Config, lines ...string) *Server {
	return start(t, config, lines)
}

func start(t testing.TB, config *tls.Config, lines []string) *Server {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("listening for the scripted upstream: %v", err)
	}
	s := &Server{t: t, URL: "http://" + listener.Addr().String(), conns: map[net.Conn]struct{}{}}
	if config != nil {
		listener = tls.NewListener(listener, config)
		s.URL = "https" + strings.TrimPrefix(s.URL, "http")
	}
	s.listener = listener
	s.Script(lines...)
	s.wg.Go(s.accept)
	t.Cleanup(s.Close)
	return s
}

// Script puts other lines in the place of those not yet used.
func (s *Server) Script(lines ...string) {
	s.t.Helper()
	parsed := make([][]step, 0, len(lines))
	for _, line := range lines {
		steps, err := parse(line)
		if err != nil {
			s.t.Fatalf("script %q: %v", line, err)
		}
		parsed = append(parsed, steps)
	}
	s.mu.Lock()
	s.lines = parsed
	s.mu.Unlock()
}

// Calls are the calls read so far.
func (s *Server) Calls() []Call {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]Call(nil), s.calls...)
}

// Gone is how many calls were given up by the other side while the script held or paused.
func (s *Server) Gone() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.gone
}

// Close stops the upstream and waits for its connections.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for c := range s.conns {
		c.Close()
	}
	s.mu.Unlock()
	s.listener.Close()
	s.wg.Wait()
}

func (s *Server) accept() {
	for {
		conn, err := s.listener.Accept()
		if err != nil {
			return
		}
		s.mu.Lock()
		if s.closed {
			s.mu.Unlock()
			conn.Close()
			return
		}
		s.conns[conn] = struct{}{}
		s.serials++
		serial := s.serials
		s.mu.Unlock()
		s.wg.Go(func() {
			s.serve(conn, serial)
			s.mu.Lock()
			delete(s.conns, conn)
			s.mu.Unlock()
			conn.Close()
		})
	}
}

// serve answers the calls of one connection.
func (s *Server) serve(conn net.Conn, serial int) {
	r := bufio.NewReader(conn)
	for {
		req, err := http.ReadRequest(r)
		if err != nil {
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		steps := s.record(Call{Method: req.Method, Path: req.URL.Path, Query: req.URL.RawQuery, Header: req.Header, Body: body,
			Traceparent: req.Header.Get("Traceparent"), Connection: serial, At: time.Now()})
		p := player{server: s, conn: conn, r: r, status: 200, header: http.Header{}}
		if err := p.play(steps); err != nil {
			return
		}
	}
}

func (s *Server) record(c Call) (steps []step) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls = append(s.calls, c)
	if len(s.lines) > 0 {
		steps = s.lines[0]
	}
	if len(s.lines) > 1 {
		s.lines = s.lines[1:]
	}
	return steps
}

var errEnd = errors.New("the script closed the connection")

// Chat is the plain answer that chat:"text" sends, for comparisons.
func Chat(text string) []byte {
	var b bytes.Buffer
	b.WriteString(`{"id":"chatcmpl-1","object":"chat.completion","created":1700000000,"model":"upstream-model","choices":[{"index":0,"message":{"role":"assistant","content":`)
	b.Write(quoted(text))
	b.WriteString(`},"finish_reason":"stop"}],"usage":{"prompt_tokens":5,"completion_tokens":2,"total_tokens":7}}`)
	return b.Bytes()
}

// Chunk is the data of a chunk with this delta and finish_reason ("": null).
func Chunk(delta, finish string) string {
	reason := "null"
	if finish != "" {
		reason = string(quoted(finish))
	}
	return `{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"upstream-model","choices":[{"index":0,"delta":` + delta + `,"finish_reason":` + reason + `}]}`
}
