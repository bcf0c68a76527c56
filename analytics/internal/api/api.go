// Package api serves the questions of analytics/queries over HTTP as JSON. Echo lives here and in the
// gateway's httpapi only.
package api

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"slices"
	"time"

	"github.com/labstack/echo/v4"

	"turnout/analytics/queries"
	"turnout/internal/chx"
	"turnout/internal/telemetry"
)

// New returns the API. Every answer is {"from", "to", "rows": [...]}; every error
// {"error": {"message", "type", "param"}}.
func New(db *chx.Conn, metrics *telemetry.Metrics, log *slog.Logger, now func() time.Time) http.Handler {
	e := echo.New()
	e.HideBanner, e.HidePort = true, true
	e.HTTPErrorHandler = func(err error, c echo.Context) { writeError(c, log, err) }
	asked := metrics.CounterVec("turnout_analytics_questions_total", "Questions answered, by question and status.", "question", "status")

	ask := func(path string, f func(context.Context, echo.Context, queries.Range) (any, error)) {
		e.GET("/api/v1/"+path, func(c echo.Context) error {
			var r queries.Range
			err := known(c, path)
			if err == nil {
				r, err = span(c, now())
			}
			if err != nil {
				asked.WithLabelValues(path, "refused").Inc()
				return err
			}
			rows, err := f(c.Request().Context(), c, r)
			if err != nil {
				asked.WithLabelValues(path, "failed").Inc()
				return err
			}
			asked.WithLabelValues(path, "answered").Inc()
			return c.JSON(http.StatusOK, map[string]any{"from": r.From, "to": r.To, "rows": rows})
		})
	}
	ask("savings", func(ctx context.Context, _ echo.Context, r queries.Range) (any, error) {
		return queries.Savings(ctx, db, r)
	})
	ask("cost", func(ctx context.Context, _ echo.Context, r queries.Range) (any, error) {
		return queries.Costs(ctx, db, r)
	})
	ask("retries", func(ctx context.Context, _ echo.Context, r queries.Range) (any, error) {
		return queries.Retries(ctx, db, r)
	})
	ask("cache", func(ctx context.Context, _ echo.Context, r queries.Range) (any, error) {
		return queries.CacheHits(ctx, db, r)
	})
	ask("health", func(ctx context.Context, c echo.Context, r queries.Range) (any, error) {
		step, err := duration(c, "step", time.Minute)
		if err != nil {
			return nil, err
		}
		if err := queries.CheckStep(step, r.To.Sub(r.From)-time.Second); err != nil {
			return nil, &badParameter{"step", err.Error()}
		}
		return queries.HealthOverTime(ctx, db, r, step)
	})

	e.GET("/", func(c echo.Context) error {
		return c.String(http.StatusOK, "Turnout analytics\n\nGET /api/v1/{savings|cost|health|retries|cache}?since=24h&project=ID (health also: step=1m)\nGET /healthz /readyz /metrics\n")
	})
	e.GET("/healthz", func(c echo.Context) error { return c.String(http.StatusOK, "ok\n") })
	e.GET("/readyz", func(c echo.Context) error {
		ctx, cancel := context.WithTimeout(c.Request().Context(), 2*time.Second)
		defer cancel()
		if err := db.Ping(ctx); err != nil {
			return c.String(http.StatusServiceUnavailable, err.Error()+"\n")
		}
		return c.String(http.StatusOK, "ready\n")
	})
	e.GET("/metrics", echo.WrapHandler(metrics.Handler()))
	return e
}

type badParameter struct{ name, problem string }

func (b *badParameter) Error() string { return b.name + ": " + b.problem }

// known refuses parameters that a question does not have, and those given twice: without it a typing
// mistake would be answered for another time or project.
func known(c echo.Context, path string) error {
	given := c.QueryParams()
	for _, name := range slices.Sorted(maps.Keys(given)) {
		switch {
		case name != "since" && name != "project" && (name != "step" || path != "health"):
			return &badParameter{name, "there is no such parameter; a question takes since and project, health also step"}
		case len(given[name]) > 1:
			return &badParameter{name, "is given more than once"}
		}
	}
	return nil
}

func span(c echo.Context, now time.Time) (queries.Range, error) {
	since, err := duration(c, "since", 24*time.Hour)
	if err != nil {
		return queries.Range{}, err
	}
	if err := queries.CheckSince(since); err != nil {
		return queries.Range{}, &badParameter{"since", err.Error()}
	}
	return queries.Range{From: now.Add(-since), To: now.Add(time.Second), Project: c.QueryParam("project")}, nil
}

func duration(c echo.Context, name string, otherwise time.Duration) (time.Duration, error) {
	text := c.QueryParam(name)
	if text == "" {
		return otherwise, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, &badParameter{name, fmt.Sprintf("%q is not a duration such as 24h or 90s", text)}
	}
	return d, nil
}
