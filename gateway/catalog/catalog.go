// Package catalog answers what a model id means: which model, served by whom, and what the caller
// said about provider, region and strategy on the way. It is built once from a set of resources and
// never changed; every method may be called by any number of goroutines.
package catalog

import (
	"time"

	"turnout/schemas/resource"
)

// Candidate is a mapping in one region: one line of the catalogue. Everything a region may override
// is resolved here.
type Candidate struct {
	Provider     *resource.Provider
	Model        *resource.Model
	Mapping      *resource.Mapping // as it is in the region
	Region       string            // "" where the provider has none
	Expires      time.Time         // zero: never
	Upstream     string
	Price        resource.Price
	PriceTiers   []resource.PriceTier
	Context      int64 // 0: no known limit
	MaxOutput    int64
	Status       string
	Stability    string
	Priority     float64 // region, else mapping, else provider, else 1; 0 disables
	Organization string  // set: a custom provider, for that organization alone
	Index        int     // within its model, in catalogue order
}

// Live says whether the candidate may serve at all at the given time: neither deactivated nor expired.
func (c *Candidate) Live(now time.Time) bool {
	return c.Status != resource.StatusDeactivated && (c.Expires.IsZero() || now.Before(c.Expires))
}

// VisibleTo says whether the organization may know of the candidate.
func (c *Candidate) VisibleTo(organization string) bool {
	return c.Organization == "" || c.Organization == organization
}

// Model is a catalogue entry with its candidates in catalogue order: mappings as they stand in the
// model, and the regions of each in theirs.
type Model struct {
	*resource.Model
	Candidates []Candidate
}

// VisibleTo says whether any candidate is visible to the organization.
func (m *Model) VisibleTo(organization string) bool {
	for i := range m.Candidates {
		if m.Candidates[i].VisibleTo(organization) {
			return true
		}
	}
	return false
}

// Catalog is the index over one set of resources.
type Catalog struct {
	models    []*Model
	ids       map[string]*Model // by id and alias
	providers map[string]*resource.Provider
	// served holds what a provider serves, so that an explicit id need not be searched for.
	served map[servedKey]bool
}

type servedKey struct {
	provider string
	model    *Model
}

// Build indexes a set. The set must have been checked (resource.Parse does) and must not change.
func Build(set *resource.Set) *Catalog {
	c := &Catalog{
		ids:       make(map[string]*Model, 2*len(set.Models)),
		providers: make(map[string]*resource.Provider, len(set.Providers)),
		served:    map[servedKey]bool{},
	}
	for i := range set.Providers {
		c.providers[set.Providers[i].ID] = &set.Providers[i]
	}
	for i := range set.Models {
		m := c.flatten(&set.Models[i])
		c.models = append(c.models, m)
		c.ids[m.ID] = m
		for _, alias := range m.Aliases {
			c.ids[alias] = m
		}
		for j := range m.Candidates {
			c.served[servedKey{m.Candidates[j].Provider.ID, m}] = true
		}
	}
	return c
}

// Models returns the catalogue in order; it must not be changed.
func (c *Catalog) Models() []*Model { return c.models }

// Model finds a model by its id or one of its aliases.
func (c *Catalog) Model(id string) (*Model, bool) {
	m, ok := c.ids[id]
	return m, ok
}

// Provider finds a provider by its id.
func (c *Catalog) Provider(id string) (*resource.Provider, bool) {
	p, ok := c.providers[id]
	return p, ok
}

func (c *Catalog) flatten(m *resource.Model) *Model {
	out := &Model{Model: m}
	for i := range m.Mappings {
		mapping := &m.Mappings[i]
		provider := c.providers[mapping.Provider]
		if provider == nil {
			continue
		}
		base := Candidate{
			Provider: provider, Model: m, Mapping: mapping,
			Upstream: mapping.Upstream, Price: mapping.Price, PriceTiers: mapping.PriceTiers,
			Context: mapping.Context, MaxOutput: mapping.MaxOutput,
			Status: mapping.Status, Stability: mapping.Stability,
			Priority: priority(mapping.Priority, provider.Priority), Organization: provider.Organization,
		}
		if len(mapping.Regions) == 0 {
			out.add(base)
		}
		for j := range mapping.Regions {
			region := &mapping.Regions[j]
			at := base
			at.Mapping = mapping.In(region)
			at.Region, at.Expires, at.Upstream = region.ID, region.Expires, region.Upstream
			at.Price, at.PriceTiers = region.Price, region.PriceTiers
			at.Context, at.MaxOutput = region.Context, region.MaxOutput
			at.Status, at.Stability = region.Status, region.Stability
			at.Priority = priority(region.Priority, mapping.Priority, provider.Priority)
			out.add(at)
		}
	}
	return out
}

func (m *Model) add(c Candidate) {
	c.Index = len(m.Candidates)
	m.Candidates = append(m.Candidates, c)
}

func priority(first ...*float64) float64 {
	for _, p := range first {
		if p != nil {
			return *p
		}
	}
	return 1
}
