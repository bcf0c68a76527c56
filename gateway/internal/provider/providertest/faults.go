package providertest

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

// faults of upstreams, and what becomes of them.
func faults(t *testing.T, p *Protocol, endpoint string) {
	said := Said{Text: "Hello there", Finish: llm.FinishStop, Usage: llm.Usage{InputTokens: 5, OutputTokens: 2, Source: attempt.UsageReported}}
	whole := p.Events(said)
	body := func(parts ...string) string { return "200 sse body:" + strconv.Quote(strings.Join(parts, "")) }
	firstOutput := 0
	for i, e := range whole {
		if strings.Contains(e, "Hello") {
			firstOutput = i
			break
		}
	}
	for _, tc := range []struct {
		name, line string
		class      attempt.Outcome
		status     int
	}{
		{"429", `429 h:"Retry-After: 2" json:` + strconv.Quote(p.Failed), attempt.UpstreamError, 429},
		{"503", `503 json:` + strconv.Quote(p.Failed), attempt.UpstreamError, 503},
		{"401", `401 json:` + strconv.Quote(p.Failed), attempt.GatewayError, 401},
		{"400", `400 json:"{\"error\":{\"message\":\"temperature is too high\",\"type\":\"invalid_request_error\"}}"`, attempt.ClientError, 400},
		{"HTML", `502 h:"Content-Type: text/html" body:"<html>bad</html>"`, attempt.UpstreamError, 502},
		{"reset", `rst`, attempt.NetworkError, 0},
		{"an empty answer", `200 json:""`, attempt.UpstreamError, 200},
		{"HTML under 200", `200 json:"<html>hi</html>"`, attempt.UpstreamError, 200},
		{"an error under 200", `200 json:` + strconv.Quote(p.Failed), attempt.UpstreamError, 500},
		{"broken JSON", `200 json:` + strconv.Quote(p.Plain(said)[:40]), attempt.UpstreamError, 200},
		{"another object", `200 json:"{\"a\":1}"`, attempt.UpstreamError, 200},
		{"no success", `204`, attempt.UpstreamError, 204},
	} {
		t.Run("plain/"+tc.name, func(t *testing.T) {
			s := at(t, p, endpoint, tc.line)
			answer, failure := s.adapter.Complete(context.Background(), s.call(simple[endpoint]))
			expect(t, failure, tc.class, tc.status)
			if answer != nil {
				t.Error("an answer together with a failure")
			}
			if tc.status == 429 && failure.RetryAfter != 2*time.Second {
				t.Errorf("retry after %s", failure.RetryAfter)
			}
		})
		t.Run("stream/"+tc.name, func(t *testing.T) {
			r := at(t, p, endpoint, tc.line).relay(streaming(endpoint))
			if r.err == nil || r.text != "" {
				t.Fatalf("no failure: %q", r.text)
			}
			if tc.status != 200 { // the words for what is no stream differ
				expect(t, r.err, tc.class, tc.status)
			}
		})
	}

	t.Run("nothing but a beginning", func(t *testing.T) {
		r := at(t, p, endpoint, body(whole[:firstOutput]...)).relay(streaming(endpoint))
		if r.err == nil || !r.err.Retryable() || r.text != "" {
			t.Errorf("%v %q", r.err, r.text)
		}
	})
	t.Run("an error before output", func(t *testing.T) {
		r := at(t, p, endpoint, body(append(append([]string{}, whole[:firstOutput]...), p.FailedEvent)...)).relay(streaming(endpoint))
		if r.err == nil || r.text != "" || r.err.Class != attempt.UpstreamError {
			t.Errorf("%v %q", r.err, r.text)
		}
	})
	t.Run("cut after output", func(t *testing.T) {
		for _, how := range []string{"", " fin", " rst"} {
			line := body(whole[:firstOutput+1]...) + how
			if how == " rst" {
				line = body(whole[:firstOutput+1]...) + " pause:30ms rst"
			}
			r := at(t, p, endpoint, line).relay(streaming(endpoint))
			expect(t, r.err, attempt.NetworkError, 200)
			if !strings.Contains(r.text, "Hello") || readers[endpoint].ended(r.text) {
				t.Errorf("%q: %s", how, r.text)
			}
		}
	})
	t.Run("an error after output", func(t *testing.T) {
		r := at(t, p, endpoint, body(append(append([]string{}, whole[:firstOutput+1]...), p.FailedEvent)...)).relay(streaming(endpoint))
		if r.err == nil || r.err.Class != attempt.UpstreamError || readers[endpoint].ended(r.text) {
			t.Errorf("%v: %s", r.err, r.text)
		}
	})
	t.Run("a malformed event after output", func(t *testing.T) {
		r := at(t, p, endpoint, body(append(append([]string{}, whole[:firstOutput+1]...), "data: {\"x\":\n\n", "data: {}\n\n")...)).relay(streaming(endpoint))
		expect(t, r.err, attempt.UpstreamError, 200)
	})
	t.Run("silence after output", func(t *testing.T) {
		r := at(t, p, endpoint, body(whole[:firstOutput+1]...)+" hold").relay(streaming(endpoint))
		expect(t, r.err, attempt.UpstreamTimeout, 200)
	})
	t.Run("the end marker is missing", func(t *testing.T) {
		if p.NoMarker {
			r := at(t, p, endpoint, body(whole[:len(whole)-1]...)).relay(streaming(endpoint))
			expect(t, r.err, attempt.NetworkError, 200)
			return
		}
		for _, how := range []string{"", " rst"} {
			line := body(whole[:len(whole)-1]...)
			if how != "" {
				line += " pause:30ms" + how
			}
			r := at(t, p, endpoint, line).relay(streaming(endpoint))
			if r.err != nil || !readers[endpoint].ended(r.text) || r.splices != 1 {
				t.Errorf("%v: %s", r.err, r.text)
			}
		}
	})
	t.Run("byte by byte", func(t *testing.T) {
		r := at(t, p, endpoint, strings.Replace(body(whole...), "body:", "drip:1us body:", 1)).relay(streaming(endpoint))
		if r.err != nil {
			t.Fatal(r.err)
		}
		if got := readers[endpoint].stream(t, r.text); got.Text != said.Text {
			t.Errorf("%+v", got)
		}
	})
	t.Run("the client leaves", func(t *testing.T) {
		s := at(t, p, endpoint, body(whole[:firstOutput+1]...)+" hold")
		ctx, cancel := context.WithCancel(context.Background())
		stream, failure := s.adapter.Stream(ctx, s.call(streaming(endpoint)))
		if failure != nil {
			t.Fatal(failure)
		}
		_, _ = stream.Next()
		cancel()
		for {
			if _, err := stream.Next(); err != nil {
				var e *llm.Error
				if !errors.As(err, &e) || e.Class != attempt.Canceled {
					t.Errorf("%v", err)
				}
				break
			}
		}
		stream.Close()
	})
}

func expect(t *testing.T, e *llm.Error, class attempt.Outcome, status int) {
	t.Helper()
	if e == nil {
		t.Fatalf("no failure, want %s", class)
	}
	if e.Class != class || e.Status != status && status != http.StatusNoContent {
		t.Errorf("%+v, want %s %d", e, class, status)
	}
}
