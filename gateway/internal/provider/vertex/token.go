package vertex

import (
	"context"
	"crypto/sha256"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
)

const (
	early  = time.Minute     // a token is renewed so long before it expires
	atMost = time.Hour       // and is used, whatever it says of itself
	unsaid = 5 * time.Minute // how long one is used that does not say when it expires
)

// tokens are the access tokens of service accounts, each fetched when it is first needed and again
// before it expires. It is safe for concurrent use: those who need the same token wait for one fetch,
// no longer than their attempts may take, and nobody else does.
type tokens struct {
	now   func() time.Time
	fetch func(call *provider.Call) (*oauth2.Token, *llm.Error)

	mu   sync.Mutex
	held map[held]*fetch // the last of each account
}

// held is what a token is kept by: how it is fetched differs by provider.
type held struct {
	provider string
	secret   [sha256.Size]byte
}

func heldBy(call *provider.Call) held {
	return held{call.Target.Provider, sha256.Sum256([]byte(call.Secret))}
}

// fetch is the fetching of a token. The rest is set once done is closed.
type fetch struct {
	done         chan struct{}
	token        string
	since, until time.Time // it is used
	failure      *llm.Error
}

func (f *fetch) ended() bool {
	select {
	case <-f.done:
		return true
	default:
		return false
	}
}

// get returns a token for a call: one of the service account that its secret is the JSON of, or the secret
// itself, which is an access token then; fetched says which. It blocks while a token is fetched, until the
// attempt ends.
func (t *tokens) get(w *provider.Watch, call *provider.Call) (token string, fetched bool, failure *llm.Error) {
	secret := strings.TrimSpace(call.Secret)
	if !strings.HasPrefix(secret, "{") {
		if !sendable(secret) {
			return "", false, invalid("the credential is neither the JSON of a service account nor an access token")
		}
		return secret, false, nil
	}
	f := t.current(call)
	select {
	case <-f.done:
	case <-w.Context().Done():
		return "", false, w.Error(w.Context().Err())
	}
	if f.failure != nil {
		failure := *f.failure // whoever gets it may change it
		return "", false, &failure
	}
	return f.token, true, nil
}

// current returns the fetch of an account that holds, and begins one if there is none.
func (t *tokens) current(call *provider.Call) *fetch {
	key := heldBy(call)
	t.mu.Lock()
	defer t.mu.Unlock()
	if f := t.held[key]; f != nil && (!f.ended() || f.failure == nil && f.until.After(t.now().Add(early))) {
		return f
	}
	t.sweep()
	f := &fetch{done: make(chan struct{})}
	t.held[key] = f
	// For all who wait, whoever of them goes away. The call is theirs, and gone by then.
	mine := &provider.Call{Secret: call.Secret, Target: call.Target, Timeouts: call.Timeouts}
	go func() {
		defer close(f.done)
		token, failure := t.fetch(mine)
		if f.failure = failure; failure != nil {
			return
		}
		f.token, f.since = token.AccessToken, t.now()
		if f.until = token.Expiry; f.until.IsZero() {
			f.until = f.since.Add(unsaid + early)
		}
		if last := f.since.Add(atMost); f.until.After(last) {
			f.until = last
		}
	}()
	return f
}

// sweep drops what nobody will ask for again: expired tokens and failures, so that of a secret that was
// replaced nothing is left. The lock is held.
func (t *tokens) sweep() {
	for key, f := range t.held {
		if f.ended() && (f.failure != nil || !f.until.After(t.now())) {
			delete(t.held, key)
		}
	}
}

// refused forgets the token that a call was refused with, and says whether it had held before: then it
// has been taken back since, which says nothing about the account.
func (t *tokens) refused(call *provider.Call) (stale bool) {
	key := heldBy(call)
	t.mu.Lock()
	defer t.mu.Unlock()
	f := t.held[key]
	if f == nil || !f.ended() || f.token != call.Token {
		return true // somebody else has forgotten it
	}
	delete(t.held, key)
	return t.now().Sub(f.since) > early
}

// fetcher fetches tokens by the rules that hold for the provider's own address.
func fetcher(transports *provider.Transports, agent string, now func() time.Time) func(*provider.Call) (*oauth2.Token, *llm.Error) {
	return func(call *provider.Call) (*oauth2.Token, *llm.Error) {
		w := provider.NewWatch(context.Background(), fetchTimeout)
		defer w.Stop()
		return ask(&provider.Beside{Transports: transports, Target: call.Target, Connect: call.Timeouts.Connect, Watch: w}, call, agent, now)
	}
}
