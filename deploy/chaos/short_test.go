//go:build !chaos

package chaos

// long: the whole matrix, as `make chaos` runs it.
const long = false
