//go:build soak

package soak

import "time"

// The form of `make soak`.
const (
	streams = 500
	warmUp  = 45 * time.Second
	length  = 5 * time.Minute
	spare   = 0
)
