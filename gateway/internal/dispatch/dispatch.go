package dispatch

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"turnout/gateway/internal/emit"
	"turnout/gateway/internal/poll"
	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/state"
	"turnout/gateway/internal/tenant"
	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

// Tenants is who may use the gateway and with what.
type Tenants interface {
	// Current returns the configuration in force, nil before the first was read. It never blocks.
	Current() *tenant.View
}

// Events is the log of what happened. Its methods block for the local disk at most.
type Events interface {
	// Start records that a call is about to leave. An error means that it must not.
	Start(e *attempt.Event) (emit.Ticket, error)
	// Finish records the end of a call. It never fails the caller.
	Finish(t emit.Ticket, e *attempt.Event)
	// Refuse records a decision that made no call.
	Refuse(e *attempt.Refused)
}

// Config of a Dispatcher.
type Config struct {
	NodeID string
	// Exploration replaces the projects' exploration rate under every strategy; nil: it does not.
	Exploration *float64
	// AutoModels are what the model auto chooses from, as far as the catalogue has them.
	AutoModels []string
	Log        *slog.Logger
	// Observe is told of each finished attempt; it must not block nor keep the event. nil: nobody asks.
	Observe func(e *attempt.Event)
}

// Dispatcher serves requests. Its methods may be called concurrently.
type Dispatcher struct {
	cfg      Config
	tenants  Tenants
	events   Events
	state    *state.Store
	metrics  *poll.Poller
	adapters map[string]provider.Adapter // by protocol

	plans    atomic.Pointer[plans]
	planning sync.Mutex // one goroutine replaces plans
	runs     sync.Pool
	turn     atomic.Uint64 // rotates keys
}

// New returns a dispatcher; adapters are by the protocol of providers.
func New(cfg Config, t Tenants, e Events, s *state.Store, p *poll.Poller, adapters map[string]provider.Adapter) *Dispatcher {
	d := &Dispatcher{cfg: cfg, tenants: t, events: e, state: s, metrics: p, adapters: adapters}
	d.runs.New = func() any { return new(run) }
	return d
}

// Access finds what a token opens, or says why it opens nothing.
func (d *Dispatcher) Access(token string) (*tenant.View, *tenant.Access, *llm.APIError) {
	view := d.tenants.Current()
	if view == nil {
		return nil, nil, &llm.APIError{Status: 503, Type: "api_error", Code: "not_ready", RetryAfter: time.Second,
			Message: "the gateway has no resources yet; see /readyz"}
	}
	if token == "" {
		return nil, nil, unauthorized("no API key was sent; send one as `Authorization: Bearer to-...` or `x-api-key: to-...`")
	}
	access, ok := view.Access(token)
	if !ok {
		return nil, nil, unauthorized("the API key is not known here; check it, or ask for one")
	}
	if access.Key.Revoked {
		return nil, nil, unauthorized("the API key " + access.Key.ID + " was revoked; ask for another")
	}
	if why := access.Project.Refused; why != "" {
		return nil, nil, &llm.APIError{Status: 403, Type: "permission_error", Code: "project_refused", Message: "the project " + access.Project.ID + " is not served: " + why}
	}
	return view, access, nil
}

func unauthorized(message string) *llm.APIError {
	return &llm.APIError{Status: 401, Type: "authentication_error", Code: "invalid_api_key", Message: message}
}

// Serve answers a request. It blocks until that has ended, and ends at once when ctx is canceled.
func (d *Dispatcher) Serve(ctx context.Context, req *Request, reply Reply) {
	r := d.runs.Get().(*run)
	r.d, r.req, r.reply = d, req, reply
	r.serve(ctx)
	r.reset()
	d.runs.Put(r)
}
