package llm

import (
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"turnout/schemas/attempt"
)

// Classify is the class of an answer that is no success, by its status and body (routing.md 6, first
// match). Phrases are looked for in the error's message, code and type, never in the whole body.
func Classify(status int, body []byte) *Error { return ClassifyNamed(status, "", body) }

// ClassifyNamed is Classify where the error's type stands beside the body: AWS has it in a header, or in
// that of an event. A status of 0 is the one that the type means.
func ClassifyNamed(status int, kind string, body []byte) *Error {
	b, _ := readErrorBody(body)
	if kind != "" {
		b.kind, _, _ = strings.Cut(kind, ":") // a namespace may follow
	}
	if status == 0 {
		status = b.effectiveStatus()
	}
	return classify(status, &b)
}

// InBand classifies a JSON body or stream event that carries an error although its status was 200: by
// the error's own status or code, else by its type, else as a 500. It is nil if there is no error in it.
func InBand(body []byte) *Error {
	b, found := readErrorBody(body)
	if !found {
		return nil
	}
	return classify(b.effectiveStatus(), &b)
}

func classify(status int, b *errorBody) *Error {
	if status == http.StatusBadRequest && containsAny(strings.ToLower(b.kind), limitKinds) {
		status = http.StatusTooManyRequests
	}
	e := &Error{Status: status, Code: b.code, Type: b.kind, Param: b.param, Message: b.text(status)}
	if status == http.StatusTooManyRequests || status == http.StatusServiceUnavailable {
		e.RetryAfter = b.wait()
	}
	said := strings.ToLower(b.message)
	codes := strings.ToLower(b.code + "\n" + b.kind + "\n" + b.inner)
	means := func(phrases []string) bool {
		return slices.ContainsFunc(phrases, func(p string) bool { return says(p, said, codes) })
	}
	switch {
	case status >= 500:
		e.Class = attempt.UpstreamError
	case status == http.StatusTooManyRequests:
		e.Class = attempt.UpstreamError
	case status == http.StatusNotFound, status == http.StatusRequestTimeout, status == http.StatusTooEarly:
		e.Class = attempt.UpstreamError
	case status == http.StatusPaymentRequired, status == http.StatusMethodNotAllowed, status >= 300 && status < 400:
		e.Class = attempt.GatewayError
	case status < 300, means(faultPhrases):
		e.Class = attempt.UpstreamError
	case b.filtered():
		e.Class = attempt.ContentFilter
	case status == http.StatusUnauthorized, status == http.StatusForbidden && means(keyPhrases), blamesKey(said, codes):
		e.Class = attempt.GatewayError
		e.InvalidKey = true
	case status == http.StatusForbidden:
		e.Class = attempt.GatewayError
	case means(quotaPhrases), means(accountPhrases), means(modelPhrases), slices.Contains(hostMessages, strings.ToLower(strings.TrimSpace(b.message))):
		e.Class = attempt.GatewayError
	default:
		e.Class = attempt.ClientError
		e.ContextLength = means(contextPhrases)
	}
	return e
}

// says says whether a body means a phrase. Messages quote what the client wrote, fields and values, so
// that words which are codes are believed in codes alone.
func says(phrase, message, codes string) bool {
	return strings.Contains(codes, phrase) || strings.Contains(phrase, " ") && strings.Contains(message, phrase)
}

// blamesKey says whether a 4xx of any status is about the credential, which takes that out until somebody
// changes it: no word that a client may have written can do so, but only a code, or a sentence that the
// message begins with.
func blamesKey(message, codes string) bool {
	message = strings.TrimSpace(message)
	return slices.ContainsFunc(keyPhrases, func(p string) bool {
		return strings.Contains(codes, p) || strings.Contains(p, " ") && strings.HasPrefix(message, p)
	}) && !strings.HasSuffix(message, ": extra inputs are not permitted") // it begins with the client's field
}

func containsAny(s string, phrases []string) bool {
	for _, p := range phrases {
		if strings.Contains(s, p) {
			return true
		}
	}
	return false
}

// The phrases, in lower case. Each has a row in the test that shows the body it is from.
var (
	// faultPhrases are of failures that are nobody's but the upstream's, whatever their status.
	faultPhrases = []string{
		"modelerrorexception",         // Bedrock, 424
		"modelstreamerrorexception",   // Bedrock, 424
		"the operation was cancelled", // Google, 499: not by us
	}
	// limitKinds are types of limits that AWS's own clients know by the type, whatever the status.
	limitKinds = []string{
		"throttlingexception",
		"toomanyrequestsexception",
	}
	// filterCodes are looked for in code, type and what is inside, not in the message.
	filterCodes = []string{
		"content_filter",               // Azure, Moonshot
		"responsibleaipolicyviolation", // Azure, innererror.code
		"content_policy_violation",     // OpenAI, Azure
		"moderation_blocked",           // OpenAI
		"sensitivecontentdetected",     // ByteDance, with or without InputText, OutputText, ...
		"data_inspection_failed",       // Alibaba, compatible mode
		"datainspectionfailed",         // Alibaba
	}
	filterPhrases = []string{
		"content management policy",                 // Azure
		"rejected as a result of our safety system", // OpenAI
		"flagged as potentially violating",          // OpenAI
		"content filtering policy",                  // Anthropic
		"content violates usage guidelines",         // xAI
		"content exists risk",                       // DeepSeek
	}
	keyPhrases = []string{
		"invalid_api_key",
		"invalid api key",
		"incorrect api key provided", // OpenAI, xAI, Alibaba
		"api key not valid",          // Google
		"api key not found",          // Google
		"please pass a valid api key",
		"api_key_invalid",                                    // Google, details[].reason
		"api key expired",                                    // Google
		"api key was reported as leaked",                     // Google, 403
		"invalidapikey",                                      // Alibaba
		"please make sure your api key is valid",             // Bedrock, API keys
		"the security token included in the request is",      // AWS: invalid, expired
		"expiredtokenexception",                              // AWS
		"unrecognizedclientexception",                        // AWS
		"invalidclienttokenid",                               // AWS
		"the request signature we calculated does not match", // AWS
	}
	quotaPhrases = []string{
		"credit balance is too low", // Anthropic
		"insufficient balance",      // DeepSeek
		"insufficient_quota",        // OpenAI
		"arrearage",                 // Alibaba
		"accountoverdue",            // ByteDance
		"servicequotaexceeded",      // AWS
	}
	// accountPhrases are of what the account or project may not do, or not from there.
	accountPhrases = []string{
		"failed_precondition",   // Google: the place of the caller, billing, terms of a model, the place of a model
		"accessdeniedexception", // AWS
		"incompletesignature",   // AWS
	}
	// hostMessages are messages that say all they say, about what only the host can mend.
	hostMessages = []string{
		"not found",
		"operation not allowed", // Bedrock: the account is not let in yet
	}
	modelPhrases = []string{
		"unknown model",
		"model not exist",      // DeepSeek
		"model_not_found",      // OpenAI
		"not a valid model id", // OpenRouter
		"model_decommissioned", // Groq
		"deploymentnotfound",   // Azure
		"deployment for this resource does not exist",
		"operationnotsupported",           // Azure: the deployment's model does something else
		"is enabled only for api version", // Azure
		"api version not supported",       // Azure
		"unavailable model",               // Azure, Foundry
		"modelnotopen",                    // ByteDance
		"model identifier is invalid",     // Bedrock
		"with on-demand throughput isn",   // Bedrock: wants an inference profile
		"reached the end of its life",     // Bedrock
		"invalid beta flag",               // Bedrock: another provider of the model may know it
	}
	contextPhrases = []string{
		"context_length_exceeded",                       // OpenAI, Azure, Groq: code
		"maximum context length",                        // OpenAI, DeepSeek, vLLM, Fireworks, Together, OpenRouter
		"context window",                                // OpenAI, MiniMax, Anthropic
		"prompt is too long",                            // Anthropic, Fireworks
		"exceed context limit",                          // Anthropic
		"input token count",                             // Google
		"maximum prompt length",                         // xAI
		"reduce the length of the messages",             // Groq, OpenAI
		"range of input length should be",               // Alibaba
		"exceed max message tokens",                     // ByteDance
		"exceeds the maximum input length",              // ByteDance
		"input is too long for requested model",         // Bedrock
		"too large for model with",                      // Mistral
		"exceeded model token limit",                    // Moonshot
		"exceeds the available context size",            // llama.cpp
		"longer than the maximum model length",          // vLLM
		"`inputs` tokens + `max_new_tokens` must be <=", // Together, TGI
	}
)

// RetryAfter is how long an upstream asks to wait, from retry-after-ms (milliseconds) or Retry-After
// (seconds, fractions allowed, or an HTTP date seen from now). ok is false if it asks for nothing that
// can be understood; what lies in the past is 0.
func RetryAfter(header func(name string) string, now time.Time) (wait time.Duration, ok bool) {
	if v := header("Retry-After-Ms"); v != "" {
		if wait, ok = number(v, time.Millisecond); ok {
			return wait, true
		}
	}
	v := header("Retry-After")
	if v == "" {
		return 0, false
	}
	if wait, ok = number(v, time.Second); ok {
		return wait, true
	}
	at, err := http.ParseTime(strings.TrimSpace(v))
	if err != nil {
		return 0, false
	}
	return max(0, at.Sub(now)), true
}

// maxRetryAfter keeps absurd figures inside what a Duration holds.
const maxRetryAfter = 365 * 24 * time.Hour

func number(v string, unit time.Duration) (time.Duration, bool) {
	n, err := strconv.ParseFloat(strings.TrimSpace(v), 64)
	if err != nil || n != n || n < 0 {
		return 0, false
	}
	if n > float64(maxRetryAfter/unit) {
		return maxRetryAfter, true
	}
	return time.Duration(n * float64(unit)), true
}
