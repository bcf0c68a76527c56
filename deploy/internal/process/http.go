package process

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// AwaitOK asks url until the answer is 200, for at most 30 s. name is what the error calls who should
// answer; it holds the last answer.
func AwaitOK(ctx context.Context, name, url string) error {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	last := "nobody answers"
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", name, err)
		}
		if resp, err := http.DefaultClient.Do(req); err == nil {
			body, _ := io.ReadAll(io.LimitReader(resp.Body, logTail)) // for people
			_ = resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return nil
			}
			last = fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(body)))
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for %s: %w: %s", name, ctx.Err(), last)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
