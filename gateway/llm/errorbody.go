package llm

import (
	"net/http"
	"strconv"
	"strings"
	"unicode/utf8"

	"turnout/internal/jsonx"
)

// errorBody is what the many shapes of error objects have in common.
type errorBody struct {
	message string
	code    string // error.code as a word or a number
	kind    string // error.type, or Google's error.status
	param   string
	inner   string // innererror.code, details[].reason
	status  int    // an HTTP status named inside, 0: none

	retryDelay string // details[].retryDelay
}

// readErrorBody reads {"error":{...}}, {"error":"..."}, {"type":"error",...}, {"object":"error",...},
// {"code","message"}, {"detail":...}, AWS's {"__type","message"} and Google's array around the first of them. found says whether the
// body states an error by itself, that is, also under status 200.
func readErrorBody(body []byte) (b errorBody, found bool) {
	var c jsonx.Cursor
	c.ResetLoose(body)
	if len(body) == 0 {
		return b, false
	}
	if c.Kind() == jsonx.Array {
		items := c.Array()
		if !c.NextItem(&items) {
			return b, false
		}
	}
	if c.Kind() != jsonx.Object {
		if plain := strings.TrimSpace(string(body[:min(len(body), 64)])); strings.EqualFold(plain, "not found") {
			b.message = plain
		}
		return b, false
	}
	for f := c.Object(); c.Next(&f); {
		switch key := string(f.Key); key {
		case "error":
			switch c.Kind() {
			case jsonx.Object:
				found = true
				b.readObject(&c)
			case jsonx.String:
				if text := c.Text().String(); text != "" {
					b.message, found = text, true
				}
			}
		case "object", "type":
			if c.Kind() != jsonx.String {
				continue
			}
			if word := c.Text().String(); word == "error" {
				found = true
			} else if key == "type" && b.kind == "" {
				b.kind = word
			}
		case "__type": // namespace#Name
			w := word(&c)
			b.kind = firstWord(w[strings.LastIndexByte(w, '#')+1:], b.kind)
			found = found || w != ""
		default:
			b.readField(&c, key)
		}
	}
	return b, found
}

func (b *errorBody) readObject(c *jsonx.Cursor) {
	for f := c.Object(); c.Next(&f); {
		b.readField(c, string(f.Key))
	}
}

func (b *errorBody) readField(c *jsonx.Cursor, key string) {
	switch key {
	case "message", "Message", "detail", "msg":
		if c.Kind() == jsonx.String {
			if text := c.Text().String(); text != "" && b.message == "" {
				b.message = text
			}
		}
	case "type":
		b.kind = firstWord(b.kind, word(c))
	case "code":
		w := word(c)
		b.code = firstWord(b.code, w)
		b.setStatus(w)
	case "status", "statusCode", "status_code":
		w := word(c)
		if !b.setStatus(w) && b.kind == "" {
			b.kind = w
		}
	case "param":
		b.param = firstWord(b.param, word(c))
	case "innererror":
		if c.Kind() == jsonx.Object {
			for f := c.Object(); c.Next(&f); {
				if string(f.Key) == "code" {
					b.inner += word(c) + "\n"
				}
			}
		}
	case "details":
		b.readDetails(c)
	}
}

func (b *errorBody) readDetails(c *jsonx.Cursor) {
	if c.Kind() != jsonx.Array {
		return
	}
	for a := c.Array(); c.NextItem(&a); {
		if c.Kind() != jsonx.Object {
			continue
		}
		for f := c.Object(); c.Next(&f); {
			switch string(f.Key) {
			case "reason":
				b.inner += word(c) + "\n"
			case "retryDelay":
				b.retryDelay = word(c)
			}
		}
	}
}

// word reads a string or a number as text and leaves other values for the cursor to skip.
func word(c *jsonx.Cursor) string {
	switch c.Kind() {
	case jsonx.String:
		return c.Text().String()
	case jsonx.Number:
		return string(c.Raw())
	}
	return ""
}

func firstWord(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func (b *errorBody) setStatus(w string) bool {
	n, err := strconv.Atoi(w)
	if err != nil || n < 400 || n > 599 {
		return false
	}
	if b.status == 0 {
		b.status = n
	}
	return true
}

// effectiveStatus is the status an error inside a 200 stands for.
func (b *errorBody) effectiveStatus() int {
	if b.status != 0 {
		return b.status
	}
	words := strings.ToLower(b.code + "\n" + b.kind)
	for _, row := range statusWords {
		if containsAny(words, row.words) {
			return row.status
		}
	}
	if b.filtered() {
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

var statusWords = []struct {
	status int
	words  []string
}{
	{http.StatusUnauthorized, []string{"authentication", "unauthenticated", "invalid_api_key", "unauthorized"}},
	{http.StatusForbidden, []string{"permission", "accessdenied", "expiredtoken", "unrecognizedclient"}},
	{http.StatusServiceUnavailable, []string{"serviceunavailable"}},
	{http.StatusTooManyRequests, []string{"throttling", "rate_limit", "ratelimit", "rate limit", "too_many_requests", "insufficient_quota", "resource_exhausted"}},
	{http.StatusNotFound, []string{"not_found", "notfound"}},
	{http.StatusBadRequest, []string{"validationexception", "invalid_request", "badrequest", "bad_request", "invalid_argument", "context_length_exceeded"}},
}

// filtered says whether it was a content filter that refused. Its codes are not looked for in the
// message: a request may hold a field of that name, which who refuses the field will mention.
func (b *errorBody) filtered() bool {
	codes := strings.ToLower(b.code + "\n" + b.kind + "\n" + b.inner)
	return containsAny(codes, filterCodes) || containsAny(strings.ToLower(b.message)+"\n"+codes, filterPhrases)
}

// maxMessage is how much of an upstream's message is kept, in bytes.
const maxMessage = 2000

// text is the upstream's message, cut, or one of ours where it has none that could be shown.
func (b *errorBody) text(status int) string {
	m := strings.TrimSpace(b.message)
	if m == "" || m[0] == '<' {
		return "the provider answered with status " + strconv.Itoa(status)
	}
	if len(m) > maxMessage {
		m = m[:maxMessage]
		for !utf8.ValidString(m) {
			m = m[:len(m)-1]
		}
	}
	return m
}
