// Package chaos kills gateways, processors, Kafka and ClickHouse, alone and in pairs, at named points
// and at random, while requests run, and then holds everything against everything: the providers'
// ledger against the rows, the buckets against a recount of the rows, the snapshot against a recompute.
// Plain `go test` runs a short form; `make chaos` the whole matrix, at least 200 kills.
package chaos
