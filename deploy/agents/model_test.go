//go:build agents

package agents

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/deploy/sim"
)

// toolCall is what the model asks the agent to do. A tool of a namespace and one that takes a text
// instead of arguments are said as the upstream's protocol says them.
type toolCall struct {
	space, name string
	input       map[string]any
	freeform    string                               // instead of input
	from        func(before []string) map[string]any // instead of input: made of what calls before it brought
	wants       string                               // what the agent must bring from it
}

// The parts of a conversation that a request may belong to, told by what the user says in it.
const (
	mainTask = "TASK-ONE"
	subTask  = "TASK-TWO"
)

// script is what the model does in a conversation: batches of calls, each made when the answers of all
// before it stand in the request, and a last word.
type script struct {
	batches [][]toolCall
	last    string
}

// asked is what the model understands of a request, whatever its protocol.
type asked struct {
	model   string
	stream  bool
	tools   []string          // names; those of a namespace as space__name
	said    string            // everything the user said
	results map[string]string // what tools brought, by the id of the call
}

// reply is what the model answers: a text, or calls numbered from first.
type reply struct {
	text  string
	calls []toolCall
	first int
}

// dialect is how a protocol says these things.
type dialect struct {
	id        func(first, i int) string // of the i-th call in a batch that begins with call first
	protocol  string
	endpoints string
	base      string // of the protocol below the provider's
	read      func(r *http.Request, body []byte) (asked, error)
	plain     func(reply) any
	stream    func(w io.Writer, r reply)
}

// call is one call that arrived at a provider.
type call struct {
	sim.Entry
	part string // mainTask, subTask or "" (a side request: titles, probes, counts)
}

// model is the simulated model; every provider of a run is it.
type model struct {
	t       *testing.T
	url     string
	dialect *dialect
	scripts map[string]script // part -> what is played
	begins  func(provider string)

	mu    sync.Mutex
	calls []call
	begun sync.Once
}

func newModel(t *testing.T, d *dialect) *model {
	m := &model{t: t, dialect: d}
	server := httptest.NewServer(m)
	t.Cleanup(server.Close)
	m.url = server.URL
	return m
}

// ServeHTTP implements http.Handler.
func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	provider, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	q, err := m.dialect.read(r, body)
	if err != nil {
		m.t.Errorf("%s %s: %v in %.2000s", r.Method, r.URL.Path, err, body)
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	part := m.part(&q)
	c := call{part: part, Entry: sim.Entry{Provider: provider, ReceivedAt: time.Now(), Model: q.model, Stream: q.stream, Outcome: sim.Completed, Status: http.StatusOK}}
	if parts := strings.Split(r.Header.Get("Traceparent"), "-"); len(parts) == 4 {
		c.TraceID, c.SpanID = parts[1], parts[2]
	}
	m.mu.Lock()
	m.calls = append(m.calls, c)
	m.mu.Unlock()
	if part == mainTask {
		m.begun.Do(func() { m.begins(provider) })
	}
	answer := m.answer(part, &q)
	if !q.stream {
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprint(w, compact(m.dialect.plain(answer)))
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	m.dialect.stream(flushing{w}, answer)
}

// part tells requests of the conversations from those that agents make beside them, which offer no tools.
func (m *model) part(q *asked) string {
	switch {
	case len(q.tools) == 0:
		return ""
	case strings.Contains(q.said, subTask):
		return subTask
	case strings.Contains(q.said, mainTask):
		return mainTask
	}
	return ""
}

// answer plays the next batch of the script, by what stands in the request.
func (m *model) answer(part string, q *asked) reply {
	if part == "" {
		return reply{text: "Mend the sum"}
	}
	s := m.scripts[part]
	var before []string
	for _, batch := range s.batches {
		if len(before) == len(q.results) {
			return m.check(q, reply{calls: batch, first: len(before)}, before)
		}
		first := len(before)
		for i, c := range batch {
			id := m.dialect.id(first, i)
			got, ok := q.results[id]
			if !ok || !strings.Contains(got, c.wants) {
				return m.failed("%s: call %s of %s brought %.2000q, which lacks %q; there are %d answers", part, id, c.name, got, c.wants, len(q.results))
			}
			before = append(before, got)
		}
	}
	if len(before) != len(q.results) {
		return m.failed("%s: %d answers of tools, the script makes %d calls", part, len(q.results), len(before))
	}
	return reply{text: s.last}
}

func (m *model) check(q *asked, r reply, before []string) reply {
	r.calls = slices.Clone(r.calls)
	for i := range r.calls {
		c := &r.calls[i]
		if name := c.flat(); !slices.Contains(q.tools, name) {
			return m.failed("the request offers no %s, but %v", name, q.tools)
		}
		if c.from != nil {
			c.input = c.from(before)
		}
	}
	return r
}

// failed fails the test and ends the conversation.
func (m *model) failed(format string, args ...any) reply {
	m.t.Errorf(format, args...)
	return reply{text: "The script cannot go on."}
}

// flat is the tool's name where there are no namespaces.
func (c *toolCall) flat() string {
	if c.space == "" {
		return c.name
	}
	return c.space + "__" + c.name
}

// arguments are the call's where every tool takes an object.
func (c *toolCall) arguments() map[string]any {
	if c.freeform != "" {
		return map[string]any{"input": c.freeform}
	}
	return c.input
}

func (m *model) seen() []call {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.calls)
}

// ledger is what arrived, as load.Balance reads it.
func (m *model) ledger() []sim.Entry {
	var entries []sim.Entry
	for i, c := range m.seen() {
		c.Call = int64(i + 1)
		entries = append(entries, c.Entry)
	}
	return entries
}

// flushing sends every event at once.
type flushing struct{ http.ResponseWriter }

func (f flushing) Write(b []byte) (int, error) {
	n, err := f.ResponseWriter.Write(b)
	f.ResponseWriter.(http.Flusher).Flush()
	return n, err
}
