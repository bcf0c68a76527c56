// Package failpoint gives names to the moments at which a crash is most telling, such as between two
// writes, so that tests can bring one about exactly there. Nothing but tests ever sets a hook, neither
// by a setting nor by an environment variable: in production passing a point is one atomic load.
package failpoint

import "sync/atomic"

var hook atomic.Pointer[func(name string)]

// Reach says that a named moment has come. It returns when the hook, if there is one, does.
func Reach(name string) {
	if f := hook.Load(); f != nil {
		(*f)(name)
	}
}

// Set has f called at every point from now on, by whichever goroutine comes there; locks may be held.
// It is for test binaries.
func Set(f func(name string)) { hook.Store(&f) }
