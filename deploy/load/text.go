package load

import (
	"turnout/deploy/sim"
)

// BlockTokens is the size of a prompt block of the Mooncake traces.
const BlockTokens = 512

// letters are what prompts consist of: nothing in them needs escaping in JSON.
const letters = "etaoin shrdlu cm"

// appendText appends made-up text of the given tokens that is a function of the seed. Texts of
// different seeds differ from their first token on.
func appendText(b []byte, seed uint64, tokens int) []byte {
	chars := tokens * sim.CharsPerToken
	for i := uint64(0); chars > 0; i++ {
		bits := mix(mix(seed) + i)
		for range min(chars, 16) {
			b = append(b, letters[bits&15])
			bits >>= 4
		}
		chars -= min(chars, 16)
	}
	return b
}

// appendBlocks appends a prompt of the given tokens whose 512-token blocks are those of the ids; the
// last one is cut to fit.
func appendBlocks(b []byte, ids []uint64, tokens int) []byte {
	for _, id := range ids {
		b = appendText(b, id^blockSeed, min(tokens, BlockTokens))
		tokens -= min(tokens, BlockTokens)
	}
	return b
}

const blockSeed = 0x6d6f6f6e63616b65 // keeps block 1 apart from made-up prompt 1

// mix is the finalizer of splitmix64.
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
