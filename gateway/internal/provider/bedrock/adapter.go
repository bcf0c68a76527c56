// Package bedrock speaks Amazon Bedrock's Converse with an upstream. No surface of ours is Amazon's, so
// every request is translated.
package bedrock

import (
	"context"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/bridge"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
	"turnout/gateway/llm/bedrock"
	"turnout/schemas/resource"
)

// Adapter is a provider.Adapter and a provider.Placer.
type Adapter struct {
	client   wire.Client
	protocol bridge.Protocol
}

var (
	_ provider.Adapter = (*Adapter)(nil)
	_ provider.Placer  = (*Adapter)(nil)
)

// New returns an adapter; agent is the User-Agent upstreams see, now the clock that calls are signed by.
func New(transports *provider.Transports, agent string, now func() time.Time) *Adapter {
	a := &Adapter{client: wire.Client{
		Transports: transports, Agent: agent, Now: now,
		Events: func(r io.Reader) wire.Events { return newFrames(r) },
	}}
	a.client.Sign = a.sign
	a.protocol = bridge.Protocol{
		Path:     path,
		Header:   a.header,
		Sending:  sending,
		Append:   bedrock.Append,
		Response: bedrock.DecodeResponse,
		Decoder:  func(limit int64) bridge.Decoder { return bedrock.NewDecoder(limit) },
	}
	return a
}

// path holds the model's id with everything escaped that is not unreserved: ids have colons, ARNs have
// slashes too.
func path(call *provider.Call) string {
	p := "model/" + strings.ReplaceAll(url.QueryEscape(call.UpstreamModel), "+", "%20") + "/converse"
	if call.Facts.Stream {
		return p + "-stream"
	}
	return p
}

// sending: an ARN does not tell whose model it is, the catalogue's id does.
func sending(call *provider.Call, s *llm.Sending) {
	if strings.HasPrefix(s.Model, "arn:") {
		s.Model = call.Model
	}
	for _, line := range call.Header["Anthropic-Beta"] {
		for beta := range strings.SplitSeq(line, ",") {
			s.Betas = append(s.Betas, strings.TrimSpace(beta))
		}
	}
}

// Offer implements provider.Adapter.
func (a *Adapter) Offer(endpoint string, _ *provider.Target) provider.Offer {
	if !bridge.Serves(endpoint) {
		return provider.Offer{}
	}
	return provider.Offer{
		OK: true, Translated: true, BytesOnly: true,
		Lacks: []string{resource.CapJSONObject, resource.CapN, resource.CapWebSearch},
	}
}

// home is the region that profiles of the whole world are called in, and mappings without a region.
const home = "us-east-1"

func place(region string) string {
	if region == "" || region == "global" {
		return home
	}
	return region
}

// PlaceURL implements provider.Placer.
func (a *Adapter) PlaceURL(base, region string) string {
	return strings.ReplaceAll(base, "{region}", place(region))
}

// Complete implements provider.Adapter.
func (a *Adapter) Complete(ctx context.Context, call *provider.Call) (*provider.Answer, *llm.Error) {
	return bridge.Complete(ctx, &a.client, call, &a.protocol)
}

// Stream implements provider.Adapter.
func (a *Adapter) Stream(ctx context.Context, call *provider.Call) (provider.Stream, *llm.Error) {
	return bridge.Stream(ctx, &a.client, call, &a.protocol)
}

func (a *Adapter) header(call *provider.Call) http.Header {
	h := wire.Header(call, a.client.Agent, "Authorization", "Bearer "+call.Secret)
	for _, name := range [...]string{"Openai-Beta", "Anthropic-Beta", "Anthropic-Version"} {
		delete(h, name)
	}
	if call.Facts.Stream {
		h["Accept"] = []string{"application/vnd.amazon.eventstream"}
	}
	return h
}
