package kafka_test

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"turnout/deploy/kafka"
	"turnout/internal/config"
	"turnout/internal/kafkax"
	"turnout/internal/testkit/certtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/topic"
)

// The real broker takes seconds and a download, so its tests run where it is asked for. What kafkax
// promises is tested against it by running internal/kafkax with the same variable.
func TestMain(m *testing.M) {
	if os.Getenv(kafkatest.Variable) != "apache" {
		os.Stdout.WriteString("deploy/kafka: not run; set " + kafkatest.Variable + "=apache\n")
		return
	}
	kafkatest.Main(m)
}

func TestPasswordsAndEncryption(t *testing.T) {
	files := certtest.New(t)
	const user, password = "turnout", "correct-horse"
	begin := time.Now()
	broker, err := kafka.Start(t.Context(), kafka.Options{Dir: t.TempDir(), Security: &kafka.Security{KeyStoreFile: files.KeyStore, Username: user, Password: password}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(broker.Kill)
	t.Logf("ready after %s", time.Since(begin).Round(time.Millisecond))

	secure := func(mechanism string, password config.Secret) kafkax.Config {
		cfg := kafkax.Default()
		cfg.Brokers = []string{broker.SecureAddr()}
		cfg.TLS = config.TLS{Enabled: true, CAFile: files.CA}
		cfg.SASL = kafkax.SASL{Mechanism: mechanism, Username: user, Password: password}
		return cfg
	}
	for _, mechanism := range []string{"plain", "scram-sha-256", "scram-sha-512"} {
		t.Run(mechanism, func(t *testing.T) {
			client := open(t, secure(mechanism, password))
			if _, err := client.EnsureTopics(t.Context(), topic.Specs(1)); err != nil {
				t.Fatal(err)
			}
			acks, err := client.NewWriter(topic.Attempts).Write(t.Context(), []kafkax.Record{{Key: []byte("k"), Value: []byte(mechanism)}})
			if err != nil {
				t.Fatal(err)
			}
			got, err := client.NewFetcher(topic.Attempts, 0, acks[0].Offset).Fetch(t.Context(), 10)
			if err != nil || len(got) != 1 || string(got[0].Value) != mechanism {
				t.Errorf("read %v, %v", got, err)
			}
			// Groups have connections of their own.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			worked := false
			err = client.Consume(ctx, kafkax.Group{ID: mechanism, Topic: topic.Attempts}, func(ctx context.Context, partition int) {
				worked = client.Commit(ctx, mechanism, topic.Attempts, map[int]int64{partition: 1}) == nil
				cancel()
				<-ctx.Done()
			})
			if err != nil || !worked {
				t.Errorf("consumed %t, %v", worked, err)
			}
			if err := open(t, secure(mechanism, "wrong")).Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "uthentication") {
				t.Errorf("with a wrong password: %v", err)
			}
		})
	}
	t.Run("unknown authority", func(t *testing.T) {
		cfg := secure("plain", password)
		cfg.TLS.CAFile = ""
		if err := open(t, cfg).Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "certificate") {
			t.Errorf("got %v", err)
		}
	})
	t.Run("other name", func(t *testing.T) {
		cfg := secure("plain", password)
		cfg.TLS.ServerName = "elsewhere.example"
		if err := open(t, cfg).Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "elsewhere.example") {
			t.Errorf("got %v", err)
		}
	})
}

func open(t *testing.T, cfg kafkax.Config) *kafkax.Client {
	t.Helper()
	client, err := kafkax.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}
