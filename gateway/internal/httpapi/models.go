package httpapi

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"time"

	"github.com/labstack/echo/v4"

	"turnout/gateway/catalog"
	"turnout/schemas/resource"
)

// modelList is OpenAI's list of models.
type modelList struct {
	Object string       `json:"object"`
	Data   []modelEntry `json:"data"`
}

// modelEntry is OpenAI's model with what a client needs to choose one.
type modelEntry struct {
	ID            string          `json:"id"`
	Object        string          `json:"object"`
	Created       int64           `json:"created"`
	OwnedBy       string          `json:"owned_by"`
	Name          string          `json:"name,omitempty"`
	Family        string          `json:"family,omitempty"`
	Aliases       []string        `json:"aliases,omitempty"`
	Output        []string        `json:"output,omitempty"`
	ContextLength int64           `json:"context_length,omitempty"`
	MaxOutput     int64           `json:"max_output,omitempty"`
	Capabilities  []string        `json:"capabilities"`
	Free          bool            `json:"free,omitempty"`
	Pricing       *pricing        `json:"pricing,omitempty"` // the cheapest provider's
	Providers     []providerEntry `json:"providers"`
}

type providerEntry struct {
	Provider     string   `json:"provider"`
	Region       string   `json:"region,omitempty"`
	Status       string   `json:"status"`
	Stability    string   `json:"stability,omitempty"`
	Context      int64    `json:"context_length,omitempty"`
	MaxOutput    int64    `json:"max_output,omitempty"`
	Capabilities []string `json:"capabilities"` // null: no declared limit
	Efforts      []string `json:"reasoning_efforts,omitempty"`
	Pricing      pricing  `json:"pricing"`
}

// pricing is USD per 1M tokens, as exact decimals in text.
type pricing struct {
	Input        string `json:"input"`
	Output       string `json:"output"`
	CachedInput  string `json:"cached_input,omitempty"`
	CacheWrite   string `json:"cache_write,omitempty"`
	CacheWrite1h string `json:"cache_write_1h,omitempty"`
	Request      string `json:"request,omitempty"`
}

func (a *API) models(c echo.Context) error {
	view, access, failed := a.dispatch.Access(token(c.Request().Header))
	if failed != nil {
		return failed
	}
	list := modelList{Object: "list", Data: []modelEntry{}}
	for _, m := range view.Catalog.Models() {
		if entry, ok := entryOf(m, access.Organization.ID, access.Key.Models); ok {
			list.Data = append(list.Data, entry)
		}
	}
	return c.JSON(http.StatusOK, list)
}

func (a *API) model(c echo.Context) error {
	view, access, failed := a.dispatch.Access(token(c.Request().Header))
	if failed != nil {
		return failed
	}
	id, err := url.PathUnescape(c.Param("*"))
	if err != nil {
		id = c.Param("*")
	}
	if m, ok := view.Catalog.Model(id); ok {
		if entry, ok := entryOf(m, access.Organization.ID, access.Key.Models); ok {
			return c.JSON(http.StatusOK, entry)
		}
	}
	e := invalid(http.StatusNotFound, "model_not_found", fmt.Sprintf("there is no model %q here; see GET /v1/models", cut(id, 128)))
	e.Param = "model"
	return e
}

// entryOf describes a model to an organization. ok is false if nobody serves it, or if the key may
// not use it.
func entryOf(m *catalog.Model, organization string, allowed []string) (modelEntry, bool) {
	if len(allowed) > 0 && !slices.Contains(allowed, m.ID) {
		return modelEntry{}, false
	}
	e := modelEntry{
		ID: m.ID, Object: "model", OwnedBy: m.Family, Name: m.Name, Family: m.Family, Aliases: m.Aliases, Output: m.Output, Free: m.Free,
		Capabilities: []string{}, Providers: []providerEntry{},
	}
	cheapest := resource.Rate(-1)
	now := time.Now()
	for i := range m.Candidates {
		k := &m.Candidates[i]
		if !k.VisibleTo(organization) || !k.Live(now) {
			continue
		}
		p := providerEntry{
			Provider: k.Provider.ID, Region: k.Region, Status: k.Status, Stability: k.Stability, Context: k.Context, MaxOutput: k.MaxOutput,
			Capabilities: k.Mapping.Capabilities, Efforts: k.Mapping.ReasoningEfforts, Pricing: pricingOf(&k.Price),
		}
		if p.Status == "" {
			p.Status = resource.StatusActive
		}
		e.Providers = append(e.Providers, p)
		e.ContextLength, e.MaxOutput = max(e.ContextLength, k.Context), max(e.MaxOutput, k.MaxOutput)
		for _, word := range k.Mapping.Capabilities {
			if !slices.Contains(e.Capabilities, word) {
				e.Capabilities = append(e.Capabilities, word)
			}
		}
		if sum := k.Price.Input + k.Price.Output; cheapest < 0 || sum < cheapest {
			cheapest, e.Pricing = sum, &p.Pricing
		}
	}
	if e.OwnedBy == "" && len(e.Providers) > 0 {
		e.OwnedBy = e.Providers[0].Provider
	}
	return e, len(e.Providers) > 0
}

func pricingOf(p *resource.Price) pricing {
	optional := func(r *resource.Rate) string {
		if r == nil {
			return ""
		}
		return decimal(*r)
	}
	return pricing{
		Input: decimal(p.Input), Output: decimal(p.Output), CachedInput: optional(p.CachedInput),
		CacheWrite: optional(p.CacheWrite), CacheWrite1h: optional(p.CacheWrite1h), Request: optional(p.Request),
	}
}

// decimal writes a rate, nano-USD, as USD without trailing zeros.
func decimal(r resource.Rate) string {
	whole, rest := int64(r)/1e9, int64(r)%1e9
	if rest == 0 {
		return strconv.FormatInt(whole, 10)
	}
	digits := fmt.Sprintf("%09d", rest)
	for digits[len(digits)-1] == '0' {
		digits = digits[:len(digits)-1]
	}
	return strconv.FormatInt(whole, 10) + "." + digits
}
