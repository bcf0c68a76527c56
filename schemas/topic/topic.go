// Package topic names what Turnout keeps in Kafka: topics, their settings, record keys and headers.
package topic

import "time"

// The topics.
const (
	Attempts   = "turnout.attempts.v1"     // key request_id; schemas/attempt.Event
	Requests   = "turnout.requests.v1"     // key request_id; schemas/attempt.Refused
	State      = "turnout.state.v1"        // compacted; pins, preferences, cooldowns, profiles
	Config     = "turnout.config.v1"       // compacted; resources
	DeadLetter = "turnout.attempts.v1.dlq" // what could not be folded, with its cause in headers
)

// Kinds of records of the configuration topic that are no resources but what events name by version:
// the id is the version, and the body stands in the field body.
const (
	KindRoutingConfig = "routing_config"
	KindPriceBook     = "price_book"
)

// CloudEvents 1.0 in binary mode, and ours.
const (
	HeaderSpecVersion = "ce_specversion"
	HeaderID          = "ce_id"
	HeaderSource      = "ce_source"
	HeaderType        = "ce_type"
	HeaderTime        = "ce_time"
	HeaderSubject     = "ce_subject"
	HeaderContentType = "content-type"
	HeaderTraceparent = "traceparent"
	// HeaderReplayed is "1" on every record that may stand in the log already.
	HeaderReplayed = "turnout-replayed"
	// Dead letters say where they come from and why.
	HeaderDeadCause     = "turnout-dead-cause"
	HeaderDeadTopic     = "turnout-dead-topic"
	HeaderDeadPartition = "turnout-dead-partition"
	HeaderDeadOffset    = "turnout-dead-offset"
)

// CloudEvents types.
const (
	TypeAttemptFinished = "turnout.attempt.finished"
	TypeRequestRefused  = "turnout.request.refused"
)

// Spec is what a topic is created with. Partitions of a topic never change afterwards: keys would move.
type Spec struct {
	Name       string
	Partitions int
	Retention  time.Duration // negative: for ever
	Compact    bool
	// ReplicationFactor and MinInsyncReplicas 0 leave it to the broker. Production wants 3 and 2.
	ReplicationFactor int
	MinInsyncReplicas int
}

// Specs returns every topic. partitions is that of the attempts topic: 12, or 3 in dev.
func Specs(partitions int) []Spec {
	const day = 24 * time.Hour
	return []Spec{
		{Name: Attempts, Partitions: partitions, Retention: 7 * day},
		{Name: Requests, Partitions: partitions, Retention: 7 * day},
		{Name: State, Partitions: 1, Retention: 26 * time.Hour, Compact: true},
		{Name: Config, Partitions: 1, Retention: -1, Compact: true},
		{Name: DeadLetter, Partitions: 1, Retention: 30 * day},
	}
}
