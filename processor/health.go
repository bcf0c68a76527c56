package processor

import (
	"encoding/json"
	"net/http"
	"sync"

	"turnout/processor/internal/consume"
)

// readiness says whether this process does its share.
type readiness struct {
	status *consume.Status

	mu                             sync.Mutex
	clickhouseSeen, kafkaSeen, end bool
	why                            error // kafka is not fit yet
}

func newReadiness(status *consume.Status) *readiness { return &readiness{status: status} }

func (r *readiness) clickhouse()        { r.set(func() { r.clickhouseSeen = true }) }
func (r *readiness) kafka()             { r.set(func() { r.kafkaSeen = true }) }
func (r *readiness) problem(with error) { r.set(func() { r.why = with }) }
func (r *readiness) stopping()          { r.set(func() { r.end = true }) }

func (r *readiness) set(change func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	change()
}

// reasons lists why the process is not ready.
func (r *readiness) reasons() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	var out []string
	if r.end {
		out = append(out, "stopping")
	}
	if !r.clickhouseSeen {
		out = append(out, "clickhouse has not been reached yet, or has no schema")
	}
	switch {
	case r.kafkaSeen:
	case r.why != nil:
		out = append(out, r.why.Error())
	default:
		out = append(out, "kafka has not been reached yet")
	}
	for _, gap := range r.status.Stopped() {
		out = append(out, gap.Error())
	}
	return out
}

func (p *Processor) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		answer := struct {
			Ready      bool     `json:"ready"`
			Reasons    []string `json:"reasons,omitempty"`
			Partitions []int    `json:"partitions"`
			Leader     bool     `json:"leader"`
		}{Reasons: p.ready.reasons(), Partitions: p.status.Partitions(), Leader: p.status.Owns(leadingPartition)}
		answer.Ready = len(answer.Reasons) == 0
		w.Header().Set("Content-Type", "application/json")
		if !answer.Ready {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
		_ = json.NewEncoder(w).Encode(answer)
	})
	mux.Handle("GET /metrics", p.metrics.Handler())
	return mux
}
