package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"turnout/gateway/internal/tenant"
	"turnout/internal/kafkax"
	"turnout/schemas/topic"
)

// versions tells turnout.config.v1, once each, what the versions in events stand for, so that a
// decision can be made again: the processor copies it into routing_configs and price_books. What
// Kafka has not taken yet stands in files beside the spool too: like events, it outlives the process.
type versions struct {
	dir string
	log *slog.Logger

	mu      sync.Mutex
	told    map[string]bool   // keys that stand in the topic
	waiting map[string][]byte // records by key
}

const pendingSuffix = ".json"

// versionRecord is a record of turnout.config.v1; its key is kind/id.
type versionRecord struct {
	SchemaVersion int             `json:"schema_version"`
	Kind          string          `json:"kind"`
	ID            string          `json:"id"`
	Body          json.RawMessage `json:"body"`
}

// newVersions takes up what an earlier process in this place left.
func newVersions(dir string, log *slog.Logger) *versions {
	v := &versions{dir: dir, log: log, told: map[string]bool{}, waiting: map[string][]byte{}}
	names, _ := filepath.Glob(filepath.Join(dir, "*"+pendingSuffix)) // the pattern is well formed
	for _, name := range names {
		data, err := os.ReadFile(name)
		var r versionRecord
		if err == nil {
			err = json.Unmarshal(data, &r)
		}
		if err != nil { // torn, or another node has just told it
			log.Warn("a pending version cannot be read and is left out", "file", name, "error", err)
			continue
		}
		v.waiting[r.Kind+"/"+r.ID] = data
	}
	return v
}

// note takes down what is new in a view. It blocks for the disk.
func (v *versions) note(view *tenant.View) {
	for i := range view.Set.Projects {
		if p, ok := view.Project(view.Set.Projects[i].ID); ok {
			v.add(topic.KindRoutingConfig, p.ConfigVersion, p.Resolved().Encode)
		}
	}
	v.add(topic.KindPriceBook, view.PriceVersion, func() []byte { return view.Set.PriceBook().Encode() })
}

func (v *versions) add(kind, id string, body func() []byte) {
	key := kind + "/" + id
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.told[key] || v.waiting[key] != nil {
		return
	}
	data, err := json.Marshal(versionRecord{SchemaVersion: 1, Kind: kind, ID: id, Body: body()})
	if err == nil {
		v.waiting[key] = data
		err = v.write(key, data)
	}
	if err != nil {
		v.log.Warn("a version waits for Kafka in memory alone", "version", key, "error", err)
	}
}

func (v *versions) file(key string) string {
	return filepath.Join(v.dir, strings.ReplaceAll(key, "/", "-")+pendingSuffix)
}

// write replaces the file in one step, since other nodes may read it.
func (v *versions) write(key string, data []byte) error {
	if err := os.MkdirAll(v.dir, 0o700); err != nil {
		return fmt.Errorf("making the folder of pending versions: %w", err)
	}
	temp, err := os.CreateTemp(v.dir, "version-*")
	if err != nil {
		return fmt.Errorf("keeping a pending version: %w", err)
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), v.file(key))
	}
	if err != nil {
		_ = os.Remove(temp.Name())
		return fmt.Errorf("keeping a pending version: %w", err)
	}
	return nil
}

// heard says that a key stands in the topic.
func (v *versions) heard(key string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.told[key] = true
	delete(v.waiting, key)
	if err := os.Remove(v.file(key)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.log.Warn("a version that was told stays on the disk", "version", key, "error", err)
	}
}

// pending lists the keys that Kafka has not taken, and their records.
func (v *versions) pending() map[string][]byte {
	v.mu.Lock()
	defer v.mu.Unlock()
	return maps.Clone(v.waiting)
}

// tell sends what is pending. After an error it is to be called again.
func (v *versions) tell(ctx context.Context, writer *kafkax.Writer) error {
	waiting := v.pending()
	for _, key := range slices.Sorted(maps.Keys(waiting)) {
		_, err := writer.Write(ctx, []kafkax.Record{{Key: []byte(key), Value: waiting[key], Time: time.Now()}})
		if kafkax.IsTooLarge(err) {
			v.log.Error("Kafka refuses a version for its size: decisions made by it cannot be explained in full; raise max.message.bytes of the topic",
				"topic", topic.Config, "version", key, "bytes", len(waiting[key]))
			err = nil
		}
		if err != nil {
			return fmt.Errorf("telling %s: %w", key, err)
		}
		v.heard(key)
	}
	return nil
}

// tellVersions keeps telling until ctx ends. What the topic holds already has been heard by then: it
// was read before.
func (g *Gateway) tellVersions(ctx context.Context) {
	writer := g.kafka.NewWriter(topic.Config)
	for {
		if g.configRead.Load() == nil {
			if err := g.versions.tell(ctx, writer); err != nil && ctx.Err() == nil {
				g.log.Debug("versions not told yet, trying on", "error", err)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Second):
		}
	}
}
