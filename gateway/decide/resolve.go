package decide

import (
	"fmt"
	"strings"

	"turnout/gateway/catalog"
	"turnout/gateway/routing"
	"turnout/schemas/resource"
)

// resolve reads the model id by the catalogue's grammar and settles provider, region and strategy.
// The output it returns is that of a request that is refused; the error is one about the scenario.
func (s *scenario) resolve() (*output, error) {
	req := &s.input.Request
	if !s.routingField {
		req.Strategy = s.defaultStrategy
	}
	req.StrategyField = s.routingField
	if s.model == "" || len(s.input.Candidates) == 0 {
		return nil, nil
	}
	id := s.modelID()
	result, refused := catalog.Build(s.resources(id)).Resolve(s.model, catalog.Query{})
	switch {
	case id == "", result.Auto, refused != nil && refused.Code != "unknown_region" && refused.Code != routing.ErrModelRetired:
		return nil, fmt.Errorf("request.model: %q names no single model of this scenario: write m, provider/m or provider/m:region", shorten([]byte(s.model)))
	case refused != nil && refused.Code == "unknown_region":
		return refusal(refused.Code, refused.Message), nil
	case refused != nil:
		return nil, nil //nolint:nilerr // retired: nobody is left, and the decision says who was dropped
	}
	req.Provider, req.Strict, req.Region = result.Provider, result.Strict, result.Region
	if result.Strategy != "" {
		req.Strategy = strategies[result.Strategy]
	}
	return nil, nil
}

// resources are those of the scenario's one model.
func (s *scenario) resources(modelID string) *resource.Set {
	set := &resource.Set{Models: []resource.Model{{ID: modelID}}}
	model, known := &set.Models[0], map[string]bool{}
	for i := range s.input.Candidates {
		c := &s.input.Candidates[i]
		if !known[c.Provider] {
			known[c.Provider] = true
			set.Providers = append(set.Providers, resource.Provider{ID: c.Provider})
		}
		m := resource.Mapping{Provider: c.Provider}
		if c.Deactivated {
			m.Status = resource.StatusDeactivated
		}
		if c.Region != "" {
			m.Regions = []resource.Region{{ID: c.Region, Status: m.Status}}
		}
		model.Mappings = append(model.Mappings, m)
	}
	return set
}

// modelID is the id of the scenario's model, which it does not name: what is left of the id that
// was asked for without suffix, the name of a provider of the scenario, and, where that has regions,
// a region.
func (s *scenario) modelID() string {
	id := s.model
	if head, tail, ok := cutLast(id); ok {
		switch strings.ToLower(tail) {
		case "nitro", "fast", "cheap":
			id = head
		}
	}
	at := strings.IndexAny(id, ":/")
	if at <= 0 {
		return id
	}
	serves, regional := false, false
	for i := range s.input.Candidates {
		if c := &s.input.Candidates[i]; c.Provider == id[:at] {
			serves, regional = true, regional || c.Region != ""
		}
	}
	if !serves {
		return id
	}
	id = id[at+1:]
	if head, _, ok := cutLast(id); ok && regional {
		return head
	}
	return id
}

func cutLast(id string) (head, tail string, ok bool) {
	at := strings.LastIndexByte(id, ':')
	if at <= 0 {
		return id, "", false
	}
	return id[:at], id[at+1:], true
}
