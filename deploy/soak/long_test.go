//go:build soak

package soak

import "time"

// The form of `make soak`.
const (
	streams = 500
	warmUp  = 45 * time.Second
	length  = 5 * time.Minute
	settle  = 150 * time.Second // the runtime collects every two minutes even if nothing happens
	spare   = 0
)
