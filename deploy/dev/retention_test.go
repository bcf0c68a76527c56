package dev

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"turnout/internal/chx"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
)

// `turnout dev` took retention.* from a shared file and did nothing with it.
func TestRetentionIsWrittenIntoTheTables(t *testing.T) {
	s := &Stack{cfg: Default(), log: slog.New(slog.DiscardHandler)}
	s.cfg.Kafka, s.cfg.ClickHouse = kafkatest.New(t, partitions), chtest.New(t)
	s.cfg.Retention.Attempts = 72 * time.Hour
	conn, err := chx.Open(s.cfg.ClickHouse)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	written := func() bool {
		if err := s.schema(t.Context()); err != nil {
			t.Fatal(err)
		}
		var table string
		if err := conn.QueryRow(t.Context(), "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = 'attempts'").Scan(&table); err != nil {
			t.Fatal(err)
		}
		return strings.Contains(table, "toIntervalSecond(259200)")
	}
	s.cfg.Engines = []string{engineKafka}
	if written() {
		t.Error("the tables of a ClickHouse that runs elsewhere were changed")
	}
	s.cfg.Engines = []string{engineKafka, engineClickHouse}
	if !written() {
		t.Error("attempts are not kept for 72h")
	}
	s.cfg.Retention.Attempts = time.Second
	if err := s.cfg.Validate(); err == nil || !strings.Contains(err.Error(), "retention.attempts") {
		t.Errorf("a retention that is too short: %v", err)
	}
}
