package chx_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"

	"turnout/internal/chx"
	"turnout/internal/config"
	"turnout/internal/testkit/certtest"
	"turnout/internal/testkit/chtest"
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

func mustExec(t *testing.T, conn *chx.Conn, query string) {
	t.Helper()
	if err := conn.Exec(t.Context(), query); err != nil {
		t.Fatal(err)
	}
}

func insert(ctx context.Context, conn *chx.Conn, table string, rows ...[]any) error {
	batch, err := conn.PrepareBatch(chx.SyncInsert(ctx), "INSERT INTO "+table)
	if err != nil {
		return err
	}
	defer batch.Close()
	for _, row := range rows {
		if err := batch.Append(row...); err != nil {
			return err
		}
	}
	return batch.Send()
}

func TestRowsComeBackByServerSideParameters(t *testing.T) {
	conn := open(t, chtest.New(t))
	mustExec(t, conn, "CREATE TABLE t (id UInt32, name String) ENGINE = MergeTree ORDER BY id")
	odd := "tab\tline\nslash\\quote' {x:String}"
	if err := insert(t.Context(), conn, "t", []any{uint32(1), "one"}, []any{uint32(2), odd}); err != nil {
		t.Fatal(err)
	}
	var rows []struct {
		ID   uint32 `ch:"id"`
		Name string `ch:"name"`
	}
	if err := conn.Select(t.Context(), &rows, "SELECT id, name FROM t WHERE name = {name:String}", chx.Named("name", odd)); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 1 || rows[0].ID != 2 || rows[0].Name != odd {
		t.Errorf("got %+v", rows)
	}
}

func TestInsertsAreSynchronous(t *testing.T) {
	conn := open(t, chtest.New(t))
	var value string
	if err := conn.QueryRow(chx.SyncInsert(t.Context()), "SELECT value FROM system.settings WHERE name = 'async_insert'").Scan(&value); err != nil {
		t.Fatal(err)
	}
	if value != "0" {
		t.Errorf("async_insert is %s", value)
	}
}

// The codes that count as bad data must be what their comments say they are.
func TestDataCodesHaveTheirNames(t *testing.T) {
	conn := open(t, chtest.New(t))
	for code, want := range chx.DataCodeNames(t) {
		var got string
		if err := conn.QueryRow(t.Context(), "SELECT errorCodeToName({code:Int32})", chx.Named("code", code)).Scan(&got); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("code %d is %s, listed as %s", code, got, want)
		}
	}
}

func TestRefusedIsToldFromUnavailable(t *testing.T) {
	conn := open(t, chtest.New(t))
	mustExec(t, conn, "CREATE TABLE t (n UInt8, e Enum8('a' = 1), d Date, CONSTRAINT small CHECK n < 10) ENGINE = MergeTree PARTITION BY n ORDER BY n")
	mustExec(t, conn, "CREATE TABLE wide (n UInt32) ENGINE = MergeTree PARTITION BY n ORDER BY n")
	day := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

	many := make([][]any, 101)
	for i := range many {
		many[i] = []any{uint32(i)}
	}
	// Somebody made the table stop taking parts: the same rows are taken later.
	mustExec(t, conn, "CREATE TABLE full (n UInt32) ENGINE = MergeTree ORDER BY n SETTINGS parts_to_throw_insert = 1, parts_to_delay_insert = 1, max_parts_in_total = 1")
	mustExec(t, conn, "SYSTEM STOP MERGES full")
	for range 2 {
		if err := insert(t.Context(), conn, "full", []any{uint32(1)}); err != nil {
			if !chx.IsCode(err, chx.CodeTooManyParts) {
				t.Fatal(err)
			}
		}
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	gone, err := chx.Open(chx.Config{Addr: []string{"127.0.0.1:1"}, Database: "turnout", Username: "turnout"})
	if err != nil {
		t.Fatal(err)
	}
	defer gone.Close()

	for _, c := range []struct {
		name    string
		err     error
		refused bool
	}{
		{"constraint", insert(t.Context(), conn, "t", []any{uint8(20), "a", day}), true},
		{"unknown enum element, found by the driver", insert(t.Context(), conn, "t", []any{uint8(1), "z", day}), true},
		{"value of another type, found by the driver", insert(t.Context(), conn, "t", []any{"one", "a", day}), true},
		{"too many partitions at once", insert(t.Context(), conn, "wide", many...), true},
		{"thrown by a query", conn.Exec(t.Context(), "INSERT INTO wide SELECT throwIf(1)"), true},
		{"too few columns", insert(t.Context(), conn, "t", []any{uint8(1)}), false},
		{"no such table", insert(t.Context(), conn, "missing", []any{uint8(1)}), false},
		{"too many parts", insert(t.Context(), conn, "full", []any{uint32(1)}), false},
		{"memory", conn.Exec(chx.WithSettings(t.Context(), chx.Settings{"max_memory_usage": 1000000}), "INSERT INTO wide SELECT length(groupArray(number)) FROM numbers(10000000)"), false},
		{"canceled", insert(canceled, conn, "t", []any{uint8(1), "a", day}), false},
		{"no server", insert(t.Context(), gone, "t", []any{uint8(1)}), false},
		{"none", nil, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.err == nil && c.name != "none" {
				t.Fatal("no error")
			}
			if got := chx.IsRefused(c.err); got != c.refused {
				t.Errorf("refused %t, want %t: %v", got, c.refused, c.err)
			}
		})
	}
	if err := gone.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), "clickhouse at 127.0.0.1:1") {
		t.Errorf("ping without a server: %v", err)
	}
	if chx.IsCode(errors.New("x"), 1) || !chx.IsCode(&clickhouse.Exception{Code: 1}, 1) {
		t.Error("IsCode")
	}
}

func TestSQL(t *testing.T) {
	db, err := chx.SQL(chtest.New(t))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var one int
	if err := db.QueryRowContext(t.Context(), "SELECT toInt64(1)").Scan(&one); err != nil || one != 1 {
		t.Errorf("%d %v", one, err)
	}
}

// An outage is over when the server is back: the pool must not need a new Conn.
func TestConnSurvivesOutages(t *testing.T) {
	server := chtest.Start(t)
	conn := open(t, server.Config())
	mustExec(t, conn, "CREATE TABLE t (n UInt32) ENGINE = MergeTree ORDER BY n")
	if err := insert(t.Context(), conn, "t", []any{uint32(1)}); err != nil {
		t.Fatal(err)
	}
	server.Kill()
	if err := insert(t.Context(), conn, "t", []any{uint32(2)}); err == nil || chx.IsRefused(err) {
		t.Errorf("insert while down: %v", err)
	}
	server.Start()
	if err := insert(t.Context(), conn, "t", []any{uint32(3)}); err != nil {
		t.Errorf("insert after the restart: %v", err)
	}

	server.Pause()
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := conn.Ping(short); err == nil || time.Since(begin) > 3*time.Second {
		t.Errorf("ping while paused: %v after %s", err, time.Since(begin))
	}
	server.Resume()

	server.Stop()
	server.Start()
	var sum uint64
	if err := conn.QueryRow(t.Context(), "SELECT sum(n) FROM t").Scan(&sum); err != nil || sum != 4 {
		t.Errorf("sum %d, %v; acknowledged rows are 1 and 3", sum, err)
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	cfg := chx.Config{Addr: []string{"localhost"}, HTTP: "x", Database: "default", TLS: config.TLS{CAFile: "a", CertFile: "b"}}
	err := cfg.Validate()
	for _, want := range []string{"clickhouse.addr", "clickhouse.http", "clickhouse.database", "clickhouse.tls.enabled", "clickhouse.tls.cert_file"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in %v", want, err)
		}
	}
	if err := chx.Default().Validate(); err != nil {
		t.Error(err)
	}
}

// encrypted listens with TLS and passes what comes on to a plain server: the embedded one has no TLS
// listener of its own.
func encrypted(t *testing.T, server string, settings *tls.Config) string {
	t.Helper()
	listener, err := tls.Listen("tcp", "127.0.0.1:0", settings)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			outer, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer outer.Close()
				if outer.(*tls.Conn).HandshakeContext(t.Context()) != nil {
					return
				}
				inner, err := net.Dial("tcp", server)
				if err != nil {
					return
				}
				defer inner.Close()
				go io.Copy(inner, outer)
				io.Copy(outer, inner)
			}()
		}
	}()
	return listener.Addr().String()
}

func TestTLS(t *testing.T) {
	plain := chtest.New(t)
	files, strangers := certtest.New(t), certtest.New(t)
	pair, err := tls.LoadX509KeyPair(files.Cert, files.Key)
	if err != nil {
		t.Fatal(err)
	}
	cfg := plain
	cfg.Addr = []string{encrypted(t, plain.Addr[0], &tls.Config{Certificates: []tls.Certificate{pair}})}
	refused := func(what, says string, cfg chx.Config) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		if err := open(t, cfg).Ping(ctx); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", what, err, says)
		}
	}
	refused("TLS is not spoken", "clickhouse at "+cfg.Addr[0], cfg)
	cfg.TLS.Enabled = true
	refused("unknown authority", "certificate", cfg)
	cfg.TLS.CAFile = files.CA
	conn := open(t, cfg)
	mustExec(t, conn, "CREATE TABLE t (n UInt32) ENGINE = MergeTree ORDER BY n")
	if err := insert(t.Context(), conn, "t", []any{uint32(1)}); err != nil {
		t.Error(err)
	}
	db, err := chx.SQL(cfg) // what migrations use
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var n int
	if err := db.QueryRowContext(t.Context(), "SELECT n FROM t").Scan(&n); err != nil || n != 1 {
		t.Errorf("database/sql: %d %v", n, err)
	}
	cfg.TLS.ServerName = "localhost"
	if err := open(t, cfg).Ping(t.Context()); err != nil {
		t.Errorf("the name in the certificate: %v", err)
	}
	cfg.TLS.ServerName = "elsewhere.example"
	refused("other name", "elsewhere.example", cfg)
	cfg.TLS.InsecureSkipVerify = true
	if err := open(t, cfg).Ping(t.Context()); err != nil {
		t.Errorf("any certificate: %v", err)
	}
	cfg.TLS = config.TLS{Enabled: true, CAFile: files.CA}
	cfg.Password = "wrong"
	if err := open(t, cfg).Ping(t.Context()); !chx.IsCode(err, chx.CodeAuthentication) {
		t.Errorf("wrong password: %v", err)
	}
	cfg = plain
	cfg.TLS.Enabled = true
	refused("a server that speaks no TLS", "clickhouse at "+cfg.Addr[0], cfg)

	pool := x509.NewCertPool()
	ca, err := os.ReadFile(files.CA)
	if err != nil || !pool.AppendCertsFromPEM(ca) {
		t.Fatal(err)
	}
	cfg = plain
	cfg.TLS = config.TLS{Enabled: true, CAFile: files.CA}
	cfg.Addr = []string{encrypted(t, plain.Addr[0], &tls.Config{Certificates: []tls.Certificate{pair}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: pool})}
	refused("no certificate of ours", "certificate required", cfg)
	cfg.TLS.CertFile, cfg.TLS.KeyFile = strangers.Cert, strangers.Key
	refused("a stranger's certificate", "certificate", cfg)
	cfg.TLS.CertFile, cfg.TLS.KeyFile = files.Cert, files.Key
	if err := open(t, cfg).Ping(t.Context()); err != nil {
		t.Errorf("our certificate: %v", err)
	}
}
