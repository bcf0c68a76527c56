package publish

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"turnout/internal/kafkax"
	"turnout/schemas/snapshot"
	"turnout/schemas/topic"
)

// Profiles are those that gateways ask for in the state topic. Safe for concurrent use.
type Profiles struct {
	mu    sync.Mutex
	asked map[string]asked
	log   *slog.Logger
	full  bool

	once  sync.Once
	known chan struct{} // closed when the topic was read once
}

type asked struct {
	profile snapshot.Profile
	expires time.Time // zero: never
	order   int64     // of its first record
}

// NewProfiles returns those of a state topic that is still to be followed: the default one.
func NewProfiles(log *slog.Logger) *Profiles {
	return &Profiles{asked: map[string]asked{}, log: log, known: make(chan struct{})}
}

// Await returns when the topic was read once, or after patience: a snapshot without the profiles that
// projects use would leave these with nothing, but none at all is worse.
func (p *Profiles) Await(ctx context.Context, patience time.Duration) {
	select {
	case <-p.known:
	case <-ctx.Done():
	case <-time.After(patience):
		p.log.Warn("snapshots are published although the state topic was not read yet")
	}
}

// Live returns the profiles to publish at now: the default one and, first come first served, as many
// others as there may be.
func (p *Profiles) Live(now time.Time) []snapshot.Profile {
	p.mu.Lock()
	defer p.mu.Unlock()
	var live []asked
	for id, a := range p.asked {
		if !a.expires.IsZero() && !now.Before(a.expires) {
			delete(p.asked, id)
			continue
		}
		live = append(live, a)
	}
	slices.SortFunc(live, func(a, b asked) int { return cmp.Compare(a.order, b.order) })
	out := []snapshot.Profile{snapshot.DefaultProfile()}
	for _, a := range live {
		if len(out) < snapshot.MaxProfiles {
			out = append(out, a.profile)
		}
	}
	if full := len(live) >= snapshot.MaxProfiles; full != p.full {
		if p.full = full; full {
			p.log.Warn("more metrics profiles are asked for than are published", "asked", len(live)+1, "published", snapshot.MaxProfiles)
		}
	}
	return out
}

// apply takes one record; the last of a key wins.
func (p *Profiles) apply(r kafkax.Record) {
	profile, expires, withdrawn, ok, err := snapshot.DecodeProfile(r.Key, r.Value)
	switch {
	case !ok:
		return
	case err != nil:
		p.log.Warn("a profile in the state topic is passed over", "offset", r.Offset, "error", err)
		return
	case profile.ID == snapshot.DefaultProfile().ID:
		return // always there
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if withdrawn {
		delete(p.asked, profile.ID)
		return
	}
	order := r.Offset
	if have, ok := p.asked[profile.ID]; ok {
		order = have.order
	}
	p.asked[profile.ID] = asked{profile: profile, expires: expires, order: order}
}

// Follow reads the state topic from its beginning until ctx ends.
func (p *Profiles) Follow(ctx context.Context, kafka *kafkax.Client) {
	const pause = time.Second
	complained := ""
	for ctx.Err() == nil {
		err := p.read(ctx, kafka)
		if ctx.Err() != nil {
			return
		}
		if err != nil && !errors.Is(err, kafkax.ErrOffsetOutOfRange) && complained != err.Error() {
			complained = err.Error()
			p.log.Warn("the state topic cannot be read, trying on", "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
}

func (p *Profiles) read(ctx context.Context, kafka *kafkax.Client) error {
	first, end, err := kafka.Bounds(ctx, topic.State, 0)
	if err != nil {
		return err
	}
	next := first
	fetcher := kafka.NewFetcher(topic.State, 0, first)
	defer fetcher.Close()
	for {
		if next >= end {
			p.once.Do(func() { close(p.known) })
		}
		records, err := fetcher.Fetch(ctx, 1000)
		if err != nil {
			return err
		}
		if len(records) == 0 { // what is left was compacted away
			next = end
		}
		for _, r := range records {
			p.apply(r)
			next = r.Offset + 1
		}
	}
}
