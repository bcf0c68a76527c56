package kafkax

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/segmentio/kafka-go"

	"turnout/schemas/topic"
)

// leastMessageBytes is what a topic must take: any single event or dead letter, with room to spare.
const leastMessageBytes = 1 << 20

// CheckTopics says what is wrong with topics that exist, or that they do not: settings with which
// records would be lost, or not be read. Numbers of partitions count only for those that are read as
// one log. Where the settings may not be asked for they are taken to be right.
func (c *Client) CheckTopics(ctx context.Context, specs []topic.Spec) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	names := make([]string, len(specs))
	for i, spec := range specs {
		names[i] = spec.Name
	}
	counts, err := c.partitions(ctx, names...)
	if err != nil {
		return err
	}
	var mistakes []error
	for _, spec := range specs {
		switch have := counts[spec.Name]; {
		case have == 0:
			mistakes = append(mistakes, fmt.Errorf("kafka topic %s: %w; create it with `turnout topics`", spec.Name, kafka.UnknownTopicOrPartition))
		case spec.Compact && have != 1:
			mistakes = append(mistakes, fmt.Errorf("kafka topic %s: it has %d partitions and is read as one log; delete it and create it with `turnout topics`", spec.Name, have))
		}
	}
	if len(mistakes) > 0 {
		return errors.Join(mistakes...)
	}
	have, err := c.topicSettings(ctx, names)
	if err != nil {
		return err
	}
	for _, spec := range specs {
		mistakes = append(mistakes, wrongSettings(spec, have[spec.Name])...)
	}
	return errors.Join(mistakes...)
}

// topicSettings returns the settings of topics that exist, by topic and name; a topic is missing there
// if they may not be asked for.
func (c *Client) topicSettings(ctx context.Context, topics []string) (map[string]map[string]string, error) {
	request := &kafka.DescribeConfigsRequest{}
	for _, name := range topics {
		request.Resources = append(request.Resources, kafka.DescribeConfigRequestResource{ResourceType: kafka.ResourceTypeTopic, ResourceName: name})
	}
	answer, err := c.client.DescribeConfigs(ctx, request)
	if refused := kafka.Error(0); errors.As(err, &refused) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("asking for the settings of topics: %w", c.unreachable(err))
	}
	have := map[string]map[string]string{}
	for _, resource := range answer.Resources {
		if resource.Error != nil {
			continue
		}
		of := map[string]string{}
		for _, entry := range resource.ConfigEntries {
			of[entry.ConfigName] = entry.ConfigValue
		}
		have[resource.ResourceName] = of
	}
	return have, nil
}

// wrongSettings lists the settings with which records of a topic would be lost.
func wrongSettings(spec topic.Spec, have map[string]string) (mistakes []error) {
	wrong := func(name, want, why string) {
		mistakes = append(mistakes, fmt.Errorf("kafka topic %s: %s is %q, set it to %s: %s", spec.Name, name, have[name], want, why))
	}
	policies := strings.Split(have["cleanup.policy"], ",")
	compacts, deletes := slices.Contains(policies, "compact"), slices.Contains(policies, "delete")
	switch {
	case have["cleanup.policy"] == "":
	case spec.Compact && spec.Retention < 0 && (!compacts || deletes && have["retention.ms"] != "-1"):
		wrong("cleanup.policy", "compact", "what it says would end by itself")
	case spec.Compact && !compacts:
		wrong("cleanup.policy", "compact,delete", "every gateway reads all of it at its start")
	case !spec.Compact && compacts:
		wrong("cleanup.policy", "delete", "records of one key would be lost")
	}
	if kind := have["message.timestamp.type"]; kind != "" && kind != "CreateTime" {
		wrong("message.timestamp.type", "CreateTime", "records bear the time at which they happened")
	}
	if bytes, err := strconv.ParseInt(have["max.message.bytes"], 10, 64); err == nil && bytes < leastMessageBytes {
		wrong("max.message.bytes", fmt.Sprintf("%d or more", leastMessageBytes), "records that it does not take would wait for ever")
	}
	return mistakes
}
