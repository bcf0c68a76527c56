package processor

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/migrations"
)

// Config is what a processor can be told.
type Config struct {
	Processor struct {
		Listen string `koanf:"listen" help:"address of /healthz, /readyz and /metrics of the processor"`
	} `koanf:"processor"`
	Kafka      kafkax.Config        `koanf:"kafka"`
	ClickHouse chx.Config           `koanf:"clickhouse"`
	Retention  migrations.Retention `koanf:"retention"`

	AcceptGap       []string      `koanf:"accept_gap" help:"PARTITION:OFFSET,...: go on at this offset although records before it were never read; they are listed in sink_gaps"`
	ShutdownTimeout time.Duration `koanf:"shutdown_timeout" help:"how long the batch in hand may take to be stored at a stop"`
	Log             telemetry.Log `koanf:"log"`
}

// DefaultConfig is what a processor does when it is told nothing.
func DefaultConfig() Config {
	c := Config{
		Kafka: kafkax.Default(), ClickHouse: chx.Default(), Retention: migrations.DefaultRetention(),
		ShutdownTimeout: 25 * time.Second, Log: telemetry.DefaultLog(),
	}
	c.Processor.Listen = "127.0.0.1:8083"
	return c
}

// Validate names every wrong setting.
func (c Config) Validate() error {
	var mistakes []error
	if _, _, err := net.SplitHostPort(c.Processor.Listen); err != nil {
		mistakes = append(mistakes, fmt.Errorf("processor.listen: %q is not host:port", c.Processor.Listen))
	}
	if c.ShutdownTimeout <= 0 {
		mistakes = append(mistakes, fmt.Errorf("shutdown_timeout: %s; must be more than 0", c.ShutdownTimeout))
	}
	if _, err := c.acceptGap(); err != nil {
		mistakes = append(mistakes, err)
	}
	return errors.Join(append(mistakes, c.Kafka.Validate(), c.ClickHouse.Validate(), c.Retention.Validate(), c.Log.Validate())...)
}

func (c Config) acceptGap() (map[int]int64, error) {
	out, err := offsets(c.AcceptGap)
	if err != nil {
		return nil, fmt.Errorf("accept_gap: %w", err)
	}
	return out, nil
}

// offsets reads a list of PARTITION:OFFSET.
func offsets(list []string) (map[int]int64, error) {
	out := map[int]int64{}
	for _, text := range list {
		left, right, _ := strings.Cut(text, ":")
		partition, err := strconv.Atoi(left)
		offset, err2 := strconv.ParseInt(right, 10, 64)
		if err != nil || err2 != nil || partition < 0 || offset < 0 {
			return nil, fmt.Errorf("%q is not PARTITION:OFFSET such as 3:1500", text)
		}
		if _, twice := out[partition]; twice {
			return nil, fmt.Errorf("partition %d is named twice", partition)
		}
		out[partition] = offset
	}
	return out, nil
}
