// Package modelsdev turns the api.json of models.dev into resources. Spellings of one model by
// several providers come together under one id; what cannot be mapped is reported, never guessed.
package modelsdev

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"

	"turnout/schemas/resource"
)

// Report says what was not taken over, or not as it stands, by reason.
type Report struct {
	Providers, Models, Mappings int
	LeftOut                     map[string][]string // reason to provider/model
	Noted                       map[string][]string
}

type provider struct {
	ID     string           `json:"id"`
	Name   string           `json:"name"`
	NPM    string           `json:"npm"`
	API    string           `json:"api"`
	Env    []string         `json:"env"`
	Models map[string]model `json:"models"`
}

type model struct {
	ID               string `json:"id"`
	Name             string `json:"name"`
	Family           string `json:"family"`
	Status           string `json:"status"`
	Reasoning        bool   `json:"reasoning"`
	ToolCall         bool   `json:"tool_call"`
	StructuredOutput *bool  `json:"structured_output"`
	ReasoningOptions []struct {
		Type   string    `json:"type"`
		Values []*string `json:"values"`
	} `json:"reasoning_options"`
	Modalities struct {
		Input  []string `json:"input"`
		Output []string `json:"output"`
	} `json:"modalities"`
	Limit struct {
		Context int64 `json:"context"`
		Output  int64 `json:"output"`
	} `json:"limit"`
	Cost     *cost `json:"cost"`
	Provider *struct {
		NPM string `json:"npm"`
	} `json:"provider"`
}

// Import reads an api.json. The set is unchecked; Encode and Parse it to see what it is worth.
func Import(data []byte) (*resource.Set, *Report, error) {
	var in map[string]provider
	if err := json.NewDecoder(bytes.NewReader(data)).Decode(&in); err != nil {
		return nil, nil, fmt.Errorf("reading models.dev: %w", err)
	}
	im := &importer{models: map[string]*resource.Model{}, providers: map[string]bool{}, report: &Report{LeftOut: map[string][]string{}, Noted: map[string][]string{}}}
	for id := range in {
		im.providers[id] = true
	}
	for _, id := range slices.Sorted(maps.Keys(in)) {
		im.provider(id, in[id])
	}
	im.finish(in)
	return &im.set, im.report, nil
}

type importer struct {
	set       resource.Set
	models    map[string]*resource.Model
	providers map[string]bool // of models.dev
	report    *Report
}

func (im *importer) leaveOut(reason, provider, model string) {
	im.report.LeftOut[reason] = append(im.report.LeftOut[reason], provider+"/"+model)
}

func (im *importer) note(what, provider, model string) {
	im.report.Noted[what] = append(im.report.Noted[what], provider+"/"+model)
}

var providerID = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

func (im *importer) provider(id string, p provider) {
	if other, ok := same[id]; ok {
		for _, model := range slices.Sorted(maps.Keys(p.Models)) {
			im.leaveOut("the same as "+other, id, model)
		}
		return
	}
	s, ok := services[id]
	if !ok && p.NPM == compatible && p.API != "" {
		s, ok = service{protocol: resource.ProtocolOpenAI, baseURL: strings.TrimRight(p.API, "/")}, true
	}
	if !ok {
		for _, model := range slices.Sorted(maps.Keys(p.Models)) {
			im.leaveOut("its provider speaks no known protocol", id, model)
		}
		return
	}
	if !providerID.MatchString(id) || resource.CheckBaseURL(s.baseURL, false) != nil {
		for _, model := range slices.Sorted(maps.Keys(p.Models)) {
			im.leaveOut("its provider's id or base URL cannot be used", id, model)
		}
		return
	}
	rows := slices.SortedFunc(maps.Values(p.Models), func(a, b model) int {
		// The plainest spelling first: it stays, others of the same model become aliases.
		return cmp.Or(cmp.Compare(rank(id, a), rank(id, b)), strings.Compare(a.ID, b.ID))
	})
	for _, row := range rows {
		im.row(id, s, row)
	}
}

func rank(provider string, m model) int {
	switch {
	case m.Status == "deprecated":
		return 3
	case strings.ToLower(m.ID) == canonical(provider, m.ID):
		return 0
	case strings.Contains(m.ID, "latest"):
		return 2
	}
	return 1
}

// unserved are models that take or give what no endpoint of the gateway carries.
var unserved = regexp.MustCompile(`(gpt-image|whisper|realtime|rerank|-tts|orpheus|-asr|livetranslate|gliner|esmfold|esm2|bevformer|sparsedrive|streampetr|cosmos|studiovoice|magpie|video|speaker|voicechat|usdvalidate)`)

func (im *importer) row(providerID string, s service, m model) {
	if m.Provider != nil && providerID == "azure" && strings.HasPrefix(m.Provider.NPM, "@ai-sdk/anthropic") {
		providerID, s = azureAnthropic, services[azureAnthropic]
	}
	name := canonical(providerID, m.ID)
	if strings.TrimSpace(m.ID) == "" || !im.askable(name) || m.Limit.Context < 0 || m.Limit.Output < 0 {
		im.leaveOut("an id that cannot be asked for, or a limit below 0", providerID, m.ID)
		return
	}
	if m.Cost == nil {
		im.leaveOut("no price", providerID, m.ID)
		return
	}
	output := outputs(m)
	if len(output) == 0 {
		im.leaveOut("gives no text and no embeddings", providerID, m.ID)
		return
	}
	if m.Provider != nil && strings.HasSuffix(m.Provider.NPM, "/mantle") {
		im.leaveOut("its provider serves it at another address by another protocol", providerID, m.ID)
		return
	}
	if unserved.MatchString(strings.ToLower(m.ID)) || !slices.Contains(m.Modalities.Input, "text") {
		im.leaveOut("pictures, speech, video, ranking or real time, which no endpoint carries", providerID, m.ID)
		return
	}
	price, tiers, notes, err := m.Cost.price()
	if err != nil {
		im.leaveOut("price: "+err.Error(), providerID, m.ID)
		return
	}
	if price.Output == 0 && price.Input != 0 && slices.Contains(output, "text") {
		im.leaveOut("no price for output", providerID, m.ID)
		return
	}
	splitImages(name, &price)
	for _, n := range notes {
		im.note(n, providerID, m.ID)
	}
	mapping := resource.Mapping{
		Provider: providerID, Upstream: m.ID, Price: price, PriceTiers: tiers, Context: m.Limit.Context, MaxOutput: m.Limit.Output,
		Capabilities: abilities(m, s, output), ReasoningEfforts: efforts(m), Status: resource.StatusActive, Stability: resource.StabilityStable,
	}
	switch m.Status {
	case "deprecated":
		mapping.Status = resource.StatusDeprecated
	case "beta":
		mapping.Stability = resource.StabilityBeta
	case "alpha":
		mapping.Stability = resource.StabilityExperimental
	}
	if s.trial && price.Input == 0 && price.Output == 0 {
		mapping.Stability = resource.StabilityExperimental
		im.note("free for trying out only: kept as experimental", providerID, m.ID)
	}
	if providerID == "openai" && flexible.MatchString(name) {
		mapping.ServiceTiers = []resource.ServiceTier{{ID: "flex", Price: half(price)}}
	}
	if strings.HasPrefix(name, "claude-") && price.CacheWrite1h == nil && price.CacheWrite != nil {
		hour := 2 * price.Input // an hour's cache costs twice the input, wherever Claude is served
		mapping.Price.CacheWrite1h = &hour
	}
	im.add(name, m, output, mapping)
}

// flexible are the models that OpenAI serves as `flex`, when it has time, at half the price.
var flexible = regexp.MustCompile(`^(gpt-5(\.[1-9])?(-mini|-nano)?|o3|o4-mini)$`)

func half(p resource.Price) resource.Price {
	p.Input, p.Output = p.Input/2, p.Output/2
	if p.CachedInput != nil {
		cached := *p.CachedInput / 2
		p.CachedInput = &cached
	}
	return p
}

// add puts a mapping under its model, together with what the same provider has of it already.
func (im *importer) add(id string, m model, output []string, mapping resource.Mapping) {
	known, ok := im.models[id]
	if !ok {
		known = &resource.Model{ID: id, Name: cleanName(m.Name), Family: m.Family, Output: output}
		im.models[id] = known
	}
	if known.Family == "" {
		known.Family = m.Family
	}
	known.Aliases = append(known.Aliases, m.ID)
	_, region := cutProfile(m.ID)
	for i := range known.Mappings {
		if known.Mappings[i].Provider != mapping.Provider {
			continue
		}
		if mapping.Provider == "amazon-bedrock" && addRegion(&known.Mappings[i], mapping, region) {
			return
		}
		im.leaveOut("another spelling of the same model there", mapping.Provider, m.ID)
		return
	}
	if mapping.Provider == "amazon-bedrock" && region != "" {
		mapping.Regions = []resource.Region{regionOf(mapping, region)}
	}
	known.Mappings = append(known.Mappings, mapping)
}

var trailing = regexp.MustCompile(`\s*\((latest|Global|US|EU|AU|JP)\)$`)

func cleanName(name string) string { return trailing.ReplaceAllString(strings.TrimSpace(name), "") }

func regionOf(m resource.Mapping, id string) resource.Region {
	return resource.Region{
		ID: id, Upstream: m.Upstream, Price: m.Price, PriceTiers: m.PriceTiers, Context: m.Context, MaxOutput: m.MaxOutput,
		Status: m.Status, Stability: m.Stability,
	}
}

// addRegion adds an inference profile as a region. The id without a profile serves nothing of its own
// once there are profiles.
func addRegion(to *resource.Mapping, from resource.Mapping, region string) bool {
	if region == "" || slices.ContainsFunc(to.Regions, func(r resource.Region) bool { return r.ID == region }) {
		return false
	}
	to.Regions = append(to.Regions, regionOf(from, region))
	return true
}
