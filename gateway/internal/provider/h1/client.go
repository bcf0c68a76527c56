// Package h1 is an HTTP/1.1 client for one kind of exchange: a POST whose body is in memory, and an
// answer that is read by the goroutine that asked. net/http's client hands every exchange through two
// more goroutines and keeps every header; doing without costs about half the processor time, which is
// what the gateway's own features live from.
//
// It never sends anything twice, follows no redirect, asks for no coding and uses no proxy.
package h1

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"
)

const (
	maxIdle     = 1024             // connections kept to one origin
	maxHead     = 256 << 10        // bytes of a response's head
	oneWrite    = 64 << 10         // requests up to this size are written by the caller
	readBuffer  = 8 << 10          // of a connection
	maxInterims = 8                // 1xx answers before the real one
	idleFor     = 45 * time.Second // shorter than what servers commonly allow
)

// Client keeps the connections to one origin. It is safe for concurrent use.
type Client struct {
	address string // host:port
	host    string // for the Host header
	tls     *tls.Config
	dialer  *net.Dialer

	mu    sync.Mutex
	idle  []*conn // the one used last stands last
	timer *time.Timer
}

// New returns a client for base's scheme, host and port. The dialer looks at addresses and limits the
// time of a connection attempt; config may be nil.
func New(base *url.URL, config *tls.Config, dialer *net.Dialer) *Client {
	c := &Client{host: base.Host, address: base.Host, dialer: dialer}
	port := "80"
	if base.Scheme == "https" {
		port = "443"
		c.tls = config.Clone()
		if c.tls == nil {
			c.tls = &tls.Config{}
		}
		c.tls.NextProtos = []string{"http/1.1"}
		if c.tls.ClientSessionCache == nil {
			c.tls.ClientSessionCache = tls.NewLRUClientSessionCache(16)
		}
		if c.tls.ServerName == "" {
			c.tls.ServerName = base.Hostname()
		}
	}
	if base.Port() == "" {
		c.address = net.JoinHostPort(base.Hostname(), port)
	}
	return c
}

// conn is a connection; it serves one exchange at a time.
type conn struct {
	net.Conn
	tcp   net.Conn // below TLS
	r     *bufio.Reader
	since time.Time // idle since
	alive func() bool
}

// Post sends one request and reads the head of its answer. connected is called once there is a
// connection, before anything is written to it. The response's Header holds only Content-Encoding,
// Retry-After, Retry-After-Ms and X-Amzn-Errortype; its Body must be closed. When ctx ends, so does everything, Body's
// reads included, with an error of the connection's: the caller knows the cause.
func (c *Client) Post(ctx context.Context, target string, header http.Header, body []byte, connected func(reused bool)) (*http.Response, error) {
	head, err := c.head(target, header, len(body))
	if err != nil {
		return nil, err
	}
	cn, reused, err := c.get(ctx)
	if err != nil {
		return nil, err
	}
	connected(reused)
	x := &exchange{client: c, conn: cn}
	x.detach = context.AfterFunc(ctx, func() { _ = cn.SetDeadline(time.Unix(1, 0)) })
	written := x.write(head, body)
	resp, err := x.read()
	if err != nil {
		unsent := written()
		x.give(false)
		if unsent != nil {
			return nil, fmt.Errorf("sending the request: %w", unsent)
		}
		return nil, fmt.Errorf("reading the head of the answer: %w", err)
	}
	return resp, nil
}

// write sends the request, a large one beside the reading of the answer, since a server may answer (and
// wait for that to be read) before it has read everything. The result is asked for once the answer is.
func (x *exchange) write(head, body []byte) func() error {
	if len(head)+len(body) <= oneWrite {
		_, err := x.conn.Write(append(head, body...))
		return func() error { return err }
	}
	done := make(chan error, 1)
	x.writing = done
	go func() {
		buffers := net.Buffers{head, body}
		_, err := buffers.WriteTo(x.conn.Conn)
		done <- err
	}()
	return func() error {
		select {
		case err := <-done:
			done <- err
			return err
		default:
			return nil
		}
	}
}

// ErrHeader is returned for a header that cannot be sent. Nothing was sent then, nor connected.
var ErrHeader = errors.New("a header value with control characters")

// Sendable returns ErrHeader for a header that Post would not send.
func Sendable(header http.Header) error {
	for name, values := range header {
		for _, value := range values {
			if !printable(name) || !printable(value) {
				return ErrHeader
			}
		}
	}
	return nil
}

// head makes the request's head.
func (c *Client) head(target string, header http.Header, length int) ([]byte, error) {
	if err := Sendable(header); err != nil {
		return nil, err
	}
	b := make([]byte, 0, 512+min(length, oneWrite))
	b = append(b, "POST "...)
	b = append(b, target...)
	b = append(b, " HTTP/1.1\r\nHost: "...)
	b = append(b, c.host...)
	b = append(b, "\r\nContent-Length: "...)
	b = strconv.AppendInt(b, int64(length), 10)
	for name, values := range header {
		for _, value := range values {
			b = append(b, "\r\n"...)
			b = append(b, name...)
			b = append(b, ": "...)
			b = append(b, value...)
		}
	}
	return append(b, "\r\n\r\n"...), nil
}

func printable(s string) bool {
	for i := range len(s) {
		if s[i] < 0x20 && s[i] != '\t' || s[i] == 0x7F {
			return false
		}
	}
	return true
}

// get takes an idle connection, or dials.
func (c *Client) get(ctx context.Context) (cn *conn, reused bool, err error) {
	for {
		c.mu.Lock()
		n := len(c.idle)
		if n == 0 {
			c.mu.Unlock()
			break
		}
		cn := c.idle[n-1]
		c.idle[n-1] = nil
		c.idle = c.idle[:n-1]
		c.mu.Unlock()
		if time.Since(cn.since) < idleFor && cn.r.Buffered() == 0 && cn.alive() {
			return cn, true, nil
		}
		cn.Close()
	}
	tcp, err := c.dialer.DialContext(ctx, "tcp", c.address)
	if err != nil {
		return nil, false, err
	}
	cn = &conn{Conn: tcp, tcp: tcp}
	if c.tls != nil {
		secured := tls.Client(tcp, c.tls)
		if err := secured.HandshakeContext(ctx); err != nil {
			tcp.Close()
			return nil, false, fmt.Errorf("TLS handshake: %w", err)
		}
		cn.Conn = secured
	}
	cn.r = bufio.NewReaderSize(cn.Conn, readBuffer)
	cn.alive = liveness(tcp)
	return cn, false, nil
}

// put keeps a connection for the next exchange.
func (c *Client) put(cn *conn) {
	cn.since = time.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.idle) >= maxIdle {
		cn.Close()
		return
	}
	c.idle = append(c.idle, cn)
	if c.timer == nil {
		c.timer = time.AfterFunc(idleFor, c.prune)
	}
}

// prune closes what was not used for a while.
func (c *Client) prune() {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := 0
	for old < len(c.idle) && time.Since(c.idle[old].since) >= idleFor {
		c.idle[old].Close()
		old++
	}
	c.idle = append(c.idle[:0], c.idle[old:]...)
	if len(c.idle) > 0 && c.timer != nil {
		c.timer.Reset(idleFor)
	} else {
		c.timer = nil
	}
}

// CloseIdle closes all connections that serve no exchange.
func (c *Client) CloseIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, cn := range c.idle {
		cn.Close()
	}
	c.idle = nil
	if c.timer != nil {
		c.timer.Stop()
		c.timer = nil
	}
}
