package topics

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"

	"turnout/internal/kafkax"
)

// list prints every topic as the settings want it beside what Kafka has. Where Kafka cannot be asked
// the wanted ones are printed all the same, and the error says so.
func list(ctx context.Context, client *kafkax.Client, cfg Config, out io.Writer) error {
	specs := cfg.Specs()
	found, asking := client.CompareTopics(ctx, specs)
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "topic\tpartitions\tcleanup\tretention\tin Kafka")
	for i, s := range specs {
		cleanup, retention := "delete", s.Retention.String()
		switch {
		case s.Retention < 0:
			cleanup, retention = "compact", "for ever"
		case s.Compact:
			cleanup = "compact,delete"
		}
		there := "unknown"
		if asking == nil {
			there = inWords(found[i], s.Partitions)
		}
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%s\n", s.Name, s.Partitions, cleanup, retention, there)
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("printing topics: %w", err)
	}
	if asking != nil {
		return fmt.Errorf("these are the topics as wanted; what is there could not be asked: %w", asking)
	}
	return nil
}

func inWords(found kafkax.Found, wanted int) string {
	if found.Partitions == 0 {
		return "missing"
	}
	var differs []string
	if found.Partitions != wanted {
		differs = append(differs, fmt.Sprintf("%d partitions, not %d", found.Partitions, wanted))
	}
	differs = append(differs, found.Differs...)
	if found.Unseen {
		differs = append(differs, "its settings may not be asked for")
	}
	if len(differs) == 0 {
		return "as wanted"
	}
	return strings.Join(differs, "; ")
}
