package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/labstack/echo/v4"

	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

const typeJSON = "application/json"

// fail is where every error of a handler becomes an answer. Those of ours are *llm.APIError; the rest
// is Echo's about routes, or a mistake of ours.
func (a *API) fail(err error, c echo.Context) {
	if c.Response().Committed {
		return
	}
	a.bound(c)
	refuse(c, a.mapped(err, c))
}

// refuse answers in the dialect of the path.
func refuse(c echo.Context, e *llm.APIError) {
	d := openAI
	if strings.HasPrefix(c.Request().URL.Path, "/v1/messages") {
		d = anthropic
	}
	writeError(c.Response(), e, nil, d)
}

func (a *API) mapped(err error, c echo.Context) *llm.APIError {
	if e := (*llm.APIError)(nil); errors.As(err, &e) {
		return e
	}
	r := c.Request()
	if he := (*echo.HTTPError)(nil); errors.As(err, &he) {
		switch he.Code {
		case http.StatusNotFound:
			return invalid(http.StatusNotFound, "not_found",
				fmt.Sprintf("there is no %s here; see %s", cut(r.URL.Path, 128), a.paths))
		case http.StatusMethodNotAllowed:
			return invalid(http.StatusMethodNotAllowed, "method_not_allowed",
				fmt.Sprintf("%s does not take %s; it takes %s", cut(r.URL.Path, 128), cut(r.Method, 16), c.Response().Header().Get(echo.HeaderAllow)))
		}
	}
	a.cfg.Log.Error("request failed", "path", c.Path(), "error", err)
	return &llm.APIError{Status: http.StatusInternalServerError, Type: "api_error", Code: "internal_error",
		Message: "the gateway made a mistake; its log says more under this request's id"}
}

// dialect is how a surface writes its errors.
type dialect uint8

const (
	openAI dialect = iota
	anthropic
	responses // OpenAI's, but for the event in a stream
)

func dialectOf(endpoint string) dialect {
	switch endpoint {
	case attempt.EndpointMessages:
		return anthropic
	case attempt.EndpointResponses:
		return responses
	}
	return openAI
}

// appendError appends the error in the dialect of the surface.
func appendError(b []byte, w http.ResponseWriter, e *llm.APIError, extra []byte, d dialect) []byte {
	if d == anthropic {
		return e.AppendAnthropic(b, w.Header().Get("X-Request-Id"), extra)
	}
	return e.AppendOpenAI(b, extra)
}

func writeError(w http.ResponseWriter, e *llm.APIError, extra []byte, d dialect) {
	body := appendError(make([]byte, 0, 512+len(extra)), w, e, extra, d)
	h := w.Header()
	h.Set("Content-Type", typeJSON)
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if e.RetryAfter > 0 {
		seconds := int64((e.RetryAfter + time.Second - 1) / time.Second)
		h.Set("Retry-After", strconv.FormatInt(seconds, 10))
	}
	w.WriteHeader(e.Status)
	_, _ = w.Write(body)
}
