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

// usageProjects is how many projects are asked for in one query at most.
const usageProjects = 2000

const selectUsage = `SELECT project_id, model, provider, sum(successes), sum(input_tokens), sum(cached_input_tokens), sum(output_tokens)
FROM usage_hourly WHERE has(?, project_id) AND hour >= now() - INTERVAL 24 HOUR GROUP BY project_id, model, provider`

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

// askUsage asks for the projects that are due, together, until ctx ends.
func (p *Poller) askUsage(ctx context.Context) {
	tick := time.NewTicker(5 * time.Second)
	defer tick.Stop()
	for {
		for due := p.dueUsage(); len(due) > 0 && ctx.Err() == nil; due = p.dueUsage() {
			known, err := p.ReadUsage(ctx, due)
			if err != nil { // the last known stays, else the workload's defaults
				p.log.Debug("asking for usage failed", "projects", len(due), "error", err)
			}
			for _, project := range due {
				if v, ok := p.usage.projects.Load(project); ok && err == nil {
					models := known[project]
					v.(*projectUsage).known.Store(&models)
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-p.usage.kick:
		}
	}
}

// dueUsage lists the projects whose usage is to be asked for now, and takes them for asked.
func (p *Poller) dueUsage() []string {
	var due []string
	now := p.clock().UnixNano()
	p.usage.projects.Range(func(project, v any) bool {
		u := v.(*projectUsage)
		if asked := u.asked.Load(); asked == 0 || now-asked >= int64(usageEvery) && u.used.Load() >= asked {
			u.asked.Store(now)
			due = append(due, project.(string))
		}
		return len(due) < usageProjects
	})
	return due
}

// ReadUsage asks for what projects used of each model in the last 24 hours: by project and model. A
// project without usage is not in it.
func (p *Poller) ReadUsage(ctx context.Context, projects []string) (map[string]map[string]*Usage, error) {
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	rows, err := p.conn.Query(ctx, selectUsage, projects)
	if err != nil {
		return nil, fmt.Errorf("reading usage of %d projects: %w", len(projects), err)
	}
	defer rows.Close()
	known := map[string]map[string]*Usage{}
	for rows.Next() {
		var project, model, provider string
		var o routing.Observed
		if err := rows.Scan(&project, &model, &provider, &o.Successes, &o.InputTokens, &o.CachedInputTokens, &o.OutputTokens); err != nil {
			return nil, fmt.Errorf("reading usage of %d projects: %w", len(projects), err)
		}
		if known[project] == nil {
			known[project] = map[string]*Usage{}
		}
		u := known[project][model]
		if u == nil {
			u = &Usage{ByProvider: map[string]routing.Observed{}}
			known[project][model] = u
		}
		u.ByProvider[provider] = o
		u.Combined.Successes += o.Successes
		u.Combined.InputTokens += o.InputTokens
		u.Combined.CachedInputTokens += min(o.CachedInputTokens, o.InputTokens)
		u.Combined.OutputTokens += o.OutputTokens
	}
	return known, rows.Err()
}
