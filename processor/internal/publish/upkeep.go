package publish

import (
	"context"
	"fmt"
	"time"

	"turnout/internal/chx"
)

// upkeep is what the leader does now and then. It may run again and at two leaders at once.
type upkeep struct {
	dropped, rolled time.Time // the hour it was last done in
}

func (u *upkeep) turn(ctx context.Context, conn *chx.Conn, now time.Time, cfg Config) error {
	hour := now.Truncate(time.Hour)
	if u.dropped.Before(hour) {
		if err := dropSnapshots(ctx, conn, now.Add(-cfg.Snapshots)); err != nil {
			return err
		}
		u.dropped = hour
	}
	if u.rolled.Before(hour) {
		if err := RollUp(ctx, conn, now, cfg.Usage); err != nil {
			return err
		}
		u.rolled = hour
	}
	return nil
}

// dropSnapshots drops the hours that ended before a time, whole.
func dropSnapshots(ctx context.Context, conn *chx.Conn, before time.Time) error {
	for _, table := range []string{"snapshot_heads", "snapshot_rows"} {
		rows, err := conn.Query(ctx, "SELECT DISTINCT partition_id FROM system.parts WHERE database = currentDatabase() AND table = ? AND active AND toDateTime(partition, 'UTC') <= toDateTime(?, 'UTC')",
			table, before.Add(-time.Hour).Unix())
		if err != nil {
			return fmt.Errorf("looking for old snapshots: %w", err)
		}
		var ids []string
		for rows.Next() {
			var id string
			if err := rows.Scan(&id); err != nil {
				rows.Close()
				return fmt.Errorf("looking for old snapshots: %w", err)
			}
			ids = append(ids, id)
		}
		rows.Close()
		if err := rows.Err(); err != nil {
			return fmt.Errorf("looking for old snapshots: %w", err)
		}
		for _, id := range ids {
			if err := conn.Exec(ctx, fmt.Sprintf("ALTER TABLE %s DROP PARTITION ID '%s'", table, id)); err != nil {
				return fmt.Errorf("dropping old snapshots: %w", err)
			}
		}
	}
	return nil
}

// rollUpDays is how many days back are rolled up again: late events may still have come.
const rollUpDays = 6

// RollUp writes the usage of the last days by day, from the hours that are over. kept is how long hours
// are kept: a day that has lost some already stays as it was written.
func RollUp(ctx context.Context, conn *chx.Conn, now time.Time, kept time.Duration) error {
	const day = 24 * time.Hour
	hour := now.UTC().Truncate(time.Hour)
	first := hour.Truncate(day).Add(-rollUpDays * day)
	if whole := now.UTC().Add(-kept).Truncate(day).Add(day); whole.After(first) {
		first = whole
	}
	err := conn.Exec(chx.SyncInsert(ctx), fmt.Sprintf(`INSERT INTO usage_daily
		(day, organization_id, project_id, model, provider, attempts, requests, successes, input_tokens, cached_input_tokens, cache_write_tokens, output_tokens, cost_nano_usd, version)
		SELECT toDate(hour) AS day, organization_id, project_id, model, provider, sum(attempts), sum(requests), sum(successes), sum(input_tokens), sum(cached_input_tokens),
			sum(cache_write_tokens), sum(output_tokens), sum(cost_nano_usd), bitShiftLeft(toUInt64((SELECT max(generation) FROM fold_generations)), 48) + sum(offset_sum)
		FROM usage_hourly WHERE hour >= toDateTime(%d, 'UTC') AND hour < toDateTime(%d, 'UTC')
		GROUP BY day, organization_id, project_id, model, provider`, first.Unix(), hour.Unix()))
	if err != nil {
		return fmt.Errorf("rolling usage up by day: %w", err)
	}
	return nil
}
