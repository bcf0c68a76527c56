package resource

import (
	"errors"
	"math/big"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseRate(t *testing.T) {
	for in, want := range map[string]Rate{
		"0": 0, "0.0": 0, "3": 3e9, "3.75": 3.75e9, "0.075": 75e6, "0.000000001": 1, "1e-9": 1, "1.5E-3": 1.5e6, "2e2": 200e9,
		"0.1000000000000": 1e8, "1000000": MaxRate, "00.5": 5e8,
	} {
		if got, err := ParseRate(in); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{
		"", ".", "1.", "-1", "-0.5", "+1", "1e", "1e99", "abc", "0x10", "1_000", "1,5", " 1", "1 ", "NaN", "inf", "1.2.3", "0.0000000001",
		"1000000.000000001", "1e30", "99999999999999999999999", "1e-10", "--1", "e5",
	} {
		if got, err := ParseRate(in); err == nil {
			t.Errorf("%q: accepted as %d", in, got)
		}
	}
}

// TestRateLaws: what is printed is read back, and both agree with exact rational arithmetic.
func TestRateLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := Rate(rapid.Int64Range(0, int64(MaxRate)).Draw(t, "rate"))
		text := r.String()
		back, err := ParseRate(text)
		if err != nil || back != r {
			t.Fatalf("%d printed as %q is read as %d, %v", r, text, back, err)
		}
		exact, ok := new(big.Rat).SetString(text)
		if !ok || exact.Mul(exact, big.NewRat(1e9, 1)).Cmp(big.NewRat(int64(r), 1)) != 0 {
			t.Fatalf("%d printed as %q", r, text)
		}
	})
}

func TestNearest(t *testing.T) {
	words := []string{"priority", "protocol", "price", "input", "output", "gpt-5.4-mini", "gpt-5.4-nano"}
	for word, want := range map[string][]string{
		"priorty": {"priority"}, "inptu": {"input"}, "PRICE": {"price"}, "zzz": {}, "gpt-5.4-mni": {"gpt-5.4-mini", "gpt-5.4-nano"}, "": {},
	} {
		if got := Nearest(word, words, 2); !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %q, want %q", word, got, want)
		}
	}
}

// TestDistanceLaws compares the bounded distance with the plain one.
func TestDistanceLaws(t *testing.T) {
	plain := func(a, b string) int {
		table := make([][]int, len(a)+1)
		for i := range table {
			table[i] = make([]int, len(b)+1)
			for j := range table[i] {
				switch {
				case i == 0:
					table[i][j] = j
				case j == 0:
					table[i][j] = i
				default:
					change := table[i-1][j-1]
					if a[i-1] != b[j-1] {
						change++
					}
					table[i][j] = min(change, table[i-1][j]+1, table[i][j-1]+1)
				}
			}
		}
		return table[len(a)][len(b)]
	}
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[ab:/]{0,8}`)
		a, b, bound := word.Draw(t, "a"), word.Draw(t, "b"), rapid.IntRange(0, 8).Draw(t, "bound")
		want, got := plain(a, b), distance(a, b, bound)
		if want <= bound && got != want || want > bound && got <= bound {
			t.Fatalf("distance %d, want %d within %d", got, want, bound)
		}
	})
}

// TestEncodeLaws: whatever set is drawn, its encoding is read back to the same set.
func TestEncodeLaws(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSet(t)
		encoded := Encode(set)
		back, err := Parse(Source{Name: "set.yaml", Data: encoded})
		if err != nil {
			t.Fatalf("%v\n%s", err, encoded)
		}
		if !reflect.DeepEqual(set, back) {
			t.Fatalf("want %+v\ngot  %+v\n%s", set, back, encoded)
		}
		if set.PriceVersion() != back.PriceVersion() {
			t.Fatal("price versions differ")
		}
	})
}

func drawSet(t *rapid.T) *Set {
	rate := rapid.Custom(func(t *rapid.T) Rate { return Rate(rapid.Int64Range(0, 1e12).Draw(t, "rate")) })
	name := rapid.StringOfN(rapid.RuneFrom([]rune("ab:/#'\"{}[],&*!|>%@` -\té\n\\")), 0, 8, -1)
	optional := func(label string) *Rate {
		if !rapid.Bool().Draw(t, label) {
			return nil
		}
		r := rate.Draw(t, label)
		return &r
	}
	price := func() Price {
		return Price{Input: rate.Draw(t, "in"), Output: rate.Draw(t, "out"), CachedInput: optional("cached"), CacheWrite: optional("write"), ImageOutput: optional("image"), Request: optional("request")}
	}
	set := &Set{Providers: []Provider{{ID: "p", Name: name.Draw(t, "name"), Protocol: ProtocolOpenAI, BaseURL: "https://example.com", HTTP: rapid.IntRange(1, 2).Draw(t, "http")}}}
	mapping := Mapping{
		Provider: "p", Upstream: "x" + name.Draw(t, "upstream"), Price: price(), Context: rapid.Int64Range(0, 1e7).Draw(t, "context"),
		Status: rapid.SampledFrom([]string{StatusActive, StatusDeprecated}).Draw(t, "status"), Stability: StabilityStable,
	}
	if rapid.Bool().Draw(t, "tiers") {
		mapping.PriceTiers = []PriceTier{{Above: 10, Price: price()}}
	}
	for _, id := range []string{"us", "eu"}[:rapid.IntRange(0, 2).Draw(t, "regions")] {
		r := Region{ID: id, Upstream: mapping.Upstream, Price: mapping.Price, PriceTiers: mapping.PriceTiers, Context: mapping.Context, Status: mapping.Status, Stability: StabilityBeta}
		r.Price.Input = rate.Draw(t, "region")
		if own := optional("region cached"); own != nil {
			r.Price.CachedInput = own
		}
		if rapid.Bool().Draw(t, "region can less") {
			r.Capabilities, r.ServiceTiers, r.Timeouts.Idle = []string{}, []ServiceTier{}, time.Second
		}
		mapping.Regions = append(mapping.Regions, r)
	}
	set.Models = []Model{{ID: "m", Name: name.Draw(t, "model"), Output: []string{"text"}, Mappings: []Mapping{mapping}}}
	set.Organizations = []Organization{{ID: "o", Name: name.Draw(t, "organization"), Workload: "chat"}}
	routing := DefaultRouting()
	routing.Weights.Price = rapid.Float64Range(0, 10).Draw(t, "weight")
	routing.Retry.MaxRetries = rapid.IntRange(0, 10).Draw(t, "retries")
	routing.Sticky.Enabled = rapid.Bool().Draw(t, "sticky")
	routing.ProviderPriorities = map[string]float64{"p": rapid.Float64Range(0, 2).Draw(t, "priority")}
	set.Projects = []Project{{ID: "w", Organization: "o", Mode: ModeHybrid, ModelIDs: "provider", DefaultStrategy: "price", Routing: routing}}
	return set
}

func TestVersions(t *testing.T) {
	set, err := ParseFiles([]string{"testdata/whole.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	prices, config := set.PriceVersion(), set.Projects[0].ConfigVersion()
	if len(prices) != 16 || len(config) != 16 {
		t.Fatalf("%q %q", prices, config)
	}
	set.Models[0].Name, set.Projects[0].Name = "other", "other"
	if set.PriceVersion() != prices || set.Projects[0].ConfigVersion() != config {
		t.Error("a name changed a version")
	}
	set.Projects[0].Routing.Weights.Cache = 9
	if set.Projects[0].ConfigVersion() == config {
		t.Error("a weight did not change the configuration's version")
	}
	for name, change := range map[string]func(*Set){
		"region":   func(s *Set) { s.Models[0].Mappings[0].Regions[1].Price.Input++ },
		"tier":     func(s *Set) { s.Models[0].Mappings[0].Regions[0].PriceTiers[0].Price.Output++ },
		"service":  func(s *Set) { s.Models[0].Mappings[0].ServiceTiers[0].Price.Output++ },
		"discount": func(s *Set) { s.Organizations[0].Discounts[0].Percent++ },
	} {
		fresh, err := ParseFiles([]string{"testdata/whole.yaml"})
		if err != nil {
			t.Fatal(err)
		}
		change(fresh)
		if fresh.PriceVersion() == prices {
			t.Errorf("%s did not change the price version", name)
		}
	}
}

// Azure's base URLs alone may say which version of the API is meant.
func TestAzureBaseURLsNameAVersion(t *testing.T) {
	for base, want := range map[string]bool{
		"https://x.openai.azure.com?api-version=2024-10-21": true, "https://x.openai.azure.com/openai/v1?api-version=preview": true,
		"https://x.openai.azure.com?api-version=": false, "https://x.openai.azure.com?api-version=1&key=2": false, "https://x.openai.azure.com?key=secret": false,
	} {
		if err := (&Provider{Protocol: ProtocolAzure}).CheckBaseURL(base); (err == nil) != want {
			t.Errorf("azure, %s: %v", base, err)
		}
		if err := (&Provider{Protocol: ProtocolOpenAI}).CheckBaseURL(base); err == nil {
			t.Errorf("openai, %s: accepted", base)
		}
	}
}

func TestCheckBaseURL(t *testing.T) {
	for _, good := range []string{"https://api.openai.com/v1", "https://${AZURE_RESOURCE_NAME}.openai.azure.com", "https://bedrock-runtime.{region}.amazonaws.com", "http://8.8.8.8"} {
		if err := CheckBaseURL(good, false); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for _, local := range []string{"http://127.0.0.1:1", "http://[::1]:1", "http://192.168.1.1", "http://localhost", "http://[fd00::1]", "http://[::ffff:10.0.0.1]", "http://100.64.0.1"} {
		if err := CheckBaseURL(local, false); err == nil {
			t.Errorf("%s: accepted", local)
		}
		if err := CheckBaseURL(local, true); err != nil {
			t.Errorf("%s: %v", local, err)
		}
	}
	for _, never := range []string{
		"", "x", "https://", "file:///etc/passwd", "http://169.254.169.254", "http://[fe80::1%25eth0]", "http://0.0.0.0", "http://[::]", "http://100.100.100.200",
		"http://metadata.google.internal/x", "http://[::ffff:169.254.169.254]", "http://[fd00:ec2::254]", "http://[64:ff9b::a9fe:a9fe]", "http://a b", "https://x?y", "https://x#y", "https://u@x", "http://224.0.0.1",
	} {
		if err := CheckBaseURL(never, true); err == nil {
			t.Errorf("%q: accepted", never)
		}
	}
}

func TestFiles(t *testing.T) {
	dir := t.TempDir()
	write := func(name, data string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("b.yaml", "kind: organization\nid: b\n")
	write("a/z.yml", "kind: organization\nid: z\n")
	write("c.json", `{"kind": "organization", "id": "c"}`)
	write("notes.txt", "not a resource")
	write(".hidden.yaml", "neither")
	set, err := ParseFiles([]string{dir, filepath.Join(dir, "b.yaml")})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, o := range set.Organizations {
		ids = append(ids, o.ID)
	}
	if strings.Join(ids, " ") != "z b c" {
		t.Errorf("%q", ids)
	}
	write("d.yaml", "kind: organization\nid: b\n")
	if _, err := ParseFiles([]string{dir}); err == nil || !strings.Contains(err.Error(), "d.yaml:2:5") || !strings.Contains(err.Error(), "b.yaml:2") {
		t.Errorf("a duplicate over two files: %v", err)
	}
	if _, err := ParseFiles([]string{filepath.Join(dir, "none")}); err == nil || !strings.Contains(err.Error(), "there is no file or folder") {
		t.Errorf("%v", err)
	}
}

func FuzzParse(f *testing.F) {
	for _, pattern := range []string{"testdata/*.*", "testdata/broken/*.yaml", "testdata/broken/*.json"} {
		names, _ := filepath.Glob(pattern)
		for _, name := range names {
			data, err := os.ReadFile(name)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(data, strings.HasSuffix(name, ".json"))
		}
	}
	f.Fuzz(func(t *testing.T, data []byte, isJSON bool) {
		name := "f.yaml"
		if isJSON {
			name = "f.json"
		}
		set, err := Parse(Source{Name: name, Data: data})
		if err != nil {
			var all Errors
			if !errors.As(err, &all) {
				t.Fatalf("%T", err)
			}
			for _, one := range all {
				if one.Line < 1 || one.Column < 1 || one.Path == "" {
					t.Fatalf("no place: %+v", one)
				}
			}
			return
		}
		back, err := Parse(Source{Name: "back.yaml", Data: Encode(set)})
		if err != nil {
			t.Fatalf("the encoding is refused: %v\n%s", err, Encode(set))
		}
		if !reflect.DeepEqual(set, back) {
			t.Fatalf("the encoding is another set\n%s", Encode(set))
		}
	})
}
