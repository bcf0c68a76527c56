package kafkax

import (
	"context"
	"fmt"
	"slices"

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
	var there []string
	for i, spec := range specs {
		found[i] = Found{Partitions: counts[spec.Name], Unseen: counts[spec.Name] > 0}
		if found[i].Unseen {
			there = append(there, spec.Name)
		}
	}
	if len(there) == 0 {
		return found, nil
	}
	have, err := c.topicSettings(ctx, there)
	if err != nil {
		return nil, err
	}
	for i, spec := range specs {
		of, seen := have[spec.Name]
		if !seen {
			continue
		}
		found[i].Unseen = false
		for _, want := range settings(spec) {
			if value, told := of[want.ConfigName]; told && value != want.ConfigValue {
				found[i].Differs = append(found[i].Differs, fmt.Sprintf("%s is %s, not %s", want.ConfigName, value, want.ConfigValue))
			}
		}
		slices.Sort(found[i].Differs)
	}
	return found, nil
}
