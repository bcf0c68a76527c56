package decide

import (
	"fmt"
	"slices"
	"strings"

	"turnout/gateway/routing"
)

var suffixes = map[string]routing.Strategy{
	"nitro": routing.StrategyThroughput, "fast": routing.StrategyLatency, "cheap": routing.StrategyPrice,
}

// resolve reads the model id and settles provider, region and strategy. The output it returns is
// that of a request that is refused; the error is one about the scenario.
//
// A scenario has one model and does not say its id, so an id means whatever leaves the mappings one
// model to serve: a prefix counts if a mapping's provider has that name, a tail if it is a region.
func (s *scenario) resolve() (*output, error) {
	req, id := &s.input.Request, s.model
	if !s.routingField {
		req.Strategy = s.defaultStrategy
	}
	req.StrategyField = s.routingField
	if at := strings.LastIndexByte(id, ':'); at > 0 {
		if strategy, ok := suffixes[strings.ToLower(id[at+1:])]; ok {
			id, req.Strategy = id[:at], strategy
		}
	}
	if id == "auto" || id == "smart" || strings.HasPrefix(id, "dynamic/") || strings.HasPrefix(id, "@") {
		return nil, fmt.Errorf("request.model: %s names no single model, which a scenario is about", id)
	}
	colon, slash := strings.IndexByte(id, ':'), strings.IndexByte(id, '/')
	switch {
	case colon > 0 && (slash < 0 || colon < slash) && s.serves(id[:colon]):
		req.Provider, req.Strict = id[:colon], true
	case slash > 0 && s.serves(id[:slash]):
		req.Provider = id[:slash]
		return s.region(id[slash+1:]), nil
	}
	return nil, nil
}

// region cuts a region off the id of a named provider that has regions.
func (s *scenario) region(id string) *output {
	at := strings.LastIndexByte(id, ':')
	if at < 0 {
		return nil
	}
	var regions, gone []string
	for i := range s.input.Candidates {
		c := &s.input.Candidates[i]
		switch {
		case c.Provider != s.input.Request.Provider || c.Region == "":
		case c.Deactivated:
			gone = append(gone, c.Region)
		default:
			regions = append(regions, c.Region)
		}
	}
	tail := id[at+1:]
	switch {
	case slices.Contains(regions, tail):
		s.input.Request.Region = tail
		return nil
	case len(regions)+len(gone) == 0:
		return nil // a colon of the model's own, as in amazon.nova-lite-v1:0
	}
	slices.Sort(regions)
	return refusal("unknown_region", fmt.Sprintf("%s has no region %s: use one of %s",
		s.input.Request.Provider, tail, strings.Join(regions, ", ")))
}

func (s *scenario) serves(provider string) bool {
	return slices.ContainsFunc(s.input.Candidates, func(c routing.Candidate) bool { return c.Provider == provider })
}
