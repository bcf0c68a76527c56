// Package e2e tests the whole on real parts: gateways and processors as processes of their own, a
// Kafka broker, ClickHouse, simulated providers with a ledger, and real SDKs in front.
package e2e
