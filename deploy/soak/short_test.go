//go:build !soak

package soak

import "time"

// The form that runs with all other tests.
const (
	streams = 60
	warmUp  = 8 * time.Second
	length  = 12 * time.Second
	spare   = 5 // MB: so short a warm-up has not met with everything
)
