// Package azure speaks with OpenAI's models on Azure: OpenAI's protocol under Azure's addresses and
// credential. An Azure resource's base URL is one of
//
//	https://NAME.openai.azure.com/openai/v1                          the model is named in the body
//	https://NAME.openai.azure.com?api-version=2024-10-21             the model is a deployment in the path
//
// In both the mapping's upstream is the name of a deployment.
package azure

import (
	"net/url"
	"strings"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/internal/provider/openai"
	"turnout/gateway/internal/provider/wire"
	"turnout/gateway/llm"
)

// Versions of the API that are asked for where the base URL names none: the newest that is no preview,
// and for Responses, which is in previews alone, the newest of those.
const (
	defaultVersion   = "2024-10-21"
	responsesVersion = "2025-04-01-preview"
)

// New returns an adapter; agent is the User-Agent upstreams see, now the clock that HTTP dates in
// Retry-After are read by.
func New(transports *provider.Transports, agent string, now func() time.Time) provider.Adapter {
	host := wire.Host{Path: path, Credential: func(secret string) (string, string) { return "Api-Key", secret }, Sending: sending}
	return openai.NewAt(host, wire.Client{Transports: transports, Agent: agent, Now: now})
}

// sending: OpenAI's reasoning models refuse the limit's older name, whatever the resource's host is
// called, and Mistral's refuse its newer one. A deployment's name does not tell what it deploys, the
// catalogue's does.
func sending(call *provider.Call, s *llm.Sending) {
	s.OpenAI = !strings.Contains(call.Model, "stral") && !strings.Contains(call.Model, "xtral")
}

func path(call *provider.Call, path string) string {
	base, query, _ := strings.Cut(call.Target.BaseURL, "?")
	if strings.HasSuffix(strings.TrimRight(base, "/"), "/openai/v1") {
		if query != "" {
			path += "?" + query
		}
		return path
	}
	switch {
	case query != "":
	case path == "responses":
		query = "api-version=" + responsesVersion
	default:
		query = "api-version=" + defaultVersion
	}
	root := "openai/"
	if strings.HasSuffix(strings.TrimRight(base, "/"), "/openai") {
		root = ""
	}
	if path == "responses" { // the one that is not a deployment's
		return root + "responses?" + query
	}
	return root + "deployments/" + url.PathEscape(call.UpstreamModel) + "/" + path + "?" + query
}
