package routing

// Seed is the number that a request's draws are made from: FNV-1a of its id.
func Seed(requestID string) uint64 {
	seed := uint64(14695981039346656037)
	for i := range len(requestID) {
		seed = (seed ^ uint64(requestID[i])) * 1099511628211
	}
	return seed
}

// Draw, in [0, 1), decides whether a request explores: the first output of SplitMix64 from its seed.
func Draw(requestID string) float64 { return drawOf(Seed(requestID)) }

// Pick, in [0, 1), decides where an exploring request goes: the second output.
func Pick(requestID string) float64 { return pickOf(Seed(requestID)) }

func drawOf(seed uint64) float64 { return unit(seed + golden) }

func pickOf(seed uint64) float64 { return unit(seed + golden + golden) }

const golden uint64 = 0x9e3779b97f4a7c15

// unit mixes the state and takes the upper 53 bits as a fraction.
func unit(z uint64) float64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	z ^= z >> 31
	return float64(z>>11) / (1 << 53)
}
