package provider

import (
	"fmt"
	"io"
	"net/http"
	"time"
)

// Beside is an http.RoundTripper to where a provider is asked for something other than an answer, such as
// the tokens for its calls. What holds for its base URL holds there: addresses are looked at when they
// are dialled, certificates checked by the same roots, and there is no proxy, no redirect and nothing sent
// twice. It makes POSTs, for one goroutine.
type Beside struct {
	Transports *Transports
	Target     *Target
	Connect    time.Duration // 0: the default
	Watch      *Watch        // its context and limits are those of the calls

	Asked bool  // a request was begun
	Err   error // why no answer came, or not all of one; nil if nothing went wrong on the way
}

// RoundTrip implements http.RoundTripper.
func (b *Beside) RoundTrip(r *http.Request) (*http.Response, error) {
	b.Asked = true
	resp, err := b.post(r)
	if err != nil {
		b.Err = err
		return nil, err
	}
	resp.Request, resp.Body = r, &besideBody{resp.Body, b}
	return resp, nil
}

func (b *Beside) post(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPost || r.Body == nil {
		return nil, fmt.Errorf("a %s, or one without a body", r.Method)
	}
	defer r.Body.Close()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return nil, err
	}
	at := *b.Target
	at.BaseURL, at.HTTP2 = r.URL.Scheme+"://"+r.URL.Host, false
	route, err := b.Transports.Route(&at, b.Connect)
	if err != nil {
		return nil, err
	}
	connect := b.Connect
	if connect <= 0 {
		connect = defaultConnect
	}
	b.Watch.For(LimitConnect, connect, connect)
	return route.Post(b.Watch, r.URL.RequestURI(), r.Header, body, func(bool) { b.Watch.Pause() })
}

// besideBody notes what breaks an answer off.
type besideBody struct {
	io.ReadCloser
	b *Beside
}

func (r *besideBody) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && err != io.EOF {
		r.b.Err = err
	}
	return n, err
}
