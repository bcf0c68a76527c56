package httpapi

import (
	"net/http"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"turnout/gateway/internal/dispatch"
	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

func (a *API) chat(c echo.Context) error {
	began := time.Now()
	r, w := c.Request(), c.Response()
	id := uuid.Must(uuid.NewV7()).String()
	w.Header()["X-Request-Id"] = []string{id}

	defer a.inFlight.Add(-1)
	if a.inFlight.Add(1) > int64(a.cfg.MaxInFlight) {
		a.cfg.Observe("chat", http.StatusServiceUnavailable, time.Since(began))
		return &llm.APIError{Status: http.StatusServiceUnavailable, Type: "api_error", Code: "overloaded", RetryAfter: time.Second,
			Message: "the gateway serves as many requests as max_in_flight allows; try again in a moment"}
	}
	body, failed := a.readBody(w.Writer, r)
	if failed != nil {
		a.cfg.Observe("chat", failed.Status, time.Since(began))
		// What is left of the body would be read as the next request.
		w.Header().Set("Connection", "close")
		return failed
	}
	reply := newReply(w, &a.cfg, began)
	req := dispatch.Request{
		ID: id, Endpoint: attempt.EndpointChat, Token: token(r.Header), Header: r.Header, Body: body, ReadAt: time.Now(),
		Explain: r.Header.Get("X-Turnout-Explain") == "true", Quiet: r.Header.Get("X-Turnout-Metadata") == "off",
	}
	defer reply.end() // also when Serve panics: no heartbeat may outlive the handler
	a.dispatch.Serve(r.Context(), &req, reply)
	status := w.Status
	if !w.Committed {
		status = statusGone
	}
	a.cfg.Observe("chat", status, time.Since(began))
	return nil
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
