package vertex

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/oauth2"
	oauth "golang.org/x/oauth2/google"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/schemas/attempt"
	"turnout/schemas/resource"
)

const (
	scope        = "https://www.googleapis.com/auth/cloud-platform"
	fetchTimeout = 10 * time.Second
)

// ask asks for a token of the service account that the call's secret is the JSON of.
func ask(by *provider.Beside, call *provider.Call, agent string, now func() time.Time) (*oauth2.Token, *llm.Error) {
	account, err := oauth.JWTConfigFromJSON([]byte(call.Secret), scope)
	if err != nil {
		return nil, invalid("the credential is no JSON of a service account")
	}
	if problem := tokenURLProblem(account.TokenURL, call.Target.AllowPrivate); problem != "" {
		return nil, invalid("the service account's token_uri " + problem)
	}
	client := &http.Client{
		Transport:     named{by, agent},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	token, err := account.TokenSource(context.WithValue(context.Background(), oauth2.HTTPClient, client)).Token()
	refused, forbidden := (*oauth2.RetrieveError)(nil), (*provider.ErrForbiddenAddress)(nil)
	switch {
	case errors.As(by.Err, &forbidden):
		return nil, invalid("the service account's token_uri leads where no provider may be")
	case by.Err != nil:
		failure := by.Watch.Error(by.Err)
		failure.Message = "Google's token endpoint: " + failure.Message
		return nil, failure
	case errors.As(err, &refused):
		return nil, refusal(refused, now)
	case err != nil && !by.Asked:
		return nil, invalid("the service account's private_key cannot be signed with: it must be an RSA key in PEM, as Google makes them")
	case err != nil:
		return nil, unusable("Google's token endpoint answered what is no token")
	case !sendable(token.AccessToken):
		return nil, unusable("Google's token endpoint answered without a token that could be sent")
	}
	return token, nil
}

// refusal is the failure that an error status of a token endpoint means.
func refusal(e *oauth2.RetrieveError, now func() time.Time) *llm.Error {
	status := e.Response.StatusCode
	if status >= 500 || status == http.StatusTooManyRequests || status == http.StatusRequestTimeout {
		failure := &llm.Error{Class: attempt.UpstreamError, Status: status, Message: "Google's token endpoint answered " + http.StatusText(status)}
		failure.RetryAfter, _ = llm.RetryAfter(e.Response.Header.Get, now())
		return failure
	}
	var said struct {
		Error       string `json:"error"`
		Description string `json:"error_description"`
	}
	if json.Unmarshal(e.Body, &said) != nil || strings.Trim(said.Error, "abcdefghijklmnopqrstuvwxyz_") != "" {
		said.Error = ""
	}
	switch {
	case strings.Contains(said.Description, "in a reasonable timeframe"):
		return unusable("Google does not take what the service account signed: the clock of this node is wrong")
	case status != http.StatusBadRequest && status != http.StatusUnauthorized:
		return unusable("Google's token endpoint answered " + http.StatusText(status))
	case said.Error == "":
		return invalid("Google does not take the service account: no reason given")
	}
	return invalid("Google does not take the service account: " + said.Error) // the word, and nothing else of what was said
}

// tokenURLProblem says what is wrong with where tokens come from; "" if nothing is. What a provider's base
// URL may not be it may not be either, and a tenant's JSON must not send the gateway anywhere else than to
// Google but where the host allows private addresses.
func tokenURLProblem(tokenURL string, allowPrivate bool) string {
	u, err := url.Parse(tokenURL)
	if err != nil || u.Host == "" {
		return "is no URL"
	}
	base := url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}
	if err := resource.CheckBaseURL(base.String(), allowPrivate); err != nil {
		return "is no address that a provider may have"
	}
	if allowPrivate {
		return ""
	}
	host := strings.ToLower(u.Hostname())
	if u.Scheme == "https" && u.Port() == "" && (host == "accounts.google.com" || host == "googleapis.com" || strings.HasSuffix(host, ".googleapis.com")) {
		return ""
	}
	return "is not Google's"
}

// sendable says whether a token can stand in a header, by RFC 6750.
func sendable(token string) bool {
	token = strings.TrimRight(token, "=")
	if token == "" {
		return false
	}
	for i := range len(token) {
		switch c := token[i]; {
		case c >= '0' && c <= '9', c >= 'A' && c <= 'Z', c >= 'a' && c <= 'z', strings.IndexByte("-._~+/", c) >= 0:
		default:
			return false
		}
	}
	return true
}

// named puts a User-Agent on requests.
type named struct {
	http.RoundTripper
	agent string
}

func (n named) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", n.agent)
	return n.RoundTripper.RoundTrip(r)
}

// unusable is the failure of a credential that no call can be made with now.
func unusable(message string) *llm.Error {
	return &llm.Error{Class: attempt.GatewayError, Status: http.StatusUnauthorized, Message: message, Unsent: true}
}

// invalid is that of one that will not do until it changes.
func invalid(message string) *llm.Error {
	e := unusable(message)
	e.InvalidKey = true
	return e
}
