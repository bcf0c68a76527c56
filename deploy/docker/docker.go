// Package docker holds what `docker compose up` needs: the image, users of ClickHouse, and resources
// that point the gateways at the simulated providers.
package docker
