package sink

import (
	"context"
	"fmt"
	"time"

	"turnout/internal/chx"
	"turnout/processor/internal/deadletter"
)

// row is one attempt to be stored.
type row struct {
	chunk *Chunk
	index int // into its Records and Sources
}

// storeRaw inserts the records of all chunks. Those that the server refuses for what is in them are
// taken out of their chunks and returned.
func (s *Sink) storeRaw(ctx context.Context, chunks []*Chunk) ([]deadletter.Letter, error) {
	var rows []row
	for _, c := range chunks {
		for i := range c.Records {
			rows = append(rows, row{c, i})
		}
	}
	if len(rows) == 0 {
		return nil, nil
	}
	var letters []deadletter.Letter
	refused := map[row]bool{}
	err := s.insertHalving(ctx, rows, func(r row, cause error) {
		refused[r] = true
		letters = append(letters, deadletter.Letter{Source: *r.chunk.Sources[r.index], Cause: cause.Error()})
	})
	if err != nil || len(refused) == 0 {
		return nil, err
	}
	for _, c := range chunks {
		kept := 0
		for i := range c.Records {
			if !refused[row{c, i}] {
				c.Records[kept], c.Sources[kept] = c.Records[i], c.Sources[i]
				kept++
			}
		}
		c.Records, c.Sources = c.Records[:kept], c.Sources[:kept]
	}
	return letters, nil
}

// insertHalving inserts rows, trying on while the server is unavailable. Rows that are refused are
// halved until the one at fault stands alone.
func (s *Sink) insertHalving(ctx context.Context, rows []row, refuse func(row, error)) error {
	var cause error
	err := s.retry(ctx, "attempts", func(ctx context.Context) error {
		err := s.insertRaw(ctx, rows)
		if chx.IsRefused(err) {
			cause = err
			return nil
		}
		return err
	})
	if err != nil || cause == nil {
		return err
	}
	if len(rows) == 1 {
		refuse(rows[0], cause)
		return nil
	}
	s.metrics.halvings.Inc()
	half := len(rows) / 2
	if err := s.insertHalving(ctx, rows[:half], refuse); err != nil {
		return err
	}
	return s.insertHalving(ctx, rows[half:], refuse)
}

func (s *Sink) insertRaw(ctx context.Context, rows []row) error {
	defer s.metrics.timed("attempts", time.Now())
	s.columns.reset()
	for _, r := range rows {
		record := &r.chunk.Records[r.index]
		s.columns.add(record.Event, record.Considered, r.chunk.Partition, record.Offset)
	}
	batch, err := s.conn.PrepareBatch(chx.SyncInsert(ctx), insertAttempts)
	if err != nil {
		return fmt.Errorf("beginning an insert of %d attempts: %w", len(rows), err)
	}
	defer batch.Close()
	if err := s.columns.send(batch); err != nil {
		return fmt.Errorf("preparing an insert of %d attempts: %w", len(rows), err)
	}
	if err := batch.Send(); err != nil {
		return fmt.Errorf("inserting %d attempts: %w", len(rows), err)
	}
	return nil
}
