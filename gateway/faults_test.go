package gateway

import (
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/internal/testkit/certtest"
	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
)

// fault is one thing that goes wrong at the first choice, provider a, and what must come of it at the
// client, at the upstreams and in the log. Provider b is dearer and well unless it has a script.
type fault struct {
	name      string
	script    []string // of a: one line a call, the last one stays; see testkit/upstream
	b         []string
	sole      bool   // there is no b
	keys      int    // of a; 1 if not set
	extra     string // of a's document: timeouts
	mapping   string // of the model's mapping to a
	mappingB  string
	base      string // "refused", "unknown host" or "bad certificate", instead of a script
	requests  int    // sent one after the other; 1 if not set
	calls     string // who was called, by which key: a0 is the first key of a's that was used
	client    string // what the last request got; see seenChat
	says      string // in the error
	events    []string
	withinMin time.Duration // at least, for waits
	withinMax time.Duration // at most, where it must not be waited for something
}

// form is a fault met by a plain request or by a stream.
type form struct {
	fault
	route  *route
	stream bool
	id     string // also the model's name
	up     map[string]*upstream.Server

	replies []reply
	took    time.Duration
	err     error
}

func (f *form) title() string {
	if f.stream {
		return f.route.name + "/" + f.name + "/stream"
	}
	return f.route.name + "/" + f.name + "/plain"
}

// TestFaults meets a real gateway with every fault that api.md lists, on every surface, all at once, each
// at providers of its own. The list with results is what `go test -v -run TestFaults` prints.
func TestFaults(t *testing.T) {
	noLeaks(t)
	forms := arrange(t)
	lookup := secrets()
	n := start(t, faultResources(forms), nil, lookup).ready()
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	for _, f := range forms {
		wg.Go(func() { f.run(n, client) })
		time.Sleep(5 * time.Millisecond) // so many at once would meet limits of a quarter of a second
	}
	wg.Wait()
	eventually(t, "every request has ended", 5*time.Second, func() bool { return n.g.api.InFlight() == 0 })
	counters := attemptCounters(n.do("GET", n.admin+"/metrics", "").body)
	n.stop()
	events := map[string][]*attempt.Event{}
	for _, e := range n.logged() {
		events[e.Model] = append(events[e.Model], e)
	}
	for _, f := range forms {
		t.Run(f.title(), func(t *testing.T) { f.judge(t, events[f.id], counters[f.id]) })
		delete(events, f.id)
	}
	for model, stray := range events {
		t.Errorf("%d events of the model %s, which no fault has", len(stray), model)
	}
	if logs := n.logs.String(); strings.Contains(logs, "sk-") || strings.Contains(logs, "what the user said") {
		t.Errorf("the log holds a secret or a prompt: %s", logs)
	}
}

// arrange starts the upstreams of every fault, plain and streaming.
func arrange(t *testing.T) (forms []*form) {
	for _, r := range routes {
		for _, stream := range []bool{false, true} {
			if stream && r.plainOnly {
				continue
			}
			for i, c := range r.faultsOf(stream) {
				forms = append(forms, r.arrange(t, c, i, stream))
			}
		}
	}
	return forms
}

func (r *route) arrange(t *testing.T, c fault, i int, stream bool) *form {
	f := &form{fault: c, route: r, stream: stream, id: fmt.Sprintf("%sp%d", r.prefix, i), up: map[string]*upstream.Server{}}
	if stream {
		f.id = fmt.Sprintf("%ss%d", r.prefix, i)
	}
	well := r.well(stream)
	if c.base != "bad certificate" {
		f.up["a"] = upstream.New(t, fine(c.script, well)...)
	} else {
		files := certtest.New(t)
		pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
		if err != nil {
			t.Fatal(err)
		}
		f.up["a"] = upstream.NewTLS(t, &tls.Config{Certificates: []tls.Certificate{pair}}, well)
	}
	if !c.sole {
		f.up["b"] = upstream.New(t, fine(c.b, well)...)
	}
	return f
}

// fine puts a good answer where a script says so, or where there is none.
func fine(script []string, well string) (lines []string) {
	if script == nil {
		return []string{well}
	}
	for _, line := range script {
		if line == "fine" {
			line = well
		}
		lines = append(lines, line)
	}
	return lines
}

func (f *form) url(t string) string {
	switch {
	case t != "a" || f.base == "" || f.base == "bad certificate":
		return f.up[t].URL
	case f.base == "unknown host":
		return "http://no-such-host.invalid"
	}
	l, err := net.Listen("tcp", "127.0.0.1:0") // a port that nobody listens on
	if err != nil {
		return "http://127.0.0.1:1"
	}
	defer l.Close()
	return "http://" + l.Addr().String()
}

// faultResources renders a model with providers of its own for each fault.
func faultResources(forms []*form) string {
	var b strings.Builder
	for _, f := range forms {
		mappings := ""
		for _, p := range []struct{ name, price, extra, mapping string }{{"a", "{input: 1, output: 2}", f.extra, f.mapping}, {"b", "{input: 3, output: 6}", "", f.mappingB}} {
			if f.up[p.name] == nil {
				continue
			}
			id := f.id + p.name
			fmt.Fprintf(&b, "kind: provider\nid: %s\nprotocol: %s\nbase_url: %s/v1\nallow_private: true\ntrace: true\n%s\ncredentials:\n", id, f.route.protocol, f.url(p.name), p.extra)
			for k := range max(f.keys, 1) {
				fmt.Fprintf(&b, "  - {id: k%d, secret: env:SECRET_%s_%d}\n", k, strings.ToUpper(id), k)
			}
			b.WriteString("---\n")
			mappings += fmt.Sprintf("  - {provider: %s, upstream: up-%s, price: %s%s}\n", id, id, p.price, p.mapping)
		}
		output := "[text]"
		if f.route.output != "" {
			output = f.route.output
		}
		fmt.Fprintf(&b, "kind: model\nid: %s\noutput: %s\nmappings:\n%s---\n", f.id, output, mappings)
	}
	fmt.Fprintf(&b, "kind: organization\nid: acme\nworkload: api\n---\nkind: project\nid: web\norganization: acme\nmode: platform\nrouting: %s\n---\nkind: api_key\nid: web-1\nproject: web\nhash: sha256:%s\n", noExploration, hexSum(token))
	return b.String()
}

const clientTrace = "0af7651916cd43dd8448eb211c80319c"

// run sends the requests as a client with headers of every kind.
func (f *form) run(n *node, client *http.Client) {
	began := time.Now()
	defer func() { f.took = time.Since(began) }()
	for range max(f.requests, 1) {
		r, err := http.NewRequest("POST", n.url+f.route.path, strings.NewReader(fmt.Sprintf(f.route.body, f.id, f.stream)))
		if err != nil {
			f.err = err
			return
		}
		for k, v := range map[string]string{
			"Authorization": "Bearer " + token, "Content-Type": "application/json", "Idempotency-Key": "once-only", "X-Idempotency-Key": "once-only",
			"Cookie": "session=1", "X-Forwarded-For": "10.0.0.1", "X-Stainless-Lang": "js", "Traceparent": "00-" + clientTrace + "-b7ad6b7169203331-01",
			"User-Agent": "agent/1.0", "X-Request-Id": f.id,
		} {
			r.Header.Set(k, v)
		}
		resp, err := client.Do(r)
		if err != nil {
			f.err = err
			return
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		f.replies = append(f.replies, reply{resp.StatusCode, resp.Header, string(text)})
		if err != nil {
			f.err = err
			return
		}
	}
}

// judge holds what client, upstreams, log and counters saw against what must be.
func (f *form) judge(t *testing.T, events []*attempt.Event, counters map[string]int) {
	if f.err != nil {
		t.Fatalf("the client's connection: %v (%v)", f.err, f.replies)
	}
	got := f.replies[len(f.replies)-1]
	client := f.route.seen(got, f.stream)
	if client != f.client {
		t.Errorf("the client saw %s, want %s after %v: %v %s", client, f.client, f.took, got.header, got.body)
	}
	if f.took < f.withinMin || (f.withinMax > 0 && f.took > f.withinMax) {
		t.Errorf("took %v, want %v to %v", f.took, f.withinMin, f.withinMax)
	}
	if !strings.Contains(got.body, f.says) {
		t.Errorf("%q is not in %s", f.says, got.body)
	}
	for _, r := range f.replies {
		f.dialect(t, r)
	}
	slices.SortFunc(events, func(x, y *attempt.Event) int { return x.StartedAt.Compare(y.StartedAt) })
	calls := f.called(t, events)
	if calls != f.calls {
		t.Errorf("called %q, want %q", calls, f.calls)
	}
	var rows []string
	for _, e := range events {
		rows = append(rows, f.row(e))
	}
	if !slices.Equal(rows, f.events) {
		t.Errorf("events\n %s\nwant\n %s", strings.Join(rows, "\n "), strings.Join(f.events, "\n "))
	}
	f.counted(t, events, counters)
	if !t.Failed() {
		t.Logf("client %s; called %s; events %s", client, calls, strings.Join(rows, ", "))
	}
}

// seenChat tells what a client got: the status, and the text and how it ended, or the error's code.
func seenChat(r reply, stream bool) string {
	switch {
	case r.status != 200:
		return refusedAs(r, "error.code")
	case !stream:
		return fmt.Sprintf("200 %q %v", r.at("choices.0.message.content"), r.at("choices.0.finish_reason"))
	}
	text, end := "", ""
	for event := range strings.SplitSeq(strings.TrimSuffix(r.body, "\n\n"), "\n\n") {
		data, ok := strings.CutPrefix(event, "data: ")
		if !ok || end != "" && strings.HasSuffix(end, "!") {
			end += " and then " + event
			continue
		}
		chunk := reply{body: data}
		if delta, _ := chunk.at("choices.0.delta.content").(string); delta != "" {
			text += delta
		}
		if reason := chunk.at("choices.0.finish_reason"); reason != nil {
			end += fmt.Sprintf(" %v", reason)
		}
		if data == "[DONE]" {
			end += " [DONE]"
		}
		if code := chunk.at("error.code"); code != nil {
			end += fmt.Sprintf(" %v!", code)
		}
	}
	return fmt.Sprintf("200 %q%s", text, end)
}
