package catalog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"turnout/schemas/resource"
)

// Query is what a model id is read for.
type Query struct {
	Organization string // whose custom providers count
	Publisher    bool   // the project reads a/b as publisher and model
	Now          time.Time
}

// Result says what a model id means.
type Result struct {
	Model    *Model // nil for Auto
	Auto     bool   // the model `auto`: the caller chooses one
	Provider string // named by the id; "" leaves the choice open
	Strict   bool   // provider:model: that provider and no other
	Region   string // named by the id
	Strategy string // of a routing suffix: throughput, latency or price; "" without one
}

// Error is why an id means nothing, ready for the client's error envelope.
type Error struct {
	Status  int
	Code    string
	Message string
	Param   string
}

func (e *Error) Error() string { return e.Message }

// Resolve reads a model id by the grammar of routing.md 1. The error is nil exactly if the id means
// something; then nothing is allocated.
func (c *Catalog) Resolve(id string, q Query) (Result, *Error) {
	rest, strategy := c.cutSuffix(id)
	r := Result{Strategy: strategy}
	if rest == "auto" {
		r.Auto = true
		return r, nil
	}
	if err := refuse(rest); err != nil {
		return Result{}, err
	}
	if provider, tail, ok := c.strict(rest, q.Organization); ok {
		r.Provider, r.Strict = provider.ID, true
		return c.explicit(r, provider, tail, id, q)
	}
	if m, ok := c.ids[rest]; ok && m.VisibleTo(q.Organization) {
		return r.of(m, q)
	}
	if q.Publisher {
		if _, tail, ok := strings.Cut(rest, "/"); ok {
			if m, ok := c.ids[tail]; ok && m.VisibleTo(q.Organization) {
				return r.of(m, q)
			}
		}
		return Result{}, c.unknown(id, rest, q)
	}
	if provider, tail, ok := c.preferred(rest, q.Organization); ok {
		r.Provider = provider.ID
		return c.explicit(r, provider, tail, id, q)
	}
	return Result{}, c.unknown(id, rest, q)
}

// cutSuffix takes a routing suffix off, unless the id with it is one of the catalogue's.
func (c *Catalog) cutSuffix(id string) (rest, strategy string) {
	colon := strings.LastIndexByte(id, ':')
	if colon <= 0 {
		return id, ""
	}
	suffix := id[colon+1:]
	switch {
	case strings.EqualFold(suffix, "nitro"):
		strategy = "throughput"
	case strings.EqualFold(suffix, "fast"):
		strategy = "latency"
	case strings.EqualFold(suffix, "cheap"):
		strategy = "price"
	default:
		return id, ""
	}
	if c.knows(id) {
		return id, ""
	}
	return id[:colon], strategy
}

// knows says whether the whole id stands in the catalogue, by itself or behind a provider.
func (c *Catalog) knows(id string) bool {
	if _, ok := c.ids[id]; ok {
		return true
	}
	at := strings.IndexAny(id, ":/")
	if at <= 0 {
		return false
	}
	if _, ok := c.providers[id[:at]]; !ok {
		return false
	}
	_, ok := c.ids[id[at+1:]]
	return ok
}

// refuse answers the ids that mean something only once a project has configured it.
func refuse(id string) *Error {
	switch {
	case id == "":
		return &Error{400, "model_not_found", "the model is empty: name one that GET /v1/models lists", "model"}
	case id == "smart":
		return &Error{400, "model_not_found", "the model smart is not configured: the project's setting models.smart does not exist in this version yet; ask for auto, or name a model that GET /v1/models lists", "model"}
	case strings.HasPrefix(id, "dynamic/"):
		return &Error{404, "not_found", fmt.Sprintf("there is no dynamic route %q", shown(id[len("dynamic/"):])), "model"}
	case id[0] == '@':
		return &Error{400, "unknown_preset", fmt.Sprintf("there is no preset %q", shown(id[1:])), "model"}
	}
	return nil
}

// strict reads provider:model, where the colon stands before any slash.
func (c *Catalog) strict(id, organization string) (*resource.Provider, string, bool) {
	at := strings.IndexAny(id, ":/")
	if at <= 0 || id[at] != ':' {
		return nil, "", false
	}
	return c.provider(id, at, organization)
}

// preferred reads provider/model.
func (c *Catalog) preferred(id, organization string) (*resource.Provider, string, bool) {
	at := strings.IndexByte(id, '/')
	if at <= 0 {
		return nil, "", false
	}
	return c.provider(id, at, organization)
}

func (c *Catalog) provider(id string, at int, organization string) (*resource.Provider, string, bool) {
	p, ok := c.providers[id[:at]]
	if !ok || p.Organization != "" && p.Organization != organization {
		return nil, "", false
	}
	return p, id[at+1:], true
}

// explicit reads the model, and the region where there is one, behind a provider.
func (c *Catalog) explicit(r Result, p *resource.Provider, tail, id string, q Query) (Result, *Error) {
	if m, ok := c.ids[tail]; ok && m.VisibleTo(q.Organization) {
		if !c.served[servedKey{p.ID, m}] {
			return Result{}, notServed(p, m, id, q)
		}
		return r.of(m, q)
	}
	colon := strings.LastIndexByte(tail, ':')
	if colon <= 0 {
		return Result{}, c.unknown(id, tail, q)
	}
	m, ok := c.ids[tail[:colon]]
	if !ok || !m.VisibleTo(q.Organization) {
		return Result{}, c.unknown(id, tail, q)
	}
	if !c.served[servedKey{p.ID, m}] {
		return Result{}, notServed(p, m, id, q)
	}
	if err := m.retired(q); err != nil {
		return Result{}, err
	}
	region := tail[colon+1:]
	for i := range m.Candidates {
		at := &m.Candidates[i]
		if at.Provider == p && at.Region == region && region != "" && at.Live(q.Now) {
			r.Model, r.Region = m, at.Region
			return r, nil
		}
	}
	return Result{}, unknownRegion(p, m, region, q)
}

// of completes a result with a model that is not retired.
func (r Result) of(m *Model, q Query) (Result, *Error) {
	if err := m.retired(q); err != nil {
		return Result{}, err
	}
	r.Model = m
	return r, nil
}

// retired refuses a model that nobody serves any more.
func (m *Model) retired(q Query) *Error {
	for i := range m.Candidates {
		if m.Candidates[i].VisibleTo(q.Organization) && m.Candidates[i].Live(q.Now) {
			return nil
		}
	}
	return &Error{410, "model_retired", fmt.Sprintf("the model %q is retired: no provider serves it any more", m.ID), "model"}
}

func unknownRegion(p *resource.Provider, m *Model, region string, q Query) *Error {
	var valid []string
	for i := range m.Candidates {
		at := &m.Candidates[i]
		if at.Provider == p && at.Region != "" && at.Live(q.Now) {
			valid = append(valid, at.Region)
		}
	}
	hint := fmt.Sprintf("%s serves it without regions: leave %q out", p.ID, ":"+shown(region))
	if len(valid) > 0 {
		hint = "valid there: " + strings.Join(valid, ", ")
	}
	return &Error{400, "unknown_region", fmt.Sprintf("%s does not serve %s in the region %q; %s", p.ID, m.ID, shown(region), hint), "model"}
}

func notServed(p *resource.Provider, m *Model, id string, q Query) *Error {
	var by []string
	for i := range m.Candidates {
		at := &m.Candidates[i]
		if at.VisibleTo(q.Organization) && at.Live(q.Now) && !slices.Contains(by, at.Provider.ID) {
			by = append(by, at.Provider.ID)
		}
	}
	message := fmt.Sprintf("the model %q does not exist: %s does not serve %s", id, p.ID, m.ID)
	if len(by) > 0 {
		message += "; served by " + strings.Join(by, ", ")
	}
	return &Error{400, "model_not_found", message, "model"}
}

// unknown names the ids that are close to what was asked for.
func (c *Catalog) unknown(id, rest string, q Query) *Error {
	message := fmt.Sprintf("the model %q does not exist", shown(id))
	if near := c.near(rest, q); len(near) > 0 {
		message += ": did you mean " + strings.Join(near, ", ") + "?"
	} else {
		message += ": GET /v1/models lists those that do"
	}
	return &Error{400, "model_not_found", message, "model"}
}

// shown keeps a message short and readable whatever was asked for.
func shown(id string) string {
	const most = 200
	if len(id) > most {
		id = id[:most] + "..."
	}
	return strings.ToValidUTF8(id, "?")
}

// near compares the id, and what stands behind its last slash, with everything in the catalogue. An
// alias stands for its model.
func (c *Catalog) near(id string, q Query) []string {
	const most = 3
	if len(id) > 200 {
		return nil
	}
	var visible []string
	for _, m := range c.models {
		if m.VisibleTo(q.Organization) {
			visible = append(append(visible, m.ID), m.Aliases...)
		}
	}
	words := []string{id}
	if slash := strings.LastIndexByte(id, '/'); slash >= 0 && slash+1 < len(id) {
		words = append(words, id[slash+1:])
	}
	var out []string
	for _, word := range words {
		for _, close := range resource.Nearest(word, visible, 2*most) {
			canonical := c.ids[close].ID
			if len(out) < most && !slices.Contains(out, canonical) {
				out = append(out, canonical)
			}
		}
	}
	return out
}
