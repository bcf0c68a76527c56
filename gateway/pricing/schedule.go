// Package pricing is pure arithmetic on prices: what a usage costs to the nano-USD, what a mapping's
// ranking price is before anything was used, and what the same tokens would have cost elsewhere.
//
// Money is integer nano-USD and every part of a cost is exact, rounded half up once. Ranking prices
// only compare candidates and are floats in USD per 1M tokens.
package pricing

import "turnout/schemas/resource"

// Schedule is everything that decides what one mapping's tokens cost one organization. It is shared
// by pointer and never changed.
type Schedule struct {
	Price        resource.Price
	Tiers        []resource.PriceTier   // ascending by Above
	ServiceTiers []resource.ServiceTier // asked for by name
	Discount     float64                // percent off every rate, 0 to 100
}

// At returns the price that holds for a request with so many input tokens under a service tier
// ("" is the standard one). A service tier's price replaces the tiers by length; an unknown service
// tier costs what the standard one does.
func (s *Schedule) At(inputTokens int64, serviceTier string) *resource.Price {
	if serviceTier != "" {
		for i := range s.ServiceTiers {
			if s.ServiceTiers[i].ID == serviceTier {
				return &s.ServiceTiers[i].Price
			}
		}
	}
	price := &s.Price
	for i := range s.Tiers {
		if inputTokens <= s.Tiers[i].Above {
			break
		}
		price = &s.Tiers[i].Price
	}
	return price
}

// HasServiceTier says whether the mapping sells the service tier.
func (s *Schedule) HasServiceTier(id string) bool {
	for i := range s.ServiceTiers {
		if s.ServiceTiers[i].ID == id {
			return true
		}
	}
	return false
}

// CachesInput says whether cached input has a price of its own at any length.
func (s *Schedule) CachesInput() bool {
	if s.Price.CachedInput != nil {
		return true
	}
	for i := range s.Tiers {
		if s.Tiers[i].Price.CachedInput != nil {
			return true
		}
	}
	return false
}
