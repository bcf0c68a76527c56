//go:build !sdk

package e2e

// full: what ordinary tests keep short. The build tag sdk runs it at full length.
const full = false
