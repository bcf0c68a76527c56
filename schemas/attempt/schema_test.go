package attempt

import (
	"bytes"
	"encoding/json"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

func jsonFields(t reflect.Type) []string {
	var names []string
	for i := range t.NumField() {
		if name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ","); name != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func compile(t *testing.T, file string) *jsonschema.Schema {
	t.Helper()
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	schema, err := c.Compile(file)
	if err != nil {
		t.Fatal(err)
	}
	return schema
}

func validate(schema *jsonschema.Schema, text []byte) error {
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return err
	}
	return schema.Validate(v)
}

func TestSchemasHaveTheFieldsOfTheStructs(t *testing.T) {
	for file, typ := range map[string]reflect.Type{
		"attempt.v1.schema.json": reflect.TypeFor[Event](),
		"refused.v1.schema.json": reflect.TypeFor[Refused](),
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		type object struct {
			Properties map[string]struct{ Type string }
		}
		var schema struct {
			object
			Defs map[string]object `json:"$defs"`
		}
		if err := json.Unmarshal(text, &schema); err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			name string
			got  object
			typ  reflect.Type
		}{{file, schema.object, typ}, {file + " considered", schema.Defs["considered"], reflect.TypeFor[Considered]()}} {
			var got []string
			for name := range c.got.Properties {
				got = append(got, name)
			}
			slices.Sort(got)
			if want := jsonFields(c.typ); !slices.Equal(got, want) {
				t.Errorf("%s has %v\nthe struct has %v", c.name, got, want)
			}
		}
	}
}

func TestEventsSatisfyTheSchema(t *testing.T) {
	schema := compile(t, "attempt.v1.schema.json")
	for name, text := range corpusFiles(t) {
		if err := validate(schema, text); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for i := range uint64(200) {
		if err := validate(schema, Append(nil, realistic(i, int(i%33)))); err != nil {
			t.Fatal(err)
		}
	}
}

func TestTheSchemaRefuses(t *testing.T) {
	schema := compile(t, "attempt.v1.schema.json")
	for name, change := range map[string]func(map[string]any){
		"no outcome":          func(m map[string]any) { delete(m, "outcome") },
		"no identity":         func(m map[string]any) { delete(m, "event_id") },
		"text for a number":   func(m map[string]any) { m["input_tokens"] = "1" },
		"a fraction":          func(m map[string]any) { m["cost_nano_usd"] = 1.5 },
		"a negative count":    func(m map[string]any) { m["output_tokens"] = -1 },
		"no time":             func(m map[string]any) { m["started_at"] = "yesterday" },
		"a span of 3 digits":  func(m map[string]any) { m["span_id"] = "abc" },
		"33 candidates":       func(m map[string]any) { m["considered"] = make([]any, 33) },
		"a nameless provider": func(m map[string]any) { m["considered"] = []any{map[string]any{"price": 1}} },
	} {
		var m map[string]any
		_ = json.Unmarshal(Append(nil, realistic(1, 1)), &m)
		change(m)
		text, _ := json.Marshal(m)
		if validate(schema, text) == nil {
			t.Errorf("%s: taken", name)
		}
	}
}

func TestRefusedRoundTripAndSchema(t *testing.T) {
	schema := compile(t, "refused.v1.schema.json")
	e := realistic(4, 5)
	r := &Refused{
		SchemaVersion: SchemaVersion, EventID: e.EventID, RequestID: e.RequestID, NodeID: e.NodeID, OrganizationID: e.OrganizationID,
		RequestedModel: "no-such", Endpoint: EndpointChat, MaxTokens: 9, Traits: []string{TraitStrict}, NoFallback: true, ConsideredTotal: 5, Considered: e.Considered,
		At: e.StartedAt, StatusCode: 400, ErrorCode: "model_not_found", ErrorMessage: "model no-such is unknown",
	}
	text, err := AppendRefused(nil, r)
	if err != nil {
		t.Fatal(err)
	}
	if err := validate(schema, text); err != nil {
		t.Fatal(err)
	}
	got, err := DecodeRefused(append(text[:len(text)-1], `,"later":[1]}`...))
	if err != nil || !reflect.DeepEqual(got, r) {
		t.Fatalf("got %+v, %v", got, err)
	}
	for _, bad := range []string{``, `{`, `[]`, `{"schema_version":1}`, `{"schema_version":"1","event_id":"e","request_id":"r","at":"2026-01-02T03:04:05Z"}`} {
		if _, err := DecodeRefused([]byte(bad)); err == nil {
			t.Errorf("%s: taken", bad)
		}
	}
	r.At = r.At.In(time.FixedZone("", 7200)).Add(999)
	if text, _ = AppendRefused(nil, r); !bytes.Contains(text, []byte(e.StartedAt.Format(time.RFC3339Nano))) {
		t.Errorf("time not in UTC microseconds: %s", text)
	}
}

func TestSizes(t *testing.T) {
	zip, err := zstd.NewWriter(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ candidates, plain int }{{0, 2048}, {10, 4096}} {
		for i := range uint64(200) {
			if n := len(Append(nil, realistic(i, c.candidates))); n >= c.plain {
				t.Fatalf("%d bytes with %d candidates, at most %d wanted", n, c.candidates, c.plain)
			}
		}
	}
	// A batch as it leaves: every eighth attempt a retry or a late one without candidates, the
	// others with three, a tenth with ten.
	var batch []byte
	const n = 500
	for i := range uint64(n) {
		candidates := 3
		switch {
		case i%8 == 0:
			candidates = 0
		case i%10 == 0:
			candidates = 10
		}
		batch = Append(batch, realistic(i, candidates))
	}
	each := len(zip.EncodeAll(batch, nil)) / n
	t.Logf("%d bytes each, %d after zstd", len(batch)/n, each)
	if each >= 250 {
		t.Errorf("%d bytes each after zstd, less than 250 wanted", each)
	}
}
