package resource

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// PriceBook is every price of every mapping and region, and all discounts.
type PriceBook struct {
	Prices    []BookPrice    // by model, provider, region
	Discounts []BookDiscount // by organization, provider, model
}

// BookPrice is what one mapping costs in one region.
type BookPrice struct {
	Model, Provider, Region string
	Price                   Price
	PriceTiers              []PriceTier
	ServiceTiers            []ServiceTier
}

// BookDiscount is a discount of an organization.
type BookDiscount struct {
	Organization string
	Discount
}

// PriceBook returns what decides of the set what a request costs, in an order of its own.
func (s *Set) PriceBook() *PriceBook {
	b := &PriceBook{}
	for i := range s.Models {
		m := &s.Models[i]
		for j := range m.Mappings {
			mapping := &m.Mappings[j]
			if len(mapping.Regions) == 0 {
				b.Prices = append(b.Prices, BookPrice{m.ID, mapping.Provider, "", mapping.Price, mapping.PriceTiers, mapping.ServiceTiers})
			}
			for k := range mapping.Regions {
				r := &mapping.Regions[k]
				b.Prices = append(b.Prices, BookPrice{m.ID, mapping.Provider, r.ID, r.Price, r.PriceTiers, mapping.In(r).ServiceTiers})
			}
		}
	}
	for i := range s.Organizations {
		for _, d := range s.Organizations[i].Discounts {
			b.Discounts = append(b.Discounts, BookDiscount{s.Organizations[i].ID, d})
		}
	}
	// Stable: of equally specific discounts the first counts.
	slices.SortStableFunc(b.Prices, func(x, y BookPrice) int { return x.compare(y.Model, y.Provider, y.Region) })
	slices.SortStableFunc(b.Discounts, func(x, y BookDiscount) int {
		return cmp.Or(cmp.Compare(x.Organization, y.Organization), cmp.Compare(x.Provider, y.Provider), cmp.Compare(x.Model, y.Model))
	})
	return b
}

func (p *BookPrice) compare(model, provider, region string) int {
	return cmp.Or(cmp.Compare(p.Model, model), cmp.Compare(p.Provider, provider), cmp.Compare(p.Region, region))
}

// Find returns the price of a mapping in a region.
func (b *PriceBook) Find(model, provider, region string) (*BookPrice, bool) {
	i, found := slices.BinarySearchFunc(b.Prices, BookPrice{}, func(p, _ BookPrice) int { return p.compare(model, provider, region) })
	if !found {
		return nil, false
	}
	return &b.Prices[i], true
}

// DiscountsOf returns an organization's discounts.
func (b *PriceBook) DiscountsOf(organization string) []Discount {
	var out []Discount
	for _, d := range b.Discounts {
		if d.Organization == organization {
			out = append(out, d.Discount)
		}
	}
	return out
}

// The stored form: prices in USD per 1M tokens, exact.
type (
	wireBook struct {
		Prices    []wireBookPrice    `json:"prices"`
		Discounts []wireBookDiscount `json:"discounts,omitempty"`
	}
	wireBookPrice struct {
		Model        string            `json:"model"`
		Provider     string            `json:"provider"`
		Region       string            `json:"region,omitempty"`
		Price        wirePrice         `json:"price"`
		PriceTiers   []wirePriceTier   `json:"price_tiers,omitempty"`
		ServiceTiers []wireServiceTier `json:"service_tiers,omitempty"`
	}
	wirePrice     map[string]json.Number
	wirePriceTier struct {
		Above int64     `json:"above"`
		Price wirePrice `json:"price"`
	}
	wireServiceTier struct {
		ID    string    `json:"id"`
		Price wirePrice `json:"price"`
	}
	wireBookDiscount struct {
		Organization string  `json:"organization"`
		Provider     string  `json:"provider,omitempty"`
		Model        string  `json:"model,omitempty"`
		Percent      float64 `json:"percent"`
	}
)

func (p Price) wire() wirePrice {
	w := wirePrice{"input": json.Number(p.Input.String()), "output": json.Number(p.Output.String())}
	for _, rate := range p.optional() {
		if *rate.at != nil {
			w[rate.name] = json.Number((*rate.at).String())
		}
	}
	return w
}

func (w wirePrice) price() (p Price, err error) {
	optional := p.optional()
	for name, number := range w {
		rate, err := ParseRate(string(number))
		if err != nil {
			return p, fmt.Errorf("%s %s: %w", name, number, err)
		}
		switch name {
		case "input":
			p.Input = rate
		case "output":
			p.Output = rate
		default: // a rate of a later release is passed over
			if i := slices.IndexFunc(optional, func(o namedRate) bool { return o.name == name }); i >= 0 {
				*optional[i].at = &rate
			}
		}
	}
	return p, nil
}

// Encode writes b as JSON that ParsePriceBook reads back to the same. Equal books have equal bytes.
func (b *PriceBook) Encode() []byte {
	w := wireBook{Prices: make([]wireBookPrice, len(b.Prices))}
	for i := range b.Prices {
		p := &b.Prices[i]
		out := wireBookPrice{Model: p.Model, Provider: p.Provider, Region: p.Region, Price: p.Price.wire()}
		for _, tier := range p.PriceTiers {
			out.PriceTiers = append(out.PriceTiers, wirePriceTier{tier.Above, tier.Price.wire()})
		}
		for _, tier := range p.ServiceTiers {
			out.ServiceTiers = append(out.ServiceTiers, wireServiceTier{tier.ID, tier.Price.wire()})
		}
		w.Prices[i] = out
	}
	for _, d := range b.Discounts {
		w.Discounts = append(w.Discounts, wireBookDiscount{d.Organization, d.Provider, d.Model, d.Percent})
	}
	return mustEncode(w, nil)
}

// ParsePriceBook reads what PriceBook.Encode wrote.
func ParsePriceBook(data []byte) (*PriceBook, error) {
	var w wireBook
	if err := json.Unmarshal(data, &w); err != nil {
		return nil, fmt.Errorf("reading a price book: %w", err)
	}
	b := &PriceBook{}
	for i, in := range w.Prices {
		p := BookPrice{Model: in.Model, Provider: in.Provider, Region: in.Region}
		var err error
		if p.Price, err = in.Price.price(); err != nil {
			return nil, fmt.Errorf("reading a price book: prices[%d].price.%w", i, err)
		}
		for _, tier := range in.PriceTiers {
			price, err := tier.Price.price()
			if err != nil {
				return nil, fmt.Errorf("reading a price book: prices[%d].price_tiers.%w", i, err)
			}
			p.PriceTiers = append(p.PriceTiers, PriceTier{tier.Above, price})
		}
		for _, tier := range in.ServiceTiers {
			price, err := tier.Price.price()
			if err != nil {
				return nil, fmt.Errorf("reading a price book: prices[%d].service_tiers.%w", i, err)
			}
			p.ServiceTiers = append(p.ServiceTiers, ServiceTier{tier.ID, price})
		}
		b.Prices = append(b.Prices, p)
	}
	for _, d := range w.Discounts {
		b.Discounts = append(b.Discounts, BookDiscount{d.Organization, Discount{d.Provider, d.Model, d.Percent}})
	}
	return b, nil
}

// DiscountFor is the percentage of the most specific discount that fits a provider and model: one that
// names both, else the provider, else the model; 0 without any. The first of equals counts.
func DiscountFor(discounts []Discount, provider, model string) float64 {
	best, rank := 0.0, -1
	for _, d := range discounts {
		if d.Provider != "" && d.Provider != provider || d.Model != "" && d.Model != model {
			continue
		}
		r := 0
		if d.Model != "" {
			r++
		}
		if d.Provider != "" {
			r += 2
		}
		if r > rank {
			best, rank = d.Percent, r
		}
	}
	return best
}
