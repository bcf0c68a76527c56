package sim

import (
	"sync"
	"time"
)

// prefixCache remembers prompt blocks, least recently used out first. Its nodes are a slice linked
// by index, which keeps a million blocks cheap to hold.
type prefixCache struct {
	mu    sync.Mutex
	limit int
	ttl   time.Duration
	index map[uint64]int32
	nodes []cacheNode // nodes[0] is the ring's anchor: next is the newest, prev the oldest
}

type cacheNode struct {
	hash       uint64
	used       int64 // Unix nanoseconds
	prev, next int32
}

func newPrefixCache(c Cache) *prefixCache {
	return &prefixCache{
		limit: int(c.CapacityTokens / int64(c.BlockTokens)),
		ttl:   time.Duration(c.TTLSeconds * float64(time.Second)),
		index: map[uint64]int32{},
		nodes: make([]cacheNode, 1),
	}
}

// use returns how many blocks from the front are held and not too old, and holds all of them from
// now on: the front ones are the last to leave.
func (c *prefixCache) use(blocks []uint64, now time.Time) (hits int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := now.UnixNano()
	for ; hits < len(blocks); hits++ {
		i, ok := c.index[blocks[hits]]
		if !ok || c.ttl > 0 && at-c.nodes[i].used > int64(c.ttl) {
			break
		}
	}
	for k := min(len(blocks), c.limit) - 1; k >= 0; k-- {
		c.touch(blocks[k], at)
	}
	return hits
}

func (c *prefixCache) size() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.index)
}

func (c *prefixCache) touch(hash uint64, at int64) {
	i, ok := c.index[hash]
	switch {
	case ok:
		c.unlink(i)
	case len(c.index) < c.limit:
		i = int32(len(c.nodes))
		c.nodes = append(c.nodes, cacheNode{})
	default:
		i = c.nodes[0].prev
		c.unlink(i)
		delete(c.index, c.nodes[i].hash)
	}
	c.index[hash] = i
	first := c.nodes[0].next
	c.nodes[i] = cacheNode{hash: hash, used: at, prev: 0, next: first}
	c.nodes[first].prev = i
	c.nodes[0].next = i
}

func (c *prefixCache) unlink(i int32) {
	n := c.nodes[i]
	c.nodes[n.prev].next = n.next
	c.nodes[n.next].prev = n.prev
}
