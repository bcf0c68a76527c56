package sim

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"turnout/internal/config"
	"turnout/internal/lifecycle"
)

// Config are the settings of `turnout sim`.
type Config struct {
	Sim Settings `koanf:"sim"`
}

// Settings stand under the key sim.
type Settings struct {
	Listen        string `koanf:"listen" help:"address of the simulated providers"`
	Seed          uint64 `koanf:"seed" help:"what every random decision follows from"`
	Ledger        string `koanf:"ledger" help:"file that keeps the ledger over restarts; empty: memory only"`
	LedgerEntries int    `koanf:"ledger_entries" help:"ledger entries kept in memory"`
}

// DefaultConfig returns the defaults.
func DefaultConfig() Config {
	return Config{Sim: Settings{Listen: "127.0.0.1:8090", Seed: 1, LedgerEntries: defaultLedgerEntries}}
}

// Validate joins all mistakes.
func (c *Config) Validate() error {
	var mistakes []error
	if _, _, err := net.SplitHostPort(c.Sim.Listen); err != nil {
		mistakes = append(mistakes, fmt.Errorf("sim.listen: %q is not HOST:PORT", c.Sim.Listen))
	}
	if c.Sim.LedgerEntries < 1 || c.Sim.LedgerEntries > 10_000_000 {
		mistakes = append(mistakes, fmt.Errorf("sim.ledger_entries: %d is not within 1 and 10000000", c.Sim.LedgerEntries))
	}
	return errors.Join(mistakes...)
}

// Main is `turnout sim`: it serves the default providers until ctx ends.
func Main(ctx context.Context, env lifecycle.Env, known []string) error {
	cfg := DefaultConfig()
	parsed, err := config.Load("sim", &cfg, env, known)
	if errors.Is(err, config.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	if parsed.CheckOnly {
		fmt.Fprintln(env.Stdout, "settings are fine")
		return nil
	}
	s, err := New(Options{Seed: cfg.Sim.Seed, Ledger: cfg.Sim.Ledger, LedgerEntries: cfg.Sim.LedgerEntries})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.Sim.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("listening on %s (set another with --sim.listen): %w", cfg.Sim.Listen, err), s.Close())
	}
	s.Start(listener)
	base := "http://" + reachable(listener.Addr())
	for _, p := range Default() {
		fmt.Fprintf(env.Stdout, "%s/%s/v1  key %s\n", base, p.ID, Key(p.ID))
	}
	fmt.Fprintf(env.Stdout, "behaviour: %s/control  ledger: %s/ledger\n", base, base)
	select {
	case <-ctx.Done():
	case err := <-s.served:
		s.served <- err
	}
	return s.Close()
}

// reachable replaces an address that means every interface by loopback.
func reachable(a net.Addr) string {
	addr, err := netip.ParseAddrPort(a.String())
	if err == nil && addr.Addr().IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", addr.Port())
	}
	return a.String()
}
