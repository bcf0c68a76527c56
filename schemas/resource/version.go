package resource

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
)

// PriceVersion is a content hash of everything that decides what a request costs: every price of
// every mapping and region, and all discounts. The order of documents does not matter.
func (s *Set) PriceVersion() string {
	var lines []string
	for i := range s.Models {
		m := &s.Models[i]
		for j := range m.Mappings {
			mapping := &m.Mappings[j]
			var tiers strings.Builder
			for _, tier := range mapping.ServiceTiers {
				fmt.Fprintf(&tiers, "%q %s;", tier.ID, tier.Price.flow(nil))
			}
			line := func(region string, p Price, t []PriceTier) {
				lines = append(lines, fmt.Sprintf("price %q %q %q %s %s %s", m.ID, mapping.Provider, region, p.flow(nil), tiersFlow(t), tiers.String()))
			}
			if len(mapping.Regions) == 0 {
				line("", mapping.Price, mapping.PriceTiers)
			}
			for _, r := range mapping.Regions {
				line(r.ID, r.Price, r.PriceTiers)
			}
		}
	}
	for i := range s.Organizations {
		for _, d := range s.Organizations[i].Discounts {
			lines = append(lines, fmt.Sprintf("discount %q %q %q %s", s.Organizations[i].ID, d.Provider, d.Model, float(d.Percent)))
		}
	}
	slices.Sort(lines)
	return digest(lines...)
}

// ConfigVersion is a content hash of what of the project decides: mode, reading of ids, strategy and
// routing. Equal projects have equal versions, whatever they are called.
func (p *Project) ConfigVersion() string {
	var w writer
	w.routing(&p.Routing)
	return digest(p.Mode, p.ModelIDs, p.DefaultStrategy, w.String())
}

func digest(lines ...string) string {
	sum := sha256.Sum256([]byte(strings.Join(lines, "\n")))
	return hex.EncodeToString(sum[:8])
}
