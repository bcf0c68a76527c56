package dispatch

import (
	"slices"
	"time"

	"turnout/gateway/catalog"
	"turnout/gateway/internal/state"
	"turnout/gateway/llm"
	"turnout/gateway/routing"
)

// mostDropped bounds how many of them a refusal keeps.
const mostDropped = 32

// chooseModel answers the model auto (routing.md 10): of the models that can serve the request the
// cheapest by list price, then the usual choice inside it. A session stays with its model.
func (r *run) chooseModel(now time.Time) *llm.APIError {
	if effort := r.facts.ReasoningEffort; effort != "" && effort != "none" { // whatever the word means
		r.in.Request.Needs |= routing.Reasoning
	}
	models := r.autoModels(now)
	if len(models) == 0 {
		return &llm.APIError{Status: 400, Type: "invalid_request_error", Code: routing.ErrNoProvider, Param: "model",
			Message: "the catalogue has none of the models that auto chooses from, or none that fits free_models_only; name a model that GET /v1/models lists"}
	}
	pinned := r.pinnedModel()
	candidates := make([]routing.Model, len(models))
	r.options = r.options[:0]
	best := -1
	for i, m := range models {
		r.prepare(r.plans.get(r.access.Project, m, r.req.Endpoint), now)
		candidates[i] = routing.Model{ID: m.ID, Family: m.Family, Candidates: slices.Clone(r.in.Candidates)}
		if routing.Decide(&r.in, &r.first); r.first.Selected < 0 {
			r.dropped(m)
			continue
		}
		r.eligible(&r.first) // what the baseline compares with
		if m.ID == pinned && r.in.Candidates[r.first.Selected].Cooling == routing.NotCooling {
			best = i
		}
	}
	if best < 0 {
		best = routing.ChooseModel(&r.in, candidates, &r.first)
	}
	if best < 0 {
		r.plan = nil // of no single model
		return nil   // the decision says why
	}
	r.seen, r.total = nil, 0
	r.prepare(r.plans.get(r.access.Project, models[best], r.req.Endpoint), now)
	routing.Decide(&r.in, &r.first)
	return nil
}

// dropped notes why nobody of a model can serve the request, should there be no other model.
func (r *run) dropped(m *catalog.Model) {
	from := len(r.seen)
	r.seen = r.first.Considered(&r.in, r.seen)
	for i := range r.seen[from:] {
		r.seen[from+i].Model = m.ID
	}
	r.seen = r.seen[:min(len(r.seen), mostDropped)]
	r.total += len(r.in.Candidates)
}

// pinnedModel is the model that the request's session stays with while it can serve; "" for none.
func (r *run) pinnedModel() string {
	if r.session == "" {
		return ""
	}
	place, _ := r.d.state.Place(state.PinKey(r.access.Organization.ID, "auto", r.session))
	return place.Model
}

// autoModels are the models that auto considers for this request.
func (r *run) autoModels(now time.Time) []*catalog.Model {
	org, f := r.access.Organization.ID, r.facts
	var out []*catalog.Model
	switch {
	case f.FreeModelsOnly:
		out = r.every(now, func(m *catalog.Model) bool { return m.Free })
	case f.Audio || f.Documents:
		out = r.every(now, func(*catalog.Model) bool { return true })
	default:
		for _, id := range r.d.cfg.AutoModels {
			if m, ok := r.view.Catalog.Model(id); ok && m.VisibleTo(org) {
				out = append(out, m)
			}
		}
	}
	return out
}

func (r *run) every(now time.Time, fits func(*catalog.Model) bool) []*catalog.Model {
	var out []*catalog.Model
	for _, m := range r.view.Catalog.Models() {
		text := len(m.Output) == 0 || slices.Contains(m.Output, "text")
		if text && fits(m) && slices.ContainsFunc(m.Candidates, func(c catalog.Candidate) bool {
			return c.VisibleTo(r.access.Organization.ID) && c.Live(now)
		}) {
			out = append(out, m)
		}
	}
	return out
}
