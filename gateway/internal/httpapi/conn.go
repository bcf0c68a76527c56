package httpapi

import (
	"errors"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"
)

const slowHeaderBody = `{"error":{"message":"the request's header did not arrive in time; send it again, or look at the network in between","type":"timeout_error","param":null,"code":"timeout"}}`

var slowHeader = []byte("HTTP/1.1 408 Request Timeout\r\nContent-Type: application/json\r\nContent-Length: " +
	strconv.Itoa(len(slowHeaderBody)) + "\r\nConnection: close\r\n\r\n" + slowHeaderBody)

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
	return &conn{Conn: c, limits: l.limits}, nil
}

// conn answers a header that came too slowly. net/http reports its phase through noteState.
type conn struct {
	net.Conn
	limits  Limits
	serving atomic.Bool // a header was read and its answer is not complete
	begun   atomic.Bool // bytes came since the last answer
	used    atomic.Bool // bytes came at all
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
	if n > 0 && !c.begun.Load() {
		c.begun.Store(true)
		if !c.used.Swap(true) && err == nil {
			err = c.Conn.SetReadDeadline(time.Now().Add(c.limits.Header)) // of the rest of the header
		}
	}
	if err != nil && errors.Is(err, os.ErrDeadlineExceeded) && c.begun.Load() && !c.serving.Load() {
		_, _ = c.Conn.Write(slowHeader)
	}
	return n, err
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
