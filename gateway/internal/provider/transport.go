package provider

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"

	"turnout/gateway/internal/provider/h1"
	"turnout/schemas/resource"
)

// Connection pools: how many idle connections a provider keeps, and for how long. Shorter than what
// servers commonly allow, so that a call seldom meets one that is being closed.
const (
	idlePerProvider = 1024
	idleFor         = 45 * time.Second
	defaultConnect  = 10 * time.Second
	maxHeaderBytes  = 256 << 10
)

// Transports keeps one connection pool a provider and setting. It follows no redirects, uses no proxy,
// asks for no compression, and looks at addresses when it dials. The zero value is not usable.
type Transports struct {
	tls  *tls.Config // nil: the system's roots
	mu   sync.RWMutex
	pool map[poolKey]*Route
}

type poolKey struct {
	provider, base      string
	http2, allowPrivate bool
	connect             time.Duration
}

// Route is where a target's calls go: HTTP/1.1 through a client of our own, HTTP/2 through net/http.
type Route struct {
	base *url.URL
	one  *h1.Client
	two  *http.Transport

	mu   sync.RWMutex
	urls map[string]endpoint
}

type endpoint struct {
	url    *url.URL
	target string // as it stands in an HTTP/1.1 request line
}

// NewTransports returns an empty set. config may be nil.
func NewTransports(config *tls.Config) *Transports {
	return &Transports{tls: config, pool: map[poolKey]*Route{}}
}

// Route returns the target's pool, made on first use.
func (t *Transports) Route(target *Target, connect time.Duration) (*Route, error) {
	if connect <= 0 {
		connect = defaultConnect
	}
	key := poolKey{target.Provider, target.BaseURL, target.HTTP2, target.AllowPrivate, connect}
	t.mu.RLock()
	route := t.pool[key]
	t.mu.RUnlock()
	if route != nil {
		return route, nil
	}
	base, err := url.Parse(target.BaseURL)
	if err != nil || base.Host == "" || base.Scheme != "http" && base.Scheme != "https" {
		return nil, fmt.Errorf("base_url of provider %s is no http or https address", target.Provider)
	}
	if base.Path == "" {
		base.Path = "/" // else JoinPath makes paths that do not begin with one
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if route = t.pool[key]; route == nil {
		route = &Route{base: base, urls: map[string]endpoint{}}
		dialer := &net.Dialer{Timeout: key.connect, KeepAlive: 15 * time.Second, Control: guard(key.allowPrivate)}
		if key.http2 {
			route.two = t.transport(key, base.Scheme, dialer)
		} else {
			route.one = h1.New(base, t.tls, dialer)
		}
		t.pool[key] = route
	}
	return route, nil
}

// Post sends one request to a path below the base URL and returns once the response's header is there.
// connected is called once there is a connection, before anything is sent on it. Nothing is ever sent
// twice. The body must not change until the response's body was closed.
func (r *Route) Post(w *Watch, path string, header http.Header, body []byte, connected func(reused bool)) (*http.Response, error) {
	at := r.endpoint(path)
	if r.one != nil {
		return r.one.Post(w.Context(), at.target, header, body, connected)
	}
	if err := h1.Sendable(header); err != nil {
		return nil, err
	}
	trace := &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { connected(info.Reused) }}
	// A reader that net/http knows goes out in one write with the header, and no GetBody is made of it.
	req := (&http.Request{
		Method: http.MethodPost, URL: at.url, Host: at.url.Host, Header: header,
		Body: io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}).WithContext(httptrace.WithClientTrace(w.Context(), trace))
	return r.two.RoundTrip(req)
}

// URL is where a path below the base URL leads. It must not be changed.
func (r *Route) URL(path string) *url.URL { return r.endpoint(path).url }

func (r *Route) endpoint(key string) endpoint {
	r.mu.RLock()
	e, ok := r.urls[key]
	r.mu.RUnlock()
	if !ok {
		path, query, _ := strings.Cut(key, "?")
		u := r.base.JoinPath(path)
		u.RawQuery = query
		e = endpoint{u, u.RequestURI()}
		r.mu.Lock()
		r.urls[key] = e
		r.mu.Unlock()
	}
	return e
}

// CloseIdle closes connections that serve no call.
func (t *Transports) CloseIdle() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, route := range t.pool {
		if route.one != nil {
			route.one.CloseIdle()
		} else {
			route.two.CloseIdleConnections()
		}
	}
}

// transport is for http: 2; a server that does not speak it over TLS is spoken to in HTTP/1.1.
func (t *Transports) transport(key poolKey, scheme string, dialer *net.Dialer) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(scheme == "https")
	protocols.SetHTTP2(scheme == "https")
	protocols.SetUnencryptedHTTP2(scheme == "http")
	return &http.Transport{
		DialContext:            dialer.DialContext,
		TLSClientConfig:        t.tls.Clone(),
		TLSHandshakeTimeout:    key.connect,
		DisableCompression:     true,
		MaxIdleConnsPerHost:    idlePerProvider,
		IdleConnTimeout:        idleFor,
		MaxResponseHeaderBytes: maxHeaderBytes,
		Protocols:              protocols,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: 30 * time.Second, PingTimeout: 15 * time.Second},
	}
}

// ErrForbiddenAddress is returned for a base URL that leads where no provider may be.
type ErrForbiddenAddress struct{ Addr netip.Addr }

func (e *ErrForbiddenAddress) Error() string {
	return "the address " + e.Addr.String() + " is forbidden for providers: link-local and metadata addresses always are, loopback and private ones without allow_private: true"
}

// guard looks at each address as it is dialled, behind name resolution.
func guard(allowPrivate bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("checking the address %s: %w", address, err)
		}
		if resource.CheckAddr(at.Addr(), allowPrivate) != nil {
			return &ErrForbiddenAddress{at.Addr()}
		}
		return nil
	}
}
