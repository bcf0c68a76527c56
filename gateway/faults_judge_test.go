package gateway

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"turnout/internal/kafkax"
	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

var errorTypes = map[string]string{
	"upstream_error": "upstream_error", "timeout": "timeout_error", "all_providers_limited": "rate_limit_error",
	"context_length_exceeded": "invalid_request_error", "content_filter": "invalid_request_error", "<nil>": "invalid_request_error",
}

// dialect checks what holds for every answer, above all for errors, also those within a stream.
func (f *form) dialect(t *testing.T, r reply) {
	t.Helper()
	for _, secret := range []string{"sk-", "up-", "<html", "inner text", "once-only"} {
		if strings.Contains(r.body, secret) && secret != f.says {
			t.Errorf("the answer holds %q: %s", secret, r.body)
		}
	}
	for name := range r.header {
		if lower := strings.ToLower(name); strings.HasPrefix(lower, "x-ratelimit") || lower == "set-cookie" || strings.HasPrefix(lower, "openai-") {
			t.Errorf("the upstream's header %s goes out", name)
		}
	}
	if r.header.Get("X-Request-Id") == "" || r.header.Get("X-Request-Id") == f.id {
		t.Errorf("x-request-id %q", r.header.Get("X-Request-Id"))
	}
	told := r
	switch {
	case r.status == 200 && !strings.HasSuffix(f.client, "!"):
		return
	case r.status == 200:
		_, data, _ := strings.Cut(lastEvent(r.body), "data: ")
		told = reply{body: data}
		for _, end := range []string{"[DONE]", "message_stop", "response.completed"} {
			if strings.Contains(r.body, end) {
				t.Errorf("%s although it failed: %s", end, r.body)
			}
		}
	case r.header.Get("Content-Type") != "application/json":
		t.Errorf("Content-Type %q", r.header.Get("Content-Type"))
	}
	if r.status != 429 && r.header.Get("Retry-After") != "" {
		t.Errorf("Retry-After %q goes out with %d", r.header.Get("Retry-After"), r.status)
	}
	ours := f.shape(t, told, r.status == 200)
	attempts, _ := told.at(ours + ".routing").([]any)
	if len(f.replies) == 1 && len(attempts) != len(f.events) {
		t.Errorf("the error tells of %d attempts, want %d: %s", len(attempts), len(f.events), told.body)
	}
	if told.at(ours+".request_id") != r.header.Get("X-Request-Id") {
		t.Errorf("the error's request_id: %s", told.body)
	}
}

// shape checks that an error is in the dialect of the surface, and says where in it metadata is.
func (f *form) shape(t *testing.T, told reply, inStream bool) (metadata string) {
	t.Helper()
	message, _ := told.at("error.message").(string)
	switch {
	case f.route.path == "/v1/messages":
		if _, coded := told.at("error").(map[string]any)["code"]; told.at("type") != "error" || message == "" || coded {
			t.Errorf("not Anthropic's shape: %s", told.body)
		}
		return "turnout"
	case f.route.path == "/v1/responses" && inStream:
		if message, _ = told.at("message").(string); told.at("type") != "error" || message == "" || errorTypes[fmt.Sprint(told.at("code"))] == "" {
			t.Errorf("not an error event of Responses: %s", told.body)
		}
		return "turnout"
	}
	object, _ := told.at("error").(map[string]any)
	_, param := object["param"]
	if want := errorTypes[fmt.Sprint(told.at("error.code"))]; message == "" || !param || want == "" || told.at("error.type") != want {
		t.Errorf("not OpenAI's shape, want type %q: %s", want, told.body)
	}
	if f.route.path == "/v1/chat/completions" {
		return "metadata"
	}
	return "turnout"
}

// called says who was called with which key, and checks that each call has its one event and carries
// nothing of the client's.
func (f *form) called(t *testing.T, events []*attempt.Event) string {
	t.Helper()
	type call struct {
		provider string
		upstream.Call
	}
	var calls []call
	for name, server := range f.up {
		for _, c := range server.Calls() {
			calls = append(calls, call{name, c})
		}
	}
	slices.SortFunc(calls, func(x, y call) int { return x.At.Compare(y.At) })
	spans := map[string]int{}
	for _, e := range events {
		spans[e.SpanID]++
		if e.ClientRequestID != f.id || e.Stream != f.stream || e.Client != "agent/1.0" {
			t.Errorf("event %+v", e)
		}
	}
	keys := map[string][]string{}
	var trail []string
	for _, c := range calls {
		secret := strings.TrimPrefix(c.Header.Get("Authorization"), "Bearer ") + c.Header.Get("X-Api-Key")
		if want := "sk-" + f.id + c.provider + "_"; !strings.HasPrefix(secret, want) {
			t.Errorf("%s was called with the credential %q, want %s...", c.provider, secret, want)
		}
		if !slices.Contains(keys[c.provider], secret) {
			keys[c.provider] = append(keys[c.provider], secret)
		}
		trail = append(trail, fmt.Sprint(c.provider, slices.Index(keys[c.provider], secret)))
		trace := strings.Split(c.Traceparent, "-")
		if len(trace) != 4 || trace[1] != clientTrace || spans[trace[2]] != 1 {
			t.Errorf("a call to %s with traceparent %q has %v events", c.provider, c.Traceparent, spans)
		}
		for name := range c.Header {
			switch name {
			case "Authorization", "Content-Type", "Content-Length", "Accept", "Accept-Encoding", "User-Agent", "Traceparent":
			case "X-Api-Key", "Anthropic-Version":
				if f.route.protocol != "anthropic" {
					t.Errorf("the upstream saw %s", name)
				}
			default:
				t.Errorf("the upstream saw %s: %q", name, c.Header.Get(name))
			}
		}
		if !strings.HasPrefix(c.Header.Get("User-Agent"), "turnout/") {
			t.Errorf("the upstream saw User-Agent %q", c.Header.Get("User-Agent"))
		}
		if want := `"model":"up-` + f.id + c.provider + `"`; !strings.Contains(string(c.Body), want) {
			t.Errorf("the upstream was asked %s, want %s in it", c.Body, want)
		}
	}
	if f.base == "" && len(calls) != len(events) {
		t.Errorf("%d calls and %d events", len(calls), len(events))
	}
	return strings.Join(trail, " ")
}

// row is an event as the table writes it: provider, class, status, error_type, usage, whether it went on.
func (f *form) row(e *attempt.Event) string {
	usage := string(e.UsageSource)
	if e.UsageSource == attempt.UsageReported {
		usage = fmt.Sprintf("%d/%d", e.InputTokens, e.OutputTokens)
	}
	s := fmt.Sprintf("%s %s %d %s %s", strings.TrimPrefix(e.Provider, f.id), e.Outcome, e.StatusCode, e.ErrorType, usage)
	if e.WillRetry {
		s += " retry"
	}
	return s
}

// counted checks the node's own counters against the log.
func (f *form) counted(t *testing.T, events []*attempt.Event, got map[string]int) {
	t.Helper()
	want := map[string]int{}
	for _, e := range events {
		want[e.Provider+" "+string(e.Outcome)]++
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("counters %v, want %v", got, want)
	}
}

// attemptCounters reads the counters of attempts, by form, then by provider and outcome.
func attemptCounters(metrics string) map[string]map[string]int {
	all := map[string]map[string]int{}
	for _, m := range attemptsCounter.FindAllStringSubmatch(metrics, -1) {
		id := strings.TrimRight(m[2], "ab")
		if all[id] == nil {
			all[id] = map[string]int{}
		}
		all[id][m[2]+" "+m[1]], _ = strconv.Atoi(m[3])
	}
	return all
}

var attemptsCounter = regexp.MustCompile(`(?m)^turnout_gateway_attempts_total\{outcome="(\w+)",provider="(\w+)"\} (\d+)$`)

// logged reads all events that the log holds; the node has stopped.
func (n *node) logged() (events []*attempt.Event) {
	n.t.Helper()
	client, err := kafkax.Open(n.kafka, n.g.log)
	if err != nil {
		n.t.Fatal(err)
	}
	defer client.Close()
	want := 0
	for p := range 3 {
		_, next, err := client.Bounds(n.t.Context(), topic.Attempts, p)
		if err != nil {
			n.t.Fatal(err)
		}
		want += int(next)
	}
	n.read(topic.Attempts, 3, want, func(value []byte) {
		e, err := attempt.Decode(value)
		if err != nil {
			n.t.Fatal(err)
		}
		events = append(events, e)
	})
	return events
}
