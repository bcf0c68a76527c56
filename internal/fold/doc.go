// Package fold turns attempts into what routing relies on: sums of ten-second slots and of hours,
// weighed by age into uptime, throughput and latency. Processors fold the log with it; gateways
// weigh snapshots with it and add their own newer attempts. The rules are routing.md 2.
//
// It is pure: time is an argument, nothing here reads a clock. Sums form a commutative monoid, so
// slots may be folded in any order and in any grouping; the tests hold it to that.
package fold
