package e2e

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"turnout/deploy/load"
	"turnout/deploy/sim"
	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/testkit"
	"turnout/internal/testkit/chtest"
	"turnout/internal/testkit/kafkatest"
	"turnout/migrations"
	"turnout/schemas/attempt"
)

const (
	token     = "to-e2e-00000000000000000000000000000000"
	projectID = "e2e"
)

// system is everything but the gateways and processors, which tests start, kill and start again.
type system struct {
	t          *testing.T
	clickhouse chx.Config
	kafka      kafkax.Config
	db         *chx.Conn
	sim        *sim.Server
	dir        string
	resources  string
}

// parts are what a test brings of its own; what is not set is made.
type parts struct {
	providers  []sim.Provider // nil: fast()
	clickhouse *chtest.Server
	kafka      *kafkatest.Broker
	routing    map[string]any
}

func newSystem(t *testing.T, p parts) *system {
	t.Helper()
	s := &system{t: t, dir: t.TempDir()}
	if p.clickhouse != nil {
		s.clickhouse = p.clickhouse.Config()
	} else {
		s.clickhouse = chtest.New(t)
	}
	if p.kafka != nil {
		s.kafka = p.kafka.Config()
	} else {
		s.kafka = kafkatest.New(t, 3)
	}
	if _, _, err := migrations.Up(t.Context(), s.clickhouse); err != nil {
		t.Fatal(err)
	}
	var err error
	if s.db, err = chx.Open(s.clickhouse); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.db.Close() })
	if p.providers == nil {
		p.providers = fast()
	}
	if s.sim, err = sim.New(sim.Options{Seed: 1, Providers: p.providers, LedgerEntries: 1_000_000}); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s.sim.Start(ln)
	t.Cleanup(func() { _ = s.sim.Close() })

	secret, err := sim.WriteKeys(filepath.Join(s.dir, "keys"))
	if err != nil {
		t.Fatal(err)
	}
	data, err := sim.Resources(sim.ResourceOptions{
		BaseURL: "http://" + ln.Addr().String(), Providers: p.providers, Secret: secret,
		Projects: []sim.Project{{ID: projectID, KeyHash: hashOf(token), Routing: p.routing}},
	})
	if err != nil {
		t.Fatal(err)
	}
	s.resources = filepath.Join(s.dir, "resources.yaml")
	if err := os.WriteFile(s.resources, data, 0o600); err != nil {
		t.Fatal(err)
	}
	return s
}

func hashOf(token string) string {
	sum := sha256.Sum256([]byte(token))
	return "sha256:" + hex.EncodeToString(sum[:])
}

// newGateway prepares a gateway that has not been started. args come last, so that they win.
func (s *system) newGateway(name string, args ...string) *node {
	s.t.Helper()
	listen, admin := testkit.FreeAddress(s.t), testkit.FreeAddress(s.t)
	n := &node{t: s.t, name: name, role: "gateway", dir: s.dir, url: "http://" + listen, admin: "http://" + admin}
	n.args = append([]string{
		"--listen", listen, "--admin_listen", admin, "--resources", s.resources, "--node_id", name,
		"--spool.dir", filepath.Join(s.dir, "spool-"+name), "--spool.fsync", "never", "--poll_interval", "1s",
		"--hash_key", strings.Repeat("k", 32), "--shutdown_timeout", "3s", "--log.level", "warn",
	}, append(s.engineFlags(), args...)...)
	return n
}

// gateway starts a gateway and waits until it is ready.
func (s *system) gateway(name string, args ...string) *node {
	s.t.Helper()
	n := s.newGateway(name, args...)
	n.start()
	n.await()
	return n
}

func (s *system) processor(name string) *node {
	s.t.Helper()
	listen := testkit.FreeAddress(s.t)
	n := &node{t: s.t, name: name, role: "processor", dir: s.dir, url: "http://" + listen, admin: "http://" + listen}
	n.args = append([]string{"--processor.listen", listen, "--log.level", "warn"}, s.engineFlags()...)
	n.start()
	return n
}

func (s *system) engineFlags() []string {
	return []string{
		"--kafka.brokers", strings.Join(s.kafka.Brokers, ","), "--clickhouse.addr", s.clickhouse.Addr[0], "--clickhouse.database", s.clickhouse.Database,
		"--clickhouse.username", s.clickhouse.Username, "--clickhouse.password", s.clickhouse.Password.Reveal(),
	}
}

// balance waits until every call of the ledger has its row and nothing else claims one, and returns the rows.
func (s *system) balance(within time.Duration) []load.Row {
	s.t.Helper()
	var rows []load.Row
	testkit.Eventually(s.t, within, "ledger and rows agree", func() error {
		var err error
		if rows, err = s.rows(); err != nil {
			return err
		}
		if found := load.Balance(s.sim.Ledger(0), rows); len(found) > 0 {
			return fmt.Errorf("%d entries, %d rows, %d mismatches, such as %v", len(s.sim.Ledger(0)), len(rows), len(found), found[:min(3, len(found))])
		}
		return nil
	})
	return rows
}

func (s *system) rows() ([]load.Row, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	found, err := s.db.Query(ctx, "SELECT span_id, provider, outcome, status_code, output_tokens FROM attempts_unique WHERE node_id != 'history'")
	if err != nil {
		return nil, err
	}
	defer found.Close()
	var rows []load.Row
	for found.Next() {
		var r load.Row
		var outcome string
		var status int32
		if err := found.Scan(&r.SpanID, &r.Provider, &outcome, &status, &r.OutputTokens); err != nil {
			return nil, err
		}
		r.Outcome, r.StatusCode = attempt.Outcome(outcome), int(status)
		rows = append(rows, r)
	}
	return rows, found.Err()
}

// outcomes counts rows by how they ended.
func outcomes(rows []load.Row) map[attempt.Outcome]int {
	out := map[attempt.Outcome]int{}
	for _, r := range rows {
		out[r.Outcome]++
	}
	return out
}

// tell logs a figure that the tests are run for.
func (s *system) tell(what string, rows []load.Row) {
	s.t.Helper()
	entries := s.sim.Ledger(0)
	calls := map[string]bool{}
	for _, e := range entries {
		calls[e.SpanID] = true
	}
	without := map[attempt.Outcome]int{}
	for _, r := range rows {
		if !calls[r.SpanID] {
			without[r.Outcome]++
		}
	}
	s.t.Logf("%s: %d ledger entries, %d rows, %d mismatches; rows without an entry %v; outcomes %v",
		what, len(entries), len(rows), len(load.Balance(entries, rows)), without, outcomes(rows))
}

// set changes how a simulated provider behaves.
func (s *system) set(provider, change string) {
	s.t.Helper()
	if err := s.sim.Set(provider, []byte(change)); err != nil {
		s.t.Fatal(err)
	}
}

// fast is the default providers without their waiting times.
func fast() []sim.Provider { return paced(sim.Fixed(1), sim.Fixed(0)) }

// paced is the default providers, all of one speed.
func paced(ttft, rate sim.Dist) []sim.Provider {
	providers := slices.Clone(sim.Default())
	for i := range providers {
		providers[i].Behavior.TTFT, providers[i].Behavior.TokenRate = ttft, rate
	}
	return providers
}
