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
)

// defaultVersion of the API is asked for where the base URL names none: the newest that is no preview.
const defaultVersion = "2024-10-21"

// New returns an adapter; agent is the User-Agent upstreams see, now the clock that HTTP dates in
// Retry-After are read by.
func New(transports *provider.Transports, agent string, now func() time.Time) provider.Adapter {
	return openai.NewAt(wire.Host{Path: path, Credential: func(secret string) (string, string) { return "Api-Key", secret }}, transports, agent, now)
}

func path(call *provider.Call, path string) string {
	base, query, _ := strings.Cut(call.Target.BaseURL, "?")
	if strings.HasSuffix(strings.TrimRight(base, "/"), "/openai/v1") {
		if query != "" {
			path += "?" + query
		}
		return path
	}
	if query == "" {
		query = "api-version=" + defaultVersion
	}
	if path == "responses" { // the one that is not a deployment's
		return "openai/responses?" + query
	}
	return "openai/deployments/" + url.PathEscape(call.UpstreamModel) + "/" + path + "?" + query
}
