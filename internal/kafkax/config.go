// Package kafkax is the only place that speaks to Kafka. It promises what the event path relies on:
// an acknowledgement with its offset for every single record, no re-send that the caller did not ask
// for, and no reader that moves past a lost range without saying so.
package kafkax

import (
	"errors"
	"fmt"
	"net"

	"github.com/segmentio/kafka-go/sasl"
	"github.com/segmentio/kafka-go/sasl/plain"
	"github.com/segmentio/kafka-go/sasl/scram"

	"turnout/internal/config"
)

// Config says how to reach Kafka. It is embedded by every component under the key "kafka".
type Config struct {
	Brokers  []string   `koanf:"brokers" help:"Kafka addresses to start from, host:port, separated by commas"`
	ClientID string     `koanf:"client_id" help:"name this process gives itself towards Kafka"`
	TLS      config.TLS `koanf:"tls"`
	SASL     SASL       `koanf:"sasl"`
}

// SASL says how this client proves who it is.
type SASL struct {
	Mechanism string        `koanf:"mechanism" help:"plain, scram-sha-256 or scram-sha-512; empty for none"`
	Username  string        `koanf:"username" help:"SASL user"`
	Password  config.Secret `koanf:"password" help:"SASL password"`
}

// Default returns the settings for a broker on this machine.
func Default() Config {
	return Config{Brokers: []string{"127.0.0.1:9092"}, ClientID: "turnout"}
}

// Validate returns every mistake, each with its key.
func (c Config) Validate() error {
	var mistakes []error
	if len(c.Brokers) == 0 {
		mistakes = append(mistakes, errors.New("kafka.brokers: empty; give at least one address such as 127.0.0.1:9092"))
	}
	for _, address := range c.Brokers {
		if _, _, err := net.SplitHostPort(address); err != nil {
			mistakes = append(mistakes, fmt.Errorf("kafka.brokers: %q is not host:port", address))
		}
	}
	mistakes = append(mistakes, c.TLS.Validate("kafka.tls"))
	switch c.SASL.Mechanism {
	case "":
		if c.SASL.Username != "" || c.SASL.Password != "" {
			mistakes = append(mistakes, errors.New("kafka.sasl.mechanism: empty although kafka.sasl.username or kafka.sasl.password is given; use plain, scram-sha-256 or scram-sha-512"))
		}
	case "plain", "scram-sha-256", "scram-sha-512":
		if c.SASL.Username == "" || c.SASL.Password == "" {
			mistakes = append(mistakes, fmt.Errorf("kafka.sasl.username and kafka.sasl.password: needed for %s", c.SASL.Mechanism))
		}
	default:
		mistakes = append(mistakes, fmt.Errorf("kafka.sasl.mechanism: %q; use plain, scram-sha-256 or scram-sha-512", c.SASL.Mechanism))
	}
	return errors.Join(mistakes...)
}

func (c Config) sasl() (sasl.Mechanism, error) {
	password := c.SASL.Password.Reveal()
	algorithm := scram.SHA256
	switch c.SASL.Mechanism {
	case "":
		return nil, nil
	case "plain":
		return plain.Mechanism{Username: c.SASL.Username, Password: password}, nil
	case "scram-sha-512":
		algorithm = scram.SHA512
	}
	mechanism, err := scram.Mechanism(algorithm, c.SASL.Username, password)
	if err != nil {
		return nil, fmt.Errorf("kafka.sasl.username and kafka.sasl.password: %w", err)
	}
	return mechanism, nil
}
