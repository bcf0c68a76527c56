package bedrock

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/schemas/attempt"
)

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text))
	return h.Sum(nil)
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// received is what a server sees of a signed request.
type received struct {
	method, rawPath, query string
	header                 http.Header // with Host
	body                   []byte
}

// verify computes the signature of what was received by AWS's description of version 4, without the SDK.
func verify(r received, secret string) (want, got string) {
	authorization := r.header.Get("Authorization")
	field := func(name string) string {
		_, rest, _ := strings.Cut(authorization, name+"=")
		value, _, _ := strings.Cut(rest, ",")
		return value
	}
	scope := strings.SplitN(field("Credential"), "/", 2)[1] // date/region/service/aws4_request
	parts := strings.Split(scope, "/")
	names := strings.Split(field("SignedHeaders"), ";")
	var headers strings.Builder
	for _, name := range names {
		headers.WriteString(name + ":" + strings.TrimSpace(r.header.Get(name)) + "\n")
	}
	var path strings.Builder // the path as it was sent, each segment escaped once more
	for i, segment := range strings.Split(r.rawPath, "/") {
		if i > 0 {
			path.WriteByte('/')
		}
		path.WriteString(strings.ReplaceAll(url.QueryEscape(segment), "+", "%20"))
	}
	query := strings.Split(r.query, "&")
	sort.Strings(query)
	canonical := strings.Join([]string{r.method, path.String(), strings.Join(query, "&"), headers.String(), strings.Join(names, ";"), hash(r.body)}, "\n")
	text := strings.Join([]string{"AWS4-HMAC-SHA256", r.header.Get("X-Amz-Date"), scope, hash([]byte(canonical))}, "\n")
	key := mac(mac(mac(mac([]byte("AWS4"+secret), parts[0]), parts[1]), parts[2]), parts[3])
	return hex.EncodeToString(mac(key, text)), field("Signature")
}

// AWS publishes this request with its signature (IAM user guide, "Signing AWS API requests").
func TestVerifyAgainstAPublishedExample(t *testing.T) {
	r := received{method: "GET", rawPath: "/", query: "Action=ListUsers&Version=2010-05-08", header: http.Header{
		"Host": {"iam.amazonaws.com"}, "X-Amz-Date": {"20150830T123600Z"}, "Content-Type": {"application/x-www-form-urlencoded; charset=utf-8"},
		"Authorization": {"AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, SignedHeaders=content-type;host;x-amz-date, Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"},
	}}
	if want, got := verify(r, "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"); want != got {
		t.Fatalf("computed %s, published %s", want, got)
	}
	// The SDK's signer makes the same of it.
	request, err := http.NewRequest("GET", "https://iam.amazonaws.com/?Action=ListUsers&Version=2010-05-08", nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", r.header.Get("Content-Type"))
	keys := aws.Credentials{AccessKeyID: "AKIDEXAMPLE", SecretAccessKey: "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"}
	if err := v4.NewSigner().SignHTTP(context.Background(), keys, request, hash(nil), "iam", "us-east-1", time.Date(2015, 8, 30, 12, 36, 0, 0, time.UTC)); err != nil {
		t.Fatal(err)
	}
	if got := request.Header.Get("Authorization"); got != r.header.Get("Authorization") {
		t.Errorf("the SDK signs %s", got)
	}
}

// listen is an upstream that keeps what it saw.
func listen(t *testing.T, status int, answer string) (*httptest.Server, *received) {
	t.Helper()
	saw := new(received)
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*saw = received{r.Method, r.URL.EscapedPath(), r.URL.RawQuery, r.Header.Clone(), body}
		saw.header.Set("Host", r.Host)
		if saw.rawPath != strings.SplitN(r.RequestURI, "?", 2)[0] {
			t.Errorf("asked for %s, read as %s", r.RequestURI, saw.rawPath)
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, answer)
	}))
	t.Cleanup(up.Close)
	return up, saw
}

func callTo(t *testing.T, base, region, model, secret string) *provider.Call {
	t.Helper()
	body := []byte(`{"model":"m","messages":[{"role":"user","content":"Hello"}]}`)
	facts, failed := llm.ParseChat(body)
	if failed != nil {
		t.Fatal(failed)
	}
	return &provider.Call{
		Endpoint: attempt.EndpointChat, Facts: facts, Body: body, Model: "claude-x", UpstreamModel: model, Secret: secret,
		Header: http.Header{"X-Trace": {"a  b"}, "User-Agent": {"me"}},
		Target: &provider.Target{Provider: "p", Region: region, BaseURL: base, AllowPrivate: true},
	}
}

const hello = `{"output":{"message":{"content":[{"text":"Hi"}]}},"stopReason":"end_turn"}`

func adapterFor(t *testing.T, now time.Time) *Adapter {
	transports := provider.NewTransports(nil)
	t.Cleanup(transports.CloseIdle)
	return New(transports, "turnout/test", func() time.Time { return now })
}

func TestSigned(t *testing.T) {
	const id, secret = "AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"
	for _, tc := range []struct {
		name, region, model, token, path, scope string
	}{
		{"an id with a colon", "eu-central-1", "eu.anthropic.claude-sonnet-4-5-20250929-v1:0", "", "/model/eu.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse", "20260301/eu-central-1/bedrock/aws4_request"},
		{"an ARN", "us-west-2", "arn:aws:bedrock:us-west-2:123456789012:inference-profile/us.anthropic.claude-x", "", "/model/arn%3Aaws%3Abedrock%3Aus-west-2%3A123456789012%3Ainference-profile%2Fus.anthropic.claude-x/converse", "20260301/us-west-2/bedrock/aws4_request"},
		{"a session token", "", "amazon.nova-lite-v1:0", "FwoGZXIvYXdzE/token+==", "/model/amazon.nova-lite-v1%3A0/converse", "20260301/us-east-1/bedrock/aws4_request"},
		{"the world", "global", "m (x)", "", "/model/m%20%28x%29/converse", "20260301/us-east-1/bedrock/aws4_request"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			up, saw := listen(t, 200, hello)
			credential := id + ":" + secret
			if tc.token != "" {
				credential += ":" + tc.token
			}
			answer, failure := adapterFor(t, noon).Complete(context.Background(), callTo(t, up.URL, tc.region, tc.model, credential))
			if failure != nil {
				t.Fatal(failure)
			}
			answer.Release()
			if saw.rawPath != tc.path {
				t.Errorf("asked for %s", saw.rawPath)
			}
			if want, got := verify(*saw, secret); got != want || got == "" {
				t.Errorf("signed %s, want %s", got, want)
			}
			authorization := saw.header.Get("Authorization")
			if !strings.Contains(authorization, "Credential="+id+"/"+tc.scope+",") || saw.header.Get("X-Amz-Date") != "20260301T120000Z" {
				t.Errorf("%s %s", authorization, saw.header.Get("X-Amz-Date"))
			}
			if saw.header.Get("X-Amz-Security-Token") != tc.token || strings.Contains(authorization, "x-amz-security-token") != (tc.token != "") {
				t.Errorf("token %q: %s", saw.header.Get("X-Amz-Security-Token"), authorization)
			}
			for name, values := range saw.header {
				if strings.Contains(strings.Join(values, " "), secret) {
					t.Errorf("the secret key went out in %s", name)
				}
			}
			// A single byte more and it would not do.
			other := *saw
			other.body = append(other.body[:len(other.body):len(other.body)], ' ')
			if want, got := verify(other, secret); want == got {
				t.Error("another body has the same signature")
			}
		})
	}
}

// An ARN does not tell whose model it is: the catalogue's id does.
func TestFamilyOfAnARN(t *testing.T) {
	for model, want := range map[string]bool{"claude-x": true, "llama-x": false} {
		up, saw := listen(t, 200, hello)
		call := callTo(t, up.URL, "us-east-1", "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", "k")
		call.Model, call.Body = model, []byte(`{"model":"m","messages":[{"role":"user","content":"Hello"}],"stop":"x"}`)
		answer, failure := adapterFor(t, noon).Complete(context.Background(), call)
		if failure != nil {
			t.Fatal(failure)
		}
		answer.Release()
		if strings.Contains(string(saw.body), "/stop_sequence") != want {
			t.Errorf("%s: %s", model, saw.body)
		}
	}
}

func TestAPIKey(t *testing.T) {
	up, saw := listen(t, 200, hello)
	call := callTo(t, up.URL, "us-east-1", "m", "bedrock-api-key-YmVkcm9jaw==")
	call.Header = http.Header{"Authorization": {"Bearer stolen"}, "X-Amz-Date": {"x"}, "Anthropic-Beta": {"b"}}
	answer, failure := adapterFor(t, noon).Complete(context.Background(), call)
	if failure != nil {
		t.Fatal(failure)
	}
	answer.Release()
	if saw.header.Get("Authorization") != "Bearer bedrock-api-key-YmVkcm9jaw==" || saw.header.Get("Anthropic-Beta") != "" {
		t.Errorf("%v", saw.header)
	}
}

// A secret that was corrected counts at once, although id and day are the same.
func TestCorrectedSecret(t *testing.T) {
	up, saw := listen(t, 200, hello)
	a := adapterFor(t, noon)
	for _, secret := range []string{"wrong-secret", "right-secret"} {
		answer, failure := a.Complete(context.Background(), callTo(t, up.URL, "us-east-1", "m", "AKIAIOSFODNN7EXAMPLE:"+secret))
		if failure != nil {
			t.Fatal(failure)
		}
		answer.Release()
		if want, got := verify(*saw, secret); want != got {
			t.Errorf("%s: signed %s, want %s", secret, got, want)
		}
	}
}

func TestKeys(t *testing.T) {
	for secret, want := range map[string]struct {
		id, key, token string
		bearer         bool
	}{
		"AKIAIOSFODNN7EXAMPLE:s":         {"AKIAIOSFODNN7EXAMPLE", "s", "", false},
		"ASIAIOSFODNN7EXAMPLE:s/+=:t/+=": {"ASIAIOSFODNN7EXAMPLE", "s/+=", "t/+=", false},
		"AKIAIOSFODNN7EXAMPLE:":          {"AKIAIOSFODNN7EXAMPLE", "", "", false},
		"AKIAIOSFODNN7EXAMPLE":           {bearer: true},
		"ABSKQmVkcm9jaw==":               {bearer: true},
		"short:secret":                   {bearer: true},
		"":                               {bearer: true},
	} {
		keys, bearer := keysOf(secret)
		if bearer != want.bearer || keys.AccessKeyID != want.id || keys.SecretAccessKey != want.key || keys.SessionToken != want.token {
			t.Errorf("%q: %+v %v", secret, keys, bearer)
		}
	}
	_, failure := adapterFor(t, noon).Complete(context.Background(), callTo(t, "http://127.0.0.1:1", "", "m", "AKIAIOSFODNN7EXAMPLE:"))
	if failure == nil || !failure.InvalidKey || failure.Class != attempt.GatewayError || !strings.Contains(failure.Message, "SECRET_ACCESS_KEY") {
		t.Errorf("%+v", failure)
	}
}

func TestRegions(t *testing.T) {
	a := adapterFor(t, noon)
	for region, want := range map[string]string{"": "https://bedrock-runtime.us-east-1.amazonaws.com", "global": "https://bedrock-runtime.us-east-1.amazonaws.com", "eu-central-1": "https://bedrock-runtime.eu-central-1.amazonaws.com"} {
		if got := a.PlaceURL("https://bedrock-runtime.{region}.amazonaws.com", region); got != want {
			t.Errorf("%q: %s", region, got)
		}
	}
	for host, want := range map[string]string{
		"bedrock-runtime.ap-northeast-1.amazonaws.com": "ap-northeast-1", "bedrock-runtime-fips.us-gov-west-1.amazonaws.com": "us-gov-west-1",
		"vpce-0a-b.bedrock-runtime.us-east-2.vpce.amazonaws.com": "us-east-2", "bedrock-runtime.cn-north-1.amazonaws.com.cn": "cn-north-1",
		"bedrock-runtime.eu-west-1.api.aws": "eu-west-1", "proxy.example.com": "eu-west-3", "bedrock-runtime.us-east-1.amazonaws.com.evil.com": "eu-west-3",
	} {
		if got := regionOf(&url.URL{Host: host + ":443"}, &provider.Target{Region: "eu-west-3"}); got != want {
			t.Errorf("%s: %s, want %s", host, got, want)
		}
	}
}

// What AWS answers a bad signature with repeats what it was sent: the token is not for logs.
func TestErrors(t *testing.T) {
	up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Amzn-Errortype", "InvalidSignatureException:http://internal.amazon.com/coral/com.amazon.coral.service/")
		w.WriteHeader(403)
		_, _ = io.WriteString(w, `{"message":"The request signature we calculated does not match the signature you provided. x-amz-security-token:`+r.Header.Get("X-Amz-Security-Token")+`"}`)
	}))
	t.Cleanup(up.Close)
	_, failure := adapterFor(t, noon).Complete(context.Background(), callTo(t, up.URL, "us-east-1", "m", "AKIAIOSFODNN7EXAMPLE:secretsecret:FwoGZXIvYXdzE"))
	if failure == nil || !failure.InvalidKey || failure.Status != 403 || failure.Type != "InvalidSignatureException" || strings.Contains(failure.Message, "FwoGZX") {
		t.Errorf("%+v", failure)
	}
	for kind, want := range map[string]attempt.Outcome{"ServiceQuotaExceededException": attempt.GatewayError, "ValidationException": attempt.ClientError} {
		up := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("x-amzn-ErrorType", kind)
			w.WriteHeader(400)
			_, _ = io.WriteString(w, `{"message":"no"}`)
		}))
		_, failure := adapterFor(t, noon).Complete(context.Background(), callTo(t, up.URL, "us-east-1", "m", "k"))
		if failure == nil || failure.Class != want || failure.Type != kind {
			t.Errorf("%s: %+v", kind, failure)
		}
		up.Close()
	}
}
