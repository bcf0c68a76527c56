package poll

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"turnout/gateway/routing"
	"turnout/internal/chx"
	"turnout/internal/testkit/chtest"
)

func TestMain(m *testing.M) { chtest.Main(m) }

// A node with many projects once sent a query for each of them every minute.
func TestUsageOfAllProjectsIsOneQuery(t *testing.T) {
	_, conn := chtest.Migrated(t)
	const projects = 300
	if err := conn.Exec(chx.SyncInsert(t.Context()), fmt.Sprintf(`INSERT INTO folds (kind, generation, at, project_id, model, provider, successes, output_tokens, kafka_offset)
		SELECT 'usage', (SELECT max(generation) FROM fold_generations), toStartOfHour(now()), concat('it''s ', toString(number)), 'm', 'a', 10 + number, 7, 1 FROM numbers(%d)`, projects)); err != nil {
		t.Fatal(err)
	}
	p := New(conn, time.Minute, time.Now, slog.New(slog.DiscardHandler))
	for i := range projects + 1 { // the last one used nothing
		if p.Usage(fmt.Sprintf("it's %d", i), "m") != nil {
			t.Fatal("usage is known before anybody asked")
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.askUsage(ctx) }()
	deadline := time.Now().Add(10 * time.Second)
	for i := range projects {
		for p.Usage(fmt.Sprintf("it's %d", i), "m") == nil && time.Now().Before(deadline) {
			time.Sleep(5 * time.Millisecond)
		}
		if u := p.Usage(fmt.Sprintf("it's %d", i), "m"); u == nil || u.Combined.Successes != int64(10+i) || u.ByProvider["a"].OutputTokens != 7 {
			t.Fatalf("project %d: %+v", i, u)
		}
	}
	if p.Usage(fmt.Sprintf("it's %d", projects), "m") != nil {
		t.Error("a project that used nothing has usage")
	}
	cancel()
	<-ended
	if err := conn.Exec(t.Context(), "SYSTEM FLUSH LOGS"); err != nil {
		t.Fatal(err)
	}
	var asked uint64
	if err := conn.QueryRow(t.Context(), "SELECT count() FROM system.query_log WHERE current_database = currentDatabase() AND type = 'QueryFinish' AND startsWith(query, 'SELECT project_id, model, provider')").Scan(&asked); err != nil || asked != 1 {
		t.Errorf("%d queries for %d projects, %v", asked, projects, err)
	}
}

// A project's usage is asked for at once, then every minute while it is used, whether that works or not;
// where it does not, the last known stays.
func TestUsageIsKeptWhileClickHouseIsAway(t *testing.T) {
	cfg := chx.Default()
	cfg.Addr = []string{"127.0.0.1:1"}
	conn, err := chx.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	c := &clock{now: time.Date(2026, 5, 1, 12, 0, 0, 0, time.UTC)}
	p := New(conn, time.Minute, c.Now, slog.New(slog.DiscardHandler))
	p.Usage("web", "m")
	known := map[string]*Usage{"m": {Combined: routing.Observed{Successes: 30}}}
	v, _ := p.usage.projects.Load("web")
	v.(*projectUsage).known.Store(&known)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); p.askUsage(ctx) }()
	for deadline := time.Now().Add(5 * time.Second); v.(*projectUsage).asked.Load() == 0 && time.Now().Before(deadline); {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
	if u := p.Usage("web", "m"); u == nil || u.Combined.Successes != 30 {
		t.Errorf("after a failure %+v", u)
	}
	c.add(usageEvery - time.Second)
	p.Usage("web", "m")
	if due := p.dueUsage(); len(due) != 0 {
		t.Errorf("%v asked for twice within a minute", due)
	}
	c.add(time.Second)
	if due := p.dueUsage(); len(due) != 1 {
		t.Error("not asked for after a minute of use")
	}
	c.add(2 * usageEvery)
	if due := p.dueUsage(); len(due) != 0 {
		t.Errorf("%v is asked for though nobody uses it", due)
	}
}
