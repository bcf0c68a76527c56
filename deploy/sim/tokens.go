package sim

import (
	"hash/maphash"
	"unicode/utf8"
)

const (
	charsPerToken = 4
	imageTokens   = 560
)

// CharsPerToken is how many Unicode characters the simulators count as one token.
const CharsPerToken = charsPerToken

// CountTokens is the simulators' tokenizer: a token is four characters, rounded up.
func CountTokens(text string) int { return tokensOf(utf8.RuneCountInString(text)) }

func tokensOf(chars int) int { return (chars + charsPerToken - 1) / charsPerToken }

// hashSeed is one a process: block hashes never leave it.
var hashSeed = maphash.MakeSeed()

// prompt counts a prompt's characters and hashes it block by block, each hash covering everything
// from the front of the prompt.
type prompt struct {
	hash   maphash.Hash
	block  int // characters a block
	fill   int // characters in the unfinished block
	chars  int
	extra  int // tokens that are no text
	blocks []uint64
}

// begin empties the prompt for a model, whose prompts share no cache with another's.
func (p *prompt) begin(model string, blockTokens int) {
	p.hash.SetSeed(hashSeed)
	p.block, p.fill, p.chars, p.extra, p.blocks = blockTokens*charsPerToken, 0, 0, 0, p.blocks[:0]
	p.mark(model)
}

// mark separates parts of a prompt. It is hashed but costs no token, so that the blocks of equal
// texts stay aligned.
func (p *prompt) mark(what string) {
	p.hash.WriteByte(0xff) // in no valid UTF-8
	p.hash.WriteString(what)
	p.hash.WriteByte(0xff)
}

func (p *prompt) text(s string) {
	ascii := utf8.RuneCountInString(s) == len(s)
	for len(s) > 0 {
		size, chars := head(s, p.block-p.fill, ascii)
		p.hash.WriteString(s[:size])
		p.fill, p.chars, s = p.fill+chars, p.chars+chars, s[size:]
		if p.fill == p.block {
			p.blocks, p.fill = append(p.blocks, p.hash.Sum64()), 0
		}
	}
}

func (p *prompt) tokens() int { return tokensOf(p.chars) + p.extra }

// head returns the size in bytes of the first characters of s, at most limit of them, and how many
// they are.
func head(s string, limit int, ascii bool) (size, chars int) {
	if ascii {
		size = min(limit, len(s))
		return size, size
	}
	for i := range s {
		if chars == limit {
			return i, chars
		}
		chars++
	}
	return len(s), chars
}
