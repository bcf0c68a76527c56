package kafkax

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	// sessionTimeout is the shortest brokers allow by default: a killed member's partitions are with
	// another after that.
	sessionTimeout    = 6 * time.Second
	heartbeatInterval = time.Second
	// rebalanceTimeout is how long members have to come back once a rebalance has begun. The embedded
	// broker begins it anew with every member that joins, so whoever joins has to wait for several times
	// that: two members that gave up and came again in turn would put each other off for ever.
	rebalanceTimeout = 10 * time.Second
	answerTimeout    = 20 * time.Second // of the coordinator, beyond what a rebalance takes
	joinBackoff      = 500 * time.Millisecond
	// leavePatience bounds leaving the group at the end: the broker may hold a member that is joining
	// for as long as a rebalance takes.
	leavePatience = 2 * time.Second
)

// Group is a consumer group on one topic.
type Group struct {
	ID    string
	Topic string
}

// Consume joins the group and calls worker once for each partition assigned to this process, for as
// long as the assignment lasts (a generation). A worker runs in its own goroutine and must return
// only when its context ends, and then soon: the next generation of the whole group waits for it, up
// to 10 s. A worker that returns earlier ends the generation for every member. Where to begin is the
// worker's business: offsets committed to Kafka are not looked at. Consume blocks until ctx ends and
// every worker has returned, and then returns nil. Failures to join are logged and tried again for
// ever; an error is a mistake in g.
func (c *Client) Consume(ctx context.Context, g Group, worker func(ctx context.Context, partition int)) error {
	group, err := kafka.NewConsumerGroup(kafka.ConsumerGroupConfig{
		ID:                g.ID,
		Brokers:           c.brokers,
		Dialer:            c.dialer,
		Topics:            []string{g.Topic},
		GroupBalancers:    []kafka.GroupBalancer{kafka.RangeGroupBalancer{}},
		SessionTimeout:    sessionTimeout,
		HeartbeatInterval: heartbeatInterval,
		RebalanceTimeout:  rebalanceTimeout,
		Timeout:           answerTimeout,
		JoinGroupBackoff:  joinBackoff,
		StartOffset:       kafka.FirstOffset,
	})
	if err != nil {
		return fmt.Errorf("joining group %q of topic %q: %w", g.ID, g.Topic, err)
	}
	var workers sync.WaitGroup
	defer func() {
		workers.Wait()
		c.setGeneration(g.ID, nil)
		left := make(chan struct{})
		go func() {
			group.Close()
			close(left)
		}()
		select {
		case <-left:
		case <-time.After(leavePatience):
			c.log.Warn("left the consumer group without waiting for the broker", "group", g.ID)
		}
	}()
	complained := ""
	for {
		generation, err := group.Next(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, kafka.GroupCoordinatorNotAvailable), errors.Is(err, kafka.RebalanceInProgress):
			c.log.Debug("waiting for the consumer group", "group", g.ID, "cause", err)
			continue
		case err != nil:
			if complained != err.Error() {
				complained = err.Error()
				c.log.Warn("cannot join the consumer group, trying on", "group", g.ID, "brokers", c.brokers, "error", err)
			}
			continue
		}
		complained = ""
		c.setGeneration(g.ID, generation)
		generation.Start(func(over context.Context) { c.untilOtherCount(over, g.Topic) })
		partitions := generation.Assignments[g.Topic]
		c.log.Info("consumer group generation begins", "group", g.ID, "generation", generation.ID, "partitions", len(partitions))
		for _, assignment := range partitions {
			workers.Add(1)
			generation.Start(func(over context.Context) {
				defer workers.Done()
				ctx, cancel := context.WithCancel(ctx)
				defer cancel()
				defer context.AfterFunc(over, cancel)()
				worker(ctx, assignment.ID)
			})
		}
	}
}

// watchEvery is how often partitions are counted.
const watchEvery = 5 * time.Second

// untilOtherCount returns when the topic has another number of partitions than at first, or ctx ends.
// Nobody should add partitions, as keys move; but what stands in them must be read. The library's own
// watch asks in a way that makes brokers create a topic that somebody has just deleted.
func (c *Client) untilOtherCount(ctx context.Context, name string) {
	ticker := time.NewTicker(watchEvery)
	defer ticker.Stop()
	for had := 0; ; {
		if counts, err := c.partitions(ctx, name); err == nil && counts[name] > 0 {
			if had > 0 && counts[name] != had {
				return
			}
			had = counts[name]
		}
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

func (c *Client) setGeneration(group string, generation *kafka.Generation) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if generation == nil {
		delete(c.generations, group)
		return
	}
	c.generations[group] = generation
}

// Commit tells Kafka the next offset to read of each partition. It is a hint for tools that show lag:
// nothing here reads it back. While this process consumes in the group it is said as a member,
// otherwise as an outsider, which Kafka takes only from an empty group.
func (c *Client) Commit(ctx context.Context, group, topic string, offsets map[int]int64) error {
	if len(offsets) == 0 {
		return nil
	}
	c.mu.Lock()
	generation := c.generations[group]
	c.mu.Unlock()
	if generation != nil {
		if err := generation.CommitOffsets(map[string]map[int]int64{topic: offsets}); err != nil {
			return fmt.Errorf("committing offsets of group %s: %w", group, err)
		}
		return nil
	}

	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	commits := make([]kafka.OffsetCommit, 0, len(offsets))
	for partition, offset := range offsets {
		commits = append(commits, kafka.OffsetCommit{Partition: partition, Offset: offset})
	}
	answer, err := c.client.OffsetCommit(ctx, &kafka.OffsetCommitRequest{GroupID: group, GenerationID: -1, Topics: map[string][]kafka.OffsetCommit{topic: commits}})
	if err != nil {
		return fmt.Errorf("committing offsets of group %s: %w", group, c.unreachable(err))
	}
	for _, p := range answer.Topics[topic] {
		if p.Error != nil {
			return fmt.Errorf("committing offset of group %s, partition %d: %w", group, p.Partition, p.Error)
		}
	}
	return nil
}
