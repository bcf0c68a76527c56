package llm

import (
	"net/http"
	"time"

	"turnout/schemas/attempt"
)

// Error is why an attempt failed, classified once (routing.md 6). It is an error value; its text is
// for logs and holds no upstream body beyond error.message, and no credential of ours.
type Error struct {
	Class   attempt.Outcome
	Status  int    // effective: the HTTP status, or what an error inside a 200 means; 0: no response
	Code    string // error.code as the upstream wrote it
	Type    string // error.type as the upstream wrote it
	Param   string
	Message string // error.message as the upstream wrote it (client_error shows it to the client), else ours

	RetryAfter    time.Duration // 0: none named
	ContextLength bool          // the prompt did not fit: may go on, once, to a larger context
	InvalidKey    bool          // the credential is invalid: remove it until it changes
	Unsent        bool          // the gateway found the credential unusable and sent nothing: Message says why, in its own words
	Cause         error         // the transport's error, for logs; may be nil
}

func (e *Error) Error() string {
	if e.Cause != nil {
		return string(e.Class) + ": " + e.Message + ": " + e.Cause.Error()
	}
	return string(e.Class) + ": " + e.Message
}

func (e *Error) Unwrap() error { return e.Cause }

// Retryable says whether the class allows another attempt: all but client_error, content_filter and
// canceled. A ContextLength error has its own single move to a larger context.
func (e *Error) Retryable() bool {
	switch e.Class {
	case attempt.ClientError, attempt.ContentFilter, attempt.Canceled:
		return false
	}
	return true
}

// ErrorType is the error_type of metadata and events (routing.md 7).
func (e *Error) ErrorType() string { return ErrorType(e.Class, e.Status) }

// ErrorType derives error_type from a class and an effective status; "none" for what is no error.
func ErrorType(class attempt.Outcome, status int) string {
	switch class {
	case attempt.NetworkError:
		return "network_error"
	case attempt.UpstreamTimeout:
		return "timeout"
	case attempt.GatewayError:
		return "gateway_error"
	case attempt.ClientError:
		return "client_error"
	case attempt.ContentFilter:
		return "content_filter"
	case attempt.Canceled:
		return "canceled"
	case attempt.UpstreamError:
		switch {
		case status == http.StatusTooManyRequests:
			return "rate_limited"
		case status >= 500:
			return "server_error"
		}
		return "upstream_error"
	}
	return "none"
}

// Final is what a client is told when e is the last word on its request: a client_error keeps its
// status and message, a timeout is 504, the rest 502. Content filters and "every candidate limited"
// are the dispatcher's to see first (routing.md 6, "Final answer").
func (e *Error) Final() *APIError {
	switch e.Class {
	case attempt.ClientError:
		status := e.Status
		if status < 400 || status > 499 {
			status = http.StatusBadRequest
		}
		code := e.Code
		if e.ContextLength {
			code = "context_length_exceeded"
		}
		return &APIError{Status: status, Type: "invalid_request_error", Code: code, Param: e.Param, Message: e.Message}
	case attempt.ContentFilter:
		return &APIError{Status: http.StatusBadRequest, Type: "invalid_request_error", Code: "content_filter", Message: "the provider's content filter refused the request"}
	case attempt.UpstreamTimeout:
		return &APIError{Status: http.StatusGatewayTimeout, Type: "timeout_error", Code: "timeout", Message: "the provider took too long to answer; try again, or allow more time in the project's routing.timeouts"}
	}
	return &APIError{Status: http.StatusBadGateway, Type: "upstream_error", Code: "upstream_error", Message: "every provider that could serve the request failed; see turnout.routing for each attempt, and try again"}
}

// Malformed is the failure of what came under a success status and cannot be an answer.
func Malformed(message string, cause error) *Error {
	return &Error{Class: attempt.UpstreamError, Status: http.StatusOK, Message: message, Cause: cause}
}
