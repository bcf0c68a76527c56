// Package kafka runs Apache Kafka itself on this machine: one KRaft process that is broker and
// controller, for tests and for trying things against the real one. It needs Java 17 and, the first
// time, Maven.
package kafka

import (
	"context"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"turnout/deploy/internal/process"
	"turnout/internal/kafkax"
)

const (
	heap        = "-Xmx512m"
	pingTimeout = 2 * time.Second
)

// Options say how the broker runs. Only Dir is needed.
type Options struct {
	Dir      string // data, configuration, log; made if missing
	Port     int    // 0: a free one
	Security *Security
}

// Security adds a listener that wants TLS and a password. Username and Password are good for PLAIN,
// SCRAM-SHA-256 and SCRAM-SHA-512. They must need no quoting.
type Security struct {
	KeyStoreFile       string // PEM: the private key (PKCS #8), then its certificate
	Username, Password string
}

// Broker is a running Apache Kafka. Its address stays the same over Kill or Stop and Restart.
type Broker struct {
	*process.Process
	options        Options
	controllerPort int
	securePort     int
	jars           string
}

// Start fetches Kafka's jars if need be, formats the directory if it is new, and returns when the
// broker answers, which takes about two seconds. It outlives ctx; Stop or Kill ends it, and so does,
// on Linux, the end of this process.
func Start(ctx context.Context, o Options) (*Broker, error) {
	if err := process.CheckPort("kafka", o.Port, ""); err != nil {
		return nil, err
	}
	jars, err := Jars(ctx)
	if err != nil {
		return nil, err
	}
	b := &Broker{options: o, jars: jars}
	for _, port := range []*int{&b.options.Port, &b.controllerPort, &b.securePort} {
		if *port == 0 {
			if *port, err = process.FreePort(); err != nil {
				return nil, err
			}
		}
	}
	if b.options.Dir, err = filepath.Abs(o.Dir); err != nil {
		return nil, fmt.Errorf("kafka directory: %w", err)
	}
	if err := os.MkdirAll(b.options.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("kafka directory: %w", err)
	}
	if err := os.WriteFile(b.path("server.properties"), []byte(b.properties()), 0o600); err != nil {
		return nil, fmt.Errorf("kafka directory: %w", err)
	}
	if err := b.format(ctx); err != nil {
		return nil, err
	}
	if err := b.Restart(ctx); err != nil {
		return nil, err
	}
	return b, nil
}

func (b *Broker) path(name string) string { return filepath.Join(b.options.Dir, name) }

// Restart starts a broker that has ended, with its data and address, and returns when it answers.
func (b *Broker) Restart(ctx context.Context) error {
	var err error
	cmd := b.java(context.Background(), "kafka.Kafka", b.path("server.properties"))
	if b.Process, err = process.Start("apache kafka", b.path("kafka.log"), cmd); err != nil {
		return err
	}
	return b.Await(ctx, func() (bool, error) { return b.answers(ctx) == nil, nil })
}

func (b *Broker) answers(ctx context.Context) error {
	client, err := kafkax.Open(b.Config(), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(ctx, pingTimeout)
	defer cancel()
	return client.Ping(ctx)
}

// format prepares an empty data directory.
func (b *Broker) format(ctx context.Context) error {
	_, err := os.Stat(b.path("data/meta.properties"))
	if err == nil {
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("kafka directory: %w", err)
	}
	args := []string{"format", "-t", clusterID(), "-c", b.path("server.properties")}
	if s := b.options.Security; s != nil {
		for _, mechanism := range []string{"SCRAM-SHA-256", "SCRAM-SHA-512"} {
			args = append(args, "--add-scram", fmt.Sprintf("%s=[name=%s,password=%s]", mechanism, s.Username, s.Password))
		}
	}
	if out, err := b.java(ctx, "kafka.tools.StorageTool", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("formatting %s for apache kafka: %w\n%s", b.options.Dir, err, out)
	}
	return nil
}

func (b *Broker) java(ctx context.Context, class string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "java", append([]string{heap, "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
		"-Dorg.apache.logging.log4j.level=WARN", "-cp", filepath.Join(b.jars, "*"), class}, args...)...)
}

// clusterID is a random UUID as Kafka writes it.
func clusterID() string {
	var id [16]byte
	rand.Read(id[:])
	id[0] &= 0x7f // it must not begin with '-'
	return base64.RawURLEncoding.EncodeToString(id[:])
}

// Addr is the host:port of the listener without encryption.
func (b *Broker) Addr() string { return process.Loopback(b.options.Port) }

// SecureAddr is the host:port of the listener that Options.Security asked for.
func (b *Broker) SecureAddr() string { return process.Loopback(b.securePort) }

// Config is how to reach the broker without encryption.
func (b *Broker) Config() kafkax.Config {
	cfg := kafkax.Default()
	cfg.Brokers = []string{b.Addr()}
	return cfg
}
