package state

import (
	"sync"
	"sync/atomic"
	"time"
)

// KeyID names one credential of a provider in one region. Secret is a keyed hash of the credential,
// so that a removed key is back as soon as it changes.
type KeyID struct{ Provider, Region, Secret string }

// Keys holds the health of every credential the node has used, exactly: nothing here is ever
// dropped to save room. All methods may be called concurrently.
type Keys struct {
	publish func(id KeyID, c Cooldown) // called without locks; nil: nobody listens

	mu      sync.RWMutex
	slots   map[KeyID]*Key
	removed map[[2]string]*atomic.Bool // provider and secret: a bad key is bad in every region
	foreign map[KeyID]Cooldown         // heard of before the key was first used here
}

// Cooldown is what is known of a key that must not be used.
type Cooldown struct {
	Cause  Cause
	Until  time.Time     // zero for CauseInvalidKey
	Length time.Duration // how long it was meant to last
}

// NewKeys returns an empty table; publish is told of each cooldown this node imposes.
func NewKeys(publish func(KeyID, Cooldown)) *Keys {
	return &Keys{publish: publish, slots: map[KeyID]*Key{}, removed: map[[2]string]*atomic.Bool{}, foreign: map[KeyID]Cooldown{}}
}

// Key is one credential in one region: its health and how many attempts are under way on it.
type Key struct {
	id      KeyID
	owner   *Keys
	removed *atomic.Bool
	// gate is false while the key is plainly healthy, which spares the hot path the lock.
	gate     atomic.Bool
	inFlight atomic.Int64

	mu     sync.Mutex
	health Health
}

// Get returns the key with this id, always the same one; base and max bound its cooldowns.
func (k *Keys) Get(id KeyID, base, maximum time.Duration) *Key {
	k.mu.RLock()
	key := k.slots[id]
	k.mu.RUnlock()
	if key == nil {
		key = k.create(id)
	}
	key.mu.Lock()
	key.health.Base, key.health.Max = base, maximum
	key.mu.Unlock()
	return key
}

func (k *Keys) create(id KeyID) *Key {
	k.mu.Lock()
	defer k.mu.Unlock()
	if key := k.slots[id]; key != nil {
		return key
	}
	key := &Key{id: id, owner: k, removed: k.flag(id)}
	if c, ok := k.foreign[id]; ok {
		delete(k.foreign, id)
		// Since zero time: an ended cooldown leaves the key due, which is what every node does after one.
		key.health.Impose(time.Time{}, c.Cause, c.Until, c.Length)
		key.gate.Store(true)
	}
	k.slots[id] = key
	return key
}

// flag returns the mark that all regions of a credential share; k.mu is held.
func (k *Keys) flag(id KeyID) *atomic.Bool {
	name := [2]string{id.Provider, id.Secret}
	if k.removed[name] == nil {
		k.removed[name] = new(atomic.Bool)
	}
	return k.removed[name]
}

// Impose takes over a cooldown that another node published.
func (k *Keys) Impose(now time.Time, id KeyID, c Cooldown) {
	k.mu.Lock()
	if c.Cause == CauseInvalidKey {
		k.flag(id).Store(true)
		k.mu.Unlock()
		return
	}
	key := k.slots[id]
	if key == nil {
		if c.Until.After(now) {
			k.foreign[id] = c
		}
		k.mu.Unlock()
		return
	}
	k.mu.Unlock()
	key.mu.Lock()
	defer key.mu.Unlock()
	key.health.Impose(now, c.Cause, c.Until, c.Length)
	key.gate.Store(key.health.cooled)
}

// Lift takes back whatever was published of a key.
func (k *Keys) Lift(id KeyID) {
	k.mu.Lock()
	delete(k.foreign, id)
	k.flag(id).Store(false)
	key := k.slots[id]
	k.mu.Unlock()
	if key == nil {
		return
	}
	key.mu.Lock()
	defer key.mu.Unlock()
	key.health.Lift()
	key.gate.Store(false)
}

// ID returns what the key is.
func (k *Key) ID() KeyID { return k.id }

// InFlight is how many attempts are under way on the key.
func (k *Key) InFlight() int64 { return k.inFlight.Load() }

// Phase returns what the key may be used for at now.
func (k *Key) Phase(now time.Time) Phase {
	if k.removed.Load() {
		return Removed
	}
	if !k.gate.Load() {
		return Ready
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.health.Phase(now)
}

// Cooldown returns what holds the key back; the zero value if nothing does.
func (k *Key) Cooldown() Cooldown {
	if k.removed.Load() {
		return Cooldown{Cause: CauseInvalidKey}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	cause, until := k.health.Cooldown()
	return Cooldown{Cause: cause, Until: until, Length: k.health.Length()}
}

func (k *Key) shaky() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.health.Shaky()
}

// Use is one attempt on a key: begun by Begin, ended exactly once by End.
type Use struct {
	key *Key
	// Probe: this attempt decides whether the key's cooldown is over.
	Probe  bool
	forced bool
}

// Begin starts an attempt. It fails if the key may not be used, unless force is set: the last
// resort of routing.md 1, whose success counts like a probe's.
func (k *Key) Begin(now time.Time, force bool) (Use, bool) {
	if k.removed.Load() {
		return Use{}, false
	}
	probe, forced := false, false
	if k.gate.Load() {
		k.mu.Lock()
		phase := k.health.Phase(now)
		if !phase.Usable() && !force {
			k.mu.Unlock()
			return Use{}, false
		}
		probe, forced = k.health.Begin(now), !phase.Usable()
		k.mu.Unlock()
	}
	k.inFlight.Add(1)
	return Use{key: k, Probe: probe, forced: forced}, true
}

// End reports what the attempt said about the key; retryAfter is what a 429 asked for.
func (u Use) End(now time.Time, r Result, retryAfter time.Duration) {
	k := u.key
	k.inFlight.Add(-1)
	k.mu.Lock()
	changed := k.health.End(now, r, retryAfter, u.Probe, u.forced)
	k.gate.Store(k.health.cooled)
	cause, until := k.health.Cooldown()
	c := Cooldown{Cause: cause, Until: until, Length: k.health.Length()}
	k.mu.Unlock()
	if r == InvalidKey && k.removed.CompareAndSwap(false, true) {
		changed, c = true, Cooldown{Cause: CauseInvalidKey}
	}
	if changed && k.owner.publish != nil {
		k.owner.publish(k.id, c)
	}
}

// Pick returns the index of the key a request should use, or -1 if none is usable: one that is due
// first (its probe), then by health, then the one with the fewest attempts under way, the earliest
// after turn among equals. skip may rule keys out.
func Pick(keys []*Key, now time.Time, turn uint64, skip func(i int) bool) int {
	best, bestRank, bestLoad := -1, 0, int64(0)
	for n := range keys {
		i := n
		if len(keys) > 1 {
			i = int((turn + uint64(n)) % uint64(len(keys)))
		}
		if skip != nil && skip(i) {
			continue
		}
		k := keys[i]
		phase := k.Phase(now)
		if !phase.Usable() {
			continue
		}
		rank := 0
		if phase == Ready {
			rank = 1
			if len(keys) > 1 && k.shaky() {
				rank = 2
			}
		}
		load := k.inFlight.Load()
		if best < 0 || rank < bestRank || (rank == bestRank && load < bestLoad) {
			best, bestRank, bestLoad = i, rank, load
		}
	}
	return best
}

// Listed is one key as /admin/v1/health shows it.
type Listed struct {
	ID       KeyID
	Phase    Phase
	Cooldown Cooldown
	InFlight int64
}

// List returns every key the node knows, in no order.
func (k *Keys) List(now time.Time) []Listed {
	k.mu.RLock()
	defer k.mu.RUnlock()
	out := make([]Listed, 0, len(k.slots))
	for id, key := range k.slots {
		out = append(out, Listed{ID: id, Phase: key.Phase(now), Cooldown: key.Cooldown(), InFlight: key.InFlight()})
	}
	return out
}
