package local_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"turnout/deploy/local"
	"turnout/internal/chx"
	"turnout/internal/lifecycle"
	"turnout/internal/testkit"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv("LOCAL_TEST_PARENT"); dir != "" {
		parent(dir)
	}
	testkit.Main(m)
}

func start(t *testing.T, o local.Options) *local.Server {
	t.Helper()
	begin := time.Now()
	s, err := local.StartClickHouse(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("clickhouse ready after %s", time.Since(begin).Round(time.Millisecond))
	t.Cleanup(s.Kill)
	return s
}

func open(t *testing.T, cfg chx.Config) *chx.Conn {
	t.Helper()
	conn, err := chx.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	return conn
}

// ask runs a statement over HTTP.
func ask(t *testing.T, s *local.Server, user, password, query string) (status int, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+s.HTTPAddr()+"/?database="+url.QueryEscape(local.Database), strings.NewReader(query))
	if err != nil {
		t.Fatal(err)
	}
	if user != "" {
		request.SetBasicAuth(user, password)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, strings.TrimSpace(string(text))
}

func TestUsersMayDoTheirOwnAndNoMore(t *testing.T) {
	s := start(t, local.Options{Dir: t.TempDir()})
	app := open(t, s.Config())
	for _, statement := range []string{
		"CREATE TABLE t (d Date, n UInt32) ENGINE = ReplacingMergeTree PARTITION BY d ORDER BY n TTL d + INTERVAL 1000 DAY",
		"CREATE VIEW v AS SELECT sum(n) AS n FROM t FINAL",
		"CREATE TABLE sums (n UInt64) ENGINE = SummingMergeTree ORDER BY ()",
		"CREATE MATERIALIZED VIEW m TO sums AS SELECT toUInt64(n) AS n FROM t",
		"INSERT INTO t SELECT '2026-01-01', number FROM numbers(10)",
		"ALTER TABLE t ADD COLUMN s String",
		"ALTER TABLE t DELETE WHERE n = 0 SETTINGS mutations_sync = 1",
		"OPTIMIZE TABLE t FINAL",
		"CREATE TABLE other AS t",
		"EXCHANGE TABLES t AND other",
		"EXCHANGE TABLES t AND other",
		"ALTER TABLE t DROP PARTITION '2025-01-01'",
		"TRUNCATE TABLE other",
		"DROP TABLE other SYNC",
		"SYSTEM FLUSH LOGS",
	} {
		if err := app.Exec(t.Context(), statement); err != nil {
			t.Errorf("app: %s: %v", statement, err)
		}
	}
	var logged uint64
	if err := app.QueryRow(t.Context(), "SELECT count() FROM system.query_log WHERE query LIKE 'OPTIMIZE%'").Scan(&logged); err != nil || logged == 0 {
		t.Errorf("query log: %d, %v", logged, err)
	}

	password := s.Config().Password.Reveal()
	if len(password) < 20 {
		t.Errorf("password of %d characters", len(password))
	}
	if info, err := os.Stat(filepath.Join(filepath.Dir(s.LogPath()), "password")); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("password file: %v, %v", info, err)
	}
	for _, c := range []struct {
		user, password, query string
		ok                    bool
	}{
		{local.AppUser, password, "SELECT 1", true},
		{local.AppUser, "wrong", "SELECT 1", false},
		{local.AppUser, "", "SELECT 1", false},
		{local.AppUser, password, "SELECT * FROM file('/etc/passwd', 'LineAsString')", false},
		{local.AppUser, password, "CREATE DATABASE elsewhere", false},
		{local.AppUser, password, "CREATE TABLE default.t (n UInt8) ENGINE = Memory", false},
		{local.AppUser, password, "SELECT * FROM url('http://127.0.0.1:1/', 'LineAsString')", false},
		{local.Analyst, "", "SELECT n FROM v", true},
		{local.Analyst, "", "SELECT count() FROM t SETTINGS max_threads = 1", true},
		{local.Analyst, "", "SHOW TABLES", true},
		{local.Analyst, "", "SELECT * FROM file('/etc/passwd', 'LineAsString')", false},
		{local.Analyst, "", "INSERT INTO t (d, n) VALUES ('2026-01-01', 1)", false},
		{local.Analyst, "", "DROP TABLE t", false},
		{local.Analyst, "", "CREATE TABLE x (n UInt8) ENGINE = Memory", false},
		{local.Analyst, "", "SELECT * FROM numbers(100000000000) SETTINGS readonly = 0", false},
		{"", "", "SELECT * FROM t", false},
		{"", "", "SELECT * FROM file('/etc/passwd', 'LineAsString')", false},
		{"", "", "CREATE DATABASE x", false},
	} {
		if status, body := ask(t, s, c.user, c.password, c.query); (status == http.StatusOK) != c.ok {
			t.Errorf("%q: %s: status %d, %s", c.user, c.query, status, body)
		}
	}
	if _, version := ask(t, s, local.AppUser, password, "SELECT version()"); !strings.HasPrefix(version, "26.7.") {
		t.Errorf("version %s", version)
	}
}

func TestDataAndPasswordStay(t *testing.T) {
	dir := t.TempDir()
	s := start(t, local.Options{Dir: dir})
	app := open(t, s.Config())
	for _, statement := range []string{"CREATE TABLE t (n UInt32) ENGINE = MergeTree ORDER BY n", "INSERT INTO t VALUES (1)", "SYSTEM FLUSH LOGS"} {
		if err := app.Exec(t.Context(), statement); err != nil {
			t.Fatal(err)
		}
	}
	password := s.Config().Password
	s.Kill()

	s = start(t, local.Options{Dir: dir})
	if s.Config().Password != password {
		t.Error("the password has changed")
	}
	app = open(t, s.Config())
	for _, statement := range []string{"INSERT INTO t VALUES (2)", "SYSTEM FLUSH LOGS"} {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if err := app.Exec(ctx, statement); err != nil {
			t.Errorf("%s after a restart: %v", statement, err)
		}
		cancel()
	}
	begin := time.Now()
	if err := s.Stop(t.Context()); err != nil {
		t.Error(err)
	}
	if wait := time.Since(begin); wait > 3*time.Second {
		t.Errorf("with connections open it took %s to stop", wait)
	}

	s = start(t, local.Options{Dir: dir})
	var sum uint64
	if err := open(t, s.Config()).QueryRow(t.Context(), "SELECT sum(n) FROM t").Scan(&sum); err != nil || sum != 3 {
		t.Errorf("sum %d, %v", sum, err)
	}
	if _, err := local.StartClickHouse(t.Context(), local.Options{Dir: dir}); err == nil || !strings.Contains(err.Error(), "in use by another process") {
		t.Errorf("a second server in the same directory: %v", err)
	}
}

// Garbage, cut connections and wrong passwords must not end the server: outside of its interactive
// mode they would.
func TestNonsenseDoesNotEndIt(t *testing.T) {
	s := start(t, local.Options{Dir: t.TempDir()})
	for i := range 60 {
		for _, address := range []string{s.HTTPAddr(), s.NativeAddr()} {
			conn, err := net.Dial("tcp", address)
			if err != nil {
				t.Fatal(err)
			}
			switch i % 3 {
			case 0:
				io.WriteString(conn, "nonsense\r\n\r\n")
			case 1:
				io.WriteString(conn, "POST /?query=INSERT+INTO+t+FORMAT+Native HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\nabc")
			case 2:
				conn.(*net.TCPConn).SetLinger(0) // a reset
			}
			conn.Close()
		}
		cfg := s.Config()
		cfg.Password = "wrong"
		if i%10 == 0 {
			if err := open(t, cfg).Ping(t.Context()); !chx.IsCode(err, chx.CodeAuthentication) {
				t.Errorf("wrong password: %v", err)
			}
		}
	}
	if err := open(t, s.Config()).Ping(t.Context()); err != nil {
		t.Error(err)
	}
	select {
	case <-s.Done():
		t.Error("the server has ended")
	default:
	}
}

func TestTakenPortsAreNamed(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	_, err = local.StartClickHouse(t.Context(), local.Options{Dir: t.TempDir(), NativePort: port, NativeFlag: "--clickhouse_port"})
	want := "port " + strconv.Itoa(port) + " (clickhouse native) is in use: stop what listens there or choose another with --clickhouse_port"
	if err == nil || err.Error() != want {
		t.Errorf("got %v", err)
	}
	var taken *local.PortError
	if _, err := local.StartKafka(t.Context(), local.KafkaOptions{Dir: t.TempDir(), Port: port}); !errors.As(err, &taken) || taken.Port != port {
		t.Errorf("got %v", err)
	}
}

func TestLibraryErrorsSayWhatToRun(t *testing.T) {
	other := filepath.Join(t.TempDir(), "libchdb.so")
	if err := os.WriteFile(other, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := local.FindLibrary(other)
	if err == nil || !strings.Contains(err.Error(), "make deps") || !strings.Contains(err.Error(), "sha256") {
		t.Errorf("another file: %v", err)
	}
	_, err = local.FindLibrary(filepath.Join(t.TempDir(), "missing.so"))
	if err == nil || !strings.Contains(err.Error(), "TURNOUT_CHDB_LIB") {
		t.Errorf("missing: %v", err)
	}
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("TURNOUT_CHDB_LIB", "")
	t.Chdir(t.TempDir())
	_, err = local.FindLibrary("")
	if err == nil || !strings.Contains(err.Error(), "run `make deps`") || strings.Contains(err.Error(), "\n") {
		t.Errorf("nowhere: %v", err)
	}
	t.Setenv("TURNOUT_CHDB_LIB", other)
	if _, err := local.FindLibrary(""); err == nil || !strings.Contains(err.Error(), other) {
		t.Errorf("by the variable: %v", err)
	}
}

func TestEngineMainRefusesMisuse(t *testing.T) {
	for _, args := range [][]string{nil, {"redis"}, {"clickhouse"}, {"kafka"}, {"kafka", "--nonsense"}} {
		if err := local.EngineMain(t.Context(), lifecycle.Env{Args: args, Stdin: strings.NewReader("")}); lifecycle.Code(err) != 2 {
			t.Errorf("%q: %v", args, err)
		}
	}
}

func TestKafkaStartsFast(t *testing.T) {
	begin := time.Now()
	k, err := local.StartKafka(t.Context(), local.KafkaOptions{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("kafka ready after %s", time.Since(begin).Round(time.Millisecond))
	if err := k.Stop(t.Context()); err != nil {
		t.Error(err)
	}
}

// parent is the process that TestEnginesEndWithTheirParent kills.
func parent(dir string) {
	os.Unsetenv("LOCAL_TEST_PARENT")
	ctx := context.Background()
	s, err := local.StartClickHouse(ctx, local.Options{Dir: filepath.Join(dir, "clickhouse")})
	if err != nil {
		panic(err)
	}
	k, err := local.StartKafka(ctx, local.KafkaOptions{Dir: filepath.Join(dir, "kafka")})
	if err != nil {
		panic(err)
	}
	os.Stdout.WriteString(strconv.Itoa(s.Pid()) + " " + strconv.Itoa(k.Pid()) + "\n")
	select {}
}

func TestEnginesEndWithTheirParent(t *testing.T) {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "LOCAL_TEST_PARENT="+t.TempDir())
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 100)
	n, err := out.Read(line)
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(line[:n]))
	if len(fields) != 2 {
		t.Fatalf("got %q", line[:n])
	}
	cmd.Process.Kill()
	cmd.Wait()
	for _, field := range fields {
		pid, err := strconv.Atoi(field)
		if err != nil {
			t.Fatal(err)
		}
		for deadline := time.Now().Add(5 * time.Second); running(pid); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("engine %d outlives its parent", pid)
			}
		}
	}
}

// running says whether a process exists and is no zombie.
func running(pid int) bool {
	if syscall.Kill(pid, 0) != nil {
		return false
	}
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z")
}
