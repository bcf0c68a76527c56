package local

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/twmb/franz-go/pkg/kfake"

	"turnout/deploy/internal/process"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
)

// KafkaOptions say how the embedded broker runs. Only Dir is needed.
type KafkaOptions struct {
	Dir  string // its log on disk; made if missing
	Port int    // 0: a free one
	Flag string // flag named when the port is taken
}

// Kafka is a running embedded broker: one node, topics only where they were created.
type Kafka struct {
	*Process
	port int
}

// StartKafka starts the broker and returns when it answers. It outlives ctx; Stop or Kill ends it, and
// so does the end of this process.
func StartKafka(ctx context.Context, o KafkaOptions) (*Kafka, error) {
	if err := process.CheckPort("kafka", o.Port, o.Flag); err != nil {
		return nil, err
	}
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("kafka data directory: %w", err)
	}
	lock, err := lockDir("kafka", dir)
	if err != nil {
		return nil, err
	}
	defer lock.Close()
	portFile := filepath.Join(dir, "port")
	if err := os.RemoveAll(portFile); err != nil {
		return nil, fmt.Errorf("kafka data directory: %w", err)
	}
	k := &Kafka{}
	if k.Process, err = spawn("kafka", filepath.Join(dir, "kafka.log"), lock, "kafka", "--dir", filepath.Join(dir, "data"), "--port", strconv.Itoa(o.Port), "--port-file", portFile); err != nil {
		return nil, err
	}
	err = k.Await(ctx, func() (bool, error) {
		data, err := os.ReadFile(portFile)
		if errors.Is(err, fs.ErrNotExist) || err == nil && !strings.HasSuffix(string(data), "\n") {
			return false, nil
		}
		if err == nil {
			k.port, err = strconv.Atoi(strings.TrimSpace(string(data)))
		}
		return err == nil, err
	})
	if err != nil {
		return nil, err
	}
	return k, nil
}

// Addr is the broker's host:port.
func (k *Kafka) Addr() string { return process.Loopback(k.port) }

// Port is the broker's port.
func (k *Kafka) Port() int { return k.port }

// Config is how to reach the broker.
func (k *Kafka) Config() kafkax.Config {
	cfg := kafkax.Default()
	cfg.Brokers = []string{k.Addr()}
	return cfg
}

// kafkaMain is the process that StartKafka starts.
func kafkaMain(ctx context.Context, env lifecycle.Env, args []string) error {
	flags := flag.NewFlagSet("engine kafka", flag.ContinueOnError)
	dir := flags.String("dir", "", "data directory")
	port := flags.Int("port", 0, "port, 0 for a free one")
	portFile := flags.String("port-file", "", "where to write the port when ready")
	if err := flags.Parse(args); err != nil {
		return lifecycle.Usage(err)
	}
	if os.Getenv(childMark) == "" {
		return lifecycle.Usage(errors.New("engine: for use by `turnout dev` only"))
	}
	cluster, err := kfake.NewCluster(
		kfake.NumBrokers(1),
		kfake.Ports(*port),
		kfake.ClusterID("turnout-local"),
		kfake.DataDir(*dir),
		// Compaction and retention run at this pace.
		kfake.BrokerConfigs(map[string]string{"log.cleaner.backoff.ms": "60000"}),
	)
	if err != nil {
		return fmt.Errorf("kafka: %w", err)
	}
	defer cluster.Close()
	address := cluster.ListenAddrs()[0]
	number := address[strings.LastIndexByte(address, ':')+1:]
	if err := os.WriteFile(*portFile, []byte(number+"\n"), 0o600); err != nil {
		return fmt.Errorf("kafka: %w", err)
	}

	over := make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, env.Stdin)
		close(over)
	}()
	select {
	case <-ctx.Done():
	case <-over:
	}
	return nil
}
