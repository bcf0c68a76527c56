package resource

import (
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// What is stored under a version reads back to the same, and says which version it is.
func TestStoredConfigurationReadsBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		set := drawSet(t)
		p := &set.Projects[0]
		if rapid.Bool().Draw(t, "more") {
			rate, ratio := rapid.Float64Range(0, 1).Draw(t, "rate"), rapid.Float64Range(0, 9).Draw(t, "ratio")
			p.Routing.Thresholds.CacheHitRate, p.Routing.Thresholds.CacheOutputRatio = &rate, &ratio
			p.Routing.Thresholds.ExplorationRate = rapid.Float64Range(0, 1).Draw(t, "exploration")
			p.Routing.Timeouts = RoutingTimeouts{Gateway: time.Minute, Idle: time.Millisecond}
			p.Routing.History = History{WindowMinutes: 30, Tier1Minutes: 0, Tier2Minutes: 10, Tier1Weight: 3, Tier2Weight: 2, Tier3Weight: 0}
			p.Routing.Session.Enabled, p.Routing.Session.TTL = false, 77*time.Second
		}
		body := p.Resolved().Encode()
		back, err := ParseResolved(body)
		if err != nil {
			t.Fatal(err)
		}
		if !reflect.DeepEqual(back, p.Resolved()) {
			t.Fatalf("%s\nread %+v\nwas  %+v", body, back, p.Resolved())
		}
		if Version(back.Encode()) != p.ConfigVersion() {
			t.Fatal("another version")
		}
	})
}

func TestStoredPriceBookReadsBack(t *testing.T) {
	set, err := ParseFiles([]string{"testdata/whole.yaml"})
	if err != nil {
		t.Fatal(err)
	}
	b := set.PriceBook()
	back, err := ParsePriceBook(b.Encode())
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(back, b) || Version(back.Encode()) != set.PriceVersion() {
		t.Fatalf("read %+v\nwas  %+v", back, b)
	}
	if len(b.Prices) < 2 || len(b.Discounts) == 0 {
		t.Fatalf("this shows little: %+v", b)
	}
	for i := range b.Prices {
		p := &b.Prices[i]
		if found, ok := back.Find(p.Model, p.Provider, p.Region); !ok || !reflect.DeepEqual(found, p) {
			t.Errorf("%s %s %s is not found", p.Model, p.Provider, p.Region)
		}
	}
	if _, ok := back.Find("no-such", "", ""); ok {
		t.Error("what is not there is found")
	}
	if d := back.DiscountsOf(b.Discounts[0].Organization); len(d) == 0 || d[0] != b.Discounts[0].Discount {
		t.Errorf("discounts %v", d)
	}
}

func TestStoredFormsRefuse(t *testing.T) {
	for body, want := range map[string]string{
		``: "routing configuration", `{}`: "routing is missing", `{"routing":{"weights":{"price":-1}}}`: "routing.weights.price",
	} {
		if _, err := ParseResolved([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	for body, want := range map[string]string{
		`[]`: "price book", `{"prices":[{"price":{"input":-1}}]}`: "prices[0].price.input", `{"prices":[{"price":{},"price_tiers":[{"price":{"output":1e-10}}]}]}`: "prices[0].price_tiers.output",
	} {
		if _, err := ParsePriceBook([]byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", body, err)
		}
	}
	if b, err := ParsePriceBook([]byte(`{"prices":[{"model":"m","price":{"input":1,"output":2,"later":3}}]}`)); err != nil || b.Prices[0].Price.Output != 2e9 {
		t.Errorf("a rate of a later release: %v", err)
	}
}
