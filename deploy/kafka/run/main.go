// Command run starts Apache Kafka on this machine and says where it listens: `make kafka`.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"turnout/deploy/kafka"
)

const stopTimeout = 10 * time.Second

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "kafka:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context) error {
	dir := flag.String("dir", ".cache/kafka/broker", "data directory")
	port := flag.Int("port", 0, "port, 0 for a free one")
	flag.Parse()
	broker, err := kafka.Start(ctx, kafka.Options{Dir: *dir, Port: *port})
	if err != nil {
		return err
	}
	address := filepath.Join(*dir, "address")
	if err := os.WriteFile(address, []byte(broker.Addr()+"\n"), 0o644); err != nil {
		broker.Kill()
		return err
	}
	defer os.Remove(address)
	fmt.Printf("Apache Kafka listens on %s (also in %s); TURNOUT_KAFKA_BROKERS=%s points Turnout at it. Ctrl-C stops it.\n", broker.Addr(), address, broker.Addr())
	select {
	case <-ctx.Done():
	case <-broker.Done():
		return fmt.Errorf("it ended by itself; the end of its log:\n%s", broker.Log())
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	return broker.Stop(ctx)
}
