package vertex

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/providertest"
	"turnout/gateway/llm"
	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
)

// endpoint is a token endpoint that answers with a status and a body.
func endpoint(t *testing.T, status int, body string) *httptest.Server {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	t.Cleanup(server.Close)
	return server
}

// failing makes a call that must not reach the model, and returns why.
func failing(t *testing.T, a *Adapter, secret string) *llm.Error {
	t.Helper()
	up := upstream.New(t, "500")
	failure := call(t, a, up.URL, "claude-sonnet-4-5", secret, body)
	if failure == nil || len(up.Calls()) != 0 {
		t.Fatalf("%+v after %d calls of the model", failure, len(up.Calls()))
	}
	return failure
}

// What goes wrong before there is a token is a failure of that attempt, without a call of the model and
// without a word of the secret.
func TestNoToken(t *testing.T) {
	const refusal = `{"error":"invalid_grant","error_description":"Invalid JWT Signature. -----BEGIN"}`
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	at := func(status int, body string) string { return account(t, endpoint(t, status, body).URL) }
	for name, tc := range map[string]struct {
		secret string
		want   attempt.Outcome
		bad    bool
		says   string
	}{
		"refused":                   {at(400, refusal), attempt.GatewayError, true, "invalid_grant"},
		"unauthorized":              {at(401, refusal), attempt.GatewayError, true, "invalid_grant"},
		"forbidden":                 {at(403, `{}`), attempt.GatewayError, false, "Forbidden"},
		"not there":                 {at(404, `<html>`), attempt.GatewayError, false, "Not Found"},
		"a wrong clock":             {at(400, `{"error":"invalid_grant","error_description":"Invalid JWT: Token must be a short-lived token (60 minutes) and in a reasonable timeframe. Check your iat and exp values in the JWT claim."}`), attempt.GatewayError, false, "clock"},
		"out of order":              {at(503, ``), attempt.UpstreamError, false, "Service Unavailable"},
		"too many":                  {at(429, ``), attempt.UpstreamError, false, "Too Many Requests"},
		"redirected":                {at(302, ``), attempt.GatewayError, false, "Found"},
		"nobody there":              {account(t, gone.URL), attempt.NetworkError, false, "token endpoint"},
		"tokens from metadata":      {account(t, "http://169.254.169.254/token"), attempt.GatewayError, true, "token_uri"},
		"another kind of JSON":      {`{"type":"authorized_user","client_id":"c","client_secret":"verysecretindeed","refresh_token":"r"}`, attempt.GatewayError, true, "service account"},
		"broken JSON":               {`{"type":"service_account"`, attempt.GatewayError, true, "service account"},
		"nothing":                   {"", attempt.GatewayError, true, "service account"},
		"blank":                     {" \n", attempt.GatewayError, true, "service account"},
		"a token of several words":  {"ya29.a b", attempt.GatewayError, true, "service account"},
		"a token with a line break": {"ya29.a\r\nX-Other: 1", attempt.GatewayError, true, "service account"},
	} {
		failure := failing(t, newAdapter(t, time.Now), tc.secret)
		if failure.Class != tc.want || failure.InvalidKey != tc.bad || !strings.Contains(failure.Message, tc.says) {
			t.Errorf("%s: %+v, want %s that says %q", name, failure, tc.want, tc.says)
		}
		if text := failure.Error(); strings.Contains(text, "BEGIN") || strings.Contains(text, "verysecret") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// A private key that nothing can be signed with was a network error, and tried for ever.
func TestUnusablePrivateKeyIsAFaultOfTheKey(t *testing.T) {
	elliptic, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	for name, key := range map[string]string{
		"none": "", "text": "my key", "cut": goodKey()[:400], "of another kind": inPEM(elliptic), "with lost line breaks": strings.ReplaceAll(goodKey(), "\n", " "),
	} {
		var asked atomic.Int64
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
		failure := failing(t, newAdapter(t, time.Now), accountWith(t, key, server.URL))
		server.Close()
		if failure.Class != attempt.GatewayError || !failure.InvalidKey || failure.Status != 401 || !strings.Contains(failure.Message, "private_key") || asked.Load() != 0 {
			t.Errorf("%s: %+v after %d requests for a token", name, failure, asked.Load())
		}
	}
}

// A token endpoint that answered anything but a token led to a network error, or to a call with an empty
// bearer. It is the credential that cannot be used, now: others are tried, and this one again later.
func TestTokenEndpointWithoutAToken(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing": ``, "HTML": `<html>welcome</html>`, "broken JSON": `{"access_token":"ya29.x`, "an empty object": `{}`, "null": `null`, "an array": `[]`, "an empty token": `{"access_token":"","expires_in":3600}`,
		"no text": `{"access_token":{"a":1}}`, "an error under 200": `{"error":"invalid_grant"}`, "a line break": `{"access_token":"ya29.x\r\nX-Other: 1"}`, "blank": `{"access_token":"  "}`,
	} {
		failure := failing(t, newAdapter(t, time.Now), account(t, endpoint(t, 200, answer).URL))
		if failure.Class != attempt.GatewayError || failure.InvalidKey || failure.Status != 401 || !strings.Contains(failure.Message, "token endpoint") || strings.Contains(failure.Error(), "ya29") {
			t.Errorf("%s: %+v", name, failure)
		}
	}
	// And it is asked again.
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if asked.Add(1) > 1 {
			_, _ = w.Write([]byte(`{"access_token":"ya29.later"}`))
		}
	}))
	defer server.Close()
	a, secret := newAdapter(t, time.Now), account(t, server.URL)
	failing(t, a, secret)
	up := upstream.New(t, "200 json:"+strconv.Quote(providertest.Messages.Plain(said)))
	for range 2 { // one that does not say when it expires is kept all the same
		if failure := call(t, a, up.URL, "claude-sonnet-4-5", secret, body); failure != nil {
			t.Fatal(failure)
		}
	}
	if calls := up.Calls(); calls[1].Header.Get("Authorization") != "Bearer ya29.later" || asked.Load() != 2 {
		t.Errorf("%d tokens, sent %v", asked.Load(), calls[1].Header)
	}
}

// Tokens of replaced secrets were kept for ever.
func TestReplacedSecretsLeaveNothing(t *testing.T) {
	server := endpoint(t, 200, `{"access_token":"ya29.x","expires_in":999999999}`)
	broken := endpoint(t, 200, `{}`)
	var later atomic.Int64
	a := newAdapter(t, func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	up := upstream.New(t, "200 json:"+strconv.Quote(providertest.Messages.Plain(said)))
	for n := range 5 {
		secret := strings.Replace(account(t, server.URL), `"k1"`, fmt.Sprintf(`"k%d"`, n), 1)
		if failure := call(t, a, up.URL, "claude-sonnet-4-5", secret, body); failure != nil {
			t.Fatal(failure)
		}
		failing(t, a, strings.Replace(account(t, broken.URL), `"k1"`, fmt.Sprintf(`"k%d"`, n), 1))
		later.Add(int64(2 * time.Hour)) // whatever a token says of itself, an hour is all it is kept
	}
	if failure := call(t, a, up.URL, "claude-sonnet-4-5", account(t, server.URL), body); failure != nil {
		t.Fatal(failure)
	}
	if len(a.tokens.held) != 1 {
		t.Errorf("%d tokens are held of six secrets, of which one is left", len(a.tokens.held))
	}
}

// A token that had been taken and no longer is makes no invalid key of its service account; one that is
// refused as soon as it was fetched does.
func TestRefusedTokens(t *testing.T) {
	var fetched atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, `{"access_token":"ya29.%d","expires_in":3600}`, fetched.Add(1))
	}))
	defer server.Close()
	const refused = `401 json:"[{\"error\":{\"code\":401,\"message\":\"Request had invalid authentication credentials.\",\"status\":\"UNAUTHENTICATED\"}}]"`
	good := "200 json:" + strconv.Quote(providertest.Messages.Plain(said))
	var later atomic.Int64
	a := newAdapter(t, func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	up := upstream.New(t, good, refused, good, refused, refused)
	secret := account(t, server.URL)
	for n, want := range []struct{ failed, invalid bool }{{false, false}, {true, false}, {false, false}, {true, true}, {true, true}} {
		failure := call(t, a, up.URL, "claude-sonnet-4-5", secret, body)
		if (failure != nil) != want.failed || failure != nil && (failure.InvalidKey != want.invalid || failure.Class != attempt.GatewayError) {
			t.Errorf("call %d: %+v", n, failure)
		}
		if n == 0 {
			later.Add(int64(10 * time.Minute))
		}
	}
	if fetched.Load() != 3 {
		t.Errorf("%d tokens were fetched", fetched.Load())
	}
}

// What was fetched is as secret as what it was fetched for.
func TestEchoedTokenIsScrubbed(t *testing.T) {
	const token = "ya29.c.echoed-token-0123456789"
	server := endpoint(t, 200, `{"access_token":"`+token+`","expires_in":3600}`)
	secret := account(t, server.URL)
	echo := func(text string) string {
		return fmt.Sprintf(`{"type":"error","error":{"type":%q,"message":%q}}`, text, text)
	}
	stream := strings.Replace(body, "{", `{"stream":true,`, 1)
	for name, tc := range map[string]struct{ script, body string }{
		"a refusal":             {"400 json:" + strconv.Quote(echo("bad header Bearer "+token+", sorry")), body},
		"cut at the end":        {"400 json:" + strconv.Quote(echo(strings.Repeat("x", 1985)+token)), body},
		"an error under 200":    {"200 json:" + strconv.Quote(echo("I got "+token)), body},
		"a refused stream":      {"400 json:" + strconv.Quote(echo(token)), stream},
		"a stream's only event": {"200 sse body:" + strconv.Quote("event: error\ndata: "+echo(token)+"\n\n"), stream},
	} {
		up := upstream.New(t, tc.script)
		failure := call(t, newAdapter(t, time.Now), up.URL, "claude-sonnet-4-5", secret, tc.body)
		if failure == nil {
			t.Errorf("%s: no failure", name)
			continue
		}
		if text := fmt.Sprintf("%+v %+v", *failure, failure.Final()); strings.Contains(text, token[:12]) || !strings.Contains(text, "***") {
			t.Errorf("%s: %s", name, text)
		}
	}
}

func TestWhereTokensMayComeFrom(t *testing.T) {
	for url, want := range map[string][2]bool{ // without and with allow_private
		"https://oauth2.googleapis.com/token": {true, true}, "https://OAUTH2.googleapis.com/token": {true, true}, "https://accounts.google.com/o/oauth2/token": {true, true},
		"http://oauth2.googleapis.com/token": {false, true}, "https://evilgoogleapis.com/token": {false, true}, "https://oauth2.googleapis.com:8443/token": {false, true}, "https://googleapis.com.example.net/token": {false, true},
		"https://u:p@oauth2.googleapis.com/token": {false, false}, "http://169.254.169.254/token": {false, false}, "http://2852039166/token": {false, false}, "http://metadata.google.internal/token": {false, false}, "http://[fe80::1]/token": {false, false}, "http://100.100.100.200/token": {false, false},
		"http://127.0.0.1:80/token": {false, true}, "http://localhost/token": {false, true}, "http://10.0.0.1/token": {false, true}, "ftp://127.0.0.1/token": {false, false}, "/token": {false, false}, "": {false, false},
	} {
		for i, private := range []bool{false, true} {
			if problem := tokenURLProblem(url, private); (problem == "") != want[i] {
				t.Errorf("%s, allow_private %v: %q", url, private, problem)
			}
		}
	}
}

// Tokens were fetched with a client of their own, which knew no roots but the system's.
func TestTokensAreFetchedByTheRulesOfTheProvider(t *testing.T) {
	var seen atomic.Value
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.UserAgent() + " " + r.Header.Get("Content-Type"))
		_, _ = w.Write([]byte(`{"access_token":"ya29.secure","expires_in":3600}`))
	}))
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	server.StartTLS()
	defer server.Close()
	roots := x509.NewCertPool()
	roots.AddCert(server.Certificate())
	up := upstream.New(t, "200 json:"+strconv.Quote(providertest.Messages.Plain(said)))
	for name, config := range map[string]*tls.Config{"known": {RootCAs: roots}, "unknown": {RootCAs: x509.NewCertPool()}} {
		transports := provider.NewTransports(config)
		failure := call(t, New(transports, "turnout/test", time.Now), up.URL, "claude-sonnet-4-5", account(t, server.URL), body)
		transports.CloseIdle()
		if name == "known" && failure != nil || name == "unknown" && (failure == nil || failure.Class != attempt.NetworkError) {
			t.Errorf("a certificate of %s roots: %+v", name, failure)
		}
	}
	if got := seen.Load(); got != "turnout/test application/x-www-form-urlencoded" {
		t.Errorf("the endpoint saw %v", got)
	}
}

// A redirect of the token endpoint's would hand the signed assertion to somebody else.
func TestTokenEndpointsRedirectsAreNotFollowed(t *testing.T) {
	var asked atomic.Int64
	elsewhere := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		asked.Add(1)
		_, _ = w.Write([]byte(`{"access_token":"ya29.theirs"}`))
	}))
	defer elsewhere.Close()
	for _, status := range []int{301, 302, 303, 307, 308} {
		server := httptest.NewServer(http.RedirectHandler(elsewhere.URL, status))
		failure := failing(t, newAdapter(t, time.Now), account(t, server.URL))
		server.Close()
		if failure.Class != attempt.GatewayError || asked.Load() != 0 {
			t.Errorf("%d: %+v", status, failure)
		}
	}
}

// A token endpoint that says nothing holds nobody longer than an attempt may take, and nobody else.
func TestSilentTokenEndpoint(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}))
	defer server.Close()
	defer close(release)
	a := newAdapter(t, time.Now)
	ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
	defer cancel()
	target := &provider.Target{Provider: "p", BaseURL: server.URL, AllowPrivate: true}
	mine := &provider.Call{Secret: account(t, server.URL), Target: target}
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			w := provider.NewWatch(ctx, 0)
			defer w.Stop()
			if _, _, failure := a.tokens.get(w, mine); failure == nil || failure.Class != attempt.UpstreamTimeout {
				t.Errorf("%+v", failure)
			}
		})
	}
	began := time.Now()
	w := provider.NewWatch(context.Background(), 0)
	defer w.Stop()
	if token, fetched, failure := a.tokens.get(w, &provider.Call{Secret: "ya29.other", Target: target}); failure != nil || fetched || token != "ya29.other" {
		t.Errorf("%s %v", token, failure)
	}
	all.Wait()
	if took := time.Since(began); took > 2*time.Second {
		t.Errorf("held for %s", took)
	}
	// The limits of an attempt hold while it waits for a token.
	facts, _ := llm.ParseMessages([]byte(body))
	c := &provider.Call{
		Endpoint: attempt.EndpointMessages, Facts: facts, Body: []byte(body), UpstreamModel: "claude-sonnet-4-5", Secret: mine.Secret, Target: target,
		Timeouts: provider.Timeouts{FirstByte: 50 * time.Millisecond, Total: 20 * time.Second},
	}
	if _, failure := a.Complete(context.Background(), c); failure == nil || failure.Class != attempt.UpstreamTimeout || c.Timing.Total > 5*time.Second {
		t.Errorf("%+v after %s", failure, c.Timing.Total)
	}
}

// What the fetching of a token took was counted as connecting, and failed attempts that connected in time.
func TestSlowTokenIsNoSlowConnection(t *testing.T) {
	tokens := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		time.Sleep(400 * time.Millisecond)
		_, _ = w.Write([]byte(`{"access_token":"ya29.slow"}`))
	}))
	defer tokens.Close()
	model := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, providertest.Messages.Plain(said))
	}))
	model.Listener = slow{model.Listener} // so that a handshake takes a while
	model.StartTLS()
	defer model.Close()
	roots := x509.NewCertPool()
	roots.AddCert(model.Certificate())
	transports := provider.NewTransports(&tls.Config{RootCAs: roots})
	defer transports.CloseIdle()
	facts, _ := llm.ParseMessages([]byte(body))
	c := &provider.Call{
		Endpoint: attempt.EndpointMessages, Facts: facts, Body: []byte(body), UpstreamModel: "claude-sonnet-4-5", Secret: account(t, tokens.URL),
		Target: &provider.Target{Provider: "p", BaseURL: model.URL + base, AllowPrivate: true}, Timeouts: provider.Timeouts{Connect: 350 * time.Millisecond, Total: 20 * time.Second},
	}
	answer, failure := New(transports, "turnout/test", time.Now).Complete(context.Background(), c)
	if failure != nil {
		t.Fatal(failure)
	}
	answer.Release()
	if c.Timing.Connect < 100*time.Millisecond || c.Timing.Connect > 400*time.Millisecond || c.Timing.FirstByte < 500*time.Millisecond {
		t.Errorf("%+v", c.Timing)
	}
}

type slow struct{ net.Listener }

func (s slow) Accept() (net.Conn, error) {
	c, err := s.Listener.Accept()
	time.Sleep(100 * time.Millisecond)
	return c, err
}

// Names are looked at when they are dialled, as a base URL's are.
func TestTokenEndpointsAddressIsLookedAt(t *testing.T) {
	server := endpoint(t, 200, `{"access_token":"ya29.x"}`)
	_, port, _ := strings.Cut(strings.TrimPrefix(server.URL, "http://"), ":")
	transports := provider.NewTransports(nil)
	defer transports.CloseIdle()
	for _, private := range []bool{true, false} {
		w := provider.NewWatch(context.Background(), 5*time.Second)
		beside := &provider.Beside{Transports: transports, Target: &provider.Target{Provider: "p", AllowPrivate: private}, Watch: w}
		client := &http.Client{Transport: beside}
		resp, err := client.Post("http://localhost:"+port, "text/plain", strings.NewReader("x"))
		if err == nil {
			resp.Body.Close()
		}
		w.Stop()
		forbidden := (*provider.ErrForbiddenAddress)(nil)
		if private && err != nil || !private && (!errors.As(err, &forbidden) || !errors.As(beside.Err, &forbidden)) {
			t.Errorf("allow_private %v: %v", private, err)
		}
	}
}
