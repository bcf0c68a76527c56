// Package live tests routing where it runs: a gateway, a processor, Kafka, ClickHouse and simulated
// providers, asked over HTTP. What one decision is worth on paper is tested in gateway/routing; here it
// is tested that the running system brings it about. The command in replay plays an hour of real chat.
package live
