// Package telemetry is the one door to logs and metrics: slog and Prometheus stand behind it.
package telemetry

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// The metric types, so that Prometheus is imported nowhere else.
type (
	Counter      = prometheus.Counter
	CounterVec   = prometheus.CounterVec
	Gauge        = prometheus.Gauge
	GaugeVec     = prometheus.GaugeVec
	Histogram    = prometheus.Histogram
	HistogramVec = prometheus.HistogramVec
)

// Log is how and how much is logged.
type Log struct {
	Level  string `koanf:"level" help:"debug, info, warn or error"`
	Format string `koanf:"format" help:"json or text"`
}

// DefaultLog is what is logged when nothing is said.
func DefaultLog() Log { return Log{Level: "info", Format: "json"} }

// Validate names every wrong setting.
func (l Log) Validate() error {
	var mistakes []error
	var level slog.Level
	if err := level.UnmarshalText([]byte(l.Level)); err != nil {
		mistakes = append(mistakes, fmt.Errorf("log.level: %q is none of debug, info, warn, error", l.Level))
	}
	if l.Format != "json" && l.Format != "text" {
		mistakes = append(mistakes, fmt.Errorf("log.format: %q is neither json nor text", l.Format))
	}
	return errors.Join(mistakes...)
}

// New returns a logger that writes to w. l must be valid.
func (l Log) New(w io.Writer) *slog.Logger {
	var level slog.Level
	_ = level.UnmarshalText([]byte(l.Level)) // Validate has looked
	opts := &slog.HandlerOptions{Level: level}
	if l.Format == "text" {
		return slog.New(slog.NewTextHandler(w, opts))
	}
	return slog.New(slog.NewJSONHandler(w, opts))
}

// Metrics is one process's registry. Each component registers under its own prefix
// (turnout_gateway_, turnout_processor_, ...), once.
type Metrics struct{ registry *prometheus.Registry }

// NewMetrics returns a registry with the Go runtime's and the process's own figures in it.
func NewMetrics() *Metrics {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return &Metrics{registry: r}
}

// Handler serves the registry in Prometheus's text format.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Counter registers a counter.
func (m *Metrics) Counter(name, help string) Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

// CounterVec registers a counter with labels.
func (m *Metrics) CounterVec(name, help string, labels ...string) *CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

// Gauge registers a gauge.
func (m *Metrics) Gauge(name, help string) Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	m.registry.MustRegister(g)
	return g
}

// GaugeVec registers a gauge with labels.
func (m *Metrics) GaugeVec(name, help string, labels ...string) *GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(g)
	return g
}

// GaugeFunc registers a gauge that is read when scraped; f must not block.
func (m *Metrics) GaugeFunc(name, help string, f func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, f))
}

// Histogram registers a histogram with the given upper bounds.
func (m *Metrics) Histogram(name, help string, buckets []float64) Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.registry.MustRegister(h)
	return h
}

// HistogramVec registers a histogram with labels.
func (m *Metrics) HistogramVec(name, help string, buckets []float64, labels ...string) *HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	m.registry.MustRegister(h)
	return h
}
