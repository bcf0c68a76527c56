package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"turnout/gateway/internal/dispatch"
	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

func (a *API) chat(c echo.Context) error       { return a.serve(c, attempt.EndpointChat) }
func (a *API) embeddings(c echo.Context) error { return a.serve(c, attempt.EndpointEmbeddings) }
func (a *API) responses(c echo.Context) error  { return a.serve(c, attempt.EndpointResponses) }
func (a *API) messages(c echo.Context) error   { return a.serve(c, attempt.EndpointMessages) }

// serve answers a request of one surface.
func (a *API) serve(c echo.Context, endpoint string) error {
	began := time.Now()
	r, w := c.Request(), c.Response()
	if failed := a.admit(r); failed != nil {
		a.cfg.Observe(endpoint, failed.Status, time.Since(began))
		return a.turnAway(c, failed)
	}
	defer a.inFlight.Add(-1)
	body, failed := a.readBody(w.Writer, r)
	if failed != nil {
		a.cfg.Observe(endpoint, failed.Status, time.Since(began))
		a.refuseBody(c, failed)
		return nil
	}
	reply := newReply(w, &a.cfg, began)
	reply.dialect = dialectOf(endpoint)
	req := dispatch.Request{
		ID: requestID(w.Header()), Endpoint: endpoint, Token: token(r.Header), Header: r.Header, Body: body, ReadAt: time.Now(),
		Explain: r.Header.Get("X-Turnout-Explain") == "true", Quiet: r.Header.Get("X-Turnout-Metadata") == "off",
	}
	defer reply.end() // also when Serve panics: no heartbeat may outlive the handler
	a.dispatch.Serve(r.Context(), &req, reply)
	status := w.Status
	if !w.Committed {
		status = statusGone
	}
	a.cfg.Observe(endpoint, status, time.Since(began))
	return nil
}

// admit counts a request as one in flight if its body may be read: nobody without a key makes the
// gateway keep or inflate anything.
func (a *API) admit(r *http.Request) (failed *llm.APIError) {
	defer func() {
		if failed != nil {
			a.inFlight.Add(-1)
		}
	}()
	if a.inFlight.Add(1) > int64(a.cfg.MaxInFlight) {
		return &llm.APIError{Status: http.StatusServiceUnavailable, Type: "api_error", Code: "overloaded", RetryAfter: time.Second,
			Message: "the gateway serves as many requests as max_in_flight allows; try again in a moment"}
	}
	_, _, failed = a.dispatch.Access(token(r.Header))
	return failed
}

// countTokens answers by the gateway's own estimate.
func (a *API) countTokens(c echo.Context) error {
	began := time.Now()
	r, w := c.Request(), c.Response()
	status := http.StatusOK
	defer func() { a.cfg.Observe("count_tokens", status, time.Since(began)) }()
	if failed := a.admit(r); failed != nil {
		status = failed.Status
		return a.turnAway(c, failed)
	}
	defer a.inFlight.Add(-1)
	body, failed := a.readBody(w.Writer, r)
	if failed != nil {
		status = failed.Status
		a.refuseBody(c, failed)
		return nil
	}
	n, failed := a.dispatch.Count(token(r.Header), body)
	if failed != nil {
		status = failed.Status
		return failed
	}
	a.bound(c)
	return c.JSON(http.StatusOK, map[string]int64{"input_tokens": n})
}

// statusGone counts requests whose client left before there was an answer.
const statusGone = 499

// token takes what OpenAI's clients send and what Anthropic's do.
func token(h http.Header) string {
	if auth := h.Get("Authorization"); auth != "" {
		if len(auth) > 7 && strings.EqualFold(auth[:7], "bearer ") {
			return strings.TrimSpace(auth[7:])
		}
		return ""
	}
	return h.Get("X-Api-Key")
}
