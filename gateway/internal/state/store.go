package state

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dgraph-io/ristretto/v2"
	"github.com/google/uuid"
)

const (
	maxPlaces     = 1 << 18 // pins and preferences a node remembers
	maxPending    = 1 << 17 // records that wait for Kafka; beyond that pins stay local
	fingerprintID = "fingerprint"
	// A fingerprint is written again long before the topic's retention ends it.
	fingerprintRenewal = 6 * time.Hour
)

// Place is where requests are sent: what pins and preferences remember.
type Place struct {
	Provider, Region string
	Model            string // set for a pin of the model auto
}

type held struct {
	place   Place
	expires time.Time
}

// Config of a Store. All fields are needed.
type Config struct {
	NodeID  string
	HashKey []byte           // shared by all nodes
	Now     func() time.Time // corrected by the offset of the node's clock
	Log     *slog.Logger
}

// Store is the shared state as this node knows it. Its methods never block on Kafka and may be
// called concurrently; Run carries records in and out.
type Store struct {
	cfg    Config
	start  string // tells this process's records from those of an earlier one
	keys   *Keys
	places *ristretto.Cache[string, held]

	placing sync.Mutex // one place is stored at a time

	mu       sync.Mutex
	seq      uint64
	pending  map[string]*pending
	queue    []string // keys of pending that were not handed to Kafka yet
	kick     chan struct{}
	foreign  string // fingerprint of another hash key, while that is the last one in the log
	profiles map[string]Profile

	read    atomic.Bool // the topic was read once
	reading atomic.Pointer[string]
	dropped atomic.Int64
	refused atomic.Int64
}

// pending is a record of ours that was not yet seen in the log. While there is one, records of the
// same key that stand before it are passed over: it will win over them.
type pending struct {
	record record
	queued bool
	offset int64 // where it stands; -1 until acknowledged
}

// Profile is a distinct metrics history that projects of some node use.
type Profile struct {
	ID                                        string
	WindowMinutes, Tier1Minutes, Tier2Minutes int
}

// New returns an empty store. It does no I/O.
func New(cfg Config) (*Store, error) {
	places, err := ristretto.NewCache(&ristretto.Config[string, held]{
		NumCounters: 10 * maxPlaces, MaxCost: maxPlaces, BufferItems: 64, IgnoreInternalCost: true,
	})
	if err != nil {
		return nil, fmt.Errorf("creating the cache of pins: %w", err)
	}
	s := &Store{
		cfg: cfg, start: uuid.Must(uuid.NewV7()).String(), places: places,
		pending: map[string]*pending{}, kick: make(chan struct{}, 1), profiles: map[string]Profile{},
	}
	s.keys = NewKeys(s.publishCooldown)
	return s, nil
}

// Close frees the caches; Run must have returned.
func (s *Store) Close() { s.places.Close() }

// Keys returns the health of provider keys.
func (s *Store) Keys() *Keys { return s.keys }

// Ready returns nil once the topic was read and the hash key is the one the other nodes use, else
// the reason why not.
func (s *Store) Ready() error {
	if !s.read.Load() {
		if why := s.reading.Load(); why != nil {
			return errors.New(*why)
		}
		return errors.New("the state topic has not been read yet")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.foreign != "" {
		return fmt.Errorf("hash_key differs from the one the other nodes use (fingerprint %s here, %s there): give all nodes the same", s.fingerprint(), s.foreign)
	}
	return nil
}

// Problem says why the topic cannot be followed at the moment, "" if it can: the node goes on with what
// it has.
func (s *Store) Problem() string {
	if why := s.reading.Load(); why != nil {
		return *why
	}
	return ""
}

// Backlog is how many records wait to be written, and how many pins stayed local for want of room.
func (s *Store) Backlog() (waiting int, dropped int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.queue), s.dropped.Load()
}

// Refused is how many records of the topic could not be read.
func (s *Store) Refused() int64 { return s.refused.Load() }

// SessionHash is what stands for a session id everywhere: 32 hex digits of a keyed hash.
func (s *Store) SessionHash(organization, id string) string {
	return s.sum("session", organization, id)[:32]
}

// SecretHash is what stands for a credential: 16 hex digits of a keyed hash, of which clients and
// events see the first 7.
func (s *Store) SecretHash(secret string) string { return s.sum("secret", secret)[:16] }

func (s *Store) fingerprint() string { return s.sum("fingerprint")[:16] }

func (s *Store) sum(parts ...string) string {
	mac := hmac.New(sha256.New, s.cfg.HashKey)
	for _, p := range parts {
		mac.Write([]byte(p))
		mac.Write([]byte{0})
	}
	return hex.EncodeToString(mac.Sum(nil))
}

// PinKey names the pin of a session at a model.
func PinKey(organization, model, sessionHash string) string {
	return kindPin + "/" + organization + "/" + sessionHash + "/" + model
}

// PreferenceKey names the stable preference of an organization at a model under a strategy.
func PreferenceKey(organization, model, strategy string) string {
	return kindPreference + "/" + organization + "/" + strategy + "/" + model
}

// Place returns what is remembered under a key of PinKey or PreferenceKey.
func (s *Store) Place(key string) (Place, bool) {
	h, ok := s.places.Get(key)
	if !ok || !s.cfg.Now().Before(h.expires) {
		return Place{}, false
	}
	return h.place, true
}

// Pin remembers where a session goes and renews the pin, but writes only where that changes
// something for other nodes: a new pin, a moved one, or one of which a quarter of its life is over.
func (s *Store) Pin(key string, p Place, ttl time.Duration) {
	now := s.cfg.Now()
	if h, ok := s.places.Get(key); ok && h.place == p && h.expires.Sub(now) > ttl-ttl/4 {
		return
	}
	s.keep(key, kindPin, p, now.Add(ttl), ttl)
}

// Prefer remembers a stable preference, unless the same is remembered already: use does not extend it.
func (s *Store) Prefer(key string, p Place, ttl time.Duration) {
	now := s.cfg.Now()
	if h, ok := s.places.Get(key); ok && h.place == p && now.Before(h.expires) {
		return
	}
	s.keep(key, kindPreference, p, now.Add(ttl), ttl)
}

func (s *Store) keep(key, kind string, p Place, expires time.Time, ttl time.Duration) {
	s.put(key, held{p, expires}, ttl)
	s.publish(record{
		Kind: kind, ID: key[len(kind)+1:], ExpiresAtMS: expires.UnixMilli(),
		Provider: p.Provider, Region: p.Region, Model: p.Model,
	})
}

// put stores a place so that it is there when put returns, unless the cache is full of better ones.
// Ristretto takes a new key in later, and until then loses what else is stored under it: the first
// would win, not the last.
func (s *Store) put(key string, h held, ttl time.Duration) {
	s.placing.Lock()
	defer s.placing.Unlock()
	if !s.places.SetWithTTL(key, h, 1, ttl+time.Minute) { // its buffer is full
		s.places.Wait()
		s.places.SetWithTTL(key, h, 1, ttl+time.Minute)
	}
	if _, ok := s.places.Get(key); !ok {
		s.places.Wait()
	}
}

// PublishProfiles tells the processor which histories the projects of this node use; each is good
// for ttl.
func (s *Store) PublishProfiles(profiles []Profile, ttl time.Duration) {
	for _, p := range profiles {
		s.publish(record{
			Kind: kindProfile, ID: p.ID, ExpiresAtMS: s.cfg.Now().Add(ttl).UnixMilli(),
			WindowMinutes: p.WindowMinutes, Tier1Minutes: p.Tier1Minutes, Tier2Minutes: p.Tier2Minutes,
		})
	}
}

func (s *Store) publishCooldown(id KeyID, c Cooldown) {
	r := record{
		Kind: kindCooldown, ID: id.Provider + "/" + id.Region + "/" + id.Secret,
		Provider: id.Provider, Region: id.Region, Secret: id.Secret, Cause: c.Cause, LengthMS: c.Length.Milliseconds(),
	}
	if !c.Until.IsZero() {
		r.ExpiresAtMS = c.Until.UnixMilli()
	}
	s.publish(r)
}

// publish queues a record; a later one of the same key takes its place.
func (s *Store) publish(r record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seq++
	r.SchemaVersion, r.NodeID, r.Start, r.Seq = schemaVersion, s.cfg.NodeID, s.start, s.seq
	key := r.key()
	p := s.pending[key]
	if p == nil {
		if len(s.pending) >= maxPending {
			s.dropped.Add(1)
			return
		}
		p = &pending{}
		s.pending[key] = p
	}
	p.record, p.offset = r, -1
	if !p.queued {
		p.queued = true
		s.queue = append(s.queue, key)
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
}

// apply takes in a record that stands in the log at offset.
func (s *Store) apply(r record, offset int64) {
	now := s.cfg.Now()
	s.mu.Lock()
	p := s.pending[r.key()]
	own := p != nil && r.Start == s.start && r.Seq == p.record.Seq
	if !s.counts(r.key(), own, offset) {
		s.mu.Unlock()
		return
	}
	if r.Kind == kindHashKey {
		s.foreign = ""
		if r.Fingerprint != s.fingerprint() {
			s.foreign = r.Fingerprint
		}
	}
	s.mu.Unlock()

	switch r.Kind {
	case kindPin, kindPreference:
		if r.live(now) {
			s.put(r.key(), held{Place{r.Provider, r.Region, r.Model}, r.expires()}, r.expires().Sub(now))
			return
		}
		s.places.Del(r.key())
	case kindCooldown:
		if r.Start != s.start {
			s.keys.Impose(now, KeyID{r.Provider, r.Region, r.Secret},
				Cooldown{Cause: r.Cause, Until: r.expires(), Length: time.Duration(r.LengthMS) * time.Millisecond})
		}
	}
}

// counts says whether what stands in the log at offset is the last word on a key so far: one of ours
// that comes after it will be. mu is held.
func (s *Store) counts(key string, own bool, offset int64) bool {
	p := s.pending[key]
	if p == nil {
		return true
	}
	if !own && (p.offset < 0 || offset < p.offset) {
		return false
	}
	if !p.queued {
		delete(s.pending, key)
	}
	return true
}

// erase takes in that a key was deleted from the log at offset.
func (s *Store) erase(key string, offset int64) {
	s.mu.Lock()
	counts := s.counts(key, false, offset)
	kind, id, _ := strings.Cut(key, "/")
	if counts && kind == kindHashKey {
		s.foreign = ""
	}
	s.mu.Unlock()
	switch {
	case !counts:
	case kind == kindPin, kind == kindPreference:
		s.places.Del(key)
	case kind == kindCooldown:
		if parts := strings.Split(id, "/"); len(parts) == 3 {
			s.keys.Lift(KeyID{Provider: parts[0], Region: parts[1], Secret: parts[2]})
		}
	}
}
