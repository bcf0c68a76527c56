package dispatch

import (
	"context"
	"net/http"
	"slices"
	"time"

	"turnout/gateway/catalog"
	"turnout/gateway/internal/poll"
	"turnout/gateway/internal/state"
	"turnout/gateway/internal/tenant"
	"turnout/gateway/llm"
	"turnout/gateway/routing"
	"turnout/schemas/attempt"
)

// gatewayTimeout bounds a whole request, all attempts and waits together (routing.md 6).
const gatewayTimeout = 25 * time.Minute

// run is one request on its way. Runs are used again; reset forgets what the request brought.
type run struct {
	d     *Dispatcher
	req   *Request
	reply Reply

	view     *tenant.View
	plans    *plans
	access   *tenant.Access
	facts    *llm.Facts // not used again: an adapter that was canceled may still read it
	resolved catalog.Result
	strategy string
	session  string // hash of the session's id
	pinKey   string
	noFall   bool
	begun    bool // output has gone to the client: nobody else may go on from there
	client   string
	coding   string
	traceID  string
	sayable  bool // the body was found to be translatable

	plan    *plan
	reading *poll.Reading
	in      routing.Input
	first   routing.Decision // the first attempt's
	next    routing.Decision // a later attempt's
	// redecided: the first choice could not be called after all, so that next is the first attempt's.
	redecided bool
	retry     routing.Retry
	options   options              // auto: what the other models would have been
	seen      []attempt.Considered // what the first decision saw; the log's too, so never changed
	total     int                  // of a refusal: how many there were, of whom seen may be a part

	deadline time.Time // of the whole request; attempts and waits are cut to it, which is cheaper than a context of its own
	calls    []call    // made so far
	meta     []byte
	held     []byte         // the end of a stream, until the attempt is recorded
	event    *attempt.Event // of the attempt under way or the last one; the log's once it has ended
	upUS     int64          // spent in attempts and waits
}

func (r *run) reset() {
	*r = run{
		in:    routing.Input{Candidates: r.in.Candidates[:0]},
		first: r.first, next: r.next,
		retry:   routing.Retry{Tried: r.retry.Tried[:0]},
		options: r.options[:0],
		calls:   r.calls[:0], meta: r.meta[:0], held: r.held[:0],
	}
	if cap(r.held) > 1<<20 {
		r.held = nil
	}
}

func (r *run) serve(ctx context.Context) {
	if failed := r.identify(); failed != nil {
		r.reply.Fail(failed, r.extra())
		return
	}
	if failed := r.decide(); failed != nil {
		r.refuse(failed)
		return
	}
	if r.facts.Stream {
		r.reply.Streaming()
	}
	limit := gatewayTimeout
	if own := r.access.Project.Routing.Timeouts.Gateway; own > 0 {
		limit = min(limit, own)
	}
	r.deadline = r.req.ReadAt.Add(limit)
	r.attempts(ctx)
}

var parsers = map[string]func([]byte) (*llm.Facts, *llm.APIError){
	attempt.EndpointMessages: llm.ParseMessages, attempt.EndpointResponses: llm.ParseResponses, attempt.EndpointEmbeddings: llm.ParseEmbeddings,
}

// embeds says whether the request is for embeddings.
func (r *run) embeds() bool { return r.req.Endpoint == attempt.EndpointEmbeddings }

// identify finds out who asks, and what.
func (r *run) identify() *llm.APIError {
	view, access, failed := r.d.Access(r.req.Token)
	if failed != nil {
		return failed
	}
	r.view, r.access, r.plans = view, access, r.d.plansOf(view)
	parse := parsers[r.req.Endpoint]
	if parse == nil {
		parse = llm.ParseChat
	}
	r.facts, failed = parse(r.req.Body)
	return failed
}

// decide chooses where the first attempt goes, or says why there is nowhere.
func (r *run) decide() *llm.APIError {
	h := r.req.Header
	p := r.access.Project
	r.noFall = h.Get("X-No-Fallback") == "true"
	r.coding = llm.CodingClient(h.Get)
	r.client = product(h.Get("User-Agent"))
	if p.Routing.Session.Enabled {
		if id := llm.SessionKey(h.Get, r.facts, p.Routing.Session.UseUserField); id != "" {
			r.session = r.d.state.SessionHash(p.Organization.ID, id)
		}
	}
	now := r.d.metrics.Now()
	var unknown *catalog.Error
	r.resolved, unknown = r.view.Catalog.Resolve(r.facts.Model, catalog.Query{
		Organization: p.Organization.ID, Publisher: p.ModelIDs == "publisher", Now: now,
	})
	if unknown != nil {
		return &llm.APIError{Status: unknown.Status, Type: "invalid_request_error", Code: unknown.Code, Param: unknown.Param, Message: unknown.Message}
	}
	if failed := r.wrongOutput(); failed != nil {
		return failed
	}
	r.strategy = p.DefaultStrategy
	if r.facts.Routing != "" {
		r.strategy = r.facts.Routing
	}
	if r.resolved.Strategy != "" {
		r.strategy = r.resolved.Strategy
	}
	if r.strategy == "" {
		r.strategy = "auto"
	}
	r.fillRequest()
	r.bind()
	if r.resolved.Auto {
		if failed := r.chooseModel(now); failed != nil {
			return failed
		}
	} else {
		r.prepare(r.plans.get(p, r.resolved.Model, r.req.Endpoint), now)
		routing.Decide(&r.in, &r.first)
	}
	if r.first.Selected < 0 {
		return r.nobody(&r.first)
	}
	r.remember()
	return nil
}

// wrongOutput refuses a model that does not make what the surface is for.
func (r *run) wrongOutput() *llm.APIError {
	m := r.resolved.Model
	e := &llm.APIError{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: routing.ErrNoProvider, Param: "model"}
	switch {
	case m == nil && r.embeds():
		e.Message = "auto chooses among models that make text; name a model whose output is embedding"
	case m == nil:
		return nil
	case r.embeds() && !slices.Contains(m.Output, "embedding"):
		e.Message = "the model " + m.ID + " makes no embeddings; name a model whose output is embedding"
	case !r.embeds() && slices.Contains(m.Output, "embedding") && !slices.Contains(m.Output, "text"):
		e.Message = "the model " + m.ID + " makes embeddings, not text; name a model whose output is text"
	default:
		return nil
	}
	return e
}

// nobody turns a decision without a choice into what the client is told.
func (r *run) nobody(d *routing.Decision) *llm.APIError {
	e := &llm.APIError{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: d.Error.Code, Message: d.Error.Message}
	switch d.Error.Code {
	case routing.ErrRateLimited, routing.ErrAllLimited:
		e.Status, e.Type = http.StatusTooManyRequests, "rate_limit_error"
		e.RetryAfter = time.Duration(d.Error.RetryAfterMS) * time.Millisecond
		if e.RetryAfter <= 0 && d.Error.Code == routing.ErrAllLimited {
			e.RetryAfter = state.DefaultCooldownBase
		}
	case routing.ErrNotAllowed, routing.ErrRegionUnavailable:
		e.Status, e.Type = http.StatusForbidden, "permission_error"
	case routing.ErrProvidersUnavailable, routing.ErrReasoningProvider:
		e.Status, e.Type = http.StatusServiceUnavailable, "api_error"
	case routing.ErrModelRetired:
		e.Status = http.StatusGone
	case routing.ErrInvalidValue:
		e.Param = "routing"
	default:
		e.Param = "model"
	}
	return e
}

// remember stores what the decision says is to be stored: pins and preferences.
func (r *run) remember() {
	d := &r.first
	if d.Update == routing.UpdateNothing {
		return
	}
	c := &r.in.Candidates[d.Selected]
	place := state.Place{Provider: c.Provider, Region: c.Region}
	ttl := time.Duration(d.TTLSeconds) * time.Second
	if d.Update == routing.UpdatePin {
		if r.resolved.Auto {
			place.Model = c.Model
		}
		r.d.state.Pin(r.pinKey, place, ttl)
		return
	}
	r.d.state.Prefer(r.plan.preferences[r.in.Request.Strategy], place, ttl)
}

// refuse ends a request that makes no call: the client is told, and the log too.
func (r *run) refuse(failed *llm.APIError) {
	e := attempt.Refused{
		SchemaVersion: attempt.SchemaVersion, EventID: newID(), RequestID: r.req.ID, ClientRequestID: clientRequestID(r.req.Header),
		NodeID: r.d.cfg.NodeID, OrganizationID: r.access.Organization.ID, ProjectID: r.access.Project.ID, APIKeyID: r.access.Key.ID,
		SessionHash: r.session, RequestedModel: cut(r.facts.Model, 256), RequestedProvider: r.resolved.Provider, Endpoint: r.req.Endpoint,
		Stream: r.facts.Stream, PromptTokensEstimate: r.facts.PromptTokens(), Strategy: r.strategy,
		ConfigVersion: r.access.Project.ConfigVersion, PriceVersion: r.view.PriceVersion,
		MaxTokens: r.facts.MaxTokens, Traits: r.traits(r.plan != nil && r.plan.model.ReasoningBound, r.in.Request.ServiceTier), NoFallback: r.noFall,
		At: r.d.metrics.Now().UTC(), StatusCode: failed.Status, ErrorCode: failed.Code,
	}
	if r.reading != nil {
		e.SnapshotID = r.reading.SnapshotID
	}
	if failed.Code != "model_not_found" { // that message holds the client's text
		e.ErrorMessage = failed.Message
	}
	if r.plan != nil {
		r.seen, r.total = r.first.Considered(&r.in, nil), len(r.in.Candidates)
	}
	e.Considered, e.ConsideredTotal = r.seen, r.total
	r.d.events.Refuse(&e)
	r.reply.Fail(failed, r.extra())
}

func product(agent string) string {
	for i := range len(agent) {
		if agent[i] == ' ' {
			agent = agent[:i]
			break
		}
	}
	return cut(agent, 64)
}

func cut(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}

func clientRequestID(h http.Header) string { return cut(h.Get("X-Request-Id"), 128) }

// snapshotAge is how old the metrics are that the request was routed by; ok is false without any.
func (r *run) snapshotAge(now time.Time) (age time.Duration, ok bool) {
	if r.reading == nil || r.reading.SnapshotID == "" {
		return 0, false
	}
	return max(now.Sub(r.reading.AsOf), 0), true
}
