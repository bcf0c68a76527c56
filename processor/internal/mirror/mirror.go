// Package mirror copies topics that are not folded into tables: refusals and configuration. Rows are
// named by their place in the log and what stands there, so copying again changes nothing, and where
// to go on is read from the table itself.
package mirror

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
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
	// Split: rows of one batch may stand in several partitions of the table, and a crash may leave some
	// of them, so the last batch is copied again.
	Split bool
	// Inserts are the statements that a batch may need; Rows returns the values of one record for each,
	// nil for none. An error puts the record among the dead letters.
	Inserts []string
	Rows    func(r *kafkax.Record) ([][]any, error)
}

// Metrics count what became of records, over all topics of a process.
type Metrics struct{ copied *telemetry.CounterVec }

// NewMetrics registers them.
func NewMetrics(m *telemetry.Metrics) *Metrics {
	return &Metrics{copied: m.CounterVec("turnout_processor_copied_total", "Records of refusals and configuration by what became of them: stored, dead (a dead letter).", "topic", "fate")}
}

// Copier copies topics. Run may be called for several partitions at once.
type Copier struct {
	Kafka      *kafkax.Client
	ClickHouse *chx.Conn
	Letters    Letters
	Log        *slog.Logger
	Metrics    *Metrics
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

// resume returns where copying goes on: behind the last stored record, if the log holds it. If it holds
// another one there or none, because the topic was made anew or compacted, copying begins again, which
// is harmless.
func (c *Copier) resume(ctx context.Context, p int) (int64, error) {
	first, end, err := c.Kafka.Bounds(ctx, c.Table.Topic, p)
	if err != nil {
		return 0, err
	}
	var rows uint64
	var last int64
	var hashes []uint64 // of what is stored of that place, in whichever log
	query := fmt.Sprintf("SELECT count(), max(kafka_offset), groupUniqArrayIf(record_hash, kafka_offset = (SELECT max(kafka_offset) FROM %s WHERE kafka_partition = %d)) FROM %[1]s WHERE kafka_partition = %[2]d", c.Table.Name, p)
	if err := c.ClickHouse.QueryRow(ctx, query).Scan(&rows, &last, &hashes); err != nil {
		return 0, fmt.Errorf("reading the place in %s: %w", c.Table.Name, err)
	}
	if rows == 0 {
		return first, nil
	}
	if last+1 < first {
		c.Log.Warn("records expired before they were copied", "topic", c.Table.Topic, "partition", p, "first_missing", last+1, "last_missing", first-1)
	}
	if last < first {
		return first, nil
	}
	same, err := c.holds(ctx, p, last, end, hashes)
	if err != nil {
		return 0, err
	}
	if !same {
		c.Log.Info("copying from the beginning: the log holds another record at the stored place", "topic", c.Table.Topic, "partition", p, "offset", last, "log_end", end)
		return first, nil
	}
	if c.Table.Split {
		return max(first, last+1-limit), nil
	}
	return last + 1, nil
}

// holds says whether the record at an offset is one of those.
func (c *Copier) holds(ctx context.Context, p int, offset, end int64, hashes []uint64) (bool, error) {
	if offset >= end {
		return false, nil
	}
	fetcher := c.Kafka.NewFetcher(c.Table.Topic, p, offset)
	defer fetcher.Close()
	for {
		records, err := fetcher.Fetch(ctx, 1)
		if err != nil {
			return false, err
		}
		if len(records) > 0 {
			return records[0].Offset == offset && slices.Contains(hashes, deadletter.Hash(&records[0])), nil
		}
	}
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

// copied is a record and the values it makes for each insert.
type copied struct {
	record *kafkax.Record
	values [][]any
}

// store copies records. Those that cannot be read, and those whose rows the server refuses for what is
// in them, become dead letters; the letters are written before the rows that say how far it was copied.
func (c *Copier) store(ctx context.Context, records []kafkax.Record) error {
	var good []copied
	var dead []deadletter.Letter
	for i := range records {
		values, err := c.Table.Rows(&records[i])
		if err != nil {
			dead = append(dead, deadletter.Letter{Source: records[i], Cause: err.Error()})
			continue
		}
		good = append(good, copied{&records[i], values})
	}
	if err := c.bury(ctx, dead); err != nil {
		return err
	}
	return c.insertHalving(ctx, good)
}

// bury puts records aside.
func (c *Copier) bury(ctx context.Context, dead []deadletter.Letter) error {
	if len(dead) == 0 {
		return nil
	}
	c.Log.Warn("records are put among the dead letters", "topic", c.Table.Topic, "records", len(dead), "partition", dead[0].Source.Partition, "first_offset", dead[0].Source.Offset, "first_cause", dead[0].Cause)
	err := sink.Retry(ctx, c.Log, "dead letters of "+c.Table.Topic, func(ctx context.Context) error { return c.Letters.Write(ctx, dead) })
	if err == nil {
		c.Metrics.copied.WithLabelValues(c.Table.Topic, "dead").Add(float64(len(dead)))
	}
	return err
}

// insertHalving inserts the rows of records, in order, trying on while the server is unavailable. A
// batch that is refused is halved until the record at fault stands alone.
func (c *Copier) insertHalving(ctx context.Context, list []copied) error {
	if len(list) == 0 {
		return nil
	}
	var refused error
	err := sink.Retry(ctx, c.Log, "copying "+c.Table.Topic, func(ctx context.Context) error {
		err := c.insert(ctx, list)
		if chx.IsRefused(err) {
			refused = err
			return nil
		}
		return err
	})
	switch {
	case err != nil:
		return err
	case refused == nil:
		c.Metrics.copied.WithLabelValues(c.Table.Topic, "stored").Add(float64(len(list)))
		return nil
	case len(list) == 1:
		return c.bury(ctx, []deadletter.Letter{{Source: *list[0].record, Cause: refused.Error()}})
	}
	half := len(list) / 2
	if err := c.insertHalving(ctx, list[:half]); err != nil {
		return err
	}
	return c.insertHalving(ctx, list[half:])
}

// insert inserts the rows of records into every table that they are for.
func (c *Copier) insert(ctx context.Context, list []copied) error {
	for n, statement := range c.Table.Inserts {
		var rows [][]any
		for _, one := range list {
			if row := one.values[n]; row != nil {
				rows = append(rows, row)
			}
		}
		if len(rows) == 0 {
			continue
		}
		if err := c.send(ctx, statement, rows); err != nil {
			return fmt.Errorf("copying %d records into a table: %w", len(list), err)
		}
	}
	return nil
}

func (c *Copier) send(ctx context.Context, statement string, rows [][]any) error {
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
