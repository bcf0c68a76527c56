// Package local runs Kafka and ClickHouse on this machine without containers, for development and
// tests: franz-go's kfake with its log on disk, and the real ClickHouse server inside libchdb. Each is
// a process of its own, started by running this same program again as `turnout engine ...`, bound to
// the loopback interface, and gone as soon as the process that started it is.
package local

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"turnout/internal/lifecycle"
)

// childMark is set in the environment of an engine process.
const childMark = "_TURNOUT_ENGINE"

// EngineMain is the hidden subcommand `turnout engine clickhouse|kafka ...`. It takes over the standard
// streams and runs until ctx ends or the standard input does. The program that calls StartClickHouse
// or StartKafka must call it for its own first argument "engine"; test binaries call Dispatch.
func EngineMain(ctx context.Context, env lifecycle.Env) error {
	if len(env.Args) == 0 {
		return lifecycle.Usage(errors.New("engine: say clickhouse or kafka"))
	}
	switch kind, args := env.Args[0], env.Args[1:]; kind {
	case "clickhouse":
		return clickhouseMain(ctx, args)
	case "kafka":
		return kafkaMain(ctx, env, args)
	default:
		return lifecycle.Usage(fmt.Errorf("engine: unknown engine %q; say clickhouse or kafka", kind))
	}
}

// Dispatch runs EngineMain and exits if this process was started as an engine. It is for test
// binaries, first thing in TestMain.
func Dispatch() {
	if os.Getenv(childMark) == "" || len(os.Args) < 2 || os.Args[1] != "engine" {
		return
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := EngineMain(ctx, lifecycle.Env{Args: os.Args[2:], Environ: os.Environ(), Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(lifecycle.Code(err))
}

func clickhouseMain(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("engine clickhouse", flag.ContinueOnError)
	library := flags.String("lib", "", "path of libchdb.so")
	if err := flags.Parse(args); err != nil {
		return lifecycle.Usage(err)
	}
	if os.Getenv(childMark) == "" {
		return lifecycle.Usage(errors.New("engine: for use by `turnout dev` only"))
	}
	return hostClickHouse(ctx, *library, append([]string{"clickhouse"}, flags.Args()...))
}

func errUnsupported(platform string) error {
	return fmt.Errorf("the embedded ClickHouse runs on linux/amd64 with glibc only, this is %s: point clickhouse.addr at a server, or use `docker compose up`", platform)
}
