package openai

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
)

func TestPlainAnswer(t *testing.T) {
	up := upstream.New(t, `200 chat:"Hi there"`, `200 h:"Content-Type: text/plain" chat:"Hi there"`, `200 gzip chat:"Hi there"`, `200 open chat:"Hi there"`)
	a := newAdapter(t)
	want := bytes.Replace(upstream.Chat("Hi there"), []byte(`"upstream-model"`), []byte(`"catalogue/model"`), 1)
	for range 4 {
		call := newCall(t, up.URL, `,"temperature":1`)
		answer, err := a.Complete(context.Background(), call)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(answer.Body, want) {
			t.Fatalf("got  %s\nwant %s", answer.Body, want)
		}
		with := string(answer.Body[:answer.SpliceAt]) + `,"metadata":{}` + string(answer.Body[answer.SpliceAt:])
		if !json.Valid([]byte(with)) || answer.OwnMetadata {
			t.Fatalf("%s", with)
		}
		if answer.FinishReason != "stop" || answer.Usage != (llm.Usage{InputTokens: 5, OutputTokens: 2, Source: "reported"}) || answer.Status != 200 {
			t.Fatalf("%+v", answer.Result)
		}
		if call.Timing.FirstByte <= 0 || call.Timing.Total < call.Timing.FirstByte {
			t.Fatalf("%+v", call.Timing)
		}
		answer.Release()
	}
	calls := up.Calls()
	if calls[0].Path != "/v1/chat/completions" || calls[0].Connection != calls[1].Connection {
		t.Fatalf("%+v", calls[:2])
	}
}

func TestWhatTheUpstreamSees(t *testing.T) {
	for _, tc := range []struct{ extra, want string }{
		{``, ``},
		{`,"temperature":0.30,"who_knows":{"a" : 1}`, `,"temperature":0.30,"who_knows":{"a" : 1}`},
		{`,"routing":"price","free_models_only":true,"no_reasoning":false`, ``},
		{`,"stop":"x","routing":"price"`, `,"stop":"x"`},
		{`,"stream_options":{"include_usage":true},"stop":"x"`, `,"stop":"x"`},
		{`,"stream":false,"stream_options":null`, `,"stream":false`},
		{`,"stream":true`, `,"stream":true,"stream_options":{"include_usage":true}`},
		{`,"stream":true,"stream_options":null`, `,"stream":true,"stream_options":{"include_usage":true}`},
		{`,"stream":true,"stream_options":{}`, `,"stream":true,"stream_options":{"include_usage":true}`},
		{`,"stream_options":{"include_usage":false,"x":1},"stream":true`, `,"stream_options":{"include_usage":true,"x":1},"stream":true`},
		{`,"stream_options":{"x":1},"stream":true`, `,"stream_options":{"x":1,"include_usage":true},"stream":true`},
		{`,"stream_options":{"include_usage":true},"stream":true`, `,"stream_options":{"include_usage":true},"stream":true`},
		{`,"stream":true,"no_reasoning":true`, `,"stream":true,"stream_options":{"include_usage":true}`},
		{`,"tool_choice":{"type":"function","function":{"name":"f"}},"stop":"x"`, `,"tool_choice":"auto","stop":"x"`},
	} {
		call := newCall(t, "http://x", tc.extra)
		call.StripToolChoice = true
		before := string(call.Body)
		want := `{"model":"upstream-model","messages":[{"role":"user","content":"Hello"}]` + tc.want + `}`
		if got := string(appendBody(nil, call)); got != want {
			t.Errorf("%s:\n got %s\nwant %s", tc.extra, got, want)
		}
		if string(call.Body) != before {
			t.Error("the client's body was changed")
		}
	}
	call := newCall(t, "http://x", `,"stream":true,"stream_options":{"include_usage":true}`)
	call.Target.NoStreamUsage = true
	if got := string(appendBody(nil, call)); strings.Contains(got, "stream_options") {
		t.Errorf("stream_options to a provider that refuses them: %s", got)
	}
}

func TestHeaders(t *testing.T) {
	up := upstream.New(t, `200 chat:x`)
	a := newAdapter(t)
	call := newCall(t, up.URL, ``)
	call.Traceparent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	call.Header = http.Header{"Openai-Beta": {"x"}, "X-Custom": {"1", "2"}, "idempotency-key": {"k"}, "X-Forwarded-For": {"1.2.3.4"},
		"Authorization": {"Bearer client"}, "Connection": {"X-Custom"}, "Cookie": {"c"}, "Accept-Encoding": {"br"}, "Traceparent": {"00-client"}}
	for i, trace := range []bool{false, true} {
		call.Target.Trace = trace
		if answer, err := a.Complete(context.Background(), call); err != nil {
			t.Fatal(err)
		} else {
			answer.Release()
		}
		got := up.Calls()[i].Header
		want := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json"}, "User-Agent": {"turnout/test"},
			"Authorization": {"Bearer " + secret}, "Openai-Beta": {"x"}, "X-Custom": {"1", "2"}, "Content-Length": {got.Get("Content-Length")}}
		if trace {
			want["Traceparent"] = []string{call.Traceparent}
		}
		if g, w := mustJSON(got), mustJSON(want); g != w {
			t.Errorf("trace %v:\n got %s\nwant %s", trace, g, w)
		}
	}
}

func mustJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

const filterBody = `{"error":{"message":"filtered","code":"content_filter","innererror":{"code":"ResponsibleAIPolicyViolation"}}}`

// faults that a plain and a streaming call meet alike.
var faults = []struct {
	name, script string
	class        attempt.Outcome
	status       int
	etype        string
}{
	{"429 with Retry-After", `429 h:"Retry-After: 2" json:"{\"error\":{\"message\":\"slow\"}}"`, attempt.UpstreamError, 429, "rate_limited"},
	{"429 empty chunked", `429`, attempt.UpstreamError, 429, "rate_limited"},
	{"500", `500 json:"{\"error\":{\"message\":\"boom\"}}"`, attempt.UpstreamError, 500, "server_error"},
	{"503", `503 body:"upstream connect error"`, attempt.UpstreamError, 503, "server_error"},
	{"502 with HTML", `502 h:"Content-Type: text/html" body:"<html>Bad Gateway</html>"`, attempt.UpstreamError, 502, "server_error"},
	{"524", `524 body:"error code: 524"`, attempt.UpstreamError, 524, "server_error"},
	{"reset before headers", `rst`, attempt.NetworkError, 0, "network_error"},
	{"closed before headers", `fin`, attempt.NetworkError, 0, "network_error"},
	{"not HTTP", `wire:"SSH-2.0-OpenSSH_9.2\r\n" fin`, attempt.NetworkError, 0, "network_error"},
	{"redirect", `302 h:"Location: http://127.0.0.1:1/"`, attempt.GatewayError, 302, "gateway_error"},
	{"204", `204`, attempt.UpstreamError, 204, "upstream_error"},
	{"empty body", `200 len:0 body:""`, attempt.UpstreamError, 200, "upstream_error"},
	{"200 with HTML", `200 h:"Content-Type: text/html" body:"<!doctype html>hello"`, attempt.UpstreamError, 200, "upstream_error"},
	{"200 with an error object", `200 json:"{\"error\":{\"message\":\"no\",\"type\":\"rate_limit_error\"}}"`, attempt.UpstreamError, 429, "rate_limited"},
	{"200 with an error object of no type", `200 json:"{\"error\":{\"message\":\"no\"}}"`, attempt.UpstreamError, 500, "server_error"},
	{"invalid key", `401 json:"{\"error\":{\"message\":\"Incorrect API key provided\",\"code\":\"invalid_api_key\"}}"`, attempt.GatewayError, 401, "gateway_error"},
	{"insufficient_quota", `429 json:"{\"error\":{\"message\":\"quota\",\"code\":\"insufficient_quota\"}}"`, attempt.UpstreamError, 429, "rate_limited"},
	{"400 that mentions balance", `400 json:"{\"error\":{\"message\":\"field balance is missing\"}}"`, attempt.ClientError, 400, "client_error"},
	{"context length", `400 json:"{\"error\":{\"message\":\"long\",\"code\":\"context_length_exceeded\"}}"`, attempt.ClientError, 400, "client_error"},
	{"content filter", "400 json:`" + filterBody + "`", attempt.ContentFilter, 400, "content_filter"},
	{"unknown coding", `200 h:"Content-Encoding: br" body:"xx"`, attempt.UpstreamError, 200, "upstream_error"},
	{"bad gzip", `200 h:"Content-Encoding: gzip" body:"this is no gzip at all"`, attempt.NetworkError, 200, "network_error"},
	{"bad chunking", `wire:"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n" fin`, attempt.NetworkError, 200, "network_error"},
	{"error body cut", `500 len:100 body:"{\"error\"" fin`, attempt.UpstreamError, 500, "server_error"},
}

func TestFaults(t *testing.T) {
	for _, tc := range faults {
		for _, extra := range []string{``, streaming} {
			up := upstream.New(t, tc.script)
			a := newAdapter(t)
			call := newCall(t, up.URL, extra)
			var err *llm.Error
			if extra == "" {
				_, err = a.Complete(context.Background(), call)
			} else {
				_, err = a.Stream(context.Background(), call)
			}
			if err == nil || err.Class != tc.class || err.Status != tc.status || err.ErrorType() != tc.etype {
				t.Errorf("%s%s: %+v, want %s %d %s", tc.name, extra, err, tc.class, tc.status, tc.etype)
			}
			if n := len(up.Calls()); n != 1 {
				t.Errorf("%s%s: %d calls", tc.name, extra, n)
			}
			if call.Timing.Total <= 0 {
				t.Errorf("%s%s: no duration", tc.name, extra)
			}
			if strings.Contains(tc.name, "Retry-After") && err.RetryAfter != 2*time.Second {
				t.Errorf("%s%s: Retry-After %v", tc.name, extra, err.RetryAfter)
			}
			up.Close()
			a.client.Transports.CloseIdle()
		}
	}
}

func TestPlainFaults(t *testing.T) {
	for _, tc := range []struct {
		name, script string
		class        attempt.Outcome
		status       int
	}{
		{"a stream", `200 sse role text:a finish:stop done`, attempt.UpstreamError, 200},
		{"choices empty", `200 json:"{\"choices\":[]}"`, attempt.UpstreamError, 200},
		{"choices null", `200 json:"{\"choices\":null}"`, attempt.UpstreamError, 200},
		{"no choices", `200 json:"{\"id\":1}"`, attempt.UpstreamError, 200},
		{"choices no array", `200 json:"{\"choices\":{}}"`, attempt.UpstreamError, 200},
		{"array", `200 json:"[1]"`, attempt.UpstreamError, 200},
		{"text", `200 json:"hello"`, attempt.UpstreamError, 200},
		{"truncated JSON", `200 json:"{\"choices\":[{\"in"`, attempt.UpstreamError, 200},
		{"truncated JSON at the connection's end", `200 open json:"{\"choices\":[{\"in"`, attempt.NetworkError, 200},
		{"body cut short", `200 len:100 json:"{\"choices\":[" fin`, attempt.NetworkError, 200},
		{"body reset", `200 json:"{\"choices\":[" rst`, attempt.NetworkError, 200},
		{"gzip cut short", `200 gzip chat:hello fin`, attempt.NetworkError, 200},
		{"text behind", `200 json:"{\"choices\":[{}]} x"`, attempt.UpstreamError, 200},
		{"finish_reason error", `200 json:"{\"choices\":[{\"finish_reason\":\"error\",\"error\":{\"code\":502,\"message\":\"x\"}}]}"`, attempt.UpstreamError, 502},
		{"finish_reason error alone", `200 json:"{\"choices\":[{\"finish_reason\":\"error\"}]}"`, attempt.UpstreamError, 500},
		{"error beside choices", `200 json:"{\"choices\":[],\"error\":{\"message\":\"x\",\"type\":\"authentication_error\"}}"`, attempt.GatewayError, 401},
		{"more than 64 MiB announced", `200 len:67108865 body:"{" fin`, attempt.UpstreamError, 200},
	} {
		up := upstream.New(t, tc.script)
		a := newAdapter(t)
		_, err := a.Complete(context.Background(), newCall(t, up.URL, ``))
		if err == nil || err.Class != tc.class || err.Status != tc.status {
			t.Errorf("%s: %+v, want %s %d", tc.name, err, tc.class, tc.status)
		}
		a.client.Transports.CloseIdle()
	}
}

func TestMoreThan64MiB(t *testing.T) {
	t.Parallel()
	up := upstream.New(t, `200 json:"{\"x\":\"" repeat:67108864,"y" body:"\"}"`)
	a := newAdapter(t)
	call := newCall(t, up.URL, ``)
	call.Timeouts.Total = 20 * time.Second
	_, err := a.Complete(context.Background(), call)
	if err == nil || err.Class != attempt.UpstreamError || !strings.Contains(err.Message, "64 MiB") {
		t.Fatalf("%+v", err)
	}
}

func TestPlainTimeoutsAndCancel(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, script string
		set          func(*provider.Timeouts)
		class        attempt.Outcome
		message      string
	}{
		{"never answers", `hold`, func(l *provider.Timeouts) { l.FirstByte = 60 * time.Millisecond }, attempt.UpstreamTimeout, "no answer within 60ms"},
		{"headers and then silence", `200 len:10 body:"{" hold`, func(l *provider.Timeouts) { l.Total = 80 * time.Millisecond }, attempt.UpstreamTimeout, "not finished within 80ms"},
		{"one byte a while", `200 drip:20ms chat:"slow"`, func(l *provider.Timeouts) { l.FirstByte, l.Total = 2*time.Second, 150*time.Millisecond }, attempt.UpstreamTimeout, "not finished within 150ms"},
		{"canceled", `hold`, nil, attempt.Canceled, "client went away"},
	} {
		up := upstream.New(t, tc.script)
		a := newAdapter(t)
		call := newCall(t, up.URL, ``)
		ctx, cancel := context.WithCancel(context.Background())
		if tc.set != nil {
			tc.set(&call.Timeouts)
		} else {
			time.AfterFunc(50*time.Millisecond, cancel)
		}
		start := time.Now()
		_, err := a.Complete(ctx, call)
		cancel()
		if err == nil || err.Class != tc.class || !strings.Contains(err.Message, tc.message) {
			t.Errorf("%s: %+v", tc.name, err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s: took %v", tc.name, took)
		}
		for i := 0; up.Gone() == 0; i++ {
			if i == 100 {
				t.Fatalf("%s: the upstream was not let go within a second", tc.name)
			}
			time.Sleep(10 * time.Millisecond)
		}
		a.client.Transports.CloseIdle()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
	defer cancel()
	up := upstream.New(t, `hold`)
	a := newAdapter(t)
	if _, err := a.Complete(ctx, newCall(t, up.URL, ``)); err == nil || err.Class != attempt.UpstreamTimeout {
		t.Errorf("the request's deadline: %+v", err)
	}
}

func TestConnections(t *testing.T) {
	t.Parallel()
	a := newAdapter(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	refused := "http://" + listener.Addr().String()
	listener.Close()
	bad := upstream.NewTLS(t, &tls.Config{Certificates: []tls.Certificate{selfSigned(t)}}, `200 chat:x`)
	// The kernel completes the TCP handshake, nobody ever answers the TLS one.
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	for name, base := range map[string]string{"refused": refused, "unknown host": "http://no-such-host.invalid", "bad certificate": bad.URL, "silent TLS": "https://" + silent.Addr().String()} {
		call := newCall(t, base, ``)
		call.Timeouts.Connect = 200 * time.Millisecond
		start := time.Now()
		_, err := a.Complete(context.Background(), call)
		if err == nil || err.Class != attempt.NetworkError || err.Status != 0 {
			t.Errorf("%s: %+v", name, err)
		}
		if took := time.Since(start); took > time.Second {
			t.Errorf("%s: took %v", name, took)
		}
	}
	if n := len(bad.Calls()); n != 0 {
		t.Errorf("%d calls behind a bad certificate", n)
	}
}

func selfSigned(t *testing.T) tls.Certificate {
	s := httptest.NewUnstartedServer(nil)
	s.StartTLS()
	defer s.Close()
	return s.TLS.Certificates[0]
}

func TestForbiddenAddresses(t *testing.T) {
	up := upstream.New(t, `200 chat:x`)
	a := newAdapter(t)
	call := newCall(t, up.URL, ``)
	call.Target.AllowPrivate = false
	if _, err := a.Complete(context.Background(), call); err == nil || err.Class != attempt.NetworkError || !strings.Contains(err.Error(), "allow_private") {
		t.Errorf("loopback: %v", err)
	}
	call = newCall(t, "http://169.254.169.254", ``)
	if _, err := a.Complete(context.Background(), call); err == nil || !strings.Contains(err.Error(), "forbidden") {
		t.Errorf("metadata: %v", err)
	}
	if n := len(up.Calls()); n != 0 {
		t.Errorf("%d calls", n)
	}
}

// A reused connection that closes without an answer must not make net/http send the call again.
func TestNeverSentTwice(t *testing.T) {
	up := upstream.New(t, `200 chat:x`, `fin`)
	a := newAdapter(t)
	for i, want := range []bool{true, false} {
		call := newCall(t, up.URL, ``)
		call.Header = http.Header{"Idempotency-Key": {"k"}}
		answer, err := a.Complete(context.Background(), call)
		if (err == nil) != want {
			t.Fatalf("call %d: %v", i, err)
		}
		if answer != nil {
			answer.Release()
		}
	}
	if n := len(up.Calls()); n != 2 {
		t.Fatalf("%d calls for 2", n)
	}
}

func TestAnswerMetadata(t *testing.T) {
	for _, tc := range []struct {
		body, want string
		own        bool
	}{
		{`{"model":"m","choices":[{}],"metadata":{"a":1}}`, `{"model":"catalogue/model","choices":[{}],"metadata":{"a":1}}`, true},
		{`{"choices":[{}],"metadata":null}`, `{"choices":[{}]}`, false},
		{`{"metadata":null,"turnout":{"x":1},"choices":[{}] }` + "\n", `{"choices":[{}] }` + "\n", false},
		{`{"choices":[{}],"metadata":{"routing":[]},"turnout":{"x":1}}`, `{"choices":[{}],"metadata":{"routing":[]}}`, true},
		{`{"model":null,"choices":[{}]}`, `{"model":"catalogue/model","choices":[{}]}`, false},
		{`{"choices":[{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}]}`, `{"choices":[{"x":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}]}`, false},
	} {
		answer, err := parseAnswer(newCall(t, "http://x", ``), []byte(tc.body), false)
		if err != nil {
			t.Fatal(err)
		}
		if string(answer.Body) != tc.want || answer.OwnMetadata != tc.own || answer.Body[answer.SpliceAt] != '}' {
			t.Errorf("%s -> %s %v at %d", tc.body, answer.Body, answer.OwnMetadata, answer.SpliceAt)
		}
	}
}

func TestSecretIsScrubbed(t *testing.T) {
	up := upstream.New(t, `400 json:"{\"error\":{\"message\":\"bad `+secret+` here\"}}"`)
	_, err := newAdapter(t).Complete(context.Background(), newCall(t, up.URL, ``))
	if err == nil || err.Message != "bad *** here" {
		t.Fatalf("%+v", err)
	}
}

func TestHTTP2(t *testing.T) {
	var proto string
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		proto = r.Proto
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(upstream.Chat("two"))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	transports := provider.NewTransports(server.Client().Transport.(*http.Transport).TLSClientConfig)
	defer transports.CloseIdle()
	a := New(transports, "turnout/test", time.Now)
	for _, want := range []string{"HTTP/1.1", "HTTP/2.0"} {
		call := newCall(t, server.URL, ``)
		call.Target.HTTP2 = want == "HTTP/2.0"
		answer, err := a.Complete(context.Background(), call)
		if err != nil || proto != want {
			t.Fatalf("%v, %s instead of %s", err, proto, want)
		}
		answer.Release()
	}
}
