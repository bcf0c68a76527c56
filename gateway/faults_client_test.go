package gateway

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/internal/testkit/kafkatest"
	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
)

// The client goes at every point there is: the upstream is let go within a second, nobody else is
// called, and the one event of the call says so.
func TestFaultsClientGone(t *testing.T) {
	noLeaks(t)
	type point struct {
		form
		until  string        // what of the answer the client waits for before it goes; "": the call
		short  bool          // the body is not sent to its end
		wait   time.Duration // once until has come
		gone   int           // upstream calls that were let go while they were held
		output bool
	}
	canceled := []string{"a canceled 0 canceled missing"}
	all := []point{
		{form: form{fault: fault{name: "while it sends"}}, short: true},
		{form: form{fault: fault{name: "before the answer", script: []string{`hold`}, events: canceled}}, gone: 1},
		{form: form{fault: fault{name: "within the answer", script: []string{`200 len:100 json:"{" hold`}, events: canceled}}, wait: 50 * time.Millisecond, gone: 1},
		{form: form{fault: fault{name: "before headers", script: []string{`hold`}, events: canceled}, stream: true}, gone: 1},
		{form: form{fault: fault{name: "before output", script: []string{`200 sse role hold`}, events: canceled}, stream: true}, wait: 50 * time.Millisecond, gone: 1},
		{form: form{fault: fault{name: "while it is told to wait", script: []string{`hold`}, events: canceled}, stream: true}, until: ": waiting", gone: 1},
		{form: form{fault: fault{name: "after output", script: []string{`200 sse role text:1 text:2 text:3 hold`}, events: canceled}, stream: true}, until: `"3"`, gone: 1, output: true},
		{form: form{fault: fault{name: "after output, with usage known", script: []string{`200 sse role text:1 usage:5,1 text:2 hold`}, events: []string{"a canceled 0 canceled 5/1"}}, stream: true}, until: `"2"`, gone: 1, output: true},
		{form: form{fault: fault{name: "in the middle of much output", script: []string{`200 sse role text:1 repeat:200000,": more and more of it\n\n" text:2 hold`}, events: canceled}, stream: true}, until: `"1"`, output: true},
		{form: form{fault: fault{name: "during back-off", script: []string{`503`, "fine"}, events: []string{"a upstream_error 503 server_error missing retry"}}}, wait: 300 * time.Millisecond},
		{form: form{fault: fault{name: "during back-off of a stream", script: []string{`503`, "fine"}, events: []string{"a upstream_error 503 server_error missing retry"}}, stream: true}, wait: 300 * time.Millisecond},
	}
	var points []*point
	var forms []*form
	for _, r := range routes {
		for i, p := range all {
			if p.stream && r.plainOnly || p.name == "after output, with usage known" && r.protocol == "openai\nendpoints: [responses]" { // it has none before its end
				continue
			}
			if p.until == ": waiting" && r.path == "/v1/messages" {
				p.until = "event: ping"
			}
			p.id = fmt.Sprintf("%sg%d", r.prefix, i)
			p.sole, p.route = true, r
			p.up = map[string]*upstream.Server{"a": upstream.New(t, fine(r.scripts(p.script), r.well(p.stream))...)}
			points, forms = append(points, &p), append(forms, &p.form)
		}
	}
	n := start(t, faultResources(forms), func(c *Config) { c.HeartbeatAfter, c.HeartbeatEvery = 700*time.Millisecond, 100*time.Millisecond }).ready()
	var wg sync.WaitGroup
	for _, p := range points {
		wg.Go(func() {
			body := fmt.Sprintf(p.route.body, p.id, p.stream)
			size := len(body)
			if p.short {
				size++
			}
			c, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
			if err != nil {
				t.Error(err)
				return
			}
			defer c.Close()
			fmt.Fprintf(c, "POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nX-Request-Id: %s\r\nContent-Length: %d\r\n\r\n%s", p.route.path, token, p.id, size, body)
			server := p.up["a"]
			switch lines := bufio.NewScanner(c); {
			case p.short:
				time.Sleep(100 * time.Millisecond)
			case p.until == "":
				eventually(t, p.title()+": the call", 5*time.Second, func() bool { return len(server.Calls()) == 1 })
			default:
				for lines.Scan() && !strings.Contains(lines.Text(), p.until) {
				}
			}
			time.Sleep(p.wait)
			c.Close()
			left := time.Now()
			for server.Gone() < p.gone && time.Since(left) < time.Second {
				time.Sleep(5 * time.Millisecond)
			}
			if server.Gone() != p.gone {
				t.Errorf("%s: %d upstream calls were let go within a second, want %d", p.title(), server.Gone(), p.gone)
			}
		})
	}
	wg.Wait()
	time.Sleep(1200 * time.Millisecond) // for calls that back-off would lead to
	eventually(t, "every request has ended", time.Second, func() bool { return n.g.api.InFlight() == 0 })
	n.stop()
	events := map[string][]*attempt.Event{}
	for _, e := range n.logged() {
		events[e.Model] = append(events[e.Model], e)
	}
	for _, p := range points {
		t.Run(p.title(), func(t *testing.T) {
			var rows []string
			for _, e := range events[p.id] {
				rows = append(rows, p.row(e))
				if (e.TTFTUS != nil) != p.output {
					t.Errorf("time to first token %v", e.TTFTUS)
				}
			}
			if fmt.Sprint(rows) != fmt.Sprint(p.events) || len(p.up["a"].Calls()) != len(p.events) {
				t.Errorf("%d calls, events %q, want %q", len(p.up["a"].Calls()), rows, p.events)
			}
			t.Logf("%d calls, %d let go, events %s", len(p.up["a"].Calls()), p.up["a"].Gone(), strings.Join(rows, ", "))
		})
	}
}

// A candidate that is switched off, or whose key is taken away, while a request waits to try it again
// is not called again.
func TestFaultsDisabledDuringBackOff(t *testing.T) {
	broker := kafkatest.New(t, 3)
	for name, change := range map[string]func(string) string{
		"priority 0": func(d string) string {
			return strings.Replace(d, "upstream: up-alpha,", "upstream: up-alpha, priority: 0,", 1)
		},
		"retired": func(d string) string {
			return strings.Replace(d, "upstream: up-alpha,", "upstream: up-alpha, status: deactivated,", 1)
		},
		"another secret": func(d string) string { return strings.Replace(d, "SECRET_ALPHA_0", "SECRET_OTHER_0", 1) },
		"the client's key is revoked": func(d string) string {
			return strings.Replace(d, "id: web-1\nproject: web\n", "id: web-1\nproject: web\nrevoked: true\n", 1)
		},
		"nothing that matters": func(d string) string { return strings.Replace(d, "aliases: [m-alias]", "aliases: [m-other]", 1) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			u := newUpstreams(t)
			n := start(t, resources(u.URL, noExploration, providerSpec{id: "alpha"}), func(c *Config) { c.Kafka = broker }).ready()
			u.script("alpha", inTurn(status(503, "x", "Retry-After", "5"), answer("fine")))
			doc, err := os.ReadFile(n.file)
			if err != nil {
				t.Fatal(err)
			}
			changed := change(string(doc))
			if changed == string(doc) {
				t.Fatal("the change changes nothing")
			}
			result := make(chan reply)
			go func() { result <- n.chat(chatBody) }()
			eventually(t, "the first call", 5*time.Second, func() bool { return len(u.called("")) == 1 })
			before := n.g.tenants.Current()
			if err := os.WriteFile(n.file, []byte(changed), 0o600); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the change is in force", 4*time.Second, func() bool { return n.g.tenants.Current() != before })
			r := <-result
			status, calls := 502, 1
			if name == "nothing that matters" {
				status, calls = 200, 2
			}
			if r.status != status || len(u.called("")) != calls || (calls == 1 && r.at("error.code") != "upstream_error") {
				t.Errorf("%d calls, want %d: %d %s", len(u.called("")), calls, r.status, r.body)
			}
		})
	}
}

// SIGTERM during 60 streams, of every surface and protocol: those that end in time are whole, the others
// are told, and nothing is missing in the log. (deploy/e2e sends the signal to a process.)
func TestFaultsShutdownDuringStreams(t *testing.T) {
	noLeaks(t)
	const each = 5 // of a route and an end
	u := newUpstreams(t)
	streaming, doc := streamingRoutes(u.URL, "ends", "hangs")
	n := start(t, doc, func(c *Config) { c.ShutdownTimeout = 3 * time.Second }).ready()
	release := make(chan struct{})
	for _, r := range streaming {
		u.script(r.prefix+"ends", func(w http.ResponseWriter, _ *http.Request) {
			r.begin(w, "one")
			<-release
			r.end(w, "one", "two")
		})
		u.script(r.prefix+"hangs", func(w http.ResponseWriter, q *http.Request) {
			r.begin(w, "one")
			<-q.Context().Done()
		})
	}
	streams := 2 * each * len(streaming)
	begun, results := make(chan struct{}, streams), make(chan string, streams)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	for i := range streams {
		r, kind := streaming[i/2%len(streaming)], []string{"ends", "hangs"}[i%2]
		go func() {
			q, _ := http.NewRequest("POST", n.url+r.path, strings.NewReader(fmt.Sprintf(r.body, r.prefix+kind+"/m", true)))
			q.Header.Set("Authorization", "Bearer "+token)
			q.Header.Set("Content-Type", "application/json")
			resp, err := client.Do(q)
			begun <- struct{}{} // headers come with the first output
			if err != nil {
				results <- err.Error()
				return
			}
			defer resp.Body.Close()
			body, err := io.ReadAll(resp.Body)
			if err != nil {
				t.Errorf("%s: %v", r.name, err)
			}
			results <- r.name + " " + kind + ": " + r.seen(reply{resp.StatusCode, resp.Header, string(body)}, true)
		}()
	}
	for range streams {
		<-begun
	}
	stopping := make(chan struct{})
	go func() { n.stop(); close(stopping) }()
	eventually(t, "not ready", time.Second, func() bool { return len(n.g.Ready()) > 0 })
	close(release)
	ends, want := map[string]int{}, map[string]int{}
	for range streams {
		ends[<-results]++
	}
	<-stopping
	for _, r := range streaming {
		told := "not_ready!"
		if r.path == "/v1/messages" {
			told = "overloaded_error!"
		}
		want[r.name+` ends: 200 "onetwo" stop [DONE]`], want[r.name+` hangs: 200 "one" `+told] = each, each
	}
	if fmt.Sprint(ends) != fmt.Sprint(want) {
		t.Errorf("ends %v, want %v", ends, want)
	}
	events := n.logged()
	balanced(t, u, events)
	outcomes := map[string]int{}
	for _, e := range events {
		outcomes[e.Provider[1:]+" "+string(e.Outcome)]++
	}
	if want := map[string]int{"ends completed": streams / 2, "hangs canceled": streams / 2}; fmt.Sprint(outcomes) != fmt.Sprint(want) {
		t.Errorf("outcomes %v, want %v", outcomes, want)
	}
	t.Logf("%v; %v", ends, outcomes)
}
