//go:build !soak

package soak

import "time"

// The form that runs with all other tests.
const (
	streams = 60
	warmUp  = 8 * time.Second
	length  = 12 * time.Second
	settle  = 10 * time.Second
	spare   = 16 // MB: so short a warm-up leaves the heap's usual size to chance
)
