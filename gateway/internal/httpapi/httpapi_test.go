package httpapi

import (
	"math/big"
	"net/http"
	"testing"

	"pgregory.net/rapid"

	"turnout/schemas/resource"
)

func TestToken(t *testing.T) {
	for _, c := range []struct{ auth, key, want string }{
		{"Bearer to-x", "", "to-x"}, {"bearer  to-x ", "", "to-x"}, {"", "to-y", "to-y"}, {"Bearer to-x", "to-y", "to-x"},
		{"Basic abc", "to-y", ""}, {"Bearer", "", ""}, {"", "", ""},
	} {
		h := http.Header{}
		if c.auth != "" {
			h.Set("Authorization", c.auth)
		}
		if c.key != "" {
			h.Set("X-Api-Key", c.key)
		}
		if got := token(h); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Prices are shown exactly.
func TestDecimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		rate := rapid.Int64Range(0, 1<<62).Draw(t, "rate")
		text := decimal(resource.Rate(rate))
		if got, ok := new(big.Rat).SetString(text); !ok || got.Cmp(big.NewRat(rate, 1e9)) != 0 {
			t.Fatalf("%d became %s", rate, text)
		}
	})
}
