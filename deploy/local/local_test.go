package local_test

import (
	"testing"
	"time"

	"turnout/deploy/local"
	"turnout/internal/testkit"
)

func TestMain(m *testing.M) { testkit.Main(m) }

func TestX(t *testing.T) {
	start := time.Now()
	s, err := local.StartClickHouse(t.Context(), local.Options{Dir: t.TempDir(), Databases: []string{"turnout", "test_*"}})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(start), s.HTTPAddr(), s.NativeAddr())
	start = time.Now()
	t.Log(s.Stop(t.Context()), time.Since(start))
}

func TestK(t *testing.T) {
	start := time.Now()
	s, err := local.StartKafka(t.Context(), local.KafkaOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(time.Since(start), s.Addr())
	start = time.Now()
	t.Log(s.Stop(t.Context()), time.Since(start))
}
