// Package providertest is the conformance suite that every adapter passes: each feature of a request
// as the upstream is asked for it (golden files), each kind of answer as the client sees it, plain and
// as a stream, on every surface, and the faults of upstreams.
package providertest

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"turnout/gateway/internal/provider"
	"turnout/gateway/llm"
	"turnout/internal/jsonx"
	"turnout/internal/testkit/upstream"
	"turnout/schemas/attempt"
)

var update = flag.Bool("update", false, "write the golden files")

// Protocol is an adapter and how its upstreams speak.
type Protocol struct {
	New func(*provider.Transports) provider.Adapter
	// Base is the path of the base URL; Path and StreamPath are where calls must go.
	Base, Path, StreamPath string
	Model                  string // as the upstream calls it
	Speech
	// Endpoints are what the upstream speaks itself, where that is not what its protocol is known for.
	Endpoints []string
	// NoMarker: the last event is the finish itself; there is no end marker that could be missing.
	NoMarker bool
	// Golden is a folder in testdata; "" for testdata itself. About tells docs/protocols.md of whom its
	// files are; "" where the folders say it all.
	Golden, About string
	// Native is the surface whose bytes are passed through.
	Native string
}

// Said is an answer, whatever the protocol. The upstream's usage is in the event's buckets.
type Said struct {
	Text, Thinking, Signature string
	Calls                     []Call
	Finish                    llm.Finish
	Usage                     llm.Usage
}

// Call is a tool call with its arguments as JSON.
type Call struct{ ID, Name, Arguments string }

// Response is the answer as the gateway holds it.
func (s Said) Response() *llm.Response {
	r := &llm.Response{ID: llm.Raw(`"id_1"`), Finish: s.Finish, Usage: s.Usage}
	add := func(kind llm.PartKind, text string) {
		if text != "" {
			r.Parts = append(r.Parts, llm.Part{Kind: kind, Text: jsonx.AppendString(nil, text)})
		}
	}
	add(llm.PartThinking, s.Thinking)
	add(llm.PartText, s.Text)
	for _, c := range s.Calls {
		r.Parts = append(r.Parts, llm.Part{Kind: llm.PartCall, ID: jsonx.AppendString(nil, c.ID), Name: jsonx.AppendString(nil, c.Name), Input: llm.Raw(c.Arguments)})
	}
	return r
}

// Stream gives the answer in pieces.
func (s Said) Stream(emit func(*llm.Event)) {
	emit(&llm.Event{Kind: llm.EventStart, ID: llm.Raw(`"id_1"`)})
	text := func(kind llm.EventKind, text string) {
		for _, piece := range strings.SplitAfter(text, " ") {
			if piece != "" {
				emit(&llm.Event{Kind: kind, Text: jsonx.AppendString(nil, piece)})
			}
		}
	}
	text(llm.EventThinking, s.Thinking)
	text(llm.EventText, s.Text)
	for i, c := range s.Calls {
		emit(&llm.Event{Kind: llm.EventCall, Index: i, ID: jsonx.AppendString(nil, c.ID), Name: jsonx.AppendString(nil, c.Name)})
		for rest := c.Arguments; rest != ""; {
			n := min(len(rest), 7)
			emit(&llm.Event{Kind: llm.EventArguments, Index: i, Text: jsonx.AppendString(nil, rest[:n])})
			rest = rest[n:]
		}
	}
	emit(&llm.Event{Kind: llm.EventFinish, Finish: s.Finish})
}

const secret = "sk-secret-0123456789"

// Run runs the suite; golden files are in testdata of the caller's folder.
func Run(t *testing.T, p *Protocol) {
	t.Run("offers", func(t *testing.T) { golden(t, filepath.Join("testdata", p.Golden, offersFile), offers(p)) })
	for _, endpoint := range []string{attempt.EndpointChat, attempt.EndpointMessages, attempt.EndpointResponses} {
		if !p.New(nil).Offer(endpoint, &provider.Target{Endpoints: p.Endpoints}).OK {
			continue
		}
		t.Run(endpoint, func(t *testing.T) {
			t.Run("requests", func(t *testing.T) { requests(t, p, endpoint) })
			t.Run("answers", func(t *testing.T) { answers(t, p, endpoint) })
			t.Run("faults", func(t *testing.T) { faults(t, p, endpoint) })
		})
	}
}

// place is an adapter in front of a scripted upstream.
type place struct {
	t        *testing.T
	p        *Protocol
	endpoint string
	adapter  provider.Adapter
	up       *upstream.Server
}

func at(t *testing.T, p *Protocol, endpoint string, lines ...string) *place {
	transports := provider.NewTransports(nil)
	t.Cleanup(transports.CloseIdle)
	return &place{t, p, endpoint, p.New(transports), upstream.New(t, lines...)}
}

var parsers = map[string]func([]byte) (*llm.Facts, *llm.APIError){
	attempt.EndpointChat: llm.ParseChat, attempt.EndpointMessages: llm.ParseMessages, attempt.EndpointResponses: llm.ParseResponses,
}

func (s *place) call(body string) *provider.Call {
	s.t.Helper()
	facts, err := parsers[s.endpoint]([]byte(body))
	if err != nil {
		s.t.Fatalf("%s: %v", body, err)
	}
	return &provider.Call{
		Endpoint: s.endpoint, Facts: facts, Body: []byte(body), Model: "catalogue/model", UpstreamModel: s.p.Model, MaxOutput: 16000,
		Target: &provider.Target{Provider: "p", BaseURL: s.up.URL + s.p.Base, AllowPrivate: true, Endpoints: s.p.Endpoints}, Secret: secret,
		Timeouts: provider.Timeouts{Connect: time.Second, FirstByte: 2 * time.Second, FirstOutput: 10 * time.Second, Idle: time.Second, Total: 20 * time.Second},
	}
}

// requests compares what upstreams are asked with golden files.
func requests(t *testing.T, p *Protocol, endpoint string) {
	for _, f := range features {
		body := f.bodies[endpoint]
		if body == "" {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			file := filepath.Join("testdata", p.Golden, endpoint, f.file())
			offer := p.New(nil).Offer(endpoint, &provider.Target{Endpoints: p.Endpoints})
			if slices.Contains(offer.Lacks, f.needs) {
				golden(t, file, notPossible+f.needs+")\n")
				return
			}
			if facts, _ := parsers[endpoint]([]byte(body)); facts != nil && offer.BytesOnly && len(facts.Linked) > 0 {
				golden(t, file, notPossible+"an address instead of data: "+strings.Join(facts.Linked, " ")+")\n")
				return
			}
			s := at(t, p, endpoint, "200 json:"+strconv.Quote(p.Plain(Said{Text: "ok", Finish: llm.FinishStop})))
			call := s.call(body)
			if len(call.Facts.Own) > 0 {
				t.Errorf("said to be beyond translation: %v", call.Facts.Own)
			}
			answer, failure := s.adapter.Complete(context.Background(), call)
			var got string
			if failure != nil {
				got = "refused: " + failure.Error() + "\n"
			} else {
				answer.Release()
				sent := s.up.Calls()[0]
				if sent.Path != p.Base+p.Path && endpoint != p.Native {
					t.Errorf("sent to %s, want %s", sent.Path, p.Base+p.Path)
				}
				var b bytes.Buffer
				if err := json.Indent(&b, sent.Body, "", "  "); err != nil {
					t.Fatalf("sent what is no JSON: %v\n%s", err, sent.Body)
				}
				got = b.String() + "\n"
				if len(call.Stripped) > 0 {
					got += stripped + strings.Join(call.Stripped, " ") + "\n"
				}
			}
			golden(t, file, got)
		})
	}
}

func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v (go test -update writes it)", err)
	}
	if got != string(want) {
		t.Errorf("%s\ngot  %s\nwant %s", file, got, want)
	}
}

var answerUsage = llm.Usage{InputTokens: 100, CachedInputTokens: 60, OutputTokens: 20, Source: attempt.UsageReported}

// answerKinds are the answers that every protocol is tried with.
var answerKinds = map[string]Said{
	"text":       {Text: "Hello “wörld” \\ \n🙂", Finish: llm.FinishStop, Usage: answerUsage},
	"length":     {Text: "Hel", Finish: llm.FinishLength, Usage: answerUsage},
	"filter":     {Text: "I", Finish: llm.FinishFilter, Usage: answerUsage},
	"thinking":   {Thinking: "Let me see", Text: "It is 4", Finish: llm.FinishStop, Usage: answerUsage},
	"tools":      {Text: "I look", Calls: []Call{{"call_1", "read", `{"path":"a \"b\"","n":1}`}, {"call_2", "list", `{}`}}, Finish: llm.FinishTools, Usage: answerUsage},
	"tools only": {Calls: []Call{{"call_1", "read", `{"path":"x"}`}}, Finish: llm.FinishTools, Usage: answerUsage},
	"no usage":   {Text: "Hello", Finish: llm.FinishStop},
}

// answers compares what clients see of every kind of answer.
func answers(t *testing.T, p *Protocol, endpoint string) {
	for name, said := range answerKinds {
		t.Run(name, func(t *testing.T) {
			s := at(t, p, endpoint, "200 json:"+strconv.Quote(p.Plain(said)))
			answer, failure := s.adapter.Complete(context.Background(), s.call(simple[endpoint]))
			if failure != nil {
				t.Fatal(failure)
			}
			check(t, p, "plain", readers[endpoint].plain(t, spliced(t, answer.Body, answer.SpliceAt)), said, &answer.Result)
			if owned := endpoint != attempt.EndpointChat; answer.OwnMetadata != owned {
				t.Errorf("own metadata %v", answer.OwnMetadata)
			}

			s = at(t, p, endpoint, "200 sse body:"+strconv.Quote(strings.Join(p.Events(said), "")))
			r := s.relay(streaming(endpoint))
			if r.err != nil {
				t.Fatal(r.err)
			}
			check(t, p, "stream", readers[endpoint].stream(t, r.text), said, &r.result)
			if r.splices != 1 {
				t.Errorf("metadata has %d places", r.splices)
			}
			if sent := s.up.Calls()[0].Path; sent != p.Base+p.StreamPath && endpoint != p.Native {
				t.Errorf("streamed from %s", sent)
			}
		})
	}
}

func check(t *testing.T, p *Protocol, what string, got, want Said, r *provider.Result) {
	t.Helper()
	if want.Usage.Source == "" {
		want.Usage.Source = attempt.UsageMissing
	}
	if r.Usage != want.Usage {
		t.Errorf("%s: usage of the event\ngot  %+v\nwant %+v", what, r.Usage, want.Usage)
	}
	if r.FinishReason == "" || !r.Output || r.Status != 200 {
		t.Errorf("%s: result %+v", what, *r)
	}
	want.Usage.Source, got.Usage.Source = "", ""
	got.Signature = ""
	if a, b := fmt.Sprintf("%+v", got), fmt.Sprintf("%+v", want); a != b {
		t.Errorf("%s: the client sees\n%s\nwant\n%s", what, a, b)
	}
}

// spliced puts metadata in, which must leave valid JSON.
func spliced(t *testing.T, body []byte, at int) []byte {
	t.Helper()
	out := string(body[:at]) + `,"turnout":{"m":1}` + string(body[at:])
	if !json.Valid([]byte(out)) {
		t.Fatalf("spliced into invalid JSON: %s", out)
	}
	return []byte(out)
}

type relayed struct {
	text    string
	splices int
	outputs int
	result  provider.Result
	err     *llm.Error
}

func (s *place) relay(body string) (r relayed) {
	s.t.Helper()
	call := s.call(body)
	stream, failure := s.adapter.Stream(context.Background(), call)
	if failure != nil {
		return relayed{err: failure}
	}
	defer stream.Close()
	for {
		c, err := stream.Next()
		switch {
		case errors.Is(err, io.EOF):
			r.result = stream.Result()
			return r
		case err != nil:
			if !errors.As(err, &r.err) {
				s.t.Fatal(err)
			}
			r.result = stream.Result()
			return r
		}
		if c.Output {
			r.outputs++
		}
		data := string(c.Data)
		if c.SpliceAt > 0 {
			r.splices++
			data = data[:c.SpliceAt] + `,"turnout":{"m":1}` + data[c.SpliceAt:]
		}
		r.text += data
	}
}
