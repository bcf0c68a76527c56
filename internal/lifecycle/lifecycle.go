// Package lifecycle is what every subcommand is handed by main and hands back.
package lifecycle

import (
	"errors"
	"io"
)

// Env is a subcommand's surroundings, so that tests can run one without a process of its own.
type Env struct {
	Args    []string // without the program and the subcommand
	Environ []string // KEY=value, as os.Environ gives them
	Stdin   io.Reader
	Stdout  io.Writer
	Stderr  io.Writer
}

// Lookup returns the value of an environment variable and whether it is set.
func (e Env) Lookup(name string) (string, bool) {
	for i := len(e.Environ) - 1; i >= 0; i-- {
		kv := e.Environ[i]
		if len(kv) > len(name) && kv[len(name)] == '=' && kv[:len(name)] == name {
			return kv[len(name)+1:], true
		}
	}
	return "", false
}

// Exit is an error with an exit code of its own: 2 for a usage or input mistake, 1 for the rest.
// Err nil exits silently.
type Exit struct {
	Code int
	Err  error
}

func (e *Exit) Error() string {
	if e.Err == nil {
		return ""
	}
	return e.Err.Error()
}

func (e *Exit) Unwrap() error { return e.Err }

// Usage marks err as the caller's mistake: exit code 2.
func Usage(err error) error { return &Exit{Code: 2, Err: err} }

// Code returns the exit code of what a subcommand returned.
func Code(err error) int {
	if err == nil {
		return 0
	}
	if exit := (*Exit)(nil); errors.As(err, &exit) {
		return exit.Code
	}
	return 1
}
