package gateway

import (
	"strconv"
	"sync"
	"time"

	"turnout/internal/telemetry"
	"turnout/schemas/attempt"
)

// observer keeps the node's own figures. Those with labels are looked up once: that costs more than
// counting.
type observer struct {
	requests *telemetry.CounterVec
	seconds  *telemetry.HistogramVec
	attempts *telemetry.CounterVec
	overhead telemetry.Histogram

	routes sync.Map // routeStatus -> *routeFigures
	calls  sync.Map // providerOutcome -> telemetry.Counter
}

type routeStatus struct {
	route  string
	status int
}

type routeFigures struct {
	requests telemetry.Counter
	seconds  interface{ Observe(float64) }
}

type providerOutcome struct {
	provider string
	outcome  attempt.Outcome
}

func (g *Gateway) observe() *observer {
	m := g.metrics
	m.GaugeFunc("turnout_gateway_requests_in_flight", "Requests being served.", func() float64 { return float64(g.api.InFlight()) })
	m.GaugeFunc("turnout_gateway_snapshot_age_seconds", "Age of the snapshot in use; -1 without one.", func() float64 {
		s := g.poller.Status()
		if s.ID == "" {
			return -1
		}
		return g.poller.Now().Sub(s.AsOf).Seconds()
	})
	m.GaugeFunc("turnout_gateway_snapshots_corrupted", "Corrupted snapshots that this process has passed over; the log names them.", func() float64 { return float64(g.poller.Refused()) })
	m.GaugeFunc("turnout_gateway_clock_offset_seconds", "The node's clock minus ClickHouse's.", func() float64 { return g.poller.Offset().Seconds() })
	m.GaugeFunc("turnout_gateway_own_attempts", "Own attempts that no snapshot holds yet.", func() float64 { return float64(g.poller.Status().Own) })
	m.GaugeFunc("turnout_gateway_state_backlog", "State records waiting for Kafka.", func() float64 {
		waiting, _ := g.state.Backlog()
		return float64(waiting)
	})
	m.GaugeFunc("turnout_gateway_resources_left_out", "Parts of the resources that are configured but not served; the log names them.", func() float64 { return float64(len(g.tenants.Current().Problems)) })
	m.GaugeFunc("turnout_gateway_state_dropped", "Pins and preferences of this process that stayed local for want of room.", func() float64 {
		_, dropped := g.state.Backlog()
		return float64(dropped)
	})
	m.GaugeFunc("turnout_gateway_state_refused", "Records of the state topic that this process could not read; the log names them.", func() float64 { return float64(g.state.Refused()) })
	m.GaugeFunc("turnout_gateway_ready", "1 if the node is ready.", func() float64 {
		if len(g.Ready()) == 0 {
			return 1
		}
		return 0
	})
	return &observer{
		requests: m.CounterVec("turnout_gateway_requests_total", "Answered requests.", "route", "status"),
		seconds: m.HistogramVec("turnout_gateway_request_seconds", "From a request's first byte to its answer's last.",
			[]float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300}, "route"),
		attempts: m.CounterVec("turnout_gateway_attempts_total", "Finished upstream attempts.", "provider", "outcome"),
		overhead: m.Histogram("turnout_gateway_overhead_seconds", "The gateway's own share of a request.",
			[]float64{.0001, .00025, .0005, .001, .0025, .005, .01, .025, .1}),
	}
}

func (o *observer) request(route string, status int, d time.Duration) {
	key := routeStatus{route, status}
	f, ok := o.routes.Load(key)
	if !ok {
		f, _ = o.routes.LoadOrStore(key, &routeFigures{
			requests: o.requests.WithLabelValues(route, strconv.Itoa(status)), seconds: o.seconds.WithLabelValues(route)})
	}
	figures := f.(*routeFigures)
	figures.requests.Inc()
	figures.seconds.Observe(d.Seconds())
}

func (o *observer) attempt(e *attempt.Event) {
	key := providerOutcome{e.Provider, e.Outcome}
	c, ok := o.calls.Load(key)
	if !ok {
		c, _ = o.calls.LoadOrStore(key, o.attempts.WithLabelValues(e.Provider, string(e.Outcome)))
	}
	c.(telemetry.Counter).Inc()
	if !e.WillRetry {
		o.overhead.Observe(float64(e.OverheadUS) / 1e6)
	}
}
