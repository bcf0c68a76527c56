// Package chtest gives tests a real ClickHouse. A package that uses it says
//
//	func TestMain(m *testing.M) { chtest.Main(m) }
//
// The server starts with the first test that wants it, once for the test binary. Without the library
// the tests fail and say what to run.
package chtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/deploy/local"
	"turnout/internal/chx"
	"turnout/internal/testkit"
	"turnout/migrations"
)

const stopTimeout = 5 * time.Second

// Main runs the tests of a package that uses chtest, kafkatest or both.
func Main(m *testing.M) { testkit.Main(m) }

var shared = sync.OnceValues(func() (*local.Server, error) {
	dir, err := os.MkdirTemp("", "chtest-")
	if err != nil {
		return nil, err
	}
	server, err := local.StartClickHouse(context.Background(), options(dir))
	if err != nil {
		return nil, err
	}
	testkit.AtExit(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
		defer cancel()
		_ = server.Stop(ctx)
		_ = os.RemoveAll(dir)
	})
	return server, nil
})

func options(dir string) local.Options {
	return local.Options{Dir: dir, Databases: []string{"test_*"}}
}

// New makes a database of its own for a test and returns how to reach it, as the user that Turnout
// itself is. The database is dropped if the test passes; if it fails its name is logged.
func New(t testing.TB) chx.Config {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	cfg := server.Config()
	cfg.Database = createDatabase(t, cfg)
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("database kept for this run: %s", cfg.Database)
			return
		}
		exec(t, cfg, "DROP DATABASE "+cfg.Database+" SYNC")
	})
	return cfg
}

// Migrated is New with all migrations, and connected to.
func Migrated(t testing.TB) (chx.Config, *chx.Conn) {
	t.Helper()
	cfg := New(t)
	if _, _, err := migrations.Up(context.Background(), cfg); err != nil {
		t.Fatal(err)
	}
	conn, err := chx.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return cfg, conn
}

func createDatabase(t testing.TB, cfg chx.Config) string {
	t.Helper()
	name := "test_" + strings.ToLower(rand.Text())
	exec(t, cfg, "CREATE DATABASE "+name)
	return name
}

func exec(t testing.TB, cfg chx.Config, statement string) {
	t.Helper()
	cfg.Database = "system" // the one that always exists
	conn, err := chx.Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	if err := conn.Exec(ctx, statement); err != nil {
		t.Fatal(err)
	}
}

// Server is a ClickHouse of one test's own, for outages. Addresses, password and data stay the same
// over Stop or Kill and Start.
type Server struct {
	t       testing.TB
	options local.Options
	server  *local.Server
	cfg     chx.Config
}

// Start starts a server of its own for the test, with one empty database. It ends with the test.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{t: t, options: options(t.TempDir())}
	s.start()
	s.cfg = s.server.Config()
	s.cfg.Database = createDatabase(t, s.cfg)
	s.options.HTTPPort, s.options.NativePort = port(t, s.server.HTTPAddr()), port(t, s.server.NativeAddr())
	t.Cleanup(func() { s.server.Kill() })
	return s
}

func port(t testing.TB, address string) int {
	t.Helper()
	var number int
	if _, err := fmt.Sscanf(address, "127.0.0.1:%d", &number); err != nil {
		t.Fatalf("address %q: %v", address, err)
	}
	return number
}

func (s *Server) start() {
	s.t.Helper()
	server, err := local.StartClickHouse(context.Background(), s.options)
	if err != nil {
		s.t.Fatal(err)
	}
	s.server = server
}

// Config reaches the test's database, whether the server runs or not.
func (s *Server) Config() chx.Config { return s.cfg }

// HTTPAddr is the host:port of the HTTP listener.
func (s *Server) HTTPAddr() string { return s.server.HTTPAddr() }

// Start starts the server again after Stop or Kill.
func (s *Server) Start() {
	s.t.Helper()
	s.start()
}

// Stop ends the server in good order.
func (s *Server) Stop() {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	if err := s.server.Stop(ctx); err != nil {
		s.t.Logf("%v", err)
	}
}

// Kill ends the server with SIGKILL.
func (s *Server) Kill() { s.server.Kill() }

// Pause stops the server with SIGSTOP: connections stay open and nothing answers.
func (s *Server) Pause() {
	s.t.Helper()
	if err := s.server.Pause(); err != nil {
		s.t.Fatal(err)
	}
}

// Resume lets a paused server go on.
func (s *Server) Resume() {
	s.t.Helper()
	if err := s.server.Resume(); err != nil {
		s.t.Fatal(err)
	}
}
