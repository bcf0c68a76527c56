package h1

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// Whatever is canceled, cut or left unread in between, nobody ever reads another's answer, and the
// server is called once a Post.
func TestNobodyReadsAnothersAnswer(t *testing.T) {
	var served atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		id, _ := io.ReadAll(r.Body)
		served.Add(1)
		line := strings.TrimRight(string(id), "x") + "\n"
		switch rand.IntN(5) {
		case 0:
			w.Header().Set("Content-Length", fmt.Sprint(10*len(line)))
		case 1:
			w.Header().Set("Connection", "close")
		case 2:
			defer panic(http.ErrAbortHandler)
		}
		for i := range 10 {
			_, _ = io.WriteString(w, line)
			if i == 4 {
				w.(http.Flusher).Flush()
				time.Sleep(time.Duration(rand.IntN(300)) * time.Microsecond)
			}
		}
	}))
	defer server.Close()
	c := client(t, server.URL, nil)
	var (
		wg                          sync.WaitGroup
		sent, again, whole, strange atomic.Int64
	)
	for g := range 16 {
		wg.Go(func() {
			for i := range 80 {
				id := fmt.Sprintf("call-%d-%d-", g, i)
				ctx, cancel := context.WithCancel(context.Background())
				if rand.IntN(4) == 0 {
					time.AfterFunc(time.Duration(rand.IntN(500))*time.Microsecond, cancel)
				}
				body := id + strings.Repeat("x", rand.IntN(2)*rand.IntN(100<<10))
				resp, err := c.Post(ctx, "/", nil, []byte(body), func(reused bool) {
					sent.Add(1)
					if reused {
						again.Add(1)
					}
				})
				if err == nil {
					var r io.Reader = resp.Body
					if rand.IntN(6) == 0 {
						r = io.LimitReader(r, int64(rand.IntN(50)))
					}
					b, err := io.ReadAll(r)
					resp.Body.Close()
					want := strings.Repeat(id+"\n", 10)
					if !strings.HasPrefix(want, string(b)) {
						strange.Add(1)
					}
					if err == nil && string(b) == want {
						whole.Add(1)
					}
				}
				cancel()
			}
		})
	}
	wg.Wait()
	if strange.Load() != 0 {
		t.Fatalf("%d answers of others", strange.Load())
	}
	if served.Load() > sent.Load() {
		t.Fatalf("%d served, %d sent", served.Load(), sent.Load())
	}
	if whole.Load() < 250 || again.Load() < 100 {
		t.Fatalf("of %d calls only %d answers were whole and %d connections reused", sent.Load(), whole.Load(), again.Load())
	}
	t.Logf("%d sent, %d on a reused connection, %d served, %d whole", sent.Load(), again.Load(), served.Load(), whole.Load())
}
