package vertex

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
	oauth "golang.org/x/oauth2/google"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

const (
	scope        = "https://www.googleapis.com/auth/cloud-platform"
	fetchTimeout = 10 * time.Second
	early        = time.Minute // a token is renewed so long before it expires
)

// tokens are the access tokens of service accounts, each fetched when it is first needed and again
// before it expires. It is safe for concurrent use: those who need the same token wait for one fetch,
// no longer than their attempts may take, and nobody else does.
type tokens struct {
	now    func() time.Time
	client *http.Client

	mu   sync.Mutex
	held map[[sha256.Size]byte]*fetch // the last of each account
}

// fetch is the fetching of a token. token and failure are set once done is closed.
type fetch struct {
	done    chan struct{}
	token   *oauth2.Token
	failure *llm.Error
}

func newTokens(now func() time.Time) *tokens {
	return &tokens{now: now, held: map[[sha256.Size]byte]*fetch{}, client: &http.Client{
		Transport:     &http.Transport{IdleConnTimeout: fetchTimeout, TLSHandshakeTimeout: fetchTimeout}, // no proxy
		Timeout:       fetchTimeout,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
}

// get returns a token for a secret: a service account's JSON, or an access token, which is taken as it
// is. It blocks while a token is fetched, until the attempt ends.
func (t *tokens) get(w *provider.Watch, secret string, allowPrivate bool) (string, *llm.Error) {
	if !strings.HasPrefix(strings.TrimSpace(secret), "{") {
		return secret, nil
	}
	f := t.current(secret, allowPrivate)
	select {
	case <-f.done:
	case <-w.Context().Done():
		return "", w.Error(w.Context().Err())
	}
	if f.failure != nil {
		failure := *f.failure // whoever gets it may change it
		return "", &failure
	}
	return f.token.AccessToken, nil
}

// current returns the fetch of an account that holds, and begins one if there is none.
func (t *tokens) current(secret string, allowPrivate bool) *fetch {
	key := sha256.Sum256([]byte(secret))
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.held[key]; f != nil {
		select {
		case <-f.done:
			if f.failure == nil && f.token.Expiry.After(t.now().Add(early)) {
				return f
			}
		default:
			return f
		}
	}
	f := &fetch{done: make(chan struct{})}
	t.held[key] = f
	go func() { // for all who wait, whoever of them goes away; the client's timeout ends it
		defer close(f.done)
		f.token, f.failure = t.fetch(secret, allowPrivate)
	}()
	return f
}

func (t *tokens) fetch(secret string, allowPrivate bool) (*oauth2.Token, *llm.Error) {
	account, err := oauth.JWTConfigFromJSON([]byte(secret), scope)
	if err != nil {
		return nil, invalid("the credential is no JSON of a service account")
	}
	if !trusted(account.TokenURL, allowPrivate) {
		return nil, invalid("the service account's token_uri is not Google's")
	}
	token, err := account.TokenSource(context.WithValue(context.Background(), oauth2.HTTPClient, t.client)).Token()
	if err == nil {
		return token, nil
	}
	var refused *oauth2.RetrieveError
	if !errors.As(err, &refused) || refused.Response == nil {
		return nil, &llm.Error{Class: attempt.NetworkError, Message: "Google's token endpoint cannot be reached"}
	}
	if status := refused.Response.StatusCode; status != http.StatusBadRequest && status != http.StatusUnauthorized {
		return nil, &llm.Error{Class: attempt.UpstreamError, Status: status, Message: "Google's token endpoint answered " + http.StatusText(status)}
	}
	return nil, invalid("Google does not take the service account: " + reason(refused.Body))
}

// reason is the code that a token endpoint gives, such as invalid_grant, and nothing else of its words.
func reason(body []byte) string {
	var said struct {
		Error string `json:"error"`
	}
	if json.Unmarshal(body, &said) != nil || said.Error == "" || strings.Trim(said.Error, "abcdefghijklmnopqrstuvwxyz_") != "" {
		return "no reason given"
	}
	return said.Error
}

// trusted: a tenant's JSON must not send the gateway elsewhere.
func trusted(tokenURL string, allowPrivate bool) bool {
	u, err := url.Parse(tokenURL)
	if err != nil || u.User != nil {
		return false
	}
	host := strings.ToLower(u.Hostname())
	if u.Scheme == "https" && (host == "googleapis.com" || strings.HasSuffix(host, ".googleapis.com")) && u.Port() == "" {
		return true
	}
	ip := net.ParseIP(host)
	return allowPrivate && ip != nil && ip.IsLoopback()
}

func invalid(message string) *llm.Error {
	return &llm.Error{Class: attempt.GatewayError, Status: http.StatusUnauthorized, InvalidKey: true, Message: message}
}
