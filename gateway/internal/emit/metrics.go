package emit

import "turnout/internal/telemetry"

type metrics struct {
	shipped, replayed, dropped, refusedFull telemetry.Counter
	interrupted, adopted                    telemetry.Counter
	errors, corrupt, tornBytes, lost        telemetry.Counter
	misused, strange                        telemetry.Counter
	latency                                 telemetry.Histogram
}

func newMetrics(m *telemetry.Metrics) *metrics {
	return &metrics{
		shipped:     m.Counter("turnout_gateway_events_shipped_total", "Records that Kafka has acknowledged."),
		replayed:    m.Counter("turnout_gateway_events_replayed_total", "Records sent marked as possibly standing in Kafka already."),
		dropped:     m.Counter("turnout_gateway_events_dropped_total", "Records pushed out of a full spool, or refusals it had no room for."),
		refusedFull: m.Counter("turnout_gateway_spool_full_total", "Calls refused because the spool was full."),
		interrupted: m.Counter("turnout_gateway_events_interrupted_total", "Events written for attempts whose process died."),
		adopted:     m.Counter("turnout_gateway_spool_adopted_total", "Directories of dead processes taken over."),
		errors:      m.Counter("turnout_gateway_spool_errors_total", "Reads and writes of the spool that failed."),
		corrupt:     m.Counter("turnout_gateway_spool_corrupt_total", "Torn tails and other places of the spool that could not be read."),
		tornBytes:   m.Counter("turnout_gateway_spool_corrupt_bytes_total", "Bytes of the spool that could not be read."),
		lost:        m.Counter("turnout_gateway_events_lost_total", "Finished events that a corrupted spool does not give back."),
		strange:     m.Counter("turnout_gateway_spool_strange_total", "Spool directories left where they are: another version wrote them, or they hold files that are not Turnout's."),
		misused:     m.Counter("turnout_gateway_events_misused_total", "Ends without a start; each is a programming mistake."),
		latency: m.Histogram("turnout_gateway_event_ship_seconds", "From the end of an attempt to Kafka's acknowledgement.",
			[]float64{.01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 300, 1800}),
	}
}

// watch registers what is read off the log when somebody asks.
func (l *Log) watch(m *telemetry.Metrics) {
	m.GaugeFunc("turnout_gateway_spool_depth", "Finished events that Kafka has not acknowledged.", func() float64 { return float64(l.Depth()) })
	m.GaugeFunc("turnout_gateway_spool_open", "Attempts under way.", func() float64 { return float64(l.spool.openStarts()) })
	m.GaugeFunc("turnout_gateway_spool_bytes", "Bytes the spool takes on the disk, adopted directories included.", func() float64 { return float64(l.spool.bytes()) })
	m.GaugeFunc("turnout_gateway_spool_age_seconds", "How long the oldest finished event has waited for Kafka.", func() float64 { return l.shipper.age().Seconds() })
}

func (s *spool) openStarts() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.open)
}

func (s *spool) bytes() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used()
}
