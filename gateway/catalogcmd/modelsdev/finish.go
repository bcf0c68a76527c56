package modelsdev

import (
	"cmp"
	"maps"
	"regexp"
	"slices"
	"strings"

	"turnout/schemas/resource"
)

// finish puts the set together: regions, aliases, and of the providers those that serve something.
func (im *importer) finish(in map[string]provider) {
	serving := map[string]bool{}
	for _, id := range slices.Sorted(maps.Keys(im.models)) {
		m := im.models[id]
		free := true
		for i := range m.Mappings {
			mapping := &m.Mappings[i]
			bedrockOrder(mapping)
			vertexPlaces(m.ID, mapping)
			serving[mapping.Provider] = true
			free = free && mapping.Price.Input == 0 && mapping.Price.Output == 0 && mapping.Stability != resource.StabilityExperimental
			im.report.Mappings++
		}
		m.Free = free
		// Whoever made a model stands first: equal scores go to the first.
		slices.SortStableFunc(m.Mappings, func(a, b resource.Mapping) int {
			own := home[File(id)]
			return cmp.Compare(index(a.Provider != own), index(b.Provider != own))
		})
	}
	im.aliases()
	for _, id := range slices.Sorted(maps.Keys(im.models)) {
		im.set.Models = append(im.set.Models, *im.models[id])
	}
	im.report.Models = len(im.set.Models)
	for _, id := range slices.Sorted(maps.Keys(serving)) {
		im.set.Providers = append(im.set.Providers, describe(id, in[id]))
	}
	im.report.Providers = len(im.set.Providers)
}

func index(b bool) int {
	if b {
		return 1
	}
	return 0
}

// home is the provider that made what stands in a file.
var home = map[string]string{
	"openai": "openai", "anthropic": "anthropic", "google": "google", "deepseek": "deepseek", "qwen": "alibaba", "moonshot": "moonshotai", "zai": "zai",
	"minimax": "minimax", "mistral": "mistral", "xai": "xai", "amazon": "amazon-bedrock", "cohere": "cohere", "nvidia": "nvidia", "microsoft": "azure",
}

// claudeVersion is how Anthropic writes a version; others write it with a dot.
var claudeVersion = regexp.MustCompile(`^(claude-[a-z]+)-(\d)-(\d)$`)

var secretName = regexp.MustCompile(`^[A-Z_][A-Z0-9_]*(KEY|TOKEN)[A-Z0-9_]*$`)

func describe(id string, p provider) resource.Provider {
	s, ok := services[id]
	if !ok {
		s = service{protocol: resource.ProtocolOpenAI, baseURL: strings.TrimRight(p.API, "/")}
	}
	out := resource.Provider{ID: id, Name: p.Name, Protocol: s.protocol, BaseURL: s.baseURL, Endpoints: s.endpoints, HTTP: 1}
	if s.name != "" {
		out.Name = s.name
	}
	if s.secret == "" {
		for _, name := range p.Env {
			if s.secret == "" && secretName.MatchString(name) {
				s.secret = name
			}
		}
	}
	if s.secret != "" {
		out.Credentials = []resource.Credential{{ID: "main", Secret: "env:" + s.secret}}
	}
	if s.priority != 0 {
		out.Priority = &s.priority
	}
	if s.noStreamUsage {
		no := false
		out.StreamUsage = &no
	}
	return out
}

// bedrockOrder brings inference profiles into catalogue order; the mapping is as its first region.
func bedrockOrder(m *resource.Mapping) {
	if m.Provider != "amazon-bedrock" {
		return
	}
	if len(m.Regions) == 0 {
		// Without a profile a model is called where it stands, unless it stands nowhere by itself.
		if slices.Contains(profileOnly, m.Upstream) {
			m.Upstream = "us." + m.Upstream
		}
		m.Regions = []resource.Region{regionOf(*m, "us-east-1")}
		return
	}
	place := func(r resource.Region) int {
		return slices.IndexFunc(bedrockRegions, func(p struct{ prefix, region string }) bool { return p.region == r.ID })
	}
	slices.SortFunc(m.Regions, func(a, b resource.Region) int { return place(a) - place(b) })
	first := m.Regions[0]
	m.Upstream, m.Price, m.PriceTiers, m.Context, m.MaxOutput = first.Upstream, first.Price, first.PriceTiers, first.Context, first.MaxOutput
	m.Status, m.Stability = first.Status, first.Stability
}

var beforeRegionalPrice = regexp.MustCompile(`^claude-(3|(opus|sonnet)-4$|opus-4-1)`)

func vertexPlaces(id string, m *resource.Mapping) {
	if m.Provider != "google-vertex" || len(m.Regions) > 0 {
		return
	}
	at := slices.IndexFunc(vertexRegions, func(row placed) bool { return row.model.MatchString(id) })
	for _, place := range vertexRegions[at].regions {
		r := regionOf(*m, place)
		if strings.HasPrefix(id, "claude-") && place != "global" && !beforeRegionalPrice.MatchString(id) {
			r.Price = dearer(r.Price)
			r.PriceTiers = slices.Clone(r.PriceTiers)
			for i := range r.PriceTiers {
				r.PriceTiers[i].Price = dearer(r.PriceTiers[i].Price)
			}
		}
		m.Regions = append(m.Regions, r)
	}
}

// dearer is a tenth more, exact.
func dearer(p resource.Price) resource.Price {
	more := func(r *resource.Rate) *resource.Rate {
		if r == nil {
			return nil
		}
		up := *r + *r/10
		return &up
	}
	p.Input += p.Input / 10
	p.Output += p.Output / 10
	p.CachedInput, p.CacheWrite, p.CacheWrite1h = more(p.CachedInput), more(p.CacheWrite), more(p.CacheWrite1h)
	return p
}

var spelled = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,199}$`)

// aliases keeps the vendors' spellings that mean one model only and do not name a provider, which
// would take `provider/model` away from those who ask for that provider.
func (im *importer) aliases() {
	owners := map[string]map[string]bool{}
	spell := func(id string) []string {
		out := []string{}
		for _, upstream := range im.models[id].Aliases {
			out = append(out, upstream)
			if slash := strings.LastIndexByte(upstream, '/'); slash >= 0 {
				out = append(out, upstream[slash+1:])
			}
			if m := claudeVersion.FindStringSubmatch(upstream); m != nil {
				out = append(out, m[1]+"-"+m[2]+"."+m[3])
			}
			if rest, region := cutProfile(upstream); region != "" {
				out = append(out, rest)
			}
		}
		return out
	}
	for id := range im.models {
		for _, spelling := range spell(id) {
			if owners[spelling] == nil {
				owners[spelling] = map[string]bool{}
			}
			owners[spelling][id] = true
		}
	}
	for id, m := range im.models {
		var kept []string
		for _, spelling := range spell(id) {
			_, taken := im.models[spelling]
			first, _, slash := strings.Cut(spelling, "/")
			_, regional := cutProfile(spelling)
			if taken || len(owners[spelling]) > 1 || regional != "" || !im.askable(spelling) || strings.HasPrefix(spelling, "accounts/") || slash && im.known(first) {
				continue
			}
			kept = append(kept, spelling)
		}
		slices.Sort(kept)
		m.Aliases = slices.Compact(kept)
		if len(m.Aliases) == 0 {
			m.Aliases = nil
		}
	}
}

// askable says whether an id can be written into a request and reaches its model there.
func (im *importer) askable(id string) bool {
	if !spelled.MatchString(id) || id == "auto" || id == "smart" || strings.HasPrefix(id, "dynamic/") {
		return false
	}
	at := strings.IndexAny(id, ":/")
	return at < 0 || id[at] == '/' || !im.known(id[:at])
}

// known says whether a word names a provider anywhere, taken over or not: ids must go on meaning what
// they mean when one is added.
func (im *importer) known(word string) bool {
	_, curated := services[word]
	return curated || im.providers[word]
}
