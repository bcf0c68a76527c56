package gateway

import (
	"net/http"
	"time"
)

// Rows of the log that many faults end with.
const (
	servedByB = "b completed 200 none 5/2"
	servedByA = "a completed 200 none 5/2"
)

// errorBody is an error as providers write it; its text is never shown to clients.
const errorBody = `json:"{\"error\":{\"message\":\"inner text\",\"type\":\"t\",\"code\":null}}"`

// commonFaults are those that plain and streaming requests meet alike, in the order of api.md.
func commonFaults(stream bool) []fault {
	well, filtered := `200 "fine" stop`, `200 "" content_filter`
	if stream {
		well, filtered = well+" [DONE]", filtered+" [DONE]"
	}
	upstreamTimes := `timeouts: {first_byte: 250ms, first_output: 250ms, plain: 600ms, stream: 10s}`
	date := `429 h:"Retry-After: ` + time.Now().Add(40*time.Second).UTC().Format(http.TimeFormat) + `" ` + errorBody
	failover := func(name, script, row string) fault {
		return fault{name: name, script: []string{script}, calls: "a0 b0", client: well, events: []string{row, servedByB}, withinMax: 5 * time.Second}
	}
	slow := func(name, script string) fault {
		f := failover(name, script, "")
		f.extra = upstreamTimes
		return f
	}
	list := []fault{
		failover("429 with Retry-After", `429 h:"Retry-After: 2" h:"X-RateLimit-Remaining: 0" h:"Set-Cookie: a=b" `+errorBody, "a upstream_error 429 rate_limited missing retry"),
		failover("429 without Retry-After", `429 `+errorBody, "a upstream_error 429 rate_limited missing retry"),
		{name: "endless 429s on all", script: []string{`429 h:"Retry-After: 30" ` + errorBody}, b: []string{`429 h:"Retry-After: 7" ` + errorBody},
			calls: "a0 b0", client: "429 all_providers_limited after 7", events: []string{"a upstream_error 429 rate_limited missing retry", "b upstream_error 429 rate_limited missing"}},
		{name: "endless 429s, a date and milliseconds", script: []string{date}, b: []string{`429 h:"retry-after-ms: 11500" ` + errorBody},
			calls: "a0 b0", client: "429 all_providers_limited after 12", events: []string{"a upstream_error 429 rate_limited missing retry", "b upstream_error 429 rate_limited missing"}},
		{name: "endless 429s of a sole provider", script: []string{`429 h:"Retry-After: 1" ` + errorBody}, sole: true, calls: "a0 a0 a0", client: "429 all_providers_limited after 1", withinMin: 2 * time.Second,
			events: []string{"a upstream_error 429 rate_limited missing retry", "a upstream_error 429 rate_limited missing retry", "a upstream_error 429 rate_limited missing"}},
		failover("empty 429 body chunked", `429`, "a upstream_error 429 rate_limited missing retry"),
		failover("500 once", `500 `+errorBody, "a upstream_error 500 server_error missing retry"),
		{name: "500 once at a sole provider", script: []string{`500 ` + errorBody, "fine"}, sole: true, calls: "a0 a0", client: well, withinMin: time.Second,
			events: []string{"a upstream_error 500 server_error missing retry", servedByA}},
		{name: "endless 503", script: []string{`503 h:"Retry-After: 1" ` + errorBody}, b: []string{`503 h:"Retry-After: 1" ` + errorBody}, calls: "a0 b0", client: "502 upstream_error",
			events: []string{"a upstream_error 503 server_error missing retry", "b upstream_error 503 server_error missing"}},
		{name: "endless 503 of a sole provider", script: []string{`503 ` + errorBody}, sole: true, calls: "a0 a0 a0", client: "502 upstream_error", withinMin: 3 * time.Second,
			events: []string{"a upstream_error 503 server_error missing retry", "a upstream_error 503 server_error missing retry", "a upstream_error 503 server_error missing"}},
		failover("529", `529 `+errorBody, "a upstream_error 529 server_error missing retry"),
		failover("502 with HTML", `502 h:"Content-Type: text/html" body:"<html>Bad Gateway</html>"`, "a upstream_error 502 server_error missing retry"),
		{name: "502 with HTML everywhere", script: []string{`502 h:"Content-Type: text/html" body:"<html>Bad Gateway</html>"`}, b: []string{`502 h:"Content-Type: text/html" body:"<html>Bad Gateway</html>"`},
			calls: "a0 b0", client: "502 upstream_error", events: []string{"a upstream_error 502 server_error missing retry", "b upstream_error 502 server_error missing"}},
		failover("524", `524 body:"error code: 524"`, "a upstream_error 524 server_error missing retry"),
		failover("TCP reset before headers", `rst`, "a network_error 0 network_error missing retry"),
		{name: "a used connection closes without an answer", script: []string{"fine", `fin`}, requests: 2, calls: "a0 a0 b0", client: well,
			events: []string{servedByA, "a network_error 0 network_error missing retry", servedByB}},
		{name: "refused connection", base: "refused", calls: "b0", client: well, events: []string{"a network_error 0 network_error missing retry", servedByB}},
		{name: "unknown host", base: "unknown host", extra: "timeouts: {connect: 2s}", calls: "b0", client: well, events: []string{"a network_error 0 network_error missing retry", servedByB}, withinMax: 5 * time.Second},
		{name: "bad TLS certificate", base: "bad certificate", calls: "b0", client: well, events: []string{"a network_error 0 network_error missing retry", servedByB}},
		slow("headers and then silence", `200 h:"Content-Type: application/json" sse hold`),
		slow("accepts and never answers", `hold`),
		{name: "never answers, everywhere", script: []string{`hold`}, b: []string{`503 ` + errorBody}, extra: upstreamTimes, mapping: "", calls: "a0 b0", client: "502 upstream_error",
			events: []string{"a upstream_timeout 0 timeout missing retry", "b upstream_error 503 server_error missing"}},
		{name: "never answers, at a sole provider", script: []string{`hold`}, sole: true, extra: upstreamTimes, calls: "a0 a0 a0", client: "504 timeout", withinMin: 3 * time.Second,
			events: []string{"a upstream_timeout 0 timeout missing retry", "a upstream_timeout 0 timeout missing retry", "a upstream_timeout 0 timeout missing"}},
		failover("200 with an error object", `200 `+errorBody, "a upstream_error 500 server_error missing retry"),
		failover("200 with an error object that has a type", `200 json:"{\"error\":{\"message\":\"inner text\",\"type\":\"rate_limit_error\"}}"`, "a upstream_error 429 rate_limited missing retry"),
		{name: "insufficient_quota on key A with key B fine", keys: 2, script: []string{`429 json:"{\"error\":{\"message\":\"inner text\",\"type\":\"insufficient_quota\",\"code\":\"insufficient_quota\"}}"`, "fine"},
			calls: "a0 a1", client: well, events: []string{"a upstream_error 429 rate_limited missing retry", servedByA}},
		{name: "invalid key, and it is not used again", keys: 2, script: []string{`401 json:"{\"error\":{\"message\":\"inner text\",\"code\":\"invalid_api_key\"}}"`, "fine"}, requests: 4,
			calls: "a0 a1 a1 a1 a1", client: well, events: []string{"a gateway_error 401 gateway_error missing retry", servedByA, servedByA, servedByA, servedByA}},
		{name: "invalid key, the only one", script: []string{`401 ` + errorBody}, requests: 2, calls: "a0 b0 b0", client: well, events: []string{"a gateway_error 401 gateway_error missing retry", servedByB, servedByB}},
		{name: "a 400 that mentions balance", script: []string{`400 json:"{\"error\":{\"message\":\"the field balance is missing\",\"type\":\"invalid_request_error\",\"code\":null}}"`}, calls: "a0", client: "400 <nil>", says: "the field balance is missing",
			events: []string{"a client_error 400 client_error missing"}},
		{name: "context length exceeded, and a larger one exists", mapping: ", context: 5000", mappingB: ", context: 9000", script: []string{`400 json:"{\"error\":{\"message\":\"inner text\",\"code\":\"context_length_exceeded\"}}"`},
			calls: "a0 b0", client: well, events: []string{"a client_error 400 client_error missing retry", servedByB}},
		{name: "context length exceeded", sole: true, script: []string{`400 json:"{\"error\":{\"message\":\"too long\",\"code\":\"context_length_exceeded\"}}"`},
			calls: "a0", client: "400 context_length_exceeded", says: "too long", events: []string{"a client_error 400 client_error missing"}},
		{name: "content filter", script: []string{`400 json:"{\"error\":{\"message\":\"inner text\",\"code\":\"content_filter\"}}"`}, calls: "a0", client: filtered, events: []string{"a content_filter 400 content_filter missing"}},
	}
	for i := range list {
		if list[i].events[0] == "" {
			list[i].events[0] = "a upstream_timeout 0 timeout missing retry"
			if list[i].name == "headers and then silence" {
				list[i].events[0] = "a upstream_timeout 200 timeout missing retry"
			}
		}
	}
	return list
}

func plainFaults() []fault {
	const well = `200 "fine" stop`
	times := `timeouts: {first_byte: 5s, plain: 500ms}`
	malformed := "a upstream_error 200 upstream_error missing retry"
	failover := func(name, script, row string) fault {
		return fault{name: name, script: []string{script}, calls: "a0 b0", client: well, events: []string{row, servedByB}}
	}
	return []fault{
		{name: "one byte a second, in time", script: []string{`drip:1ms chat:fine`}, sole: true, calls: "a0", client: well, events: []string{servedByA}},
		{name: "one byte a second, too long", script: []string{`drip:20ms chat:fine`}, extra: times, calls: "a0 b0", client: well, events: []string{"a upstream_timeout 0 timeout missing retry", servedByB}},
		{name: "slow first token 20 s", script: []string{`pause:1s chat:fine`}, calls: "a0", client: well, events: []string{servedByA}, withinMin: time.Second},
		failover("truncated JSON body", `200 json:"{\"choices\":[{\"in"`, malformed),
		failover("JSON body cut short", `200 len:100 json:"{\"choices\":[" fin`, "a network_error 200 network_error missing retry"),
		{name: "wrong content type", script: []string{`200 h:"Content-Type: text/html" chat:fine`}, calls: "a0", client: well, events: []string{servedByA}},
		failover("wrong content type, and what it says", `200 h:"Content-Type: text/html" body:"<html>hello"`, malformed),
		failover("a stream that nobody asked for", `200 sse role text:fine finish:stop done`, malformed),
		{name: "gzip upstream", script: []string{`200 gzip chat:fine`}, calls: "a0", client: well, events: []string{servedByA}},
		failover("gzip upstream, cut", `200 gzip chat:fine fin`, "a network_error 200 network_error missing retry"),
		failover("204", `204`, "a upstream_error 204 upstream_error missing retry"),
	}
}

func streamFaults() []fault {
	const well = `200 "fine" stop [DONE]`
	inBand := `chunk:"{\"error\":{\"message\":\"inner text\",\"type\":\"overloaded_error\",\"code\":529}}"`
	before := func(name, script, row string) fault { // the client sees nothing of it
		return fault{name: name, script: []string{script}, calls: "a0 b0", client: well, events: []string{row + " missing retry", servedByB}, withinMax: 5 * time.Second}
	}
	after := func(name, script, client, row string) fault { // the client sees where it broke
		return fault{name: name, script: []string{script}, calls: "a0", client: client, events: []string{row}, withinMax: 5 * time.Second}
	}
	served := func(name, script string) fault {
		return fault{name: name, script: []string{script}, calls: "a0", client: well, events: []string{servedByA}}
	}
	timed := func(f fault, extra string) fault { f.extra = "timeouts: " + extra; return f }
	return []fault{
		before("529 as an in-band first event", `200 sse `+inBand, "a upstream_error 529 server_error"),
		before("error event behind lifecycle events", `200 sse role role `+inBand+` hold`, "a upstream_error 529 server_error"),
		{name: "529 in band, everywhere", script: []string{`200 sse ` + inBand}, b: []string{`200 sse role ` + inBand}, calls: "a0 b0", client: "502 upstream_error",
			events: []string{"a upstream_error 529 server_error missing retry", "b upstream_error 529 server_error missing"}},
		served("one byte a second, in time", `drip:1ms 200 sse role text:fine finish:stop usage:5,2 done`),
		timed(before("one byte a second, too late", `200 sse drip:20ms role text:fine finish:stop done`, "a upstream_timeout 200 timeout"), "{first_output: 400ms}"),
		timed(after("one byte a second, after output", `200 sse role text:fi drip:20ms text:ne finish:stop done`, `200 "fi" timeout!`, "a upstream_timeout 200 timeout missing"), "{idle: 400ms}"),
		{name: "slow first token 20 s", script: []string{`200 sse role pause:1s text:fine finish:stop usage:5,2 done`}, calls: "a0", client: well, events: []string{servedByA}, withinMin: time.Second},
		after("cut after 5 chunks", `200 sse role text:1 text:2 text:3 text:4 text:5 fin`, `200 "12345" upstream_error!`, "a network_error 200 network_error missing"),
		after("reset after 5 chunks", `200 sse role text:1 text:2 text:3 text:4 text:5 pause:100ms rst`, `200 "12345" upstream_error!`, "a network_error 200 network_error missing"),
		after("ended after 5 chunks as if all were well", `200 sse role text:1 text:2 text:3 text:4 text:5`, `200 "12345" upstream_error!`, "a network_error 200 network_error missing"),
		after("cut behind the usage", `200 sse role text:1 usage:5,1 fin`, `200 "1" upstream_error!`, "a network_error 200 network_error 5/1"),
		timed(after("stalled after output", `200 sse role text:fi hold`, `200 "fi" timeout!`, "a upstream_timeout 200 timeout missing"), "{idle: 250ms}"),
		{name: "opened and closed with nothing three times", script: []string{`200 sse`}, sole: true, calls: "a0 a0 a0", client: "502 upstream_error", withinMin: 3 * time.Second,
			events: []string{"a upstream_error 200 upstream_error missing retry", "a upstream_error 200 upstream_error missing retry", "a upstream_error 200 upstream_error missing"}},
		{name: "opened and closed with nothing twice", script: []string{`200 sse`, `200 sse`, "fine"}, sole: true, calls: "a0 a0 a0", client: well, withinMin: 3 * time.Second,
			events: []string{"a upstream_error 200 upstream_error missing retry", "a upstream_error 200 upstream_error missing retry", servedByA}},
		before("lifecycle events and then death", `200 sse role body:": comment\n\n" role fin`, "a network_error 200 network_error"),
		before("lifecycle events and then an end", `200 sse role role`, "a network_error 200 network_error"),
		timed(before("lifecycle events and then silence", `200 sse role pause:50ms role hold`, "a upstream_timeout 200 timeout"), "{first_output: 250ms}"),
		before("error event then an open silent socket, before output", `200 sse `+inBand+` hold`, "a upstream_error 529 server_error"),
		after("error event then an open silent socket", `200 sse role text:fi `+inBand+` hold`, `200 "fi" upstream_error!`, "a upstream_error 529 server_error missing"),
		after("malformed chunk mid-stream", `200 sse role text:fi chunk:"{\"choices\":[" text:ne finish:stop done`, `200 "fi" upstream_error!`, "a upstream_error 200 upstream_error missing"),
		before("malformed chunk first", `200 sse chunk:"{\"choices\":[" text:ne finish:stop done`, "a upstream_error 200 upstream_error"),
		served("wrong content type", `200 h:"Content-Type: text/plain" sse role text:fine finish:stop usage:5,2 done`),
		before("JSON where a stream was asked", `200 chat:fine`, "a upstream_error 200 upstream_error"),
		served("missing [DONE]", `200 sse role text:fine finish:stop usage:5,2`),
		served("missing [DONE], and a reset", `200 sse role text:fine finish:stop usage:5,2 pause:100ms rst`),
		{name: "missing [DONE] and usage, silence", script: []string{`200 sse role text:fine finish:stop hold`}, calls: "a0", client: well, events: []string{"a completed 200 none missing"}, withinMin: 4 * time.Second, withinMax: 7 * time.Second},
		{name: "missing [DONE], silence", script: []string{`200 sse role text:fine finish:stop usage:5,2 hold`}, calls: "a0", client: well, events: []string{servedByA}, withinMax: 7 * time.Second},
		after("missing finish_reason", `200 sse role text:fine usage:5,2 done`, `200 "fine" upstream_error!`, "a upstream_error 200 upstream_error 5/2"),
		served("gzip upstream", `200 gzip sse role text:fine finish:stop usage:5,2 done`),
		after("gzip upstream, cut", `200 gzip sse role text:fi fin`, `200 "fi" upstream_error!`, "a network_error 200 network_error missing"),
		after("finish_reason error", `200 sse role text:fi finish:error done`, `200 "fi" upstream_error!`, "a upstream_error 500 server_error missing"),
	}
}
