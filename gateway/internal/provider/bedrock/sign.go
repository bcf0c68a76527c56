package bedrock

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

// service is the name that calls are signed for; the host's begins otherwise.
const service = "bedrock"

var accessKeyID = regexp.MustCompile(`^[A-Z0-9]{16,128}$`)

// keysOf reads ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN]. Any other secret is an API key, sent as
// a bearer: bearer is true.
func keysOf(secret string) (keys aws.Credentials, bearer bool) {
	id, rest, ok := strings.Cut(secret, ":")
	if !ok || !accessKeyID.MatchString(id) {
		return keys, true
	}
	keys.AccessKeyID = id
	keys.SecretAccessKey, keys.SessionToken, _ = strings.Cut(rest, ":")
	return keys, false
}

// host tells the region of AWS's own addresses, endpoints of a VPC included.
var host = regexp.MustCompile(`(?:^|\.)bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.(?:vpce\.)?(?:amazonaws\.com(?:\.cn)?|api\.aws)$`)

func regionOf(at *url.URL, target *provider.Target) string {
	if m := host.FindStringSubmatch(at.Hostname()); m != nil {
		return m[1]
	}
	return place(target.Region)
}

// sign puts AWS's signature of version 4 into the header, unless the credential is an API key. Signed are
// the host, the content type and what AWS demands: headers that something on the way may touch are not.
func (a *Adapter) sign(_ *provider.Watch, call *provider.Call, at *url.URL, header http.Header, body []byte) *llm.Error {
	keys, bearer := keysOf(call.Secret)
	if bearer {
		return nil
	}
	if keys.SecretAccessKey == "" {
		return &llm.Error{
			Class: attempt.GatewayError, Status: http.StatusUnauthorized, InvalidKey: true, Unsent: true,
			Message: "the credential has no secret access key: it must be ACCESS_KEY_ID:SECRET_ACCESS_KEY[:SESSION_TOKEN], or an API key",
		}
	}
	to := *at // the signer writes to it
	request := &http.Request{Method: http.MethodPost, URL: &to, Host: at.Host, Header: http.Header{"Content-Type": header["Content-Type"]}}
	sum := sha256.Sum256(body)
	// A signer of its own for each call: one that is kept goes on with the key of an id whose secret has
	// been corrected since.
	err := v4.NewSigner().SignHTTP(context.Background(), keys, request, hex.EncodeToString(sum[:]), service, regionOf(at, call.Target), a.client.Now())
	if err != nil {
		return &llm.Error{Class: attempt.GatewayError, Message: "the call could not be signed", Cause: err}
	}
	for _, name := range [...]string{"Authorization", "X-Amz-Date", "X-Amz-Security-Token"} {
		delete(header, name)
		if values := request.Header[name]; values != nil {
			header[name] = values
		}
	}
	return nil
}
