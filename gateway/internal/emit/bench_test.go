package emit

import (
	"context"
	"testing"

	"turnout/internal/kafkax"
)

// sink acknowledges everything.
type sink struct{}

func (sink) Write(_ context.Context, records []kafkax.Record) ([]kafkax.Ack, error) {
	return make([]kafkax.Ack, len(records)), nil
}

func BenchmarkStartFinish(b *testing.B) {
	for _, fsync := range []string{FsyncNever, FsyncInterval, FsyncAlways} {
		for _, c := range []struct {
			name       string
			considered int
		}{{"none", 0}, {"ten", 10}} {
			for _, many := range []bool{false, true} {
				name := "fsync=" + fsync + "/considered=" + c.name
				if many {
					name += "/parallel"
				}
				b.Run(name, func(b *testing.B) {
					cfg := config(b)
					cfg.Fsync = fsync
					l := openWith(b, cfg, sink{})
					e := event(c.considered)
					end := ended(e)
					one := func() {
						ticket, err := l.Start(e)
						if err != nil {
							b.Fatal(err)
						}
						l.Finish(ticket, end)
					}
					b.ReportAllocs()
					if !many {
						for b.Loop() {
							one()
						}
						return
					}
					b.SetParallelism(64)
					b.RunParallel(func(pb *testing.PB) {
						for pb.Next() {
							one()
						}
					})
				})
			}
		}
	}
}
