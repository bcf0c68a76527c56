package sim

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
)

// Client sets and reads a simulator in another process.
type Client struct {
	URL  string       // such as http://127.0.0.1:8090
	HTTP *http.Client // nil: http.DefaultClient
}

// Set changes a provider's behaviour; change is encoded as JSON and may be a map or a Behavior. Nil
// goes back to how the provider started.
func (c Client) Set(ctx context.Context, provider string, change any) error {
	method, body := http.MethodDelete, []byte(nil)
	if change != nil {
		method = http.MethodPut
		var err error
		if body, err = json.Marshal(change); err != nil {
			return fmt.Errorf("encoding behaviour of %s: %w", provider, err)
		}
	}
	answer, err := c.do(ctx, method, "/control/"+provider, body)
	if err != nil {
		return fmt.Errorf("setting behaviour of %s: %w", provider, err)
	}
	return answer.Close()
}

// Ledger returns the entries above a sequence number that the simulator still holds.
func (c Client) Ledger(ctx context.Context, since int64) ([]Entry, error) {
	answer, err := c.do(ctx, http.MethodGet, "/ledger?since="+strconv.FormatInt(since, 10), nil)
	if err != nil {
		return nil, fmt.Errorf("reading ledger: %w", err)
	}
	defer answer.Close()
	entries, err := ReadLedger(answer)
	if err != nil {
		return nil, fmt.Errorf("reading ledger: %w", err)
	}
	return entries, nil
}

func (c Client) do(ctx context.Context, method, path string, body []byte) (io.ReadCloser, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimSuffix(c.URL, "/")+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	client := c.HTTP
	if client == nil {
		client = http.DefaultClient
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 4096))
		return nil, fmt.Errorf("%s: %s", resp.Status, bytes.TrimSpace(text))
	}
	return resp.Body, nil
}
