package gateway

import (
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"turnout/internal/testkit/upstream"
)

// route is a surface and the protocol of the upstreams behind it. Faults are written down once, in the
// words of chat; a route says how its upstreams put them and what its clients see of them.
type route struct {
	name, prefix string
	path, body   string // of the request; %s is the model, %v whether it is a stream
	protocol     string // of the provider's document
	output       string // of the model; "[text]" if not set
	plainOnly    bool
	wire         *wireWords
	own          []fault // that only streams of this route have
	seen         func(r reply, stream bool) string
	// differs changes what must be seen; false: such a fault cannot be there.
	differs func(f *fault, stream bool) bool
}

var routes = []*route{
	{
		name: "chat", prefix: "c", path: "/v1/chat/completions", protocol: "openai", seen: seenChat,
		body: `{"model":%q,"stream":%v,"messages":[{"role":"user","content":"what the user said"}]}`,
	},
	{
		name: "messages", prefix: "m", path: "/v1/messages", protocol: "anthropic", seen: seenMessages, wire: messagesWords(),
		body: messagesSaid, differs: func(f *fault, stream bool) bool { return anthropicsOwn(f) && toMessages(f, stream) },
		own: []fault{{
			name: "cut behind the usage of the start", calls: "a0", client: `200 "fi" upstream_error!`, events: []string{"a network_error 200 network_error 5/1"},
			script: []string{`200 sse body:` + strconv.Quote(event("message_start", `{"type":"message_start","message":{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[],"stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":5,"output_tokens":1}}}`)) + ` text:fi fin`},
		}},
	},
	{
		name: "messages over chat", prefix: "n", path: "/v1/messages", protocol: "openai", seen: seenMessages,
		body: messagesSaid, differs: toMessages,
	},
	{
		name: "chat over messages", prefix: "d", path: "/v1/chat/completions", protocol: "anthropic", seen: seenChat, wire: messagesWords(),
		body: `{"model":%q,"stream":%v,"messages":[{"role":"user","content":"what the user said"}]}`, differs: func(f *fault, _ bool) bool { return anthropicsOwn(f) },
	},
	{
		name: "responses", prefix: "r", path: "/v1/responses", protocol: "openai\nendpoints: [responses]", seen: seenResponses, wire: responsesWords(),
		body: responsesSaid, differs: responsesOwn,
	},
	{
		name: "responses over chat", prefix: "s", path: "/v1/responses", protocol: "openai", seen: seenResponses, body: responsesSaid,
	},
	{
		name: "embeddings", prefix: "e", path: "/v1/embeddings", protocol: "openai", seen: seenEmbeddings, plainOnly: true, output: "[embedding]", wire: embeddingsWords(),
		body: `{"model":%q,"x":%v,"input":"what the user said"}`, differs: func(f *fault, _ bool) bool {
			f.client = strings.ReplaceAll(f.client, `200 "fine" stop`, "200 [0.25]")
			if f.name == "content filter" { // there is no way to answer without an embedding
				f.client, f.says = "400 content_filter", "inner text"
			}
			f.rows(" 5/2", " 5/0")
			return true
		},
	},
}

const (
	messagesSaid  = `{"model":%q,"stream":%v,"max_tokens":9,"messages":[{"role":"user","content":"what the user said"}]}`
	responsesSaid = `{"model":%q,"stream":%v,"store":false,"input":"what the user said"}`
)

// rows replaces something in all rows that must be in the log.
func (f *fault) rows(old, new string) {
	f.events = slices.Clone(f.events)
	for i := range f.events {
		f.events[i] = strings.ReplaceAll(f.events[i], old, new)
	}
}

// toMessages puts what clients of chat see into Anthropic's words, which have no codes.
func toMessages(f *fault, _ bool) bool {
	for code, kind := range map[string]string{
		" upstream_error": " api_error", " timeout": " api_error", " all_providers_limited": " rate_limit_error", " <nil>": " invalid_request_error", " context_length_exceeded": " invalid_request_error",
	} {
		f.client = strings.ReplaceAll(f.client, code, kind)
	}
	return true
}

// anthropicsOwn is what is otherwise where the upstream speaks Messages.
func anthropicsOwn(f *fault) bool {
	switch f.name {
	case "finish_reason error": // there is none
		return false
	case "missing [DONE] and usage, silence": // the usage comes with the reason, so nothing is waited for
		f.withinMin = 0
	}
	f.overloaded()
	return true
}

// responsesOwn is what is otherwise where the upstream speaks Responses: the answer's end is one event
// that holds reason and usage, and nothing comes behind it.
func responsesOwn(f *fault, _ bool) bool {
	switch f.name {
	case "finish_reason error", "cut behind the usage": // there is none
		return false
	case "missing [DONE] and usage, silence":
		f.withinMin = 0
	case "missing finish_reason":
		f.client, f.events = `200 "fine" upstream_error!`, []string{"a network_error 200 network_error missing"}
	}
	f.overloaded()
	return true
}

// overloaded: an event has no status, so one is told by its type (routing.md 6).
func (f *fault) overloaded() {
	if f.name != "529" { // the status of an answer
		f.rows("529 server_error", "500 server_error")
	}
}

// wireWords say the words of a script that bring an answer (testkit/upstream) in another protocol.
type wireWords struct {
	plain              func(text string) string
	role               func(n int) string // the nth of a stream
	text               func(n int, text string) string
	finish             func(all, reason, usage string) string // what was said until then; usage "in,out" or ""
	usage              func(usage string) string
	done, failed, torn string
	errorBody          string
}

var spoken = regexp.MustCompile(`(^| )(role|done|chat:\S+|text:\S+|chunk:"(?:[^"\\]|\\.)*"|finish:(\S+?)(?: usage:(\S+))?|usage:(\S+))( |$)`)

// say puts a line of a script into the words of the protocol.
func (w *wireWords) say(line string) string {
	if w == nil {
		return line
	}
	line = strings.ReplaceAll(line, errorBody, "json:"+strconv.Quote(w.errorBody))
	out, roles, texts, all := "", 0, 0, ""
	for {
		at := spoken.FindStringSubmatchIndex(line)
		if at == nil {
			return out + line
		}
		part := func(n int) string {
			if at[2*n] < 0 {
				return ""
			}
			return line[at[2*n]:at[2*n+1]]
		}
		out += line[:at[0]] + part(1)
		word, arg, _ := strings.Cut(part(2), ":")
		said := ""
		switch word {
		case "role":
			said = w.role(roles)
			roles++
		case "text":
			said = w.text(texts, arg)
			texts++
			all += arg
		case "chat":
			out += "json:" + strconv.Quote(w.plain(arg))
		case "chunk":
			said = w.torn
			if strings.Contains(arg, "inner text") {
				said = w.failed
			}
		case "finish":
			said = w.finish(all, part(3), part(4))
		case "usage":
			said = w.usage(part(5))
		case "done":
			said = w.done
		}
		if said != "" {
			out += "body:" + strconv.Quote(said)
		}
		line = part(6) + line[at[1]:]
	}
}

func event(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

func counts(format, usage string) string {
	in, out, _ := strings.Cut(usage, ",")
	return fmt.Sprintf(format, in, out)
}

func messagesWords() *wireWords {
	const message = `{"id":"msg_1","type":"message","role":"assistant","model":"up","content":[%s],"stop_reason":%s,"stop_sequence":null%s}`
	const usage = `,"usage":{"input_tokens":%s,"output_tokens":%s}`
	reasons := map[string]string{"stop": "end_turn"}
	return &wireWords{
		plain: func(text string) string {
			return fmt.Sprintf(message, fmt.Sprintf(`{"type":"text","text":%q}`, text), `"end_turn"`, counts(usage, "5,2"))
		},
		role: func(n int) string {
			if n > 0 {
				return event("ping", `{"type":"ping"}`)
			}
			return event("message_start", `{"type":"message_start","message":`+fmt.Sprintf(message, "", "null", "")+`}`)
		},
		text: func(n int, text string) string {
			said := event("content_block_delta", fmt.Sprintf(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":%q}}`, text))
			if n == 0 {
				said = event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`) + said
			}
			return said
		},
		finish: func(_, reason, used string) string {
			if used != "" {
				used = counts(usage, used)
			}
			return event("content_block_stop", `{"type":"content_block_stop","index":0}`) +
				event("message_delta", fmt.Sprintf(`{"type":"message_delta","delta":{"stop_reason":%q,"stop_sequence":null}%s}`, reasons[reason], used))
		},
		usage: func(used string) string {
			return event("message_delta", `{"type":"message_delta","delta":{}`+counts(usage, used)+`}`)
		},
		done:      event("message_stop", `{"type":"message_stop"}`),
		failed:    event("error", `{"type":"error","error":{"type":"overloaded_error","message":"inner text"}}`),
		torn:      event("content_block_delta", `{"type":"content_block_delta","index":`),
		errorBody: `{"type":"error","error":{"type":"t","message":"inner text"}}`,
	}
}

func responsesWords() *wireWords {
	response := func(status, text, used string) string {
		output, usage := "", "null"
		if text != "" {
			output = fmt.Sprintf(`{"id":"msg_1","type":"message","role":"assistant","status":"completed","content":[{"type":"output_text","text":%q,"annotations":[]}]}`, text)
		}
		if used != "" {
			usage = counts(`{"input_tokens":%s,"output_tokens":%s}`, used)
		}
		return fmt.Sprintf(`{"id":"resp_1","object":"response","created_at":1,"model":"up","status":%q,"error":null,"incomplete_details":null,"output":[%s],"usage":%s}`, status, output, usage)
	}
	kinds := []string{"response.created", "response.in_progress"}
	return &wireWords{
		plain: func(text string) string { return response("completed", text, "5,2") },
		role: func(n int) string {
			return event(kinds[n], `{"type":"`+kinds[n]+`","response":`+response("in_progress", "", "")+`}`)
		},
		text: func(_ int, text string) string {
			return event("response.output_text.delta", fmt.Sprintf(`{"type":"response.output_text.delta","item_id":"msg_1","output_index":0,"content_index":0,"delta":%q}`, text))
		},
		finish: func(all, _, used string) string {
			return event("response.completed", `{"type":"response.completed","response":`+response("completed", all, used)+`}`)
		},
		usage:     func(string) string { return "" },
		failed:    event("error", `{"type":"error","code":"server_is_overloaded","message":"inner text","param":null}`),
		torn:      event("response.output_text.delta", `{"type":"response.output_text.delta","delta":`),
		errorBody: `{"error":{"message":"inner text","type":"t","code":null}}`,
	}
}

func embeddingsWords() *wireWords {
	w := *responsesWords()
	w.plain = func(string) string {
		return `{"object":"list","data":[{"object":"embedding","index":0,"embedding":[0.25]}],"model":"up","usage":{"prompt_tokens":5,"total_tokens":5}}`
	}
	return &w
}

// refusedAs tells of an answer that is an error: its status, code and the second to come again.
func refusedAs(r reply, code string) string {
	s := fmt.Sprintf("%d %v", r.status, r.at(code))
	if wait := r.header.Get("Retry-After"); wait != "" {
		s += " after " + wait
	}
	return s
}

func seenEmbeddings(r reply, _ bool) string {
	if r.status != 200 {
		return refusedAs(r, "error.code")
	}
	return fmt.Sprintf("200 %v", r.at("data.0.embedding"))
}

// In the words of chat.
var finishWords = map[any]string{"end_turn": "stop", "refusal": "content_filter", "completed": "stop", "incomplete": "content_filter"}

func seenMessages(r reply, stream bool) string {
	switch {
	case r.status != 200:
		return refusedAs(r, "error.type")
	case !stream:
		text, _ := r.at("content.0.text").(string)
		return fmt.Sprintf("200 %q %v", text, finishWords[r.at("stop_reason")])
	}
	return seenEvents(r.body, func(name string, data reply) (text, end string) {
		switch name {
		case "content_block_delta":
			text, _ = data.at("delta.text").(string)
		case "message_delta":
			if reason := data.at("delta.stop_reason"); reason != nil {
				end = " " + finishWords[reason]
			}
		case "message_stop":
			end = " [DONE]"
		case "error":
			end = fmt.Sprintf(" %v!", data.at("error.type"))
		}
		return text, end
	})
}

func seenResponses(r reply, stream bool) string {
	switch {
	case r.status != 200:
		return refusedAs(r, "error.code")
	case !stream:
		text, _ := r.at("output.0.content.0.text").(string)
		return fmt.Sprintf("200 %q %v", text, finishWords[r.at("status")])
	}
	return seenEvents(r.body, func(name string, data reply) (text, end string) {
		switch name {
		case "response.output_text.delta":
			text, _ = data.at("delta").(string)
		case "response.completed", "response.incomplete":
			end = " " + finishWords[data.at("response.status")] + " [DONE]"
		case "error":
			end = fmt.Sprintf(" %v!", data.at("code"))
		}
		return text, end
	})
}

// seenEvents puts together what the events of a stream brought.
func seenEvents(body string, each func(name string, data reply) (text, end string)) string {
	text, end := "", ""
	for e := range strings.SplitSeq(strings.TrimSuffix(body, "\n\n"), "\n\n") {
		name, data, ok := strings.Cut(strings.TrimPrefix(e, "event: "), "\ndata: ")
		if strings.HasPrefix(e, ":") {
			continue // a comment
		}
		if !ok || strings.HasSuffix(end, "!") {
			end += " and then " + e
			continue
		}
		t, more := each(name, reply{body: data})
		text, end = text+t, end+more
	}
	return fmt.Sprintf("200 %q%s", text, end)
}

// faultsOf are the faults as the route meets them.
func (r *route) faultsOf(stream bool) (list []fault) {
	all := append(plainFaults(), commonFaults(false)...)
	if stream {
		all = append(append(streamFaults(), commonFaults(true)...), r.own...)
	}
	for _, f := range all {
		f.script, f.b = r.scripts(f.script), r.scripts(f.b)
		if r.differs == nil || r.differs(&f, stream) {
			list = append(list, f)
		}
	}
	return list
}

func (r *route) scripts(lines []string) (out []string) {
	for _, line := range lines {
		out = append(out, r.wire.say(line))
	}
	return out
}

// well is an answer as it should be.
func (r *route) well(stream bool) string {
	if stream {
		return r.wire.say(`200 sse role text:fi text:ne finish:stop usage:5,2 done`)
	}
	return r.wire.say(`200 chat:fine`)
}

// streamingRoutes are the routes that stream, and resources with a provider of each for every kind, named
// by the route's prefix and the kind. All serve the model m.
func streamingRoutes(base string, kinds ...string) (list []*route, documents string) {
	var providers []providerSpec
	for _, r := range routes {
		if r.plainOnly {
			continue
		}
		list = append(list, r)
		for _, kind := range kinds {
			providers = append(providers, providerSpec{id: r.prefix + kind})
		}
	}
	documents = resources(base, noExploration, providers...)
	for _, r := range list {
		for _, kind := range kinds {
			documents = strings.Replace(documents, "id: "+r.prefix+kind+"\nprotocol: openai\n", "id: "+r.prefix+kind+"\nprotocol: "+r.protocol+"\n", 1)
		}
	}
	return list, documents
}

// begin brings the start of a stream and the first of its text in the words of the route's upstreams.
func (r *route) begin(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/event-stream")
	if r.wire != nil {
		_, _ = io.WriteString(w, r.wire.role(0))
	}
	_, _ = io.WriteString(w, r.said(0, text))
	w.(http.Flusher).Flush()
}

// said is the nth text of a stream, from 0.
func (r *route) said(n int, text string) string {
	if r.wire == nil {
		return "data: " + upstream.Chunk(fmt.Sprintf(`{"content":%q}`, text), "") + "\n\n"
	}
	return r.wire.text(n, text)
}

// end brings the last text and the end; said is all the text before it.
func (r *route) end(w http.ResponseWriter, said, text string) {
	_, _ = io.WriteString(w, r.said(1, text))
	if r.wire == nil {
		chunks(w, "", "stop", true)
		return
	}
	_, _ = io.WriteString(w, r.wire.finish(said+text, "stop", "5,2")+r.wire.done)
}
