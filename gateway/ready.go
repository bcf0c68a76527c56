package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"turnout/gateway/internal/state"
	"turnout/schemas/topic"
)

const (
	clockTolerance = 2 * time.Second
	profileTTL     = 2 * time.Hour
	profileRenewal = 30 * time.Minute
	startRetry     = 2 * time.Second
	engineTimeout  = 10 * time.Second // a server that was stopped without closing holds a call for ever
)

// Ready returns every reason why the node should get no requests; none: it is ready. ClickHouse is
// never one: without it the node routes by what it knows.
func (g *Gateway) Ready() []string {
	var why []string
	if g.stopping.Load() {
		why = append(why, "the node is stopping")
	}
	if v := g.tenants.Current(); v == nil || len(v.Set.Models) == 0 || len(v.Set.APIKeys) == 0 {
		why = append(why, "no resources: name files with models, providers and API keys in the setting resources")
	}
	if err := g.state.Ready(); err != nil {
		why = append(why, err.Error())
	}
	if problem := g.configRead.Load(); problem != nil {
		why = append(why, *problem)
	}
	if err := g.events.Ready(); err != nil {
		why = append(why, err.Error())
	}
	return why
}

// notes are worth knowing although they do not gate readiness.
func (g *Gateway) notes() map[string]any {
	notes := map[string]any{"node_id": g.cfg.NodeID}
	s := g.poller.Status()
	if s.ID != "" {
		notes["snapshot_id"], notes["snapshot_age_s"] = s.ID, int64(g.poller.Now().Sub(s.AsOf).Seconds())
	}
	if s.Problem != "" {
		notes["clickhouse"] = s.Problem
	}
	if problem := g.state.Problem(); problem != "" {
		notes["kafka"] = problem // pins and cooldowns of other nodes do not come
	}
	if offset := g.poller.Offset(); offset.Abs() > clockTolerance {
		notes["clock"] = fmt.Sprintf("this node's clock is %s from ClickHouse's: check the time service of both", offset.Round(time.Millisecond))
	}
	if n := len(g.versions.pending()); n > 0 {
		notes["versions_waiting"] = n // for Kafka
	}
	if err := g.tenants.Err(); err != nil {
		notes["resources"] = "the files as they are now are refused, the last good ones are served: " + err.Error()
	}
	return notes
}

// greet says once which engines cannot be reached, with their addresses; everything that needs them
// goes on trying.
func (g *Gateway) greet(ctx context.Context) {
	if err := g.kafka.Ping(ctx); err != nil && ctx.Err() == nil {
		g.log.Error("Kafka cannot be reached, trying on; the node is not ready until the state and configuration topics were read once",
			"brokers", strings.Join(g.cfg.Kafka.Brokers, ","), "error", err)
	}
	patient, cancel := context.WithTimeout(ctx, engineTimeout)
	defer cancel()
	if err := g.ch.Ping(patient); err != nil && ctx.Err() == nil {
		g.log.Error("ClickHouse cannot be reached, trying on; until then routing has no snapshot",
			"addr", strings.Join(g.cfg.ClickHouse.Addr, ","), "error", err)
	}
}

// readConfig reads turnout.config.v1 once: a node that has not is not ready. This version serves
// from files alone, so it only says what it does not use, and learns which versions were told.
func (g *Gateway) readConfig(ctx context.Context) {
	for ctx.Err() == nil {
		// Dead letters are the processor's: a gateway need not even be allowed to see them.
		specs := slices.DeleteFunc(topic.Specs(0), func(s topic.Spec) bool { return s.Name == topic.DeadLetter })
		n, err := 0, g.kafka.CheckTopics(ctx, specs)
		if err == nil {
			n, err = g.readConfigOnce(ctx)
		}
		if err == nil {
			g.configRead.Store(nil)
			if n > 0 {
				g.log.Warn("turnout.config.v1 holds resources that this version does not serve: it serves the files of the setting resources", "records", n)
			}
			return
		}
		why := fmt.Sprintf("reading the configuration topic: %v", err)
		g.configRead.Store(&why)
		select {
		case <-ctx.Done():
		case <-time.After(startRetry):
		}
	}
}

func (g *Gateway) readConfigOnce(ctx context.Context) (records int, err error) {
	first, end, err := g.kafka.Bounds(ctx, topic.Config, 0)
	if err != nil || first >= end {
		return 0, err
	}
	f := g.kafka.NewFetcher(topic.Config, 0, first)
	defer f.Close()
	for next := first; next < end; {
		batch, err := f.Fetch(ctx, 1000)
		if err != nil {
			return 0, err
		}
		if len(batch) == 0 { // what is left was compacted away
			return records, nil
		}
		for _, r := range batch {
			if kind, _, _ := strings.Cut(string(r.Key), "/"); kind == topic.KindRoutingConfig || kind == topic.KindPriceBook {
				g.versions.heard(string(r.Key))
				continue
			}
			records++
		}
		next = batch[len(batch)-1].Offset + 1
	}
	return records, nil
}

// publishProfiles tells the processor which metrics histories the projects use.
func (g *Gateway) publishProfiles(ctx context.Context) {
	published := map[string]time.Time{}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		var due []state.Profile
		now := time.Now()
		for _, p := range g.tenants.Current().Profiles[1:] { // the default one is always published
			if now.Sub(published[p.ID]) > profileRenewal {
				published[p.ID] = now
				due = append(due, state.Profile{ID: p.ID, WindowMinutes: p.WindowMinutes, Tier1Minutes: p.Tier1Minutes, Tier2Minutes: p.Tier2Minutes})
			}
		}
		g.state.PublishProfiles(due, profileTTL)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// hashKey is the setting, or a key made once and kept beside the spool.
func hashKey(cfg Config) ([]byte, error) {
	if cfg.HashKey != "" {
		return []byte(cfg.HashKey.Reveal()), nil
	}
	path := filepath.Join(filepath.Dir(filepath.Clean(cfg.Spool.Dir)), "hash_key")
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return nil, fmt.Errorf("making the folder of the hash key: %w", err)
	}
	key := make([]byte, 32)
	if _, err := rand.Read(key); err != nil {
		return nil, fmt.Errorf("making a hash key: %w", err)
	}
	// Written aside and linked: of two nodes that start at once in one folder both get the same key.
	temp, err := os.CreateTemp(filepath.Dir(path), "hash_key-*")
	if err != nil {
		return nil, fmt.Errorf("keeping the hash key: %w", err)
	}
	defer func() { _ = os.Remove(temp.Name()) }()
	_, err = temp.WriteString(hex.EncodeToString(key))
	if err = errors.Join(err, temp.Close()); err != nil {
		return nil, fmt.Errorf("keeping the hash key: %w", err)
	}
	if err := os.Link(temp.Name(), path); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("keeping the hash key: %w", err)
	}
	kept, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("reading the hash key: %w", err)
	}
	if len(kept) < 32 {
		return nil, fmt.Errorf("the hash key in %s is shorter than 32 characters; delete the file to get a new one", path)
	}
	return kept, nil
}
