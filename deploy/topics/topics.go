// Package topics is `turnout topics`: it creates what Turnout keeps in Kafka, explicitly and with its
// settings, as a one-shot before anything else starts. Nothing in Turnout creates topics on the side.
package topics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"turnout/internal/config"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/internal/telemetry"
	"turnout/schemas/topic"
)

// Config is the settings of `turnout topics`.
type Config struct {
	Topics struct {
		Partitions           int           `koanf:"partitions" help:"partitions of the attempts and requests topics; never changes afterwards"`
		ReplicationFactor    int           `koanf:"replication_factor" help:"copies of each partition; 0: the broker's default. 3 in production"`
		MinInsyncReplicas    int           `koanf:"min_insync_replicas" help:"copies that must have a record before it counts as written; 0: the broker's default. 2 in production"`
		RetentionAttempts    time.Duration `koanf:"retention_attempts" help:"how long attempts and refusals stay in Kafka"`
		RetentionDeadLetters time.Duration `koanf:"retention_dead_letters" help:"how long dead letters stay in Kafka"`
		Wait                 time.Duration `koanf:"wait" help:"how long to wait for a broker that does not answer yet"`
	} `koanf:"topics"`
	Kafka kafkax.Config `koanf:"kafka"`
	Log   telemetry.Log `koanf:"log"`
}

// Default returns the settings for one broker on this machine.
func Default() Config {
	c := Config{Kafka: kafkax.Default(), Log: telemetry.DefaultLog()}
	c.Topics.Partitions = 12
	c.Topics.RetentionAttempts = 7 * 24 * time.Hour
	c.Topics.RetentionDeadLetters = 30 * 24 * time.Hour
	c.Topics.Wait = time.Minute
	return c
}

// Validate returns every mistake, each with its key.
func (c Config) Validate() error {
	var mistakes []error
	if c.Topics.Partitions < 1 || c.Topics.Partitions > 1000 {
		mistakes = append(mistakes, fmt.Errorf("topics.partitions: %d is not between 1 and 1000", c.Topics.Partitions))
	}
	if c.Topics.ReplicationFactor < 0 || c.Topics.MinInsyncReplicas < 0 {
		mistakes = append(mistakes, errors.New("topics.replication_factor and topics.min_insync_replicas: below zero"))
	}
	if c.Topics.ReplicationFactor > 0 && c.Topics.MinInsyncReplicas > c.Topics.ReplicationFactor {
		mistakes = append(mistakes, fmt.Errorf("topics.min_insync_replicas: %d is above topics.replication_factor %d: nothing could be written", c.Topics.MinInsyncReplicas, c.Topics.ReplicationFactor))
	}
	if c.Topics.RetentionAttempts < time.Hour || c.Topics.RetentionDeadLetters < time.Hour {
		mistakes = append(mistakes, errors.New("topics.retention_attempts and topics.retention_dead_letters: below 1h"))
	}
	return errors.Join(append(mistakes, c.Kafka.Validate(), c.Log.Validate())...)
}

// Specs returns every topic as the settings want it.
func (c Config) Specs() []topic.Spec {
	specs := topic.Specs(c.Topics.Partitions)
	for i := range specs {
		specs[i].ReplicationFactor, specs[i].MinInsyncReplicas = c.Topics.ReplicationFactor, c.Topics.MinInsyncReplicas
		switch specs[i].Name {
		case topic.Attempts, topic.Requests:
			specs[i].Retention = c.Topics.RetentionAttempts
		case topic.DeadLetter:
			specs[i].Retention = c.Topics.RetentionDeadLetters
		}
	}
	return specs
}

const usage = `turnout topics [create]: create those topics that are missing; those that are there must have as many partitions
turnout topics list: print what create would make beside what is there

`

// Main is `turnout topics [create | list]`.
func Main(ctx context.Context, env lifecycle.Env, known []string) error {
	what := "create"
	if len(env.Args) > 0 && !strings.HasPrefix(env.Args[0], "-") {
		what, env.Args = env.Args[0], env.Args[1:]
	}
	if what != "create" && what != "list" {
		return lifecycle.Usage(fmt.Errorf("usage: turnout topics [create | list], not %q", what))
	}
	if len(env.Args) > 0 && slices.Contains([]string{"-h", "--help"}, env.Args[0]) {
		fmt.Fprint(env.Stdout, usage)
	}
	cfg := Default()
	loaded, err := config.Load("topics", &cfg, env, known)
	if err != nil {
		return err
	}
	if loaded.CheckOnly {
		fmt.Fprintln(env.Stdout, "settings are fine")
		return nil
	}
	client, err := kafkax.Open(cfg.Kafka, cfg.Log.New(env.Stderr))
	if err != nil {
		return err
	}
	defer client.Close()
	if what == "list" {
		return list(ctx, client, cfg, env.Stdout)
	}
	created, err := create(ctx, client, cfg)
	if err != nil {
		return err
	}
	fmt.Fprintf(env.Stdout, "created %d of %d topics%s\n", len(created), len(cfg.Specs()), listed(created))
	return nil
}

// create waits for a broker that is still starting, up to topics.wait.
func create(ctx context.Context, client *kafkax.Client, cfg Config) ([]string, error) {
	deadline, cancel := context.WithTimeout(ctx, cfg.Topics.Wait)
	defer cancel()
	for {
		err := client.Ping(deadline)
		if err == nil {
			return client.EnsureTopics(ctx, cfg.Specs())
		}
		select {
		case <-deadline.Done():
			return nil, fmt.Errorf("waiting for Kafka: %w", err)
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func listed(names []string) string {
	if len(names) == 0 {
		return " (all were there)"
	}
	return ": " + strings.Join(names, ", ")
}
