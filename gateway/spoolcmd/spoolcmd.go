// Package spoolcmd is `turnout spool`: what to do by hand with the event spool of gateways that are
// gone and that no other gateway will adopt, such as one copied off a broken host.
package spoolcmd

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"turnout/gateway/internal/emit"
	"turnout/internal/config"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
	"turnout/schemas/topic"
)

const usage = `turnout spool: the event spool of gateways that are gone

  turnout spool ship DIR [flags]  send what is left in DIR to Kafka: the spool.dir of gateways, or one
                                  process's directory in it; what was sent is removed, and what a
                                  running gateway holds is left alone
`

// reachTimeout is how long Kafka may take to answer before anything is touched.
const reachTimeout = 15 * time.Second

// Config is the settings of `turnout spool ship`.
type Config struct {
	Kafka kafkax.Config `koanf:"kafka"`
	Log   telemetry.Log `koanf:"log"`
}

// Default reaches a broker on this machine.
func Default() Config {
	return Config{Kafka: kafkax.Default(), Log: telemetry.Log{Level: "warn", Format: "text"}}
}

// Validate names every wrong setting.
func (c Config) Validate() error { return errors.Join(c.Kafka.Validate(), c.Log.Validate()) }

// Words is what stands beside the flags.
func (c Config) Words() string { return "DIR" }

// Main is `turnout spool`.
func Main(ctx context.Context, env lifecycle.Env, known []string) error {
	what := ""
	if len(env.Args) > 0 {
		what = env.Args[0]
	}
	switch what {
	case "ship":
		env.Args = env.Args[1:]
		return ship(ctx, env, known)
	case "help", "-h", "--help":
		fmt.Fprint(env.Stdout, usage)
		return nil
	}
	fmt.Fprint(env.Stderr, usage)
	return lifecycle.Usage(errors.New("say what to do: ship DIR"))
}

func ship(ctx context.Context, env lifecycle.Env, known []string) error {
	cfg := Default()
	result, err := config.Load("spool ship", &cfg, env, known)
	if err != nil {
		return err
	}
	if len(result.Args) != 1 {
		return lifecycle.Usage(fmt.Errorf("name one directory: turnout spool ship DIR; %d were given", len(result.Args)))
	}
	dir := result.Args[0]
	if info, err := os.Stat(dir); err != nil {
		return lifecycle.Usage(fmt.Errorf("the spool: %w", err))
	} else if !info.IsDir() {
		return lifecycle.Usage(fmt.Errorf("the spool: %s is no directory", dir))
	}
	if result.CheckOnly {
		fmt.Fprintln(env.Stdout, "settings are fine")
		return nil
	}
	log := cfg.Log.New(env.Stderr)
	client, err := kafkax.Open(cfg.Kafka, log)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := reach(ctx, client); err != nil {
		return err
	}
	report, err := emit.ShipDir(ctx, dir, client, log, telemetry.NewMetrics())
	tell(env, dir, report)
	if err != nil {
		return fmt.Errorf("shipping %s: %w; what was not sent is still there: run the same again", dir, err)
	}
	if report.OtherVersion > 0 {
		return fmt.Errorf("%d of the directories in %s were written by another version of Turnout and were left untouched: run that version's `turnout spool ship`", report.OtherVersion, dir)
	}
	if report.Locked > 0 {
		return fmt.Errorf("%d of the directories in %s belong to gateways that run and send them themselves; stop those first if %s is to be empty", report.Locked, dir, dir)
	}
	return nil
}

// reach fails at once, rather than wait for ever, where Kafka is not there or was not prepared.
func reach(ctx context.Context, client *kafkax.Client) error {
	ctx, cancel := context.WithTimeout(ctx, reachTimeout)
	defer cancel()
	for _, name := range []string{topic.Attempts, topic.Requests} {
		if _, err := client.Partitions(ctx, name); err != nil {
			return fmt.Errorf("nothing was touched: %w", err)
		}
	}
	return nil
}

func tell(env lifecycle.Env, dir string, r emit.Report) {
	if r.Directories+r.Locked+r.Sent+r.Interrupted+r.OtherVersion == 0 {
		fmt.Fprintf(env.Stdout, "%s holds nothing to send\n", dir)
		return
	}
	fmt.Fprintf(env.Stdout, "%d directories shipped: %d events sent, %d calls marked as interrupted; %d directories in use\n", r.Directories, r.Sent, r.Interrupted, r.Locked)
	if r.NotEmpty > 0 {
		fmt.Fprintf(env.Stdout, "%d directories were left: they hold files that are not Turnout's\n", r.NotEmpty)
	}
	if r.Corrupt > 0 {
		fmt.Fprintf(env.Stdout, "%d places could not be read (%d bytes); a call whose end stood there is marked as interrupted\n", r.Corrupt, r.TornBytes)
	}
}
