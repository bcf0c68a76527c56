package sink

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/testkit/chtest"
	"turnout/processor/internal/partition"
	"turnout/schemas/attempt"
)

// A server sorts what does not come sorted and says nothing, at a fifth more of its CPU: a change
// of the table's key would bring that back without any test failing but this one.
func TestTheServerFindsRowsSorted(t *testing.T) {
	_, conn := chtest.Migrated(t)
	s := New(Config{}, conn, conn, nil, nil, nil, time.Now, nil)
	const rows = 1000
	rng, now := rand.New(rand.NewPCG(1, 2)), time.Now().Truncate(time.Hour)
	var chunks []*Chunk
	for p := range 3 {
		c := &Chunk{Partition: p, State: partition.New()}
		for i := range rows {
			e := &attempt.Event{SchemaVersion: 1, EventID: fmt.Sprintf("%d-%d", rng.IntN(1000), i), ProjectID: fmt.Sprintf("project-%d", rng.IntN(3)), StartedAt: now.Add(time.Duration(rng.IntN(100)) * time.Microsecond)}
			c.Records, c.Sources = append(c.Records, partition.Record{Event: e, Offset: int64(i)}), append(c.Sources, &kafkax.Record{})
		}
		chunks = append(chunks, c)
	}
	batch := s.prepare(t.Context(), chunks)
	if batch.insert == nil {
		t.Fatal("nothing was prepared")
	}
	if err := batch.insert.Send(); err != nil {
		t.Fatal(err)
	}
	batch.abort()
	if err := conn.Exec(t.Context(), "SYSTEM FLUSH LOGS"); err != nil {
		t.Fatal(err)
	}
	var blocks, sorted uint64
	if err := conn.QueryRow(t.Context(), "SELECT sum(ProfileEvents['MergeTreeDataWriterBlocks']), sum(ProfileEvents['MergeTreeDataWriterBlocksAlreadySorted']) FROM system.query_log "+
		"WHERE type = 'QueryFinish' AND query_kind = 'Insert' AND current_database = currentDatabase() AND written_rows = ?", 3*rows).Scan(&blocks, &sorted); err != nil {
		t.Fatal(err)
	}
	if blocks == 0 || sorted != blocks {
		t.Errorf("%d of %d blocks came sorted", sorted, blocks)
	}
	var stored uint64
	if err := conn.QueryRow(t.Context(), "SELECT countDistinct(event_id, kafka_partition, kafka_offset) FROM attempts").Scan(&stored); err != nil || stored != 3*rows {
		t.Errorf("%d rows, %v", stored, err)
	}
}
