package provider

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"sync"
	"syscall"
	"time"
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

// Route is where a target's calls go.
type Route struct {
	Base      *url.URL
	Transport *http.Transport

	mu   sync.RWMutex
	urls map[string]*url.URL
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
	t.mu.Lock()
	defer t.mu.Unlock()
	if route = t.pool[key]; route == nil {
		route = &Route{Base: base, Transport: t.transport(key, base.Scheme), urls: map[string]*url.URL{}}
		t.pool[key] = route
	}
	return route, nil
}

// URL is an endpoint below the base URL; it must not be changed.
func (r *Route) URL(path string) *url.URL {
	r.mu.RLock()
	u := r.urls[path]
	r.mu.RUnlock()
	if u == nil {
		u = r.Base.JoinPath(path)
		r.mu.Lock()
		r.urls[path] = u
		r.mu.Unlock()
	}
	return u
}

// CloseIdle closes connections that serve no call.
func (t *Transports) CloseIdle() {
	t.mu.RLock()
	defer t.mu.RUnlock()
	for _, route := range t.pool {
		route.Transport.CloseIdleConnections()
	}
}

func (t *Transports) transport(key poolKey, scheme string) *http.Transport {
	dialer := &net.Dialer{Timeout: key.connect, KeepAlive: 15 * time.Second, Control: guard(key.allowPrivate)}
	protocols := new(http.Protocols)
	protocols.SetHTTP1(!key.http2 || scheme == "https")
	protocols.SetHTTP2(key.http2 && scheme == "https")
	protocols.SetUnencryptedHTTP2(key.http2 && scheme == "http")
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

// metadata are addresses of cloud metadata services that are neither link-local nor always private.
var metadata = []netip.Addr{
	netip.MustParseAddr("100.100.100.200"), // Alibaba
	netip.MustParseAddr("192.0.0.192"),     // Oracle
	netip.MustParseAddr("168.63.129.16"),   // Azure
	netip.MustParseAddr("fd00:ec2::254"),   // Amazon
}

// ErrForbiddenAddress is returned for a base URL that leads where no provider may be.
type ErrForbiddenAddress struct{ Addr netip.Addr }

func (e *ErrForbiddenAddress) Error() string {
	return "the address " + e.Addr.String() + " is forbidden for providers: link-local and metadata addresses always are, loopback and private ones without allow_private: true"
}

// Allowed says whether a provider may live at addr.
func Allowed(addr netip.Addr, allowPrivate bool) bool {
	addr = addr.Unmap()
	if addr.IsLinkLocalUnicast() || addr.IsMulticast() {
		return false
	}
	for _, m := range metadata {
		if addr == m {
			return false
		}
	}
	return allowPrivate || !addr.IsLoopback() && !addr.IsPrivate() && !addr.IsUnspecified() && !carrier.Contains(addr)
}

// carrier is the shared address space of RFC 6598: as private as the others.
var carrier = netip.MustParsePrefix("100.64.0.0/10")

// guard looks at each address as it is dialled, behind name resolution.
func guard(allowPrivate bool) func(network, address string, _ syscall.RawConn) error {
	return func(_, address string, _ syscall.RawConn) error {
		at, err := netip.ParseAddrPort(address)
		if err != nil {
			return fmt.Errorf("checking the address %s: %w", address, err)
		}
		if !Allowed(at.Addr().WithZone(""), allowPrivate) {
			return &ErrForbiddenAddress{at.Addr()}
		}
		return nil
	}
}
