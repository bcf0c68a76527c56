// Turnout is an event-sourced LLM gateway. This file is flags and signals, nothing else: every
// subcommand lives in the package that it is about.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"turnout/internal/config"
	"turnout/internal/lifecycle"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	go func() {
		<-ctx.Done()
		stop() // a second signal ends the process at once
	}()
	env := lifecycle.Env{Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	if len(os.Args) > 2 {
		env.Args = os.Args[2:]
	}
	name := "help"
	if len(os.Args) > 1 {
		name = os.Args[1]
	}
	os.Exit(run(ctx, name, env))
}

func run(ctx context.Context, name string, env lifecycle.Env) int {
	for _, c := range commands() {
		if c.name != name {
			continue
		}
		err := c.main(ctx, env)
		if err == nil || errors.Is(err, config.ErrHelp) {
			return 0
		}
		if text := err.Error(); text != "" {
			fmt.Fprintf(env.Stderr, "turnout %s: %s\n", name, text)
		}
		return lifecycle.Code(err)
	}
	if name != "help" && name != "--help" && name != "-h" {
		fmt.Fprintf(env.Stderr, "turnout: there is no command %q\n\n", name)
		usage(env)
		return 2
	}
	usage(env)
	return 0
}
