package migrations

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"turnout/internal/chx"
)

// Retention says how long each table keeps its rows. `turnout migrate` writes it into the tables'
// TTLs; the processor, which embeds it under the same key, takes from it which late events still
// find their bucket and when snapshots are dropped.
type Retention struct {
	Attempts    time.Duration `koanf:"attempts" help:"raw attempts"`
	Slots       time.Duration `koanf:"slots" help:"10-second sums of providers"`
	UsageHourly time.Duration `koanf:"usage_hourly" help:"hourly usage of projects"`
	UsageDaily  time.Duration `koanf:"usage_daily" help:"daily usage of projects"`
	Snapshots   time.Duration `koanf:"snapshots" help:"snapshots that gateways have polled"`
	DeadLetters time.Duration `koanf:"dead_letters" help:"records that could not be stored"`
	Refusals    time.Duration `koanf:"refusals" help:"decisions that made no call"`
}

// DefaultRetention is what the tables are created with.
func DefaultRetention() Retention {
	const day = 24 * time.Hour
	return Retention{
		Attempts: 90 * day, Slots: 2 * day, UsageHourly: 8 * day, UsageDaily: 400 * day,
		Snapshots: day, DeadLetters: 30 * day, Refusals: 30 * day,
	}
}

// Validate names every setting that is too short to work with.
func (r Retention) Validate() error {
	var mistakes []error
	for _, s := range []struct {
		key         string
		have, least time.Duration
	}{
		{"attempts", r.Attempts, 24 * time.Hour},
		{"slots", r.Slots, 3 * time.Hour},               // the longest window is two hours
		{"usage_hourly", r.UsageHourly, 48 * time.Hour}, // observed rates look back a day
		{"usage_daily", r.UsageDaily, 24 * time.Hour},
		{"snapshots", r.Snapshots, 2 * time.Hour},
		{"dead_letters", r.DeadLetters, time.Hour},
		{"refusals", r.Refusals, time.Hour},
	} {
		if s.have < s.least {
			mistakes = append(mistakes, fmt.Errorf("retention.%s: %s is too short; at least %s", s.key, s.have, s.least))
		}
	}
	return errors.Join(mistakes...)
}

// Apply changes the TTL of those tables whose TTL says something else. Rows that are there already
// fall under the new one as their parts are merged.
func (r Retention) Apply(ctx context.Context, cfg chx.Config) (changed []string, err error) {
	conn, err := chx.Open(cfg)
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	seconds := func(column string, d time.Duration) string {
		return fmt.Sprintf("%s + toIntervalSecond(%d)", column, int64(d.Seconds()))
	}
	for _, table := range []struct{ name, ttl string }{
		{"attempts", seconds("toDateTime(started_at)", r.Attempts)},
		{"folds", seconds("at", r.Slots) + " WHERE kind = 'slot', " + seconds("at", r.UsageHourly) + " WHERE kind = 'usage'"},
		{"usage_daily", seconds("toDateTime(day)", r.UsageDaily)},
		{"dead_letters", seconds("toDateTime(at)", r.DeadLetters)},
		{"refusals", seconds("toDateTime(at)", r.Refusals)},
	} {
		var have string
		if err := conn.QueryRow(ctx, "SELECT create_table_query FROM system.tables WHERE database = currentDatabase() AND name = ?", table.name).Scan(&have); err != nil {
			return changed, fmt.Errorf("reading the TTL of table %s: %w", table.name, err)
		}
		if strings.Contains(have, "TTL "+table.ttl+" SETTINGS") {
			continue
		}
		if err := conn.Exec(chx.WithSettings(ctx, chx.Settings{"materialize_ttl_after_modify": 0}), "ALTER TABLE "+quote(table.name)+" MODIFY TTL "+table.ttl); err != nil {
			return changed, fmt.Errorf("changing the TTL of table %s: %w", table.name, err)
		}
		changed = append(changed, table.name)
	}
	return changed, nil
}
