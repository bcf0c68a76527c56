// Package chx opens ClickHouse over its native protocol and tells its failures apart.
package chx

import (
	"errors"
	"fmt"
	"net"
	"net/url"

	"turnout/internal/config"
)

// Config says how to reach ClickHouse. It is embedded by every component under the key "clickhouse".
type Config struct {
	Addr     []string      `koanf:"addr" help:"ClickHouse addresses (native protocol), host:port, separated by commas; the first that answers is used; with tls the secure port, usually 9440"`
	HTTP     string        `koanf:"http" help:"ClickHouse HTTP address as shown to people, such as http://127.0.0.1:8123; nothing connects to it"`
	Database string        `koanf:"database" help:"database"`
	Username string        `koanf:"username" help:"user"`
	Password config.Secret `koanf:"password" help:"password"`
	TLS      config.TLS    `koanf:"tls"`
}

// Default returns the settings for a server on this machine.
func Default() Config {
	return Config{Addr: []string{"127.0.0.1:9000"}, Database: "turnout", Username: "turnout"}
}

// Validate returns every mistake, each with its key.
func (c Config) Validate() error {
	var mistakes []error
	if len(c.Addr) == 0 {
		mistakes = append(mistakes, errors.New("clickhouse.addr: empty; give at least one address such as 127.0.0.1:9000"))
	}
	for _, address := range c.Addr {
		if _, _, err := net.SplitHostPort(address); err != nil {
			mistakes = append(mistakes, fmt.Errorf("clickhouse.addr: %q is not host:port", address))
		}
	}
	if c.HTTP != "" {
		if u, err := url.Parse(c.HTTP); err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https") {
			mistakes = append(mistakes, fmt.Errorf("clickhouse.http: %q is not an http or https URL", c.HTTP))
		}
	}
	if c.Database == "" {
		mistakes = append(mistakes, errors.New("clickhouse.database: empty; give a name such as turnout"))
	}
	if c.Database == "default" {
		mistakes = append(mistakes, errors.New("clickhouse.database: use a database of its own, not default"))
	}
	mistakes = append(mistakes, c.TLS.Validate("clickhouse.tls"))
	return errors.Join(mistakes...)
}
