package poll

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"turnout/gateway/routing"
)

// usageEvery is how often a project's usage is asked for while it is used.
const usageEvery = 60 * time.Second

const selectUsage = `SELECT model, provider, sum(successes), sum(input_tokens), sum(cached_input_tokens), sum(output_tokens)
FROM usage_hourly WHERE project_id = ? AND hour >= now() - INTERVAL 24 HOUR GROUP BY model, provider`

// Usage is what a project used of a model in the last 24 hours.
type Usage struct {
	Combined   routing.Observed
	ByProvider map[string]routing.Observed // all regions of a provider together
}

type usages struct {
	projects sync.Map // id -> *projectUsage
	kick     chan struct{}
}

// projectUsage is what was last learned of a project. Times are of the node's clock, in ns.
type projectUsage struct {
	known atomic.Pointer[map[string]*Usage] // by model
	used  atomic.Int64
	asked atomic.Int64
}

// Usage returns what is known of a project's use of a model; nil if nothing is. The first call for a
// project starts the asking; it does not wait for the answer.
func (p *Poller) Usage(project, model string) *Usage {
	v, ok := p.usage.projects.Load(project)
	if !ok {
		var loaded bool
		if v, loaded = p.usage.projects.LoadOrStore(project, new(projectUsage)); !loaded {
			select {
			case p.usage.kick <- struct{}{}:
			default:
			}
		}
	}
	u := v.(*projectUsage)
	u.used.Store(p.clock().UnixNano())
	if known := u.known.Load(); known != nil {
		return (*known)[model]
	}
	return nil
}

func (p *Poller) askUsage(ctx context.Context) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		p.usage.projects.Range(func(id, v any) bool {
			u, now := v.(*projectUsage), p.clock().UnixNano()
			if asked := u.asked.Load(); asked != 0 && (now-asked < int64(usageEvery) || u.used.Load() < asked) {
				return ctx.Err() == nil
			}
			u.asked.Store(now)
			known, err := p.ReadUsage(ctx, id.(string))
			if err != nil {
				// The last known stays, else the workload's defaults.
				p.log.Debug("asking for usage failed", "project", id, "error", err)
				return ctx.Err() == nil
			}
			u.known.Store(&known)
			return ctx.Err() == nil
		})
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-p.usage.kick:
		}
	}
}

// ReadUsage asks for what a project used of each model in the last 24 hours.
func (p *Poller) ReadUsage(ctx context.Context, project string) (map[string]*Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := p.conn.Query(ctx, selectUsage, project)
	if err != nil {
		return nil, fmt.Errorf("reading usage of %s: %w", project, err)
	}
	defer rows.Close()
	known := map[string]*Usage{}
	for rows.Next() {
		var model, provider string
		var o routing.Observed
		if err := rows.Scan(&model, &provider, &o.Successes, &o.InputTokens, &o.CachedInputTokens, &o.OutputTokens); err != nil {
			return nil, fmt.Errorf("reading usage of %s: %w", project, err)
		}
		u := known[model]
		if u == nil {
			u = &Usage{ByProvider: map[string]routing.Observed{}}
			known[model] = u
		}
		u.ByProvider[provider] = o
		u.Combined.Successes += o.Successes
		u.Combined.InputTokens += o.InputTokens
		u.Combined.CachedInputTokens += min(o.CachedInputTokens, o.InputTokens)
		u.Combined.OutputTokens += o.OutputTokens
	}
	return known, rows.Err()
}
