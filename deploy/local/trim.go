package local

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// DeleteRecords makes a partition of any Kafka begin at an offset, as if what stood before had expired.
// For tests: kafka-go has no such request.
func DeleteRecords(ctx context.Context, brokers []string, topic string, partition int, before int64) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	if err != nil {
		return fmt.Errorf("deleting records of %s/%d: %w", topic, partition, err)
	}
	defer client.Close()
	p := kmsg.NewDeleteRecordsRequestTopicPartition()
	p.Partition, p.Offset = int32(partition), before
	t := kmsg.NewDeleteRecordsRequestTopic()
	t.Topic, t.Partitions = topic, append(t.Partitions, p)
	request := kmsg.NewDeleteRecordsRequest()
	request.Topics = append(request.Topics, t)
	for _, shard := range client.RequestSharded(ctx, &request) {
		if shard.Err != nil {
			return fmt.Errorf("deleting records of %s/%d: %w", topic, partition, shard.Err)
		}
		for _, t := range shard.Resp.(*kmsg.DeleteRecordsResponse).Topics {
			for _, p := range t.Partitions {
				if err := kerr.ErrorForCode(p.ErrorCode); err != nil {
					return fmt.Errorf("deleting records of %s/%d: %w", topic, partition, err)
				}
			}
		}
	}
	return nil
}
