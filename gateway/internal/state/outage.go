package state

import (
	"log/slog"
	"time"
)

// remind is how often an outage that goes on is said again.
const remind = time.Minute

// outage says that something fails when it begins, then once a minute for how long, and when it is over.
type outage struct {
	what        string
	log         *slog.Logger
	since, said time.Time
}

func (o *outage) failed(now time.Time, err error) {
	switch {
	case o.since.IsZero():
		o.since, o.said = now, now
		o.log.Warn(o.what+" failed, trying on", "error", err)
	case now.Sub(o.said) >= remind:
		o.said = now
		o.log.Warn(o.what+" still fails, trying on", "error", err, "for", now.Sub(o.since).Round(time.Second).String())
	}
}

func (o *outage) over(now time.Time) {
	if o.since.IsZero() {
		return
	}
	o.log.Info(o.what+" works again", "after", now.Sub(o.since).Round(time.Second).String())
	o.since = time.Time{}
}
