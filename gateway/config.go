package gateway

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"turnout/gateway/internal/emit"
	"turnout/gateway/internal/httpapi"
	"turnout/internal/chx"
	"turnout/internal/config"
	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
)

// Config is what a gateway can be told.
type Config struct {
	Listen      string        `koanf:"listen" help:"address that clients speak to"`
	AdminListen string        `koanf:"admin_listen" help:"address of /metrics and /admin; keep it away from clients"`
	AdminToken  config.Secret `koanf:"admin_token" help:"bearer token of the admin address; needed where that is not loopback"`
	NodeID      string        `koanf:"node_id" help:"name of this node in events (default: the host's name)"`
	Resources   []string      `koanf:"resources" help:"resource files or folders, separated by commas"`

	Spool      emit.Config   `koanf:"spool"`
	Kafka      kafkax.Config `koanf:"kafka"`
	ClickHouse chx.Config    `koanf:"clickhouse"`

	PollInterval    time.Duration `koanf:"poll_interval" help:"how often snapshots are asked for"`
	HeartbeatAfter  time.Duration `koanf:"heartbeat_after" help:"how long a stream may be silent before the answer is committed and comments go out"`
	HeartbeatEvery  time.Duration `koanf:"heartbeat_every" help:"time between such comments"`
	ShutdownTimeout time.Duration `koanf:"shutdown_timeout" help:"how long running requests may take to end at a stop"`
	DrainDelay      time.Duration `koanf:"drain_delay" help:"how long the node says it is not ready before it stops accepting, for balancers to notice"`
	MaxBodyBytes    int64         `koanf:"max_body_bytes" help:"largest request body, inflated"`
	MaxInFlight     int           `koanf:"max_in_flight" help:"requests served at a time; more are refused with 503"`
	HashKey         config.Secret `koanf:"hash_key" help:"key under which session ids and credentials are hashed, the same on all nodes (default: made once and kept beside the spool)"`
	ExplorationRate string        `koanf:"exploration_rate" help:"share of requests sent to a random provider, 0 to 1, instead of what projects say, under every strategy; EXPLORATION_RATE says it too"`

	Log telemetry.Log `koanf:"log"`

	limits httpapi.Limits // no settings; tests shorten them
}

// DefaultConfig is what a gateway does when it is told nothing.
func DefaultConfig() Config {
	return Config{
		Listen:          "127.0.0.1:8080",
		AdminListen:     "127.0.0.1:8081",
		Spool:           emit.Default(),
		Kafka:           kafkax.Default(),
		ClickHouse:      chx.Default(),
		PollInterval:    time.Minute,
		HeartbeatAfter:  25 * time.Second,
		HeartbeatEvery:  15 * time.Second,
		ShutdownTimeout: 25 * time.Second,
		MaxBodyBytes:    32 << 20,
		MaxInFlight:     10_000,
		Log:             telemetry.DefaultLog(),
		limits:          httpapi.DefaultLimits(),
	}
}

// Validate returns every mistake, each with its key.
func (c *Config) Validate() error {
	var mistakes []error
	wrong := func(format string, args ...any) { mistakes = append(mistakes, fmt.Errorf(format, args...)) }
	address := func(key, value string) (host string) {
		host, port, err := net.SplitHostPort(value)
		if err != nil {
			wrong("%s: %q is not host:port", key, value)
			return ""
		}
		if n, err := strconv.Atoi(port); err != nil || n < 0 || n > 65535 {
			wrong("%s: %q is no port", key, port)
		}
		return host
	}
	address("listen", c.Listen)
	if host := address("admin_listen", c.AdminListen); !loopback(host) && c.AdminToken == "" {
		wrong("admin_token: needed because admin_listen %q is not a loopback address", c.AdminListen)
	}
	for _, d := range []struct {
		key   string
		value time.Duration
		least time.Duration
	}{
		{"poll_interval", c.PollInterval, 100 * time.Millisecond},
		{"heartbeat_after", c.HeartbeatAfter, time.Millisecond},
		{"heartbeat_every", c.HeartbeatEvery, time.Millisecond},
		{"shutdown_timeout", c.ShutdownTimeout, 0},
		{"drain_delay", c.DrainDelay, 0},
	} {
		if d.value < d.least {
			wrong("%s: %s is below %s", d.key, d.value, d.least)
		}
	}
	if c.MaxBodyBytes < 1024 {
		wrong("max_body_bytes: %d is below 1024", c.MaxBodyBytes)
	}
	if c.MaxInFlight < 1 {
		wrong("max_in_flight: %d is below 1", c.MaxInFlight)
	}
	if c.HashKey != "" && len(c.HashKey.Reveal()) < 16 {
		wrong("hash_key: shorter than 16 bytes")
	}
	if _, err := c.exploration(); err != nil {
		mistakes = append(mistakes, err)
	}
	return errors.Join(append(mistakes, c.Spool.Validate(), c.Kafka.Validate(), c.ClickHouse.Validate(), c.Log.Validate())...)
}

// exploration returns the rate that replaces the projects' own, or nil where none is set.
func (c *Config) exploration() (*float64, error) {
	if c.ExplorationRate == "" {
		return nil, nil
	}
	rate, err := strconv.ParseFloat(strings.TrimSpace(c.ExplorationRate), 64)
	if err != nil || !(rate >= 0 && rate <= 1) {
		return nil, fmt.Errorf("exploration_rate: %q is not a number from 0 to 1", c.ExplorationRate)
	}
	return &rate, nil
}

func loopback(host string) bool {
	if host == "localhost" {
		return true
	}
	ip := net.ParseIP(host)
	return ip != nil && ip.IsLoopback()
}

func hostname() string {
	name, err := os.Hostname()
	if err != nil || name == "" {
		return "gateway"
	}
	return name
}
