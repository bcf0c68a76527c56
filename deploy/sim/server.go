package sim

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Options say what to simulate.
type Options struct {
	Seed          uint64
	Providers     []Provider       // none: Default()
	Ledger        string           // a file that keeps the ledger over restarts; empty: memory only
	LedgerEntries int              // kept in memory; 0: 100,000
	Now           func() time.Time // nil: time.Now
}

// Provider is one simulated provider.
type Provider struct {
	ID       string
	Keys     []string // accepted API keys; none: any
	Models   []Model
	Behavior Behavior
}

// Model is what a provider serves under an id.
type Model struct {
	ID        string
	Context   int  // tokens of prompt and answer; 0: no limit
	Reasoning bool // half of an answer is reasoning_content, unless reasoning_effort is none
	Embedding bool
	Price     Price // what Resources says it costs; the simulator itself charges nothing
}

// Price is USD per 1M tokens, as decimals. An empty CachedInput means that cached reads cost as Input.
type Price struct{ Input, CachedInput, Output string }

// Server hosts the providers. It is an http.Handler; Start serves it on a listener of its own.
type Server struct {
	now       func() time.Time
	order     []string
	providers map[string]*provider
	ledger    *ledger
	done      chan struct{} // closed when the server closes: waits end
	closing   sync.Once
	http      *http.Server
	served    chan error
}

type provider struct {
	id      string
	seed    uint64
	hash    uint64
	keys    []string
	models  []Model
	list    []byte // the answer to /models
	initial Behavior
	calls   atomic.Int64
	current atomic.Pointer[state]
	control sync.Mutex // one change at a time
	limiter limiter
}

// state is a behaviour with its cache.
type state struct {
	Behavior
	cache *prefixCache
}

const defaultLedgerEntries = 100_000

// New builds a server. It fails if a provider is wrong or the ledger file cannot be used.
func New(o Options) (*Server, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Providers == nil {
		o.Providers = Default()
	}
	if o.LedgerEntries == 0 {
		o.LedgerEntries = defaultLedgerEntries
	}
	s := &Server{now: o.Now, providers: map[string]*provider{}, done: make(chan struct{})}
	for _, p := range o.Providers {
		if err := p.Behavior.Validate(); err != nil {
			return nil, fmt.Errorf("provider %s: %w", p.ID, err)
		}
		if p.ID == "" || strings.ContainsAny(p.ID, "/ ") || slices.Contains([]string{"control", "ledger", "healthz"}, p.ID) || s.providers[p.ID] != nil {
			return nil, fmt.Errorf("provider id %q: must be unique, one path segment and none of the simulator's own paths", p.ID)
		}
		s.order = append(s.order, p.ID)
		s.providers[p.ID] = newProvider(p, o.Seed)
	}
	ledger, err := openLedger(o.LedgerEntries, o.Ledger)
	if err != nil {
		return nil, err
	}
	s.ledger = ledger
	restored, _ := ledger.since(0)
	for _, e := range restored { // a restarted simulator goes on where its ledger ends
		if p := s.providers[e.Provider]; p != nil {
			p.calls.Store(max(p.calls.Load(), e.Call))
		}
	}
	return s, nil
}

func newProvider(o Provider, seed uint64) *provider {
	p := &provider{id: o.ID, seed: seed, keys: o.Keys, models: o.Models, initial: o.Behavior}
	for _, b := range []byte(o.ID) {
		p.hash = mix(p.hash ^ uint64(b))
	}
	p.list = modelList(o)
	p.current.Store(&state{Behavior: o.Behavior, cache: newPrefixCache(o.Behavior.Cache)})
	return p
}

func modelList(p Provider) []byte {
	type entry struct {
		ID      string `json:"id"`
		Object  string `json:"object"`
		Created int64  `json:"created"`
		OwnedBy string `json:"owned_by"`
	}
	list := struct {
		Object string  `json:"object"`
		Data   []entry `json:"data"`
	}{"list", []entry{}}
	for _, m := range p.Models {
		list.Data = append(list.Data, entry{m.ID, "model", 1767225600, p.ID})
	}
	body, _ := json.Marshal(list) // strings and numbers alone: cannot fail
	return body
}

// Start serves on the listener until Close. It returns at once.
func (s *Server) Start(l net.Listener) {
	s.http = &http.Server{
		Handler:           s,
		ReadHeaderTimeout: 10 * time.Second,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	s.served = make(chan error, 1)
	go func() { s.served <- s.http.Serve(l) }()
}

// Close ends every wait, cuts what is still being answered, closes the listener of Start and the
// ledger. It returns within about two seconds.
func (s *Server) Close() error {
	var err error
	s.closing.Do(func() {
		close(s.done)
		if s.http != nil {
			ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
			defer cancel()
			if s.http.Shutdown(ctx) != nil {
				err = s.http.Close()
			}
			if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
				err = errors.Join(err, served)
			}
		}
		err = errors.Join(err, s.ledger.close())
	})
	return err
}

// Set changes a provider's behaviour by the fields of a JSON object; the others stay. An empty
// change goes back to how the provider started.
func (s *Server) Set(id string, change []byte) error {
	p := s.providers[id]
	if p == nil {
		return fmt.Errorf("unknown provider %q: there are %s", id, strings.Join(s.order, ", "))
	}
	p.control.Lock()
	defer p.control.Unlock()
	was := p.current.Load()
	next := &state{Behavior: p.initial, cache: was.cache}
	if len(change) > 0 {
		b, err := was.Behavior.with(change)
		if err != nil {
			return err
		}
		next.Behavior = b
	}
	if next.Cache != was.Cache {
		next.cache = newPrefixCache(next.Cache)
	}
	p.current.Store(next)
	return nil
}

// Behavior returns a provider's current behaviour, false if there is no such provider.
func (s *Server) Behavior(id string) (Behavior, bool) {
	p := s.providers[id]
	if p == nil {
		return Behavior{}, false
	}
	b := p.current.Load().Behavior
	b.ErrorKinds = slices.Clone(b.ErrorKinds)
	return b, true
}

// Ledger returns the entries above a sequence number that are still held.
func (s *Server) Ledger(since int64) []Entry {
	entries, _ := s.ledger.since(since)
	return entries
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch first {
	case "control":
		s.serveControl(w, r, rest)
		return
	case "ledger":
		s.serveLedger(w, r)
		return
	case "healthz":
		fmt.Fprintln(w, "ok")
		return
	}
	p := s.providers[first]
	if p == nil {
		_ = writeError(w, 404, "invalid_request_error", "not_found", fmt.Sprintf("unknown path %q: providers here are %s", r.URL.Path, strings.Join(s.order, ", ")))
		return
	}
	switch {
	case rest == "v1/models" && r.Method == http.MethodGet:
		_ = writeJSON(w, 200, p.list)
	case rest == "v1/chat/completions" && r.Method == http.MethodPost:
		s.serveCall(w, r, p, "chat")
	case rest == "v1/embeddings" && r.Method == http.MethodPost:
		s.serveCall(w, r, p, "embeddings")
	default:
		_ = writeError(w, 404, "invalid_request_error", "not_found", fmt.Sprintf("no %s %q: use POST v1/chat/completions, POST v1/embeddings or GET v1/models", r.Method, r.URL.Path))
	}
}
