package sink

import (
	"time"

	"turnout/internal/telemetry"
	"turnout/processor/internal/deadletter"
	"turnout/processor/internal/partition"
)

// Metrics are the sink's figures.
type Metrics struct {
	events     *telemetry.CounterVec
	dead       telemetry.Counter
	failures   *telemetry.CounterVec
	halvings   telemetry.Counter
	lookUps    telemetry.Counter
	buckets    telemetry.Counter
	seconds    *telemetry.HistogramVec
	batchRows  telemetry.Histogram
	batchTime  telemetry.Histogram
	visibility telemetry.Histogram
}

// NewMetrics registers them.
func NewMetrics(m *telemetry.Metrics) *Metrics {
	times := []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60}
	return &Metrics{
		events:     m.CounterVec("turnout_processor_events_total", "Events by what became of them: applied, duplicate, late (applied, more than ten minutes old), early (applied, more than a minute ahead), dropped (too old for its bucket).", "fate"),
		dead:       m.Counter("turnout_processor_dead_letters_total", "Records that could not be stored."),
		failures:   m.CounterVec("turnout_processor_failures_total", "Steps that failed and were tried again.", "step"),
		halvings:   m.Counter("turnout_processor_halvings_total", "Batches that were refused and halved."),
		lookUps:    m.Counter("turnout_processor_duplicate_lookups_total", "Events looked up because their sender said they may stand in the log twice."),
		buckets:    m.Counter("turnout_processor_buckets_total", "Rows written to folds."),
		seconds:    m.HistogramVec("turnout_processor_insert_seconds", "Time of one insert.", times, "table"),
		batchRows:  m.Histogram("turnout_processor_batch_rows", "Attempts in a batch.", []float64{1, 10, 100, 1000, 5000, 10000, 20000, 50000}),
		batchTime:  m.Histogram("turnout_processor_batch_seconds", "Time to store a batch, all tables.", times),
		visibility: m.Histogram("turnout_processor_visible_seconds", "From the time of the newest record of a batch to its row and bucket being visible.", times),
	}
}

func (m *Metrics) applied(s partition.Stats) {
	m.events.WithLabelValues("applied").Add(float64(s.Applied))
	m.events.WithLabelValues("duplicate").Add(float64(s.Duplicates))
	m.events.WithLabelValues("late").Add(float64(s.Late))
	m.events.WithLabelValues("early").Add(float64(s.Early))
	m.events.WithLabelValues("dropped").Add(float64(s.Dropped))
}

func (m *Metrics) deadLetters(letters []deadletter.Letter) { m.dead.Add(float64(len(letters))) }

func (m *Metrics) timed(table string, since time.Time) {
	m.seconds.WithLabelValues(table).Observe(time.Since(since).Seconds())
}

func (m *Metrics) batch(chunks []*Chunk, took time.Duration, now time.Time) {
	rows := 0
	for _, c := range chunks {
		rows += len(c.Records)
		m.visibility.Observe(max(now.Sub(c.Newest).Seconds(), 0))
	}
	m.batchRows.Observe(float64(rows))
	m.batchTime.Observe(took.Seconds())
}
