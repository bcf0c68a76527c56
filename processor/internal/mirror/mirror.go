// Package mirror copies topics that are not folded into tables: refusals and configuration. Rows are
// named by their place in the log, so copying again changes nothing, and where to go on is read from
// the table itself.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/processor/internal/deadletter"
	"turnout/processor/internal/sink"
)

const (
	limit = 2000
	idle  = 200 * time.Millisecond
)

// Letters takes records that cannot be stored; see sink.Letters.
type Letters interface {
	Write(ctx context.Context, letters []deadletter.Letter) error
}

// Table says how the records of a topic become rows.
type Table struct {
	Topic string
	Name  string // the table that says how far it was copied
	// Inserts are the statements that a batch may need; Rows returns the values of one record for each,
	// nil for none. An error puts the record among the dead letters.
	Inserts []string
	Rows    func(r *kafkax.Record) ([][]any, error)
}

// Copier copies topics. Run may be called for several partitions at once.
type Copier struct {
	Kafka      *kafkax.Client
	ClickHouse *chx.Conn
	Letters    Letters
	Log        *slog.Logger
	Table      Table
}

// Run copies one partition until ctx ends, whatever goes wrong.
func (c *Copier) Run(ctx context.Context, p int) {
	for ctx.Err() == nil {
		var next int64
		err := sink.Retry(ctx, c.Log, fmt.Sprintf("finding where %s/%d goes on", c.Table.Topic, p), func(ctx context.Context) (err error) {
			next, err = c.resume(ctx, p)
			return err
		})
		if err == nil {
			err = c.copy(ctx, p, next)
		}
		if err != nil && ctx.Err() == nil {
			c.Log.Warn("copying again from the stored place", "topic", c.Table.Topic, "partition", p, "error", err)
		}
	}
}

func (c *Copier) resume(ctx context.Context, p int) (int64, error) {
	first, end, err := c.Kafka.Bounds(ctx, c.Table.Topic, p)
	if err != nil {
		return 0, err
	}
	var rows uint64
	var last int64
	query := fmt.Sprintf("SELECT count(), max(kafka_offset) FROM %s WHERE kafka_partition = %d", c.Table.Name, p)
	if err := c.ClickHouse.QueryRow(ctx, query).Scan(&rows, &last); err != nil {
		return 0, fmt.Errorf("reading the place in %s: %w", c.Table.Name, err)
	}
	if rows == 0 || last >= end {
		return first, nil // nothing stored, or of another log: copying again is harmless
	}
	if last+1 < first {
		c.Log.Warn("records expired before they were copied", "topic", c.Table.Topic, "partition", p, "first_missing", last+1, "last_missing", first-1)
	}
	return max(first, last+1), nil
}

func (c *Copier) copy(ctx context.Context, p int, next int64) error {
	fetcher := c.Kafka.NewFetcher(c.Table.Topic, p, next)
	defer fetcher.Close()
	for ctx.Err() == nil {
		var records []kafkax.Record
		var lost error
		err := sink.Retry(ctx, c.Log, fmt.Sprintf("reading %s/%d", c.Table.Topic, p), func(ctx context.Context) (err error) {
			records, err = fetcher.Fetch(ctx, limit)
			if errors.Is(err, kafkax.ErrOffsetOutOfRange) {
				lost = err
				return nil
			}
			return err
		})
		if err != nil || lost != nil {
			return errors.Join(err, lost)
		}
		if len(records) == 0 {
			continue
		}
		if err := c.store(ctx, records); err != nil {
			return err
		}
		select { // few inserts, larger ones
		case <-ctx.Done():
		case <-time.After(idle):
		}
	}
	return nil
}

func (c *Copier) store(ctx context.Context, records []kafkax.Record) error {
	rows := make([][][]any, len(c.Table.Inserts))
	var dead []deadletter.Letter
	for i := range records {
		values, err := c.Table.Rows(&records[i])
		if err != nil {
			dead = append(dead, deadletter.Letter{Source: records[i], Cause: err.Error()})
			continue
		}
		for n, row := range values {
			if row != nil {
				rows[n] = append(rows[n], row)
			}
		}
	}
	if len(dead) > 0 {
		if err := sink.Retry(ctx, c.Log, "dead letters of "+c.Table.Topic, func(ctx context.Context) error { return c.Letters.Write(ctx, dead) }); err != nil {
			return err
		}
	}
	for n, list := range rows {
		if len(list) == 0 {
			continue
		}
		err := sink.Retry(ctx, c.Log, "copying "+c.Table.Topic, func(ctx context.Context) error { return c.insert(ctx, c.Table.Inserts[n], list) })
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Copier) insert(ctx context.Context, statement string, rows [][]any) error {
	batch, err := c.ClickHouse.PrepareBatch(chx.SyncInsert(ctx), statement)
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
