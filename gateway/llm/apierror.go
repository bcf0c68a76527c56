package llm

import (
	"strings"
	"time"

	"turnout/internal/jsonx"
)

// APIError is an error as a client sees it, before it takes a dialect. Message says what was wrong,
// with which field or model, and what to do.
type APIError struct {
	Status     int
	Type       string        // OpenAI's error.type
	Code       string        // "" is written as null
	Param      string        // path of the field; "" is written as null
	Message    string        //
	RetryAfter time.Duration // 0: no Retry-After header
}

func (e *APIError) Error() string { return e.Message }

// AppendOpenAI appends {"error":{...}} in OpenAI's shape. extra, if not empty, is put behind the error
// object as it stands: `,"metadata":{...},"turnout":{...}`.
func (e *APIError) AppendOpenAI(dst, extra []byte) []byte {
	dst = append(dst, `{"error":{"message":`...)
	dst = jsonx.AppendString(dst, e.Message)
	dst = append(dst, `,"type":`...)
	dst = jsonx.AppendString(dst, e.Type)
	dst = append(dst, `,"param":`...)
	dst = appendOrNull(dst, e.Param)
	dst = append(dst, `,"code":`...)
	dst = appendOrNull(dst, e.Code)
	dst = append(dst, '}')
	dst = append(dst, extra...)
	return append(dst, '}')
}

// AppendResponsesEvent appends the data of an error event in a stream of Responses. extra is as in
// AppendOpenAI.
func (e *APIError) AppendResponsesEvent(dst, extra []byte) []byte {
	dst = append(dst, `{"type":"error","code":`...)
	dst = appendOrNull(dst, e.Code)
	dst = append(dst, `,"message":`...)
	dst = jsonx.AppendString(dst, e.Message)
	dst = append(dst, `,"param":`...)
	dst = appendOrNull(dst, e.Param)
	dst = append(dst, extra...)
	return append(dst, '}')
}

// AppendAnthropic appends {"type":"error","error":{...}} in the shape of Messages. extra is as in
// AppendOpenAI.
func (e *APIError) AppendAnthropic(dst []byte, requestID string, extra []byte) []byte {
	dst = append(dst, `{"type":"error","error":{"type":"`...)
	dst = append(dst, e.anthropicType()...)
	dst = append(dst, `","message":`...)
	dst = jsonx.AppendString(dst, e.Message)
	dst = append(dst, '}')
	if requestID != "" {
		dst = jsonx.AddString(dst, "request_id", requestID)
	}
	dst = append(dst, extra...)
	return append(dst, '}')
}

// anthropicType is the kind of error by the table of api.md.
func (e *APIError) anthropicType() string {
	switch e.Status {
	case 401:
		return "authentication_error"
	case 402:
		return "billing_error"
	case 403:
		return "permission_error"
	case 404, 410:
		return "not_found_error"
	case 413, 415:
		return "request_too_large"
	case 429:
		return "rate_limit_error"
	case 503:
		return "overloaded_error"
	}
	if e.Status == 408 || e.Status >= 500 {
		return "api_error"
	}
	return "invalid_request_error"
}

func appendOrNull(dst []byte, s string) []byte {
	if s == "" {
		return append(dst, "null"...)
	}
	return jsonx.AppendString(dst, s)
}

// invalid is a 400 about one field: "messages[2].role: must be a string, not a number".
func invalid(path, problem string) *APIError {
	var b strings.Builder
	b.WriteString(path)
	b.WriteString(": ")
	b.WriteString(problem)
	return &APIError{Status: 400, Type: "invalid_request_error", Code: "invalid_value", Param: path, Message: b.String()}
}
