package httpapi

import (
	"context"
	"crypto/subtle"
	"errors"
	"log/slog"
	"net/http"

	"github.com/labstack/echo/v4"

	"turnout/gateway/llm"
)

// ErrUnknown says that nothing is known of what was asked for.
var ErrUnknown = errors.New("unknown")

// Admin answers the host's questions.
type Admin interface {
	// Health describes the node and the providers' keys; it never blocks.
	Health() any
	// Decision returns what is stored of a request's decisions and attempts, ErrUnknown if nothing is.
	// It asks ClickHouse.
	Decision(ctx context.Context, requestID string) (any, error)
}

// NewAdmin returns the host's surface as a server. token "" means that none is asked for.
func NewAdmin(admin Admin, metrics http.Handler, token string, log *slog.Logger) *http.Server {
	a := &API{cfg: Config{Log: log, Limits: DefaultLimits()}, paths: "GET /metrics, /admin/v1/health and /admin/v1/decisions/REQUEST_ID"}
	e := newEcho(log)
	e.HTTPErrorHandler = a.fail
	e.Use(identified, a.recovered)
	guard := func(next echo.HandlerFunc) echo.HandlerFunc {
		return func(c echo.Context) error {
			if token != "" && subtle.ConstantTimeCompare([]byte(bearer(c.Request())), []byte(token)) != 1 {
				return &llm.APIError{Status: http.StatusUnauthorized, Type: "authentication_error", Code: "invalid_api_key",
					Message: "the admin address wants its admin_token: send it as `Authorization: Bearer ...`"}
			}
			return next(c)
		}
	}
	e.GET("/metrics", guard(echo.WrapHandler(metrics)))
	e.GET("/admin/v1/health", guard(func(c echo.Context) error { return c.JSON(http.StatusOK, admin.Health()) }))
	e.GET("/admin/v1/decisions/:id", guard(func(c echo.Context) error {
		found, err := admin.Decision(c.Request().Context(), c.Param("id"))
		if errors.Is(err, ErrUnknown) {
			return invalid(http.StatusNotFound, "not_found", "nothing is stored of request "+cut(c.Param("id"), 64)+"; events arrive within some seconds")
		}
		if err != nil {
			log.Warn("reading a decision failed", "error", err)
			return &llm.APIError{Status: http.StatusServiceUnavailable, Type: "api_error", Code: "not_ready", Message: "ClickHouse does not answer; try again"}
		}
		return c.JSON(http.StatusOK, found)
	}))
	return newServer(e, DefaultLimits(), log)
}

func bearer(r *http.Request) string { return token(r.Header) }
