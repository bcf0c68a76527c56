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

	"turnout/analytics"
	"turnout/deploy/catalog"
	"turnout/deploy/demo"
	"turnout/deploy/dev"
	"turnout/deploy/load"
	"turnout/deploy/local"
	"turnout/deploy/sim"
	"turnout/deploy/topics"
	"turnout/gateway"
	"turnout/gateway/catalogcmd"
	"turnout/gateway/decide"
	"turnout/gateway/explain"
	"turnout/gateway/spoolcmd"
	"turnout/internal/config"
	"turnout/internal/lifecycle"
	"turnout/migrations"
	"turnout/processor"
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

// command is one subcommand.
type command struct {
	name, what string
	main       func(context.Context, lifecycle.Env) error
}

// commands lists them in the order of the help. Components share one settings file and environment, so
// each is told the keys of all.
func commands() []command {
	known := config.Keys(gateway.DefaultConfig(), processor.DefaultConfig(), analytics.Default(), migrations.DefaultConfig(), topics.Default(), dev.Default(), sim.DefaultConfig())
	with := func(main func(context.Context, lifecycle.Env, []string) error) func(context.Context, lifecycle.Env) error {
		return func(ctx context.Context, env lifecycle.Env) error { return main(ctx, env, known) }
	}
	return []command{
		{"dev", "everything on this machine: engines, simulated providers, gateway, processor, analytics", with(dev.Main)},
		{"gateway", "take requests, pick a provider for each, write every attempt as an event", with(gateway.Main)},
		{"processor", "fold events into rows, metrics and snapshots", with(processor.Main)},
		{"replay", "rebuild sums and snapshots from the topic into a new generation, or check them (--verify)", with(processor.ReplayMain)},
		{"analytics", "serve, or ask: savings, cost, health, retries, cache", with(analytics.Main)},
		{"decide", "one routing decision, on paper: a scenario on stdin", decide.Main},
		{"explain", "why a request went where it went, and whether it would again", with(explain.Main)},
		{"migrate", "bring the ClickHouse schema up to date, once", with(migrations.Main)},
		{"topics", "create the Kafka topics, once; or list them beside what is there", with(topics.Main)},
		{"catalog", "import, check or list models and providers", func(ctx context.Context, env lifecycle.Env) error { return catalogcmd.Main(ctx, env, catalog.Files()) }},
		{"key", "new: make an API key", catalogcmd.KeyMain},
		{"spool", "ship: send to Kafka what gateways that are gone left behind", with(spoolcmd.Main)},
		{"sim", "simulated providers", with(sim.Main)},
		{"load", "drive a gateway with made-up or recorded requests", with(load.Main)},
		{"demo", "watch traffic leave a failing provider and come back", with(demo.Main)},
		{"version", "print the version; --ready URL asks a component whether it is ready", lifecycle.VersionMain},
		{"engine", "", local.EngineMain}, // what dev starts as processes of their own
	}
}

func usage(env lifecycle.Env) {
	fmt.Fprint(env.Stdout, "Turnout is an event-sourced LLM gateway.\n\nusage: turnout COMMAND [flags]; turnout COMMAND --help lists a command's flags\n\n")
	for _, c := range commands() {
		if c.what != "" {
			fmt.Fprintf(env.Stdout, "  %-10s %s\n", c.name, c.what)
		}
	}
}
