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
	client    string // what the last request got; see seen
	says      string // in the error
	events    []string
	withinMin time.Duration // at least, for waits
	withinMax time.Duration // at most, where it must not be waited for something
}

// form is a fault met by a plain request or by a stream.
type form struct {
	fault
	stream bool
	id     string // also the model's name
	up     map[string]*upstream.Server

	replies []reply
	took    time.Duration
	err     error
}

func (f *form) title() string {
	if f.stream {
		return f.name + "/stream"
	}
	return f.name + "/plain"
}

// TestFaults meets a real gateway with every fault that api.md lists, at once, each at providers of its
// own. The list with results is what `go test -v -run TestFaults` prints.
func TestFaults(t *testing.T) {
	noLeaks(t)
	forms := arrange(t)
	lookup := secrets()
	n := start(t, faultResources(forms), nil, lookup).ready()
	var wg sync.WaitGroup
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 30 * time.Second}
	for _, f := range forms {
		wg.Go(func() { f.run(n, client) })
	}
	wg.Wait()
	eventually(t, "every request has ended", 5*time.Second, func() bool { return n.g.api.InFlight() == 0 })
	metrics := n.do("GET", n.admin+"/metrics", "").body
	n.stop()
	events := map[string][]*attempt.Event{}
	for _, e := range n.logged() {
		events[e.Model] = append(events[e.Model], e)
	}
	for _, f := range forms {
		t.Run(f.title(), func(t *testing.T) { f.judge(t, events[f.id], metrics) })
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
	well := map[bool]string{false: `200 chat:fine`, true: `200 sse role text:fi text:ne finish:stop usage:5,2 done`}
	for stream, list := range map[bool][]fault{false: append(plainFaults(), commonFaults(false)...), true: append(streamFaults(), commonFaults(true)...)} {
		for i, c := range list {
			f := &form{fault: c, stream: stream, id: fmt.Sprintf("p%d", i), up: map[string]*upstream.Server{}}
			if stream {
				f.id = fmt.Sprintf("s%d", i)
			}
			if c.base != "bad certificate" {
				f.up["a"] = upstream.New(t, fine(c.script, well[stream])...)
			} else {
				files := certtest.New(t)
				pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
				if err != nil {
					t.Fatal(err)
				}
				f.up["a"] = upstream.NewTLS(t, &tls.Config{Certificates: []tls.Certificate{pair}}, well[stream])
			}
			if !c.sole {
				f.up["b"] = upstream.New(t, fine(c.b, well[stream])...)
			}
			forms = append(forms, f)
		}
	}
	return forms
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
			fmt.Fprintf(&b, "kind: provider\nid: %s\nprotocol: openai\nbase_url: %s/v1\nallow_private: true\ntrace: true\n%s\ncredentials:\n", id, f.url(p.name), p.extra)
			for k := range max(f.keys, 1) {
				fmt.Fprintf(&b, "  - {id: k%d, secret: env:SECRET_%s_%d}\n", k, strings.ToUpper(id), k)
			}
			b.WriteString("---\n")
			mappings += fmt.Sprintf("  - {provider: %s, upstream: up-%s, price: %s%s}\n", id, id, p.price, p.mapping)
		}
		fmt.Fprintf(&b, "kind: model\nid: %s\noutput: [text]\nmappings:\n%s---\n", f.id, mappings)
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
		body := fmt.Sprintf(`{"model":%q,"stream":%v,"messages":[{"role":"user","content":"what the user said"}]}`, f.id, f.stream)
		r, err := http.NewRequest("POST", n.url+"/v1/chat/completions", strings.NewReader(body))
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
func (f *form) judge(t *testing.T, events []*attempt.Event, metrics string) {
	if f.err != nil {
		t.Fatalf("the client's connection: %v (%v)", f.err, f.replies)
	}
	got := f.replies[len(f.replies)-1]
	client := seen(got, f.stream)
	if client != f.client {
		t.Errorf("the client saw %s, want %s: %v %s", client, f.client, got.header, got.body)
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
	f.counted(t, events, metrics)
	if !t.Failed() {
		t.Logf("client %s; called %s; events %s", client, calls, strings.Join(rows, ", "))
	}
}

// seen tells what a client got: the status, and the text and how it ended, or the error's code.
func seen(r reply, stream bool) string {
	switch {
	case r.status != 200:
		s := fmt.Sprintf("%d %v", r.status, r.at("error.code"))
		if wait := r.header.Get("Retry-After"); wait != "" {
			s += " after " + wait
		}
		return s
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
