package sim

// draw gives a call its random numbers, each by name, so that a setting which is not used moves no
// other.
type draw uint64

type chance uint64

const (
	chanceSilence chance = iota + 1
	chanceError
	chanceErrorKind
	chanceStall
	chanceCut
	chanceTTFT
	chanceTokenRate
	chanceOutput
	chanceText
	chanceID
)

func newDraw(seed, provider uint64, call int64) draw {
	return draw(mix(mix(mix(seed)^provider) ^ uint64(call)))
}

func (d draw) bits(c chance) uint64 { return mix(uint64(d) + uint64(c)*0x9e3779b97f4a7c15) }

// unit is in [0,1).
func (d draw) unit(c chance) float64 { return float64(d.bits(c)>>11) / (1 << 53) }

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
