package migrations_test

import (
	"bytes"
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"turnout/internal/chx"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit/chtest"
	"turnout/migrations"
	"turnout/schemas/attempt"
)

func TestMain(m *testing.M) { chtest.Main(m) }

func open(t *testing.T, cfg chx.Config) *chx.Conn {
	t.Helper()
	conn, err := chx.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

func up(t *testing.T) (chx.Config, *chx.Conn) {
	t.Helper()
	cfg := chtest.New(t)
	if _, to, err := migrations.Up(t.Context(), cfg); err != nil || to != migrations.Latest() {
		t.Fatalf("up: version %d, %v", to, err)
	}
	return cfg, open(t, cfg)
}

func TestUpIsRepeatable(t *testing.T) {
	cfg := chtest.New(t)
	if v, err := migrations.Version(t.Context(), cfg); err != nil || v != 0 {
		t.Fatalf("version of an empty database: %d, %v", v, err)
	}
	from, to, err := migrations.Up(t.Context(), cfg)
	if err != nil || from != 0 || to != migrations.Latest() {
		t.Fatalf("first: %d -> %d, %v", from, to, err)
	}
	from, to, err = migrations.Up(t.Context(), cfg)
	if err != nil || from != to || to != migrations.Latest() {
		t.Fatalf("second: %d -> %d, %v", from, to, err)
	}
	conn := open(t, cfg)
	var tables []string
	rows, err := conn.Query(t.Context(), "SELECT name FROM system.tables WHERE database = currentDatabase() ORDER BY name")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		tables = append(tables, name)
	}
	want := []string{"attempts", "attempts_unique", "config_audit", "dead_letters", "fold_generations", "folds", "price_books",
		"refusals", "routing_configs", "schema_migrations", "sink_gaps", "snapshot_heads", "snapshot_rows", "usage_daily", "usage_hourly"}
	if !reflect.DeepEqual(tables, want) {
		t.Errorf("tables: %v", tables)
	}
}

func TestUpCreatesTheDatabase(t *testing.T) {
	cfg := chtest.New(t)
	conn := open(t, cfg)
	if err := conn.Exec(t.Context(), "DROP DATABASE "+cfg.Database+" SYNC"); err != nil {
		t.Fatal(err)
	}
	if v, err := migrations.Version(t.Context(), cfg); err != nil || v != 0 {
		t.Fatalf("version without a database: %d, %v", v, err)
	}
	if _, to, err := migrations.Up(t.Context(), cfg); err != nil || to != migrations.Latest() {
		t.Fatalf("up: %d, %v", to, err)
	}
}

// A migration that broke off leaves its number marked dirty.
func TestUpRunsABrokenMigrationAgain(t *testing.T) {
	cfg := chtest.New(t)
	if _, _, err := migrations.Up(t.Context(), cfg); err != nil {
		t.Fatal(err)
	}
	conn := open(t, cfg)
	for _, statement := range []string{
		"DROP TABLE sink_gaps SYNC",
		"INSERT INTO schema_migrations (version, dirty, sequence) SELECT 9, 1, max(sequence) + 1 FROM schema_migrations", // 9 and all after it
	} {
		if err := conn.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	if _, to, err := migrations.Up(t.Context(), cfg); err != nil || to != migrations.Latest() {
		t.Fatalf("up: %d, %v", to, err)
	}
	if err := conn.Exec(t.Context(), "SELECT count() FROM sink_gaps"); err != nil {
		t.Error(err)
	}
}

func TestNewerSchemaIsLeftAlone(t *testing.T) {
	cfg, conn := up(t)
	if err := conn.Exec(t.Context(), "INSERT INTO schema_migrations (version, dirty, sequence) SELECT 999, 0, max(sequence) + 1 FROM schema_migrations"); err != nil {
		t.Fatal(err)
	}
	from, to, err := migrations.Up(t.Context(), cfg)
	if err != nil || from != 999 || to != 999 {
		t.Fatalf("%d -> %d, %v", from, to, err)
	}
	var stdout, stderr bytes.Buffer
	if err := migrations.Main(t.Context(), environment(cfg, &stdout, &stderr), nil); err != nil || !strings.Contains(stderr.String(), "version 999") {
		t.Errorf("main: %v, %q", err, stderr.String())
	}
}

func environment(cfg chx.Config, stdout, stderr *bytes.Buffer, args ...string) lifecycle.Env {
	return lifecycle.Env{Stdout: stdout, Stderr: stderr, Args: args, Environ: []string{
		"TURNOUT_CLICKHOUSE_ADDR=" + strings.Join(cfg.Addr, ","), "TURNOUT_CLICKHOUSE_DATABASE=" + cfg.Database,
		"TURNOUT_CLICKHOUSE_USERNAME=" + cfg.Username, "TURNOUT_CLICKHOUSE_PASSWORD=" + cfg.Password.Reveal(),
	}}
}

func TestMainMigratesAndSetsRetention(t *testing.T) {
	cfg := chtest.New(t)
	var stdout, stderr bytes.Buffer
	if err := migrations.Main(t.Context(), environment(cfg, &stdout, &stderr), nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout.String(), "from version 0") || strings.Contains(stdout.String(), "retention changed") {
		t.Errorf("first run: %q", stdout.String())
	}
	stdout.Reset()
	if err := migrations.Main(t.Context(), environment(cfg, &stdout, &stderr, "--retention.slots=3h", "--retention.attempts", "48h"), nil); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(stdout.String(), "nothing to do") || !strings.Contains(stdout.String(), "retention changed: attempts, folds\n") {
		t.Errorf("second run: %q", stdout.String())
	}
	stdout.Reset()
	if err := migrations.Main(t.Context(), environment(cfg, &stdout, &stderr, "--check-config", "--retention.slots=1h"), nil); lifecycle.Code(err) != 2 || !strings.Contains(err.Error(), "retention.slots") {
		t.Errorf("check: %v", err)
	}
}

func TestMainSaysWhichAddressDoesNotAnswer(t *testing.T) {
	cfg := chx.Default()
	cfg.Addr = []string{"127.0.0.1:1"}
	var stdout, stderr bytes.Buffer
	err := migrations.Main(t.Context(), environment(cfg, &stdout, &stderr, "--migrate.wait=10ms"), nil)
	if err == nil || !strings.Contains(err.Error(), "127.0.0.1:1") {
		t.Errorf("error: %v", err)
	}
}

// The driver cuts files at every semicolon, those in comments and literals too.
func TestNoSemicolonInCommentsAndLiterals(t *testing.T) {
	comment, literal := regexp.MustCompile(`--.*;`), regexp.MustCompile(`'[^'\n]*;[^'\n]*'`)
	files, err := fs.Glob(os.DirFS("."), "*.sql")
	if err != nil || len(files) != int(migrations.Latest()) {
		t.Fatalf("%d files, latest version %d, %v", len(files), migrations.Latest(), err)
	}
	for _, name := range files {
		text, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if comment.Match(text) || literal.Match(text) {
			t.Errorf("%s: a semicolon in a comment or literal", name)
		}
	}
}

func columns(t *testing.T, conn *chx.Conn, table string) map[string]string {
	t.Helper()
	rows, err := conn.Query(t.Context(), "SELECT name, type FROM system.columns WHERE database = currentDatabase() AND table = ?", table)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	out := map[string]string{}
	for rows.Next() {
		var name, kind string
		if err := rows.Scan(&name, &kind); err != nil {
			t.Fatal(err)
		}
		out[name] = kind
	}
	return out
}

// Events, tables and metrics use one name for one thing.
func TestEveryFieldHasItsColumn(t *testing.T) {
	_, conn := up(t)
	for table, contract := range map[string]reflect.Type{"attempts": reflect.TypeFor[attempt.Event](), "attempts_unique": reflect.TypeFor[attempt.Event](), "refusals": reflect.TypeFor[attempt.Refused]()} {
		have := columns(t, conn, table)
		for i := range contract.NumField() {
			name, _, _ := strings.Cut(contract.Field(i).Tag.Get("json"), ",")
			if name != "-" && have[name] == "" {
				t.Errorf("table %s has no column %s", table, name)
			}
		}
	}
	considered := columns(t, conn, "attempts")["considered"]
	for i := range reflect.TypeFor[attempt.Considered]().NumField() {
		name, _, _ := strings.Cut(reflect.TypeFor[attempt.Considered]().Field(i).Tag.Get("json"), ",")
		if !strings.Contains(considered, name+" ") {
			t.Errorf("considered has no %s: %s", name, considered)
		}
	}
}

// Plain MergeTree ignores the repetition of an insert unless it is told to remember.
func TestPlainTablesRememberInserts(t *testing.T) {
	_, conn := up(t)
	rows, err := conn.Query(t.Context(), "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() AND engine = 'MergeTree' AND name != 'schema_migrations'")
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	n := 0
	for rows.Next() {
		var name, query string
		if err := rows.Scan(&name, &query); err != nil {
			t.Fatal(err)
		}
		if n++; !strings.Contains(query, "non_replicated_deduplication_window") {
			t.Errorf("%s has no deduplication window", name)
		}
	}
	if n < 3 {
		t.Errorf("only %d plain tables found", n)
	}
}

func TestAttemptsUnique(t *testing.T) {
	_, conn := up(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	// Request r: two failures, a success, and the first row once more further down the log.
	// Request s: one success. Request u: two failures.
	if err := conn.Exec(chx.SyncInsert(ctx), `INSERT INTO attempts (project_id, started_at, event_id, request_id, attempt_no, outcome, will_retry, considered_json, kafka_offset, version) VALUES
		('p', toStartOfHour(now()) + 0, 'a', 'r', 1, 'upstream_error', true, '[{"provider":"x","score":0.5},{"provider":"y","excluded_code":"context_size"}]', 10, 18446744073709551605),
		('p', toStartOfHour(now()) + 1, 'b', 'r', 2, 'network_error', true, '', 11, 18446744073709551604),
		('p', toStartOfHour(now()) + 2, 'c', 'r', 3, 'completed', false, '', 12, 18446744073709551603),
		('p', toStartOfHour(now()) + 0, 'd', 's', 1, 'completed', false, '', 13, 18446744073709551602),
		('p', toStartOfHour(now()) + 0, 'e', 'u', 1, 'upstream_error', true, '', 14, 18446744073709551601),
		('p', toStartOfHour(now()) + 1, 'f', 'u', 2, 'upstream_error', false, '', 15, 18446744073709551600)`); err != nil {
		t.Fatal(err)
	}
	if err := conn.Exec(chx.SyncInsert(ctx), `INSERT INTO attempts (project_id, started_at, event_id, request_id, attempt_no, outcome, kafka_offset, version) VALUES
		('p', toStartOfHour(now()) + 0, 'a', 'r', 1, 'interrupted', 20, 18446744073709551595)`); err != nil {
		t.Fatal(err)
	}
	type row struct {
		ID        string `ch:"event_id"`
		Outcome   string `ch:"outcome"`
		Final     bool   `ch:"final"`
		Retried   bool   `ch:"retried"`
		RetriedBy string `ch:"retried_by"`
	}
	var got []row
	if err := conn.Select(ctx, &got, "SELECT event_id, outcome, final::Bool AS final, retried::Bool AS retried, retried_by FROM attempts_unique WHERE project_id = 'p' ORDER BY event_id"); err != nil {
		t.Fatal(err)
	}
	want := []row{
		{"a", "upstream_error", false, true, "c"}, {"b", "network_error", false, true, "c"}, {"c", "completed", true, false, ""},
		{"d", "completed", true, false, ""}, {"e", "upstream_error", false, true, ""}, {"f", "upstream_error", true, false, ""},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("rows:\n got %v\nwant %v", got, want)
	}
	var provider, code string
	if err := conn.QueryRow(ctx, "SELECT c.provider, c.excluded_code FROM attempts_unique ARRAY JOIN considered AS c WHERE c.score IS NULL").Scan(&provider, &code); err != nil || provider != "y" || code != "context_size" {
		t.Errorf("considered: %q %q %v", provider, code, err)
	}
}

// The view once joined all retries of the retention whatever was asked for.
func TestAQuestionAboutAnHourReadsItsDays(t *testing.T) {
	_, conn := up(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	// A row every 40 s over 90 days, in pairs of a first attempt and a second, one pair across each
	// midnight; some succeeded. The clock is the test's own, so TTLs must not drop anything.
	for _, statement := range []string{
		"ALTER TABLE attempts REMOVE TTL",
		`INSERT INTO attempts (project_id, started_at, event_id, request_id, attempt_no, outcome, kafka_offset, version)
			SELECT 'p', toDateTime64('2026-06-01 00:00:00', 6, 'UTC') - toIntervalSecond(40 * number), leftPad(toString(number), 9, '0'), leftPad(toString(intDiv(number, 2)), 9, '0'),
				1 + (number + 1) % 2, if(number % 3 = 0, 'completed', 'upstream_error'), number, 1 FROM numbers(194400)`,
	} {
		if err := conn.Exec(chx.WithSettings(ctx, chx.Settings{"async_insert": 0, "max_partitions_per_insert_block": 200}), statement); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(where string) (answer string, read uint64) {
		t.Helper()
		comment := "read by " + where
		if err := conn.QueryRow(chx.WithSettings(ctx, chx.Settings{"log_comment": comment}),
			"SELECT toString((count(), countIf(final), countIf(retried), groupBitXor(cityHash64(event_id, retried_by)), countIf(retried_by != ''))) FROM attempts_unique WHERE "+where).Scan(&answer); err != nil {
			t.Fatalf("%s: %v", where, err)
		}
		if err := conn.Exec(ctx, "SYSTEM FLUSH LOGS"); err != nil {
			t.Fatal(err)
		}
		if err := conn.QueryRow(ctx, "SELECT read_rows FROM system.query_log WHERE current_database = currentDatabase() AND type = 'QueryFinish' AND log_comment = ? ORDER BY event_time_microseconds DESC LIMIT 1", comment).Scan(&read); err != nil {
			t.Fatal(err)
		}
		return answer, read
	}
	const (
		rowsADay = 86400 / 40
		hour     = "started_at >= '2026-05-10 11:00:00' AND started_at < '2026-05-10 12:00:00'"
		last     = "started_at >= '2026-05-09 23:00:00' AND started_at < '2026-05-10 00:00:00'" // its last attempt is retried in the next one
		midnight = "started_at >= '2026-05-09 23:30:00' AND started_at < '2026-05-10 00:30:00'"
	)
	for _, c := range []struct {
		where, days string
		bound       uint64 // of rows: each day is read once on the left and twice on the right
	}{
		{hour, " AND day = '2026-05-10'", 3 * rowsADay},
		{last, " AND day = '2026-05-09'", 3 * rowsADay},
		{midnight, " AND day BETWEEN '2026-05-09' AND '2026-05-10'", 6 * rowsADay},
	} {
		want, all := ask(c.where)
		got, read := ask(c.where + c.days)
		if got != want || !strings.HasPrefix(got, "(90,45,45,") {
			t.Errorf("%s: %s with the days, %s without", c.where, got, want)
		}
		if read > c.bound || read == 0 {
			t.Errorf("%s: %d rows read with the days said, want at most %d; %d without", c.where, read, c.bound, all)
		}
		t.Logf("%s: %d rows read, %d where no day is said", c.where, read, all)
	}
}

// The topic of configuration was made anew: the audit keeps what both logs said at one offset.
func TestRecordsOfTwoLogsDoNotReplaceEachOther(t *testing.T) {
	_, conn := up(t)
	for range 2 {
		for _, statement := range []string{
			"INSERT INTO config_audit (kind, id, body, kafka_offset, record_hash) VALUES ('project', 'a', 'old', 3, 11), ('project', 'a', 'new', 3, 12)",
			"INSERT INTO dead_letters (topic, kafka_offset, at, cause, record_hash) VALUES ('t', 3, now(), 'old', 11), ('t', 3, now(), 'new', 12)",
		} {
			if err := conn.Exec(chx.SyncInsert(t.Context()), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, table := range []string{"config_audit", "dead_letters"} {
		var n uint64
		if err := conn.QueryRow(t.Context(), "SELECT count() FROM "+table+" FINAL").Scan(&n); err != nil || n != 2 {
			t.Errorf("%s holds %d rows, %v", table, n, err)
		}
	}
}

// Every table is explained to those who may query it, and none that is not there.
func TestEveryTableIsDocumented(t *testing.T) {
	page, err := os.ReadFile("../docs/events.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(page), "\n## Tables\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, "|"); len(cells) > 3 {
			for _, m := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(cells[1], -1) {
				documented = append(documented, m[1])
			}
		}
	}
	there := []string{"schema_migrations"} // golang-migrate's
	files, err := filepath.Glob("*.sql")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range regexp.MustCompile(`CREATE (?:TABLE|VIEW) IF NOT EXISTS (\w+)`).FindAllStringSubmatch(string(text), -1) {
			there = append(there, m[1])
		}
	}
	slices.Sort(there)
	slices.Sort(documented)
	if !slices.Equal(slices.Compact(there), documented) {
		t.Errorf("docs/events.md explains\n%v\nand there are\n%v", documented, there)
	}
}
