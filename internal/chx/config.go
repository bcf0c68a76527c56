// Package chx opens ClickHouse over its native protocol and tells its failures apart.
package chx

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"

	"turnout/internal/config"
)

// Config says how to reach ClickHouse. It is embedded by every component under the key "clickhouse".
type Config struct {
	Addr     []string      `koanf:"addr" help:"ClickHouse addresses (native protocol), host:port, separated by commas; the first that answers is used"`
	HTTP     string        `koanf:"http" help:"ClickHouse HTTP address as shown to people, such as http://127.0.0.1:8123; nothing connects to it"`
	Database string        `koanf:"database" help:"database"`
	Username string        `koanf:"username" help:"user"`
	Password config.Secret `koanf:"password" help:"password"`
	TLS      TLS           `koanf:"tls"`
}

// TLS says whether and how connections are encrypted.
type TLS struct {
	Enabled            bool   `koanf:"enabled" help:"speak TLS to ClickHouse (its secure native port, usually 9440)"`
	CAFile             string `koanf:"ca_file" help:"PEM file with the authorities to trust (default: the system's)"`
	CertFile           string `koanf:"cert_file" help:"PEM file with this client's certificate"`
	KeyFile            string `koanf:"key_file" help:"PEM file with this client's private key"`
	ServerName         string `koanf:"server_name" help:"name expected in the server's certificate (default: the host dialled)"`
	InsecureSkipVerify bool   `koanf:"insecure_skip_verify" help:"accept any certificate: for tests only"`
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
	if (c.TLS.CertFile == "") != (c.TLS.KeyFile == "") {
		mistakes = append(mistakes, errors.New("clickhouse.tls.cert_file and clickhouse.tls.key_file: give both or neither"))
	}
	if !c.TLS.Enabled && (c.TLS.CAFile != "" || c.TLS.CertFile != "" || c.TLS.ServerName != "" || c.TLS.InsecureSkipVerify) {
		mistakes = append(mistakes, errors.New("clickhouse.tls.enabled: false although other clickhouse.tls settings are given; set it to true or remove them"))
	}
	return errors.Join(mistakes...)
}

func (c Config) tls() (*tls.Config, error) {
	if !c.TLS.Enabled {
		return nil, nil
	}
	out := &tls.Config{
		MinVersion:         tls.VersionTLS12,
		ServerName:         c.TLS.ServerName,
		InsecureSkipVerify: c.TLS.InsecureSkipVerify,
	}
	if c.TLS.CAFile != "" {
		pem, err := os.ReadFile(c.TLS.CAFile)
		if err != nil {
			return nil, fmt.Errorf("clickhouse.tls.ca_file: %w", err)
		}
		out.RootCAs = x509.NewCertPool()
		if !out.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("clickhouse.tls.ca_file: no certificate in %s; it must be PEM", c.TLS.CAFile)
		}
	}
	if c.TLS.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(c.TLS.CertFile, c.TLS.KeyFile)
		if err != nil {
			return nil, fmt.Errorf("clickhouse.tls.cert_file and clickhouse.tls.key_file: %w", err)
		}
		out.Certificates = []tls.Certificate{pair}
	}
	return out, nil
}
