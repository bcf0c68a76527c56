package emit

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"

	"turnout/internal/kafkax"
	"turnout/internal/telemetry"
	"turnout/schemas/topic"
)

// Report says what was found in directories of dead processes.
type Report struct {
	Directories int
	Sent        int   // finished attempts and refusals Kafka had not acknowledged
	Interrupted int   // starts without an end
	Locked      int   // directories left alone: their process runs
	TornBytes   int64 // that could not be read, cut off where they were the tail
	Corrupt     int   // places where that was so
	// Directories that were left: those of another version untouched, those with files that are not
	// ours after all of ours was sent.
	OtherVersion, NotEmpty int
}

// ShipDir sends what dead processes left in dir: a spool directory as Config.Dir names it, or one
// process's part of it. It waits for Kafka until ctx ends.
func ShipDir(ctx context.Context, dir string, client *kafkax.Client, log *slog.Logger, m *telemetry.Metrics) (Report, error) {
	return shipDir(ctx, dir, newSender(client.NewWriter(topic.Attempts), client.NewWriter(topic.Requests), log, newMetrics(m)))
}

func shipDir(ctx context.Context, dir string, s *sender) (Report, error) {
	parts := []string{dir}
	if indexes, err := segmentIndexes(dir); err != nil {
		return Report{}, err
	} else if len(indexes) == 0 {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return Report{}, fmt.Errorf("listing the spool: %w", err)
		}
		parts = parts[:0]
		for _, entry := range entries {
			if isPart(entry) {
				parts = append(parts, filepath.Join(dir, entry.Name()))
			}
		}
	}
	var total Report
	for _, part := range parts {
		d, err := lockDirectory(part)
		if errors.Is(err, errLocked) {
			total.Locked++
			continue
		}
		if errors.Is(err, os.ErrNotExist) { // a gateway has just adopted, shipped and removed it
			continue
		}
		if err != nil {
			return total, err
		}
		report, err := shipDirectory(ctx, d, s)
		total.add(report)
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

func (r *Report) add(o Report) {
	r.Directories += o.Directories
	r.Sent += o.Sent
	r.Interrupted += o.Interrupted
	r.TornBytes += o.TornBytes
	r.Corrupt += o.Corrupt
	r.OtherVersion += o.OtherVersion
	r.NotEmpty += o.NotEmpty
}
