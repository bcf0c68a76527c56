package resource

import (
	"reflect"
	"testing"
	"time"
)

// Regions could not say what a model can do there, its classes of service or its timeouts: the fields
// were refused as unknown.
func TestARegionOverridesAllThatItsMappingSays(t *testing.T) {
	const text = `
kind: provider
id: p
protocol: openai
base_url: https://x.example/{region}
---
kind: model
id: m
output: [text]
mappings:
  - provider: p
    upstream: u
    price: {input: 1, output: 2}
    service_tiers: [{id: flex, price: {input: 0.5, output: 1}}]
    capabilities: [tools, vision]
    reasoning_efforts: [low]
    image_tokens: 100
    timeouts: {idle: 1s, plain: 2s}
    regions:
      - {id: same}
      - {id: other, service_tiers: [{id: priority, price: {input: 3, output: 4}}], capabilities: [tools], reasoning_efforts: [max], image_tokens: 7, timeouts: {plain: 9s}}
      - {id: none, service_tiers: [], capabilities: []}
`
	set, err := Parse(Source{Name: "m.yaml", Data: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	mapping := &set.Models[0].Mappings[0]
	same, other, none := mapping.In(&mapping.Regions[0]), mapping.In(&mapping.Regions[1]), mapping.In(&mapping.Regions[2])
	want := *mapping
	want.Regions = nil
	if !reflect.DeepEqual(*same, want) {
		t.Errorf("a region that says nothing is %+v", same)
	}
	want.ServiceTiers = []ServiceTier{{ID: "priority", Price: Price{Input: 3e9, Output: 4e9}}}
	want.Capabilities, want.ReasoningEfforts, want.ImageTokens = []string{"tools"}, []string{"max"}, 7
	want.Timeouts = Timeouts{Idle: time.Second, Plain: 9 * time.Second}
	if !reflect.DeepEqual(*other, want) {
		t.Errorf("%+v, want %+v", other, want)
	}
	if none.Capabilities == nil || len(none.Capabilities) != 0 || len(none.ServiceTiers) != 0 {
		t.Errorf("a region without any: %+v", none)
	}
	tiers := map[string]int{}
	for _, p := range set.PriceBook().Prices {
		if len(p.ServiceTiers) > 0 {
			tiers[p.Region+" "+p.ServiceTiers[0].ID]++
		}
	}
	if !reflect.DeepEqual(tiers, map[string]int{"same flex": 1, "other priority": 1}) {
		t.Errorf("prices of classes of service: %v", tiers)
	}
	out := Encode(set)
	again, err := Parse(Source{Name: "m.yaml", Data: out})
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !reflect.DeepEqual(again.Models, set.Models) {
		t.Errorf("written and read again:\n%s", out)
	}
}
