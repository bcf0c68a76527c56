package providertest

import (
	"slices"
	"strings"

	"turnout/gateway/internal/provider"
	"turnout/schemas/attempt"
)

// Words of golden files that docs/protocols.md is made of.
const (
	offersFile  = "offers.txt"
	notPossible = "not possible in this protocol: a mapping is no candidate ("
	stripped    = "stripped: "
	refused     = "refused: "

	notOffered = "not offered"
	translated = "translated"
	asItCame   = "as it came"
)

var surfaces = []string{attempt.EndpointChat, attempt.EndpointMessages, attempt.EndpointResponses, attempt.EndpointEmbeddings}

// offers says what each surface gets at the adapter.
func offers(p *Protocol) string {
	out := "about: " + p.About + "\n"
	for _, endpoint := range surfaces {
		o := p.New(nil).Offer(endpoint, &provider.Target{Endpoints: p.Endpoints})
		how := notOffered
		switch {
		case !o.OK:
		case o.Translated:
			how = translated
		default:
			how = asItCame
		}
		out += endpoint + ": " + how
		if len(o.Lacks) > 0 {
			lacks := slices.Sorted(slices.Values(o.Lacks))
			out += "; without " + strings.Join(lacks, " ")
		}
		if o.BytesOnly {
			out += "; data only, no addresses"
		}
		out += "\n"
	}
	return out
}
