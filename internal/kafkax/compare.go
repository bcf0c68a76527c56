package kafkax

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/segmentio/kafka-go"

	"turnout/schemas/topic"
)

// Found is what Kafka has of a topic.
type Found struct {
	Partitions int      // 0: the topic is missing
	Differs    []string // settings that are not what EnsureTopics would create, and how
	Unseen     bool     // the settings may not be asked for
}

// CompareTopics says of each spec, in their order, what Kafka has.
func (c *Client) CompareTopics(ctx context.Context, specs []topic.Spec) ([]Found, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = spec.Name
	}
	counts, err := c.partitions(ctx, names...)
	if err != nil {
		return nil, err
	}
	found := make([]Found, len(specs))
	request := &kafka.DescribeConfigsRequest{}
	for i, spec := range specs {
		found[i] = Found{Partitions: counts[spec.Name], Unseen: counts[spec.Name] > 0}
		if found[i].Unseen {
			request.Resources = append(request.Resources, kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: spec.Name})
		}
	}
	if len(request.Resources) == 0 {
		return found, nil
	}
	answer, err := c.client.DescribeConfigs(ctx, request)
	if refused := kafka.Error(0); errors.As(err, &refused) {
		return found, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the settings of topics: %w", c.unreachable(err))
	}
	for _, resource := range answer.Resources {
		i := slices.Index(names, resource.ResourceName)
		if i < 0 || resource.Error != nil {
			continue
		}
		have := map[string]string{}
		for _, entry := range resource.ConfigEntries {
			have[entry.ConfigName] = entry.ConfigValue
		}
		found[i].Unseen = false
		for _, want := range settings(specs[i]) {
			if value, told := have[want.ConfigName]; told && value != want.ConfigValue {
				found[i].Differs = append(found[i].Differs, fmt.Sprintf("%s is %s, not %s", want.ConfigName, value, want.ConfigValue))
			}
		}
		slices.Sort(found[i].Differs)
	}
	return found, nil
}
