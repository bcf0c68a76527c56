//go:build !sdk

package live

// explorations is how many requests exploration is measured on. The build tag sdk makes it 20,000.
const explorations = 6_000
