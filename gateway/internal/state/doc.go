// Package state is what a gateway node remembers between requests and shares with the other nodes:
// session pins, stable preferences, the health of provider keys. It travels through the compacted
// topic turnout.state.v1, where the last record of a key, in log order, wins (pipeline.md 17).
// Nothing here ever makes a request wait for Kafka.
package state
