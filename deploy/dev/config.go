// Package dev is `turnout dev`: everything on one machine in one command. Both engines run as
// processes of their own; simulated providers, gateway, processor and analytics run in this one, wired
// as they are anywhere else.
package dev

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"slices"
	"strconv"
	"time"

	"turnout/analytics"
	"turnout/deploy/sim"
	"turnout/gateway"
	"turnout/migrations"
	"turnout/processor"
)

// Config is the settings of `turnout dev`: the gateway's own, and where the others listen and keep
// their data. Addresses of engines say where they are to listen; empty: on a free port.
type Config struct {
	gateway.Config `koanf:""`

	Retention migrations.Retention `koanf:"retention"`

	Data      string   `koanf:"data" help:"folder of everything that survives a restart"`
	Engines   []string `koanf:"engines" help:"which engines to run here: kafka, clickhouse; one left out is used where kafka.brokers or clickhouse.addr says"`
	ChdbLib   string   `koanf:"chdb_lib" help:"libchdb.so (default: where make deps puts it)"`
	Analytics struct {
		Listen string `koanf:"listen" help:"address of the analytics API"`
	} `koanf:"analytics"`
	Processor struct {
		Listen string `koanf:"listen" help:"address of the processor's health and metrics"`
	} `koanf:"processor"`
	Sim struct {
		Listen string `koanf:"listen" help:"address of the simulated providers"`
		Seed   uint64 `koanf:"seed" help:"what every random decision of the simulated providers follows from"`
	} `koanf:"sim"`
}

// partitions of the attempts topic: a laptop has no use for twelve.
const partitions = 3

const (
	engineKafka      = "kafka"
	engineClickHouse = "clickhouse"
)

// Default returns what `turnout dev` does when nothing is said.
func Default() Config {
	c := Config{Config: gateway.DefaultConfig(), Data: ".turnout", Engines: []string{engineKafka, engineClickHouse}}
	c.Analytics.Listen = analytics.Default().Analytics.Listen
	c.Processor.Listen = processor.DefaultConfig().Processor.Listen
	c.Sim.Listen = sim.DefaultConfig().Sim.Listen
	c.Sim.Seed = 1
	c.Retention = migrations.DefaultRetention()
	c.ShutdownTimeout = 3 * time.Second
	c.Kafka.Brokers, c.ClickHouse.Addr, c.ClickHouse.HTTP = nil, nil, ""
	c.Spool.Dir = "" // under Data
	c.Spool.Fsync = "interval"
	c.Log.Level, c.Log.Format = "warn", "text"
	return c
}

// Free is Default with every listener on a free port, for demonstrations and tests.
func Free(data string) Config {
	c := Default()
	c.Data = data
	for _, listen := range []*string{&c.Listen, &c.AdminListen, &c.Analytics.Listen, &c.Processor.Listen, &c.Sim.Listen} {
		*listen = "127.0.0.1:0"
	}
	return c
}

// Validate returns every mistake. The engines' addresses may still be empty: they are made up at the start.
func (c *Config) Validate() error {
	var mistakes []error
	if c.Data == "" {
		mistakes = append(mistakes, errors.New("data: empty; give a folder"))
	}
	for _, engine := range c.Engines {
		if engine != engineKafka && engine != engineClickHouse {
			mistakes = append(mistakes, fmt.Errorf("engines: %q is neither kafka nor clickhouse", engine))
		}
	}
	if !c.runs(engineKafka) && len(c.Kafka.Brokers) == 0 {
		mistakes = append(mistakes, errors.New("kafka.brokers: needed, since engines leaves kafka out"))
	}
	if !c.runs(engineClickHouse) && len(c.ClickHouse.Addr) == 0 {
		mistakes = append(mistakes, errors.New("clickhouse.addr: needed, since engines leaves clickhouse out"))
	}
	for _, l := range []listener{{"analytics.listen", &c.Analytics.Listen}, {"processor.listen", &c.Processor.Listen}, {"sim.listen", &c.Sim.Listen}} {
		if _, _, err := net.SplitHostPort(*l.address); err != nil {
			mistakes = append(mistakes, fmt.Errorf("%s: %q is not host:port", l.key, *l.address))
		}
	}
	if _, err := enginePort("kafka.brokers", first(c.Kafka.Brokers)); err != nil && c.runs(engineKafka) {
		mistakes = append(mistakes, err)
	}
	if c.runs(engineClickHouse) {
		_, native := enginePort("clickhouse.addr", first(c.ClickHouse.Addr))
		_, http := enginePort("clickhouse.http", c.ClickHouse.HTTP)
		mistakes = append(mistakes, native, http)
	}
	own := c.Config
	if own.Spool.Dir == "" {
		own.Spool.Dir = c.Data
	}
	if len(own.Kafka.Brokers) == 0 || c.runs(engineKafka) { // said above
		own.Kafka.Brokers = gateway.DefaultConfig().Kafka.Brokers
	}
	if len(own.ClickHouse.Addr) == 0 || c.runs(engineClickHouse) {
		own.ClickHouse.Addr, own.ClickHouse.HTTP = gateway.DefaultConfig().ClickHouse.Addr, ""
	}
	return errors.Join(append(mistakes, c.Retention.Validate(), own.Validate())...)
}

func (c *Config) runs(engine string) bool { return slices.Contains(c.Engines, engine) }

type listener struct {
	key     string
	address *string
}

func (c *Config) listeners() []listener {
	return []listener{
		{"listen", &c.Listen}, {"admin_listen", &c.AdminListen}, {"analytics.listen", &c.Analytics.Listen},
		{"processor.listen", &c.Processor.Listen}, {"sim.listen", &c.Sim.Listen},
	}
}

// enginePort is the port an engine is told to listen on, as host:port or URL; 0: a free one. Engines
// are for this machine: another host is refused.
func enginePort(key, address string) (int, error) {
	if address == "" {
		return 0, nil
	}
	if u, err := url.Parse(address); err == nil && u.Host != "" {
		address = u.Host
	}
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is not host:port", key, address)
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return 0, fmt.Errorf("%s: the embedded engine listens on this machine only, not on %s; to use a server there, leave it out of engines", key, host)
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 0 || n > 65535 {
		return 0, fmt.Errorf("%s: %q is no port", key, port)
	}
	return n, nil
}

func first(list []string) string {
	if len(list) == 0 {
		return ""
	}
	return list[0]
}
