package httpapi

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"turnout/gateway/llm"
)

type listener struct {
	net.Listener
	limits Limits
}

func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	limitUnsent(c)
	return &conn{Conn: c, limits: l.limits, matched: -1}, nil
}

// conn answers a header that came too slowly, and in our shape what net/http refuses by itself. net/http
// reports its phase through noteState.
type conn struct {
	net.Conn
	limits  Limits
	serving atomic.Bool // a header was read and its answer is not complete
	begun   atomic.Bool // bytes came since the last answer
	used    atomic.Bool // bytes came at all
	length  atomic.Bool // a line of what came begins with lengthField
	matched int         // how much of lengthField the line under way has; -1: it is another line
}

// SetReadDeadline lets a connection that brought nothing yet rest as long as one between two requests.
// Clients dial ahead, and net/http counts a header's time from there: it would close the connection
// just when the client comes to use it.
func (c *conn) SetReadDeadline(t time.Time) error {
	if !c.used.Load() && time.Until(t) > 0 {
		t = time.Now().Add(c.limits.Idle)
	}
	return c.Conn.SetReadDeadline(t)
}

func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.look(p[:n])
	if n > 0 && !c.begun.Load() {
		c.begun.Store(true)
		if !c.used.Swap(true) && err == nil {
			err = c.Conn.SetReadDeadline(time.Now().Add(c.limits.Header)) // of the rest of the header
		}
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && c.begun.Load() && !c.serving.Load() {
		_ = c.refuse(http.StatusRequestTimeout, "timeout_error", "timeout", "the request's header did not arrive in time; send it again, or look at the network in between")
	}
	return n, err
}

const lengthField = "content-length:"

// look finds out whether the connection ever names a Content-Length. net/http hides one beside a
// Transfer-Encoding, and that is how requests are smuggled through a proxy that believes the other one.
// Bodies are looked at like headers: to be wrong that way ends a connection, no more.
func (c *conn) look(p []byte) {
	for len(p) > 0 && !c.length.Load() {
		switch {
		case c.matched < 0:
			i := bytes.IndexByte(p, '\n')
			if i < 0 {
				return
			}
			p, c.matched = p[i+1:], 0
		case p[0]|0x20 != lengthField[c.matched]:
			c.matched = -1
		default:
			p = p[1:]
			if c.matched++; c.matched == len(lengthField) {
				c.length.Store(true)
			}
		}
	}
}

type connKey struct{}

func withConn(ctx context.Context, nc net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, nc)
}

// namedLength says whether a request's connection may have named a Content-Length.
func namedLength(r *http.Request) bool {
	c, ok := r.Context().Value(connKey{}).(*conn)
	return !ok || c.length.Load()
}

// plainRefusal follows the status line where net/http answers by itself what it cannot read.
var plainRefusal = []byte("\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n")

// Write says what net/http refuses in the shape of our errors.
func (c *conn) Write(p []byte) (int, error) {
	status, ok := refusedStatus(p)
	if !ok {
		return c.Conn.Write(p)
	}
	message := "the request is no valid HTTP/1.1; look at the client, or at what stands between it and here"
	switch status {
	case http.StatusRequestHeaderFieldsTooLarge:
		message = fmt.Sprintf("the request's header is larger than %d bytes; send fewer or shorter fields", maxHeader)
	case http.StatusNotImplemented:
		message = "the request's Transfer-Encoding is not known here; send it chunked or with a Content-Length"
	}
	return len(p), c.refuse(status, "invalid_request_error", "invalid_request", message)
}

func refusedStatus(p []byte) (status int, ok bool) {
	const line = "HTTP/1.1 "
	if len(p) < len(line)+3 || string(p[:len(line)]) != line || p[len(line)] < '4' {
		return 0, false
	}
	end := bytes.Index(p, []byte("\r\n"))
	if end < 0 || !bytes.HasPrefix(p[end:], plainRefusal) {
		return 0, false
	}
	status, err := strconv.Atoi(string(p[len(line) : len(line)+3]))
	return status, err == nil
}

// refuse answers where there is no request that a handler could answer.
func (c *conn) refuse(status int, kind, code, message string) error {
	body := (&llm.APIError{Status: status, Type: kind, Code: code, Message: message}).AppendOpenAI(nil, nil)
	_, err := fmt.Fprintf(c.Conn, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\nX-Request-Id: %s\r\nConnection: close\r\n\r\n%s",
		status, http.StatusText(status), len(body), newID(), body)
	return err
}

// CloseWrite lets net/http end a connection whose request it did not read to the end so that the
// client still gets the answer.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func noteState(nc net.Conn, s http.ConnState) {
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	switch s {
	case http.StateActive:
		c.serving.Store(true)
	case http.StateIdle:
		c.begun.Store(false)
		c.serving.Store(false)
	}
}
