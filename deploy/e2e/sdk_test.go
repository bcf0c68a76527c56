package e2e

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"
	"github.com/openai/openai-go/v3/packages/ssestream"
)

// Codes of failures that are not the gateway's own words. drive.mjs uses the same.
const (
	codeNetwork = "network_error" // no answer, or one that broke off
	codeCut     = "stream_cut"    // a stream without its end
)

// answered is what became of one request that an SDK sent.
type answered struct {
	Gateway int     `json:"gateway"` // index of the URL it went to
	Begun   float64 `json:"begun"`   // Unix ms
	Ended   float64 `json:"ended"`
	Stream  bool    `json:"stream"`
	Status  int     `json:"status"` // 0: no answer
	Code    string  `json:"code"`   // empty: it was answered
	Cause   string  `json:"cause"`  // of a failure that is not the gateway's word
	Meta    meta    `json:"meta"`
}

// meta is what answers say about routing.
type meta struct {
	RequestID    string  `json:"request_id"`
	UsedProvider string  `json:"used_provider"`
	UsedModel    string  `json:"used_model"`
	Reason       string  `json:"reason"`
	CostUSD      float64 `json:"cost_usd"`
	Routing      []struct {
		Provider   string `json:"provider"`
		StatusCode int    `json:"status_code"`
		ErrorType  string `json:"error_type"`
		Succeeded  bool   `json:"succeeded"`
	} `json:"routing"`
}

// explained says whether an answer tells who served it and why.
func (m meta) explained() bool {
	n := len(m.Routing)
	return m.RequestID != "" && m.UsedProvider != "" && m.Reason != "" && n > 0 && m.Routing[n-1].Succeeded && m.Routing[n-1].Provider == m.UsedProvider
}

func newSDK(url string) *openai.Client {
	c := openai.NewClient(option.WithBaseURL(url+"/v1"), option.WithAPIKey(token), option.WithMaxRetries(0),
		option.WithHTTPClient(&http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}}))
	return &c
}

func question(model string, i int) openai.ChatCompletionNewParams {
	return openai.ChatCompletionNewParams{
		Model:     model,
		MaxTokens: openai.Int(8),
		Messages:  []openai.ChatCompletionMessageParamUnion{openai.UserMessage(fmt.Sprintf("question %d: what is a gateway?", i))},
	}
}

// plain and streamed send one request and return what the answer said about routing.
func plain(ctx context.Context, c *openai.Client, p openai.ChatCompletionNewParams) (meta, error) {
	var a struct{ Metadata meta }
	answer, err := c.Chat.Completions.New(ctx, p)
	if err != nil {
		return a.Metadata, err
	}
	if len(answer.Choices) == 0 || answer.Choices[0].Message.Content == "" {
		return a.Metadata, fmt.Errorf("no answer in %s", answer.RawJSON())
	}
	return a.Metadata, json.Unmarshal([]byte(answer.RawJSON()), &a)
}

// sender is plain or streamed.
type sender func(context.Context, *openai.Client, openai.ChatCompletionNewParams) (meta, error)

var errCut = errors.New("the stream ended without a finish reason")

func streamed(ctx context.Context, c *openai.Client, p openai.ChatCompletionNewParams) (meta, error) {
	var m meta
	stream := c.Chat.Completions.NewStreaming(ctx, p)
	defer stream.Close()
	text, finish := "", ""
	for stream.Next() {
		chunk := stream.Current()
		if len(chunk.Choices) > 0 {
			text += chunk.Choices[0].Delta.Content
			if reason := chunk.Choices[0].FinishReason; reason != "" {
				finish = reason
			}
		}
		if raw := chunk.JSON.ExtraFields["metadata"].Raw(); raw != "" {
			if err := json.Unmarshal([]byte(raw), &m); err != nil {
				return m, err
			}
		}
	}
	if err := stream.Err(); err != nil {
		return m, err
	}
	if text == "" || finish == "" {
		return m, errCut
	}
	return m, nil
}

// drive sends requests first to first+n-1 with openai-go, half of them streams, to the gateways in
// turn, and hands each result over. Whoever gets no answer waits a moment, as clients do.
func drive(ctx context.Context, urls []string, first, n, concurrency int, each func(answered)) {
	var next atomic.Int64
	var workers sync.WaitGroup
	clients := make([]*openai.Client, len(urls))
	for i, url := range urls {
		clients[i] = newSDK(url)
	}
	for range concurrency {
		workers.Go(func() {
			for i := int(next.Add(1)) - 1; i < n && ctx.Err() == nil; i = int(next.Add(1)) - 1 {
				a := one(ctx, clients, first+i)
				each(a)
				if a.Code == codeNetwork {
					time.Sleep(networkPause)
				}
			}
		})
	}
	workers.Wait()
}

const networkPause = 200 * time.Millisecond

func one(ctx context.Context, clients []*openai.Client, i int) answered {
	a := answered{Gateway: i % len(clients), Stream: i/len(clients)%2 == 1, Begun: unixMS()}
	p := question(models[i%len(models)], i)
	send := plain
	if a.Stream {
		send = streamed
	}
	var err error
	a.Meta, err = send(ctx, clients[a.Gateway], p)
	a.Ended = unixMS()
	refusal, event := (*openai.Error)(nil), (*ssestream.StreamError)(nil)
	switch {
	case err == nil:
		a.Status = http.StatusOK
	case errors.As(err, &refusal):
		a.Status, a.Code = refusal.StatusCode, refusal.Code
	case errors.Is(err, errCut):
		a.Status, a.Code = http.StatusOK, codeCut
	case errors.As(err, &event):
		var body struct{ Error struct{ Code string } }
		_ = json.Unmarshal(event.Event.Data, &body) // no code is caught by whoever judges codes
		a.Status, a.Code = http.StatusOK, "in_band: "+body.Error.Code
	case errors.Is(err, io.ErrUnexpectedEOF) || errors.As(err, new(net.Error)):
		a.Code, a.Cause = codeNetwork, err.Error()
	default:
		a.Code = err.Error()
	}
	return a
}

func unixMS() float64 { return float64(time.Now().UnixMicro()) / 1000 }
