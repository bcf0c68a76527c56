package kafkax

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/segmentio/kafka-go"
)

const (
	// requestTimeout bounds every exchange with a broker, so that one that was stopped without closing
	// its connections holds nobody for longer.
	requestTimeout = 10 * time.Second
	dialTimeout    = 3 * time.Second
	// metadataTTL is how long a moved leader or a topic made by somebody else may go unnoticed.
	metadataTTL = 2 * time.Second
)

// Header is one header of a record.
type Header struct {
	Key   string
	Value []byte
}

// Record is one record of a topic. To write, Topic, Partition and Offset are not looked at: the Writer
// knows the first and the broker says the others. A nil Value is a tombstone. A zero Time is set to
// the time of writing; times have millisecond resolution in the log.
type Record struct {
	Topic     string
	Partition int
	Offset    int64
	Key       []byte
	Value     []byte
	Headers   []Header
	Time      time.Time
}

// Client shares connections between writers, fetchers and groups. Safe for concurrent use.
type Client struct {
	brokers   []string
	log       *slog.Logger
	client    *kafka.Client
	transport *kafka.Transport
	dialer    *kafka.Dialer

	mu          sync.Mutex
	generations map[string]*kafka.Generation // by group, while this process is a member
}

// Open prepares a client; nothing is dialled yet. Errors are about certificates and credentials.
func Open(cfg Config, log *slog.Logger) (*Client, error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	encryption, err := cfg.TLS.Client("kafka.tls")
	if err != nil {
		return nil, err
	}
	mechanism, err := cfg.sasl()
	if err != nil {
		return nil, err
	}
	transport := &kafka.Transport{
		Dial:        (&net.Dialer{Timeout: dialTimeout}).DialContext,
		DialTimeout: dialTimeout,
		MetadataTTL: metadataTTL,
		ClientID:    cfg.ClientID,
		TLS:         encryption,
		SASL:        mechanism,
	}
	return &Client{
		brokers:   cfg.Brokers,
		log:       log,
		transport: transport,
		client:    &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Transport: transport},
		dialer: &kafka.Dialer{
			ClientID:      cfg.ClientID,
			Timeout:       dialTimeout,
			TLS:           encryption,
			SASLMechanism: mechanism,
		},
		generations: map[string]*kafka.Generation{},
	}, nil
}

// Close drops the connections. Writers, fetchers and groups must have ended before.
func (c *Client) Close() { c.transport.CloseIdleConnections() }

// Ping asks a broker for an answer. The error names the addresses that were tried.
func (c *Client) Ping(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	if _, err := c.client.ApiVersions(ctx, &kafka.ApiVersionsRequest{}); err != nil {
		return c.unreachable(err)
	}
	return nil
}

func (c *Client) unreachable(err error) error {
	return fmt.Errorf("kafka at %s: %w", strings.Join(c.brokers, ","), err)
}

// Partitions returns how many partitions a topic has. An unknown topic is an error.
func (c *Client) Partitions(ctx context.Context, topic string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	counts, err := c.partitions(ctx, topic)
	if err != nil {
		return 0, err
	}
	if counts[topic] == 0 {
		return 0, fmt.Errorf("kafka topic %s: %w; create it with `turnout topics`", topic, kafka.UnknownTopicOrPartition)
	}
	return counts[topic], nil
}

// partitions leaves out topics that do not exist.
func (c *Client) partitions(ctx context.Context, topics ...string) (map[string]int, error) {
	answer, err := c.client.Metadata(ctx, &kafka.MetadataRequest{Topics: topics})
	if err != nil {
		return nil, c.unreachable(err)
	}
	counts := make(map[string]int, len(topics))
	for _, topic := range answer.Topics {
		if errors.Is(topic.Error, kafka.UnknownTopicOrPartition) {
			continue
		}
		if topic.Error != nil && len(topic.Partitions) == 0 {
			return nil, fmt.Errorf("kafka topic %s: %w", topic.Name, topic.Error)
		}
		counts[topic.Name] = len(topic.Partitions)
	}
	return counts, nil
}

// Bounds returns the first offset that is still in the log and the offset that the next record will get.
func (c *Client) Bounds(ctx context.Context, topic string, partition int) (first, next int64, err error) {
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	// Two requests: brokers refuse one that names a partition twice.
	head, err := c.listOffset(ctx, topic, kafka.FirstOffsetOf(partition))
	if err == nil {
		var tail kafka.PartitionOffsets
		tail, err = c.listOffset(ctx, topic, kafka.LastOffsetOf(partition))
		first, next = head.FirstOffset, tail.LastOffset
	}
	if err != nil {
		return 0, 0, fmt.Errorf("asking for the bounds of %s/%d: %w", topic, partition, c.unreachable(err))
	}
	return first, next, nil
}

func (c *Client) listOffset(ctx context.Context, topic string, request kafka.OffsetRequest) (kafka.PartitionOffsets, error) {
	answer, err := c.client.ListOffsets(ctx, &kafka.ListOffsetsRequest{Topics: map[string][]kafka.OffsetRequest{topic: {request}}})
	if err != nil {
		return kafka.PartitionOffsets{}, err
	}
	for _, p := range answer.Topics[topic] {
		if p.Partition == request.Partition {
			return p, p.Error
		}
	}
	return kafka.PartitionOffsets{}, kafka.UnknownTopicOrPartition
}

// OffsetAt returns the first offset whose record bears this time or a later one, and the offset that
// the next record will get where there is none.
func (c *Client) OffsetAt(ctx context.Context, topic string, partition int, at time.Time) (int64, error) {
	_, next, err := c.Bounds(ctx, topic, partition)
	if err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, requestTimeout)
	defer cancel()
	found, err := c.listOffset(ctx, topic, kafka.TimeOffsetOf(partition, at))
	if err != nil {
		return 0, fmt.Errorf("asking for the offset of %s/%d at %s: %w", topic, partition, at.Format(time.RFC3339), c.unreachable(err))
	}
	for offset := range found.Offsets {
		if offset >= 0 {
			return offset, nil
		}
	}
	return next, nil
}
