// Package httpapi is the gateway's HTTP surface: routes, reading requests, writing answers and errors
// in the clients' dialects. It is the only package that knows Echo.
package httpapi

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/labstack/echo/v4"

	"turnout/gateway/internal/dispatch"
	"turnout/gateway/internal/tenant"
	"turnout/gateway/llm"
)

const maxHeader = 64 << 10

// Limits are how long a client may take; they are no settings (api.md).
type Limits struct {
	Header time.Duration // for the request's header: 408
	Body   time.Duration // without a byte of the body: 408
	Client time.Duration // without taking a byte of the answer: the client is gone
	Idle   time.Duration // without a request, or before the first: the connection is closed
}

// DefaultLimits are those of api.md.
func DefaultLimits() Limits {
	return Limits{Header: 10 * time.Second, Body: 60 * time.Second, Client: 60 * time.Second, Idle: 3 * time.Minute}
}

// Dispatcher serves requests.
type Dispatcher interface {
	// Serve answers req through reply; it blocks until the request has ended and returns at once
	// after ctx was canceled. It may be called concurrently.
	Serve(ctx context.Context, req *dispatch.Request, reply dispatch.Reply)
	// Access finds what a token opens, or the refusal.
	Access(token string) (*tenant.View, *tenant.Access, *llm.APIError)
	// Count estimates the input tokens of a Messages request, or says why it cannot.
	Count(token string, body []byte) (int64, *llm.APIError)
}

// Config of the surface.
type Config struct {
	Limits         Limits
	MaxBodyBytes   int64
	MaxInFlight    int
	HeartbeatAfter time.Duration
	HeartbeatEvery time.Duration
	Version        string
	Log            *slog.Logger
	// Ready returns why the node is not ready, or nothing; it must not block.
	Ready func() []string
	// Notes returns what is worth knowing although the node is ready; it must not block.
	Notes func() map[string]any
	// Observe is told of each answered request; it must not block.
	Observe func(route string, status int, d time.Duration)
}

// API is the surface that clients speak to.
type API struct {
	cfg      Config
	dispatch Dispatcher
	paths    string // what there is, for those who ask for something else
	inFlight atomic.Int64
}

// New returns the surface as a server; Serve it on a listener of Listen's.
func New(cfg Config, d Dispatcher) (*API, *http.Server) {
	a := &API{cfg: cfg, dispatch: d, paths: "GET /v1/models and POST /v1/chat/completions, /v1/responses, /v1/messages, /v1/embeddings"}
	e := newEcho(cfg.Log)
	e.HTTPErrorHandler = a.fail
	e.Use(identified, a.recovered)
	e.POST("/v1/chat/completions", a.chat)
	e.POST("/v1/embeddings", a.embeddings)
	e.POST("/v1/messages", a.messages)
	e.POST("/v1/responses", a.responses)
	e.POST("/v1/messages/count_tokens", a.countTokens)
	e.GET("/v1/models", a.models, a.bounded)
	e.GET("/v1/models/*", a.model, a.bounded)
	e.GET("/healthz", a.health, a.bounded)
	e.GET("/readyz", a.ready, a.bounded)
	e.GET("/", a.root, a.bounded)
	e.HEAD("/", a.root, a.bounded)
	return a, newServer(e, cfg.Limits, cfg.Log)
}

func newID() string { return uuid.Must(uuid.NewV7()).String() }

// identified gives every answer its id, whatever comes of the request.
func identified(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		c.Response().Header()["X-Request-Id"] = []string{newID()}
		return next(c)
	}
}

// requestID is the id that identified gave.
func requestID(h http.Header) string { return h["X-Request-Id"][0] }

// bounded lets a client go that takes nothing of the answer, or holds back a body nobody asked for.
func (a *API) bounded(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) error {
		a.bound(c)
		return next(c)
	}
}

func (a *API) bound(c echo.Context) {
	rc := http.NewResponseController(c.Response().Writer)
	_ = rc.SetWriteDeadline(time.Now().Add(a.cfg.Limits.Client))
	if c.Request().ContentLength != 0 { // net/http reads it before it answers
		_ = rc.SetReadDeadline(time.Now().Add(drainTotal))
	}
}

// recovered keeps a mistake of ours to the request it was made in: the log has it with its place, the
// client an error, or, where the answer had begun, a connection that ends before the answer does.
func (a *API) recovered(next echo.HandlerFunc) echo.HandlerFunc {
	return func(c echo.Context) (err error) {
		defer func() {
			cause := recover()
			if cause == nil {
				return
			}
			if cause == http.ErrAbortHandler { //nolint:errorlint // what was panicked with, not an error that wraps
				panic(cause)
			}
			a.cfg.Log.Error("panic while serving a request", "path", c.Path(), "request_id", requestID(c.Response().Header()), "cause", cause, "stack", string(debug.Stack()))
			if c.Response().Committed {
				panic(http.ErrAbortHandler)
			}
			err = fmt.Errorf("panic: %v", cause)
		}()
		return next(c)
	}
}

// InFlight is how many requests are being served.
func (a *API) InFlight() int64 { return a.inFlight.Load() }

func newEcho(log *slog.Logger) *echo.Echo {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.StdLogger = slog.NewLogLogger(log.Handler(), slog.LevelWarn)
	e.Logger.SetOutput(discard{})
	return e
}

type discard struct{}

func (discard) Write(p []byte) (int, error) { return len(p), nil }

func newServer(h http.Handler, limits Limits, log *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: limits.Header,
		IdleTimeout:       limits.Idle,
		MaxHeaderBytes:    maxHeader,
		ErrorLog:          slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		ConnState:         noteState,
		ConnContext:       withConn,
	}
}

func (a *API) root(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"name": "turnout", "version": a.cfg.Version})
}

func (a *API) health(c echo.Context) error {
	return c.JSON(http.StatusOK, map[string]string{"status": "ok"})
}

func (a *API) ready(c echo.Context) error {
	body := map[string]any{"status": "ready"}
	for k, v := range a.cfg.Notes() {
		body[k] = v
	}
	why := a.cfg.Ready()
	if len(why) == 0 {
		return c.JSON(http.StatusOK, body)
	}
	body["status"], body["reasons"] = "not ready", why
	return c.JSON(http.StatusServiceUnavailable, body)
}

// Listen opens the address that New's server is to serve. A client that is too slow with its headers
// is answered 408 there, which net/http would leave out.
func Listen(ctx context.Context, address string, limits Limits) (net.Listener, error) {
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return listener{l, limits}, nil
}
