package pricing

// Mix is the token mix a ranking price is blended with; the zero value ranks by list price, as a
// HitRate of 0 and an OutputRatio of 1 do.
type Mix struct {
	Blend       bool
	HitRate     float64 // share of the input read from a cache, 0 to 1
	OutputRatio float64 // output tokens per input token
}

// nanoPerUSD turns rates into USD per 1M tokens.
const nanoPerUSD = 1e9

// Ranking returns what candidates are compared by, in USD per 1M tokens after discount and tier:
// (input + output)/2, or with a mix (effective input + output x ratio)/2, where cached input counts
// by the hit rate if it has a price of its own.
func (s *Schedule) Ranking(inputTokens int64, serviceTier string, mix Mix) float64 {
	price := s.At(inputTokens, serviceTier)
	input, output := float64(price.Input), float64(price.Output)
	if mix.Blend {
		if price.CachedInput != nil {
			hit := min(max(mix.HitRate, 0), 1)
			input = float64(*price.CachedInput)*hit + input*(1-hit)
		}
		output *= max(mix.OutputRatio, 0)
	}
	ranking := (input + output) / (2 * nanoPerUSD)
	if s.Discount > 0 {
		ranking *= 1 - min(s.Discount, 100)/100
	}
	return ranking
}
