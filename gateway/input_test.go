package gateway

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"
)

// badInput is a request that nobody could serve.
type badInput struct {
	name, body string
	header     []string
	status     int    // 400 if not set
	code       string // OpenAI's code; invalid_value if not set
	path       string // of the field at fault; "": there is none
	says       string
}

func (b *badInput) want() (status int, code string) {
	status, code = b.status, b.code
	if status == 0 {
		status = http.StatusBadRequest
	}
	if code == "" {
		code = "invalid_value"
	}
	return status, code
}

// everySurface is what no surface takes; %s is a good body without its last brace.
func everySurface(good string, model string) []badInput {
	open := strings.TrimSuffix(good, "}")
	return []badInput{
		{name: "no JSON", body: `hello`, code: "invalid_json", says: "at byte 0"},
		{name: "half of it", body: open, code: "invalid_json", says: fmt.Sprintf("at byte %d", len(open))},
		{name: "a list", body: `[` + good + `]`, code: "invalid_json", says: "must be a JSON object"},
		{name: "text behind it", body: good + "x", code: "invalid_json", says: fmt.Sprintf("at byte %d", len(good))},
		{name: "bytes that are no UTF-8", body: open + `,"x":"` + "\xff" + `"}`, code: "invalid_json", says: "UTF-8"},
		{name: "a key twice", body: open + `,"model":"m"}`, code: "invalid_json", says: "twice"},
		{name: "too deep", body: open + `,"x":` + strings.Repeat("[", 200) + strings.Repeat("]", 200) + `}`, code: "invalid_json", says: "levels"},
		{name: "no model", body: strings.Replace(good, `"model":"`+model+`",`, "", 1), path: "model", says: "is missing"},
		{name: "a model that is no name", body: strings.Replace(good, `"`+model+`"`, `7`, 1), path: "model", says: "must be a string, not 7"},
		{name: "an unknown model", body: strings.Replace(good, `"`+model+`"`, `"nobody"`, 1), code: "model_not_found", path: "model", says: "nobody"},
		{name: "an unknown strategy", body: open + `,"routing":"best"}`, path: "routing", says: "must be auto"},
		{name: "a body that says it is text", body: good, header: []string{"Content-Type", "text/plain"}, status: 415, code: "unsupported_media_type", says: "application/json"},
		{name: "an encoding that nobody has", body: good, header: []string{"Content-Encoding", "br"}, status: 415, code: "unsupported_media_type", says: "gzip"},
		{name: "no gzip", body: good, header: []string{"Content-Encoding", "gzip"}, code: "invalid_json", says: "gzip"},
		{name: "no key", body: good, header: []string{"Authorization", ""}, status: 401, code: "invalid_api_key", says: "Authorization"},
		{name: "a key that is revoked", body: good, header: []string{"Authorization", "Bearer to-revoked"}, status: 401, code: "invalid_api_key", says: "revoked"},
	}
}

const (
	linkLocal = "http://169.254.169.254/latest/meta-data"
	mapped    = "http://[::ffff:a9fe:a9fe]/"
	bent      = "http://0xa9.254.43518/"
	metadata  = "http://metadata.google.internal/computeMetadata/v1/"
)

func chatInput() []badInput {
	const open = `{"model":"m","messages":[{"role":"user","content":"x"}]`
	talk := func(messages string) string { return `{"model":"m","messages":[` + messages + `]}` }
	part := func(p string) string { return talk(`{"role":"user","content":[{"type":"text","text":"x"},` + p + `]}`) }
	image := func(url string) string { return part(`{"type":"image_url","image_url":{"url":"` + url + `"}}`) }
	const imageAt = "messages[0].content[1].image_url.url"
	call := `{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"f","arguments":"{}"}}]}`
	return append(everySurface(open+"}", "m"),
		badInput{name: "no messages", body: `{"model":"m"}`, path: "messages", says: "is missing"},
		badInput{name: "messages in no list", body: `{"model":"m","messages":{}}`, path: "messages", says: "must be an array"},
		badInput{name: "a wrong role", body: talk(`{"role":"user","content":"x"},{"role":"robot","content":"x"}`), path: "messages[1].role", says: "must be system, developer, user, assistant or tool"},
		badInput{name: "no role", body: talk(`{"content":"x"}`), path: "messages[0].role", says: "is missing"},
		badInput{name: "no content", body: talk(`{"role":"user"}`), path: "messages[0].content", says: "is missing"},
		badInput{name: "a result of no call", body: talk(`{"role":"user","content":"x"},{"role":"tool","tool_call_id":"c9","content":"x"}`), path: "messages[1].tool_call_id", says: "before it"},
		badInput{name: "a result before its call", body: talk(`{"role":"tool","tool_call_id":"c1","content":"x"},` + call), path: "messages[0].tool_call_id", says: "before it"},
		badInput{name: "a result without an id", body: talk(call + `,{"role":"tool","content":"x"}`), path: "messages[1].tool_call_id", says: "is missing"},
		badInput{name: "an unknown type of content", body: part(`{"type":"smell","smell":"x"}`), path: "messages[0].content[1].type", says: "does not exist"},
		badInput{name: "a part without a type", body: part(`{"text":"x"}`), path: "messages[0].content[1].type", says: "is missing"},
		badInput{name: "bad base64", body: image("data:image/png;base64,a b"), path: imageAt, says: "no base64"},
		badInput{name: "bad base64 of sound", body: part(`{"type":"input_audio","input_audio":{"data":"*","format":"wav"}}`), path: "messages[0].content[1].input_audio.data", says: "base64"},
		badInput{name: "bad base64 of a file", body: part(`{"type":"file","file":{"filename":"a.pdf","file_data":"data:application/pdf;base64,a"}}`), path: "messages[0].content[1].file.file_data", says: "base64"},
		badInput{name: "a link-local address", body: image(linkLocal), path: imageAt, says: "link-local"},
		badInput{name: "a mapped one", body: image(mapped), path: imageAt, says: "link-local"},
		badInput{name: "a bent one", body: image(bent), path: imageAt, says: "link-local"},
		badInput{name: "a metadata address", body: image(metadata), path: imageAt, says: "metadata"},
		badInput{name: "a file of the upstream's", body: image("file:///etc/passwd"), path: imageAt, says: "as data"},
		badInput{name: "a tool without a name", body: open + `,"tools":[{"type":"function","function":{}}]}`, path: "tools[0].function.name", says: "is missing"},
		badInput{name: "an unknown choice", body: open + `,"tool_choice":"must"}`, path: "tool_choice", says: "must be auto"},
		badInput{name: "a choice of nothing", body: open + `,"tool_choice":{"type":"function"}}`, path: "tool_choice.function.name", says: "is missing"},
		badInput{name: "no room for an answer", body: open + `,"max_tokens":0}`, path: "max_tokens", says: "from 1 to"},
		badInput{name: "half a choice", body: open + `,"n":1.5}`, path: "n", says: "must be an integer"},
	)
}

func messagesInput() []badInput {
	const open = `{"model":"m","max_tokens":50,"messages":[{"role":"user","content":"x"}]`
	talk := func(messages string) string { return `{"model":"m","max_tokens":50,"messages":[` + messages + `]}` }
	block := func(b string) string { return talk(`{"role":"user","content":[{"type":"text","text":"x"},` + b + `]}`) }
	image := func(source string) string { return block(`{"type":"image","source":{` + source + `}}`) }
	link := func(url string) string { return image(`"type":"url","url":"` + url + `"`) }
	const imageAt = "messages[0].content[1].source.url"
	return append(everySurface(open+"}", "m"),
		badInput{name: "no limit", body: `{"model":"m","messages":[{"role":"user","content":"x"}]}`, path: "max_tokens", says: "is missing"},
		badInput{name: "a limit of nothing", body: strings.Replace(open, "50", "0", 1) + "}", path: "max_tokens", says: "from 1 to"},
		badInput{name: "no messages", body: `{"model":"m","max_tokens":50}`, path: "messages", says: "is missing"},
		badInput{name: "a wrong role", body: talk(`{"role":"tool","content":"x"}`), path: "messages[0].role", says: "must be user or assistant"},
		badInput{name: "no content", body: talk(`{"role":"user"}`), path: "messages[0].content", says: "is missing"},
		badInput{name: "a result of no call", body: block(`{"type":"tool_result","tool_use_id":"t9","content":"x"}`), path: "messages[0].content[1].tool_use_id", says: "before it"},
		badInput{name: "an unknown block", body: block(`{"type":"smell"}`), path: "messages[0].content[1]", says: "does not exist"},
		badInput{name: "a block without a type", body: block(`{"text":"x"}`), path: "messages[0].content[1].type", says: "is missing"},
		badInput{name: "bad base64", body: image(`"type":"base64","media_type":"image/png","data":"a b"`), path: "messages[0].content[1].source.data", says: "base64"},
		badInput{name: "an unknown source", body: image(`"type":"cloud"`), path: "messages[0].content[1].source", says: "must have a type of base64"},
		badInput{name: "no source", body: block(`{"type":"image"}`), path: "messages[0].content[1].source", says: "is missing"},
		badInput{name: "a link-local address", body: link(linkLocal), path: imageAt, says: "link-local"},
		badInput{name: "a mapped one", body: link(mapped), path: imageAt, says: "link-local"},
		badInput{name: "a bent one", body: link(bent), path: imageAt, says: "link-local"},
		badInput{name: "a metadata address", body: link(metadata), path: imageAt, says: "metadata"},
		badInput{name: "a document at one", body: block(`{"type":"document","source":{"type":"url","url":"` + linkLocal + `"}}`), path: imageAt, says: "link-local"},
		badInput{name: "a tool without a name", body: open + `,"tools":[{"input_schema":{}}]}`, path: "tools[0].name", says: "is missing"},
		badInput{name: "OpenAI's way to choose", body: open + `,"tool_choice":"auto"}`, path: "tool_choice", says: "must be an object"},
		badInput{name: "an unknown choice", body: open + `,"tool_choice":{"type":"must"}}`, path: "tool_choice", says: "auto, any, tool or none"},
		badInput{name: "a choice of nothing", body: open + `,"tool_choice":{"type":"tool"}}`, path: "tool_choice.name", says: "is missing"},
		badInput{name: "thinking without a type", body: open + `,"thinking":{"budget_tokens":1024}}`, path: "thinking.type", says: "is missing"},
	)
}

func responsesInput() []badInput {
	const open = `{"model":"m","input":"x"`
	talk := func(items string) string { return `{"model":"m","input":[` + items + `]}` }
	part := func(p string) string {
		return talk(`{"role":"user","content":[{"type":"input_text","text":"x"},` + p + `]}`)
	}
	image := func(url string) string { return part(`{"type":"input_image","image_url":"` + url + `"}`) }
	const imageAt = "input[0].content[1].image_url"
	return append(everySurface(open+"}", "m"),
		badInput{name: "no input", body: `{"model":"m"}`, path: "input", says: "is missing"},
		badInput{name: "an empty input", body: talk(``), path: "input", says: "at least one item"},
		badInput{name: "a wrong role", body: talk(`{"role":"tool","content":"x"}`), path: "input[0].role", says: "must be user, assistant, system or developer"},
		badInput{name: "a result of no call", body: talk(`{"role":"user","content":"x"},{"type":"function_call_output","call_id":"c9","output":"x"}`), path: "input[1].call_id", says: "before it"},
		badInput{name: "an unknown item", body: talk(`{"type":"telegram","text":"x"}`), path: "input[0].type", says: "does not exist"},
		badInput{name: "an unknown type of content", body: part(`{"type":"smell"}`), path: "input[0].content[1].type", says: "does not exist"},
		badInput{name: "an item that would have to be stored", body: talk(`{"type":"item_reference","id":"msg_1"}`), path: "input[0]", says: "did not store"},
		badInput{name: "an answer to be stored", body: open + `,"store":true}`, path: "store", says: "stores no answers"},
		badInput{name: "an answer that was stored", body: open + `,"previous_response_id":"resp_1"}`, path: "previous_response_id", says: "send the whole input"},
		badInput{name: "bad base64", body: image("data:image/png;base64,a b"), path: imageAt, says: "no base64"},
		badInput{name: "bad base64 of a file", body: part(`{"type":"input_file","filename":"a.pdf","file_data":"data:application/pdf;base64,a"}`), path: "input[0].content[1].file_data", says: "no base64"},
		badInput{name: "a link-local address", body: image(linkLocal), path: imageAt, says: "link-local"},
		badInput{name: "a bent one", body: image(bent), path: imageAt, says: "link-local"},
		badInput{name: "a metadata address", body: image(metadata), path: imageAt, says: "metadata"},
		badInput{name: "a file at one", body: part(`{"type":"input_file","file_url":"` + linkLocal + `"}`), path: "input[0].content[1].file_url", says: "link-local"},
		badInput{name: "a tool without a name", body: open + `,"tools":[{"type":"function"}]}`, path: "tools[0].name", says: "is missing"},
		badInput{name: "an unknown choice", body: open + `,"tool_choice":"must"}`, path: "tool_choice", says: "must be auto"},
		badInput{name: "a choice of nothing", body: open + `,"tool_choice":{"type":"function"}}`, path: "tool_choice.name", says: "is missing"},
		badInput{name: "no room for an answer", body: open + `,"max_output_tokens":0}`, path: "max_output_tokens", says: "from 1 to"},
	)
}

func embeddingsInput() []badInput {
	const open = `{"model":"e","input":"x"`
	of := func(input string) string { return `{"model":"e","input":` + input + `}` }
	return append(everySurface(open+"}", "e"),
		badInput{name: "no input", body: `{"model":"e"}`, path: "input", says: "is missing"},
		badInput{name: "an empty text", body: of(`""`), path: "input", says: "must hold text"},
		badInput{name: "an empty list", body: of(`[]`), path: "input", says: "at least one text"},
		badInput{name: "an object", body: of(`{"text":"x"}`), path: "input", says: "must be a text"},
		badInput{name: "texts and tokens", body: of(`["x",1]`), path: "input[1]", says: "same kind"},
		badInput{name: "half a token", body: of(`[1,2.5]`), path: "input[1]", says: "must be a token id"},
		badInput{name: "a negative token", body: of(`[[1],[-2]]`), path: "input[1][0]", says: "must be a token id"},
		badInput{name: "no tokens", body: of(`[[1],[]]`), path: "input[1]", says: "at least one token id"},
		badInput{name: "no dimensions", body: open + `,"dimensions":0}`, path: "dimensions", says: "from 1 to"},
		badInput{name: "an unknown format", body: open + `,"encoding_format":"hex"}`, path: "encoding_format", says: "float or base64"},
		badInput{name: "a model that writes", body: `{"model":"m","input":"x"}`, path: "model", code: "no_provider_available", says: "makes no embeddings"},
	)
}

// TestBadInput sends each surface what cannot be served. It is told so in its own dialect, with the path
// of the field, and nobody is called for it.
func TestBadInput(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, mixed(u.URL), nil).ready()
	for _, s := range []struct {
		path string
		list []badInput
	}{
		{"/v1/chat/completions", chatInput()}, {"/v1/messages", messagesInput()}, {"/v1/responses", responsesInput()}, {"/v1/embeddings", embeddingsInput()},
		{"/v1/messages/count_tokens", countInput()},
	} {
		anthropic := strings.HasPrefix(s.path, "/v1/messages")
		for _, in := range s.list {
			status, code := in.want()
			r := n.do("POST", n.url+s.path, in.body, in.header...)
			message, _ := r.at("error.message").(string)
			bad := r.status != status || !strings.Contains(message, in.says) || in.path != "" && code == "invalid_value" && !strings.HasPrefix(message, in.path+": ") ||
				r.header.Get("Content-Type") != "application/json" || r.header.Get("X-Request-Id") == "" || strings.Contains(r.body, token)
			if anthropic {
				bad = bad || r.at("type") != "error" || r.at("error.type") != anthropicTypes[status] || r.at("request_id") != r.header.Get("X-Request-Id")
			} else {
				var path any
				if in.path != "" {
					path = in.path
				}
				bad = bad || r.at("error.type") != openAITypes[status] || r.at("error.code") != code || r.at("error.param") != path
			}
			if bad {
				t.Errorf("%s: %s: %d %s\nwant %d %s %s %q", s.path, in.name, r.status, r.body, status, code, in.path, in.says)
			}
		}
	}
	if calls := u.called(""); len(calls) != 0 {
		t.Errorf("%d calls were made, the first of them %s", len(calls), calls[0].body)
	}
}

var (
	openAITypes    = map[int]string{400: "invalid_request_error", 401: "authentication_error", 413: "invalid_request_error", 415: "invalid_request_error"}
	anthropicTypes = map[int]string{400: "invalid_request_error", 401: "authentication_error", 413: "request_too_large", 415: "request_too_large"}
)

// countInput is what a count cannot be made of: all that Messages refuses, but for the limit that it needs not.
func countInput() (list []badInput) {
	for _, in := range messagesInput() {
		if in.name != "no limit" {
			list = append(list, in)
		}
	}
	return list
}

// What is for the upstream to judge is not refused here.
func TestOddInputPasses(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, mixed(u.URL), nil).ready()
	const image = "iVBORw0KGgo="
	for name, body := range map[string]string{
		"words of parameters":            `{"model":"m","messages":[{"role":"user","content":"x"}],"temperature":"hot","stop":{},"made_up":[1]}`,
		"a video":                        `{"model":"m","messages":[{"role":"user","content":[{"type":"video_url","video_url":{"url":"https://example.com/a.mp4"}}]}]}`,
		"escaped slashes":                `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image\/png;base64,iVB\/Rw0KGgo="}}]}]}`,
		"an image inside an open house":  `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1:1/a.png"}}]}]}`,
		"an old function":                `{"model":"m","messages":[{"role":"user","content":"x"},{"role":"function","name":"f","content":"x"}]}`,
		"an image without a type of its": `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:;base64,` + image + `"}}]}]}`,
	} {
		if r := n.chat(body); r.status != 200 || r.at("metadata.used_provider") != "alpha" {
			t.Errorf("%s: %d %s", name, r.status, r.body)
		}
	}
	// Only providers that may be inside a network themselves may be sent to look there.
	outside := strings.Replace(mixed(u.URL), "kind: provider\nid: ant\nprotocol: anthropic\nbase_url: "+u.URL+"/ant/v1\nallow_private: true",
		"kind: provider\nid: ant\nprotocol: anthropic\nbase_url: http://192.0.2.1/v1", 1)
	n = start(t, outside, nil).ready()
	inward := `{"model":%q,"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"http://127.0.0.1:1/a.png"}}]}]}`
	if r := n.chat(fmt.Sprintf(inward, "ant:m")); r.status != 400 || r.at("error.code") != "no_provider_available" || !strings.Contains(r.body, "ant (vision)") {
		t.Errorf("%d %s", r.status, r.body)
	}
	if r := n.chat(fmt.Sprintf(inward, "m")); r.status != 200 || r.at("metadata.used_provider") != "alpha" {
		t.Errorf("%d %s", r.status, r.body)
	}
}

// zeros are a body of any size that costs no memory.
type zeros struct{ head, tail io.Reader }

func (z zeros) Read(p []byte) (int, error) {
	n, err := z.head.Read(p)
	if err == io.EOF && z.tail != nil {
		return z.tail.Read(p)
	}
	return n, err
}

type repeated byte

func (r repeated) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(r)
	}
	return len(p), nil
}

// TestHundredMegabytes sends an image that is too large to each surface, with its length and without.
func TestHundredMegabytes(t *testing.T) {
	t.Parallel()
	u := newUpstreams(t)
	n := start(t, mixed(u.URL), nil).ready()
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}
	const size = 100 << 20
	for path, head := range map[string]string{
		"/v1/chat/completions":      `{"model":"m","messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"data:image/png;base64,`,
		"/v1/messages":              `{"model":"m","max_tokens":9,"messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`,
		"/v1/messages/count_tokens": `{"model":"m","messages":[{"role":"user","content":[{"type":"image","source":{"type":"base64","media_type":"image/png","data":"`,
		"/v1/responses":             `{"model":"m","input":[{"role":"user","content":[{"type":"input_image","image_url":"data:image/png;base64,`,
		"/v1/embeddings":            `{"model":"e","input":"`,
	} {
		for _, known := range []bool{true, false} {
			r, err := http.NewRequest("POST", n.url+path, zeros{strings.NewReader(head), io.LimitReader(repeated('A'), size)})
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Authorization", "Bearer "+token)
			r.Header.Set("Content-Type", "application/json")
			r.ContentLength = -1
			if known {
				r.ContentLength = size + int64(len(head))
			}
			resp, err := client.Do(r)
			if err != nil {
				t.Errorf("%s, length known %v: %v", path, known, err)
				continue
			}
			body, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			var e struct {
				Type  string
				Error struct{ Type, Code, Message string }
			}
			if err := json.Unmarshal(body, &e); err != nil {
				t.Errorf("%s: %v: %s", path, err, body)
			}
			want := openAITypes[413]
			if strings.HasPrefix(path, "/v1/messages") {
				want = anthropicTypes[413]
			}
			if resp.StatusCode != 413 || e.Error.Type != want || !strings.Contains(e.Error.Message, "33554432 bytes") {
				t.Errorf("%s, length known %v: %d %s", path, known, resp.StatusCode, body)
			}
		}
	}
	if len(u.called("")) != 0 {
		t.Error("somebody was called")
	}
}
