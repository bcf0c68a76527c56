//go:build sdk

package live

const explorations = 20_000
