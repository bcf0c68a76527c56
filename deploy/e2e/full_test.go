//go:build sdk

package e2e

// full: outages of a minute, ten thousand requests, both SDKs.
const full = true
