package kafkax

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/segmentio/kafka-go"

	"turnout/schemas/topic"
)

// maxMessageBytes is the largest compressed batch a topic takes. The Writer keeps its uncompressed
// batches under half of it.
const maxMessageBytes = 8 << 20

const pollInterval = 50 * time.Millisecond

// EnsureTopics creates those topics that are missing and returns their names; they can be read and
// written when it returns. The replication factor is the broker's default. It is an error, and nothing
// is changed, if a topic exists with another number of partitions, as keys would move, or with settings
// that CheckTopics refuses. Other settings of existing topics are left alone.
func (c *Client) EnsureTopics(ctx context.Context, specs []topic.Spec) (created []string, err error) {
	ctx, cancel := context.WithTimeout(ctx, 3*requestTimeout)
	defer cancel()

	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = spec.Name
	}
	counts, err := c.partitions(ctx, names...)
	if err != nil {
		return nil, err
	}
	var missing []kafka.TopicConfig
	var existing []topic.Spec
	var mistakes []error
	for _, spec := range specs {
		have, ok := counts[spec.Name]
		if !ok {
			missing = append(missing, kafka.TopicConfig{Topic: spec.Name, NumPartitions: spec.Partitions, ReplicationFactor: replication(spec), ConfigEntries: settings(spec)})
		} else if err := sameCount(spec, have); err != nil {
			mistakes = append(mistakes, err)
		} else {
			existing = append(existing, spec)
		}
	}
	if len(existing) > 0 {
		mistakes = append(mistakes, c.CheckTopics(ctx, existing))
	}
	if err := errors.Join(mistakes...); err != nil {
		return nil, err
	}
	if len(missing) == 0 {
		return nil, nil
	}

	answer, err := c.client.CreateTopics(ctx, &kafka.CreateTopicsRequest{Topics: missing})
	if err != nil {
		return nil, fmt.Errorf("creating topics: %w", c.unreachable(err))
	}
	var raced []topic.Spec
	for _, spec := range specs {
		outcome, asked := answer.Errors[spec.Name]
		switch {
		case !asked:
		case outcome == nil:
			created = append(created, spec.Name)
		case errors.Is(outcome, kafka.TopicAlreadyExists):
			raced = append(raced, spec) // somebody else was faster
		default:
			mistakes = append(mistakes, fmt.Errorf("creating topic %s: %w", spec.Name, outcome))
		}
	}
	for _, spec := range raced {
		have, err := c.awaitTopic(ctx, spec.Name)
		if err == nil {
			err = sameCount(spec, have)
		}
		if err != nil {
			mistakes = append(mistakes, err)
		}
	}
	if err := errors.Join(mistakes...); err != nil {
		return created, err
	}
	return created, c.awaitLeaders(ctx, missing)
}

// awaitLeaders waits until every partition of new topics can be read and written: brokers answer
// before they have made them.
func (c *Client) awaitLeaders(ctx context.Context, topics []kafka.TopicConfig) error {
	for _, t := range topics {
		for partition := range t.NumPartitions {
			for {
				_, _, err := c.Bounds(ctx, t.Topic, partition)
				if err == nil {
					break
				}
				select {
				case <-ctx.Done():
					return fmt.Errorf("waiting for topic %s to be ready: %w", t.Topic, err)
				case <-time.After(pollInterval):
				}
			}
		}
	}
	return nil
}

// DeleteTopics deletes those of the topics that exist, with all they hold, and waits until they are
// gone. For tests.
func (c *Client) DeleteTopics(ctx context.Context, names []string) error {
	for {
		counts, err := c.partitions(ctx, names...)
		if err != nil {
			return err
		}
		if len(counts) == 0 {
			return nil
		}
		existing := slices.Collect(maps.Keys(counts))
		answer, err := c.client.DeleteTopics(ctx, &kafka.DeleteTopicsRequest{Topics: existing})
		if err != nil {
			return fmt.Errorf("deleting topics: %w", c.unreachable(err))
		}
		for name, err := range answer.Errors {
			if err != nil && !errors.Is(err, kafka.UnknownTopicOrPartition) {
				return fmt.Errorf("deleting topic %s: %w", name, err)
			}
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("waiting for topics to be gone: %w", ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

func sameCount(spec topic.Spec, have int) error {
	if have == spec.Partitions {
		return nil
	}
	return fmt.Errorf("kafka topic %s: it has %d partitions, wanted %d; the number cannot change (keys would move): ask for %d, or use another topic", spec.Name, have, spec.Partitions, have)
}

// awaitTopic waits until a topic that somebody else has just created shows in the metadata.
func (c *Client) awaitTopic(ctx context.Context, name string) (int, error) {
	for {
		counts, err := c.partitions(ctx, name)
		if err != nil {
			return 0, err
		}
		if counts[name] > 0 {
			return counts[name], nil
		}
		select {
		case <-ctx.Done():
			return 0, fmt.Errorf("waiting for topic %s: %w", name, ctx.Err())
		case <-time.After(pollInterval):
		}
	}
}

// replication is -1 where the broker's default counts.
func replication(spec topic.Spec) int {
	if spec.ReplicationFactor <= 0 {
		return -1
	}
	return spec.ReplicationFactor
}

func settings(spec topic.Spec) []kafka.ConfigEntry {
	out := map[string]string{
		"cleanup.policy":         "delete",
		"retention.ms":           "-1",
		"message.timestamp.type": "CreateTime",
		"max.message.bytes":      strconv.Itoa(maxMessageBytes),
		"compression.type":       "producer",
	}
	if spec.Retention >= 0 {
		out["retention.ms"] = strconv.FormatInt(spec.Retention.Milliseconds(), 10)
	}
	if spec.MinInsyncReplicas > 0 {
		out["min.insync.replicas"] = strconv.Itoa(spec.MinInsyncReplicas)
	}
	if spec.Compact {
		// Readers start by reading all of it, so it is kept short: a segment is closed after ten minutes
		// and cleaned once a tenth of it is outdated. Tombstones stay a day for readers that were away.
		out["cleanup.policy"] = "compact"
		if spec.Retention >= 0 {
			out["cleanup.policy"] = "compact,delete"
		} else {
			// Each change is copied into config_audit: what a later one replaces waits for processors that
			// are away, for as long as events do.
			out["min.compaction.lag.ms"] = strconv.FormatInt((7 * 24 * time.Hour).Milliseconds(), 10)
		}
		out["segment.ms"] = strconv.FormatInt((10 * time.Minute).Milliseconds(), 10)
		out["min.cleanable.dirty.ratio"] = "0.1"
		out["delete.retention.ms"] = strconv.FormatInt((24 * time.Hour).Milliseconds(), 10)
	}
	entries := make([]kafka.ConfigEntry, 0, len(out))
	for name, value := range out {
		entries = append(entries, kafka.ConfigEntry{ConfigName: name, ConfigValue: value})
	}
	return entries
}
