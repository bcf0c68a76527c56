package resource

import (
	"crypto/sha256"
	"encoding/hex"
)

// PriceVersion names the price book: a hash of everything that decides what a request costs. The order
// of documents does not matter.
func (s *Set) PriceVersion() string { return Version(s.PriceBook().Encode()) }

// ConfigVersion names what of the project decides: a hash of mode, reading of ids, strategy and
// routing. Equal projects have equal versions, whatever they are called.
func (p *Project) ConfigVersion() string { return Version(p.Resolved().Encode()) }

// Version is the name of a stored routing configuration or price book: a hash of its bytes.
func Version(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:8])
}
