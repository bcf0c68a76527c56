package upstream

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"time"
)

type step struct {
	word, arg string
	wait      time.Duration
	n         int
}

// parse reads one line of a script.
func parse(line string) ([]step, error) {
	var steps []step
	for rest := strings.TrimSpace(line); rest != ""; rest = strings.TrimSpace(rest) {
		end := strings.IndexAny(rest, " \t\n:")
		if end < 0 {
			end = len(rest)
		}
		s := step{word: rest[:end]}
		rest = rest[end:]
		if strings.HasPrefix(rest, ":") {
			var err error
			if s.arg, rest, err = argument(rest[1:]); err != nil {
				return nil, fmt.Errorf("%s: %w", s.word, err)
			}
		}
		if err := s.check(); err != nil {
			return nil, err
		}
		steps = append(steps, s)
	}
	return steps, nil
}

// argument reads up to the next space outside quotes; quoted parts are unquoted.
func argument(rest string) (arg, left string, err error) {
	var b strings.Builder
	for rest != "" && rest[0] != ' ' && rest[0] != '\n' && rest[0] != '\t' {
		if rest[0] != '"' && rest[0] != '`' {
			b.WriteByte(rest[0])
			rest = rest[1:]
			continue
		}
		quoted, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", "", fmt.Errorf("bad quotes at %.20q", rest)
		}
		text, err := strconv.Unquote(quoted)
		if err != nil {
			return "", "", err
		}
		b.WriteString(text)
		rest = rest[len(quoted):]
	}
	return b.String(), rest, nil
}

func (s *step) check() (err error) {
	switch s.word {
	case "pause", "drip":
		s.wait, err = time.ParseDuration(s.arg)
	case "len":
		s.n, err = strconv.Atoi(s.arg)
	case "repeat":
		n, text, _ := strings.Cut(s.arg, ",")
		s.arg = text
		s.n, err = strconv.Atoi(n)
	case "h", "sse", "open", "gzip", "json", "body", "wire", "chat", "role", "text", "think", "chunk", "finish", "usage", "done", "hold", "fin", "rst":
	default:
		if s.n, err = strconv.Atoi(s.word); err != nil || s.n < 100 || s.n > 999 {
			return fmt.Errorf("unknown step %q", s.word)
		}
		s.word = "status"
	}
	return err
}

// player plays a line on a connection.
type player struct {
	server *Server
	conn   net.Conn
	r      *bufio.Reader

	status int
	header http.Header
	length int // -1: open; 0: chunked; else Content-Length
	zip    *gzip.Writer
	drip   time.Duration
	begun  bool
	raw    bool
}

func (p *player) play(steps []step) error {
	for _, s := range steps {
		if err := p.step(s); err != nil {
			return err
		}
	}
	if p.raw {
		return nil
	}
	return p.finish()
}

func (p *player) step(s step) error {
	switch s.word {
	case "status":
		p.status = s.n
	case "h":
		k, v, _ := strings.Cut(s.arg, ":")
		p.header.Add(strings.TrimSpace(k), strings.TrimSpace(v))
	case "sse":
		p.contentType("text/event-stream")
		return p.begin()
	case "len":
		p.length = s.n
	case "open":
		p.length = -1
	case "gzip":
		p.header.Set("Content-Encoding", "gzip")
		p.zip = gzip.NewWriter(bodyWriter{p})
	case "json":
		p.contentType("application/json")
		return p.body([]byte(s.arg))
	case "chat":
		p.contentType("application/json")
		return p.body(Chat(s.arg))
	case "body":
		return p.body([]byte(s.arg))
	case "repeat":
		return p.body(bytes.Repeat([]byte(s.arg), s.n))
	case "wire":
		p.raw = true
		return p.write([]byte(s.arg))
	case "role":
		return p.event(Chunk(`{"role":"assistant","content":""}`, ""))
	case "text":
		return p.event(Chunk(`{"content":`+string(quoted(s.arg))+`}`, ""))
	case "think":
		return p.event(Chunk(`{"reasoning_content":`+string(quoted(s.arg))+`}`, ""))
	case "chunk":
		return p.event(s.arg)
	case "finish":
		return p.event(Chunk(`{}`, s.arg))
	case "usage":
		in, out, _ := strings.Cut(s.arg, ",")
		return p.event(`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1700000000,"model":"upstream-model","choices":[],"usage":{"prompt_tokens":` + in + `,"completion_tokens":` + out + `}}`)
	case "done":
		return p.event("[DONE]")
	case "drip":
		p.drip = s.wait
	default:
		return p.control(s)
	}
	return nil
}

func (p *player) control(s step) error {
	if s.word != "pause" && p.zip != nil {
		p.zip.Flush()
	}
	switch s.word {
	case "pause":
		return p.pause(s.wait)
	case "hold":
		_ = p.pause(0)
	case "rst":
		conn := p.conn
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.SetLinger(0)
		}
		conn.Close()
	}
	return errEnd
}

// pause waits, or until the other side closes; 0 waits for that alone.
func (p *player) pause(d time.Duration) error {
	deadline := time.Time{}
	if d > 0 {
		deadline = time.Now().Add(d)
	}
	_ = p.conn.SetReadDeadline(deadline)
	_, err := p.r.Peek(1)
	_ = p.conn.SetReadDeadline(time.Time{})
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return nil
	}
	if err == nil { // the next call came early: wait without looking
		time.Sleep(d)
		return nil
	}
	p.server.mu.Lock()
	if !p.server.closed {
		p.server.gone++
	}
	p.server.mu.Unlock()
	return errEnd
}

func (p *player) contentType(kind string) {
	if p.header.Get("Content-Type") == "" {
		p.header.Set("Content-Type", kind)
	}
}

func (p *player) event(data string) error { return p.body([]byte("data: " + data + "\n\n")) }

// begin sends the header.
func (p *player) begin() error {
	if p.begun {
		return nil
	}
	p.begun = true
	switch {
	case p.length > 0:
		p.header.Set("Content-Length", strconv.Itoa(p.length))
	case p.length == 0 && p.status != http.StatusNoContent:
		p.header.Set("Transfer-Encoding", "chunked")
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "HTTP/1.1 %03d %s\r\n", p.status, http.StatusText(p.status))
	_ = p.header.Write(&b)
	b.WriteString("\r\n")
	return p.write(b.Bytes())
}

type bodyWriter struct{ p *player }

func (w bodyWriter) Write(b []byte) (int, error) { return len(b), w.p.framed(b) }

func (p *player) body(b []byte) error {
	if err := p.begin(); err != nil {
		return err
	}
	if p.zip == nil {
		return p.framed(b)
	}
	if _, err := p.zip.Write(b); err != nil {
		return err
	}
	return p.zip.Flush()
}

func (p *player) framed(b []byte) error {
	if len(b) == 0 {
		return nil
	}
	if p.length != 0 {
		return p.write(b)
	}
	out := append([]byte(strconv.FormatInt(int64(len(b)), 16)+"\r\n"), b...)
	return p.write(append(out, "\r\n"...))
}

func (p *player) write(b []byte) error {
	if p.drip <= 0 {
		_, err := p.conn.Write(b)
		return err
	}
	for i := range b {
		if _, err := p.conn.Write(b[i : i+1]); err != nil {
			return err
		}
		if err := p.pause(p.drip); err != nil {
			return err
		}
	}
	return nil
}

// finish ends the body as it was announced.
func (p *player) finish() error {
	if err := p.begin(); err != nil {
		return err
	}
	if p.zip != nil {
		if err := p.zip.Close(); err != nil {
			return err
		}
	}
	switch {
	case p.length < 0:
		return errEnd
	case p.length == 0 && p.status != http.StatusNoContent:
		return p.write([]byte("0\r\n\r\n"))
	}
	return nil
}

func quoted(s string) []byte {
	b, err := json.Marshal(s)
	if err != nil {
		return []byte(`""`)
	}
	return b
}

var _ io.Writer = bodyWriter{}
