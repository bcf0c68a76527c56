package state

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"turnout/internal/kafkax"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/snapshot"
	"turnout/schemas/topic"
)

var quiet = slog.New(slog.DiscardHandler)

// node is one gateway's state on a broker.
type node struct {
	*Store
	stop func()
}

func startNode(t *testing.T, cfg kafkax.Config, name, hashKey string) node {
	t.Helper()
	client, err := kafkax.Open(cfg, quiet)
	if err != nil {
		t.Fatal(err)
	}
	s, err := New(Config{NodeID: name, HashKey: []byte(hashKey), Now: time.Now, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { s.Run(ctx, client) })
	var once sync.Once
	stop := func() {
		once.Do(func() {
			cancel()
			wg.Wait()
			s.Close()
			client.Close()
		})
	}
	t.Cleanup(stop)
	return node{s, stop}
}

func eventually(t *testing.T, what string, limit time.Duration, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(limit); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// The last place wins also where it follows the first at once, as it does in the log a new node reads.
func TestTheSecondPlaceRightBehindTheFirstWins(t *testing.T) {
	s, err := New(Config{NodeID: "n", HashKey: []byte("k"), Now: time.Now, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	expires := time.Now().Add(time.Hour).UnixMilli()
	for i := range 500 {
		pin := PinKey("acme", "m", fmt.Sprint("pinned-", i))
		s.Pin(pin, Place{Provider: "first"}, time.Hour)
		s.Pin(pin, Place{Provider: "last"}, time.Hour)
		read := record{SchemaVersion: 1, Kind: kindPin, ID: fmt.Sprint("acme/read-", i, "/m"), ExpiresAtMS: expires}
		for n, provider := range []string{"first", "last"} {
			read.Provider = provider
			s.apply(read, int64(2*i+n))
		}
		for _, key := range []string{pin, read.key()} {
			if p, ok := s.Place(key); !ok || p.Provider != "last" {
				t.Fatalf("%s: %+v (%v)", key, p, ok)
			}
		}
	}
}

// A session in use keeps its pin, written at most once a quarter of its life; a preference ends when it
// was to end, however much it is used.
func TestPinsAreRenewedAndPreferencesAreNot(t *testing.T) {
	now := time.Now()
	s, err := New(Config{NodeID: "n", HashKey: []byte("k"), Now: func() time.Time { return now }, Log: quiet})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	pin, preferred, place := PinKey("acme", "m", "s"), PreferenceKey("acme", "m", "auto"), Place{Provider: "p", Region: "r"}
	var writes []int // minutes
	for minute := range 120 {
		before := s.seq
		s.Pin(pin, place, time.Hour)
		if written := s.seq > before; written {
			writes = append(writes, minute)
		}
		s.Prefer(preferred, place, time.Hour)
		now = now.Add(time.Minute)
		if _, ok := s.Place(pin); !ok {
			t.Fatalf("the pin ended %d minutes after the first use, though it was in use", minute+1)
		}
		if _, ok := s.Place(preferred); ok != ((minute+1)%60 != 0) {
			t.Fatalf("%d minutes after it was stored the preference is held: %v", minute+1, ok)
		}
	}
	if want := []int{0, 15, 30, 45, 60, 75, 90, 105}; !slices.Equal(writes, want) {
		t.Errorf("the pin was written in minutes %v, want %v", writes, want)
	}
	now = now.Add(time.Hour)
	if _, ok := s.Place(pin); ok {
		t.Error("a pin that nobody used for its whole life is still held")
	}
	s.Prefer(preferred, Place{Provider: "q"}, time.Hour)
	now = now.Add(30 * time.Minute)
	s.Prefer(preferred, place, time.Hour) // another choice, so a life of its own
	now = now.Add(59 * time.Minute)
	if got, ok := s.Place(preferred); !ok || got != place {
		t.Errorf("%+v, %v", got, ok)
	}
}

func BenchmarkPin(b *testing.B) {
	s, err := New(Config{NodeID: "n", HashKey: []byte("k"), Now: time.Now, Log: quiet})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	i := 0
	for b.Loop() {
		i++
		s.Pin(PinKey("acme", "m", strconv.Itoa(i)), Place{Provider: "p"}, time.Hour)
	}
}

func TestNodesShareState(t *testing.T) {
	cfg := kafkatest.New(t, 1)
	const key = "a hash key all nodes share"
	a, b := startNode(t, cfg, "a", key), startNode(t, cfg, "b", key)
	eventually(t, "both nodes read the topic", 5*time.Second, func() bool { return a.Ready() == nil && b.Ready() == nil })

	session := a.SessionHash("acme", "s-1")
	if session != b.SessionHash("acme", "s-1") || session == a.SessionHash("other", "s-1") || strings.Contains(session, "s-1") {
		t.Fatalf("session hash %q", session)
	}
	pin := PinKey("acme", "m", session)
	a.Pin(pin, Place{Provider: "p", Region: "r"}, time.Hour)
	eventually(t, "the other node holds the pin within a second", time.Second, func() bool { p, ok := b.Place(pin); return ok && p == Place{"p", "r", ""} })

	preferred := PreferenceKey("acme", "m", "auto")
	b.Prefer(preferred, Place{Provider: "q"}, 2*time.Second)
	eventually(t, "a preference travels", time.Second, func() bool { _, ok := a.Place(preferred); return ok })
	eventually(t, "and ends on both", 3*time.Second, func() bool { _, x := a.Place(preferred); _, y := b.Place(preferred); return !x && !y })

	id := KeyID{Provider: "p", Region: "r", Secret: a.SecretHash("sk-secret")}
	for range 3 {
		use, _ := a.Keys().Get(id, 0, 0).Begin(time.Now(), false)
		use.End(time.Now(), Failure, 0)
	}
	eventually(t, "a cooldown travels", time.Second, func() bool { return b.Keys().Get(id, 0, 0).Phase(time.Now()) == Cooling })

	// A node that starts now knows all of it once it is ready.
	c := startNode(t, cfg, "c", key)
	eventually(t, "a new node reads the topic", 5*time.Second, func() bool { return c.Ready() == nil })
	if p, ok := c.Place(pin); !ok || p.Provider != "p" {
		t.Fatalf("a new node: pin %v %v", p, ok)
	}
	if got := c.Keys().Get(id, 0, 0).Phase(time.Now()); got != Cooling {
		t.Fatalf("a new node: key in phase %d", got)
	}
	if bad := startNode(t, cfg, "d", "another hash key"); true {
		eventually(t, "a node with another hash key says so", 5*time.Second, func() bool {
			err := bad.Ready()
			return err != nil && strings.Contains(err.Error(), "hash_key differs")
		})
	}
	if err := a.Ready(); err != nil {
		t.Fatalf("a stranger's key made a good node unready: %v", err)
	}
}

// Whoever writes what when: at the end all nodes, and one started now, hold the same.
func TestLastRecordWins(t *testing.T) {
	cfg := kafkatest.New(t, 1)
	nodes := []node{startNode(t, cfg, "a", "shared hash key."), startNode(t, cfg, "b", "shared hash key."), startNode(t, cfg, "c", "shared hash key.")}
	for _, n := range nodes {
		eventually(t, "ready", 5*time.Second, func() bool { return n.Ready() == nil })
	}
	const pins = 40
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() {
			for round := range 5 {
				for p := range pins {
					n.Pin(fmt.Sprintf("pin/acme/s%d/m", p), Place{Provider: fmt.Sprintf("p%d-%d", i, round)}, time.Hour)
				}
				time.Sleep(time.Duration(10+i*7) * time.Millisecond)
			}
		})
	}
	wg.Wait()
	fresh := startNode(t, cfg, "d", "shared hash key.")
	same := func() bool {
		for p := range pins {
			want, ok := nodes[0].Place(fmt.Sprintf("pin/acme/s%d/m", p))
			if !ok {
				return false
			}
			for _, n := range []node{nodes[1], nodes[2], fresh} {
				if got, ok := n.Place(fmt.Sprintf("pin/acme/s%d/m", p)); !ok || got != want {
					return false
				}
			}
		}
		return true
	}
	eventually(t, "all nodes agree", 5*time.Second, same)
	time.Sleep(200 * time.Millisecond)
	if !same() {
		t.Fatal("the nodes agreed and parted again")
	}
}

// Whatever else stands in the topic: it is counted, and what is good counts.
func TestForeignRecordsAreLeftOut(t *testing.T) {
	cfg := kafkatest.New(t, 1)
	n := startNode(t, cfg, "a", "shared hash key.")
	eventually(t, "ready", 5*time.Second, func() bool { return n.Ready() == nil })
	client, err := kafkax.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	expires := time.Now().Add(time.Hour).UnixMilli()
	var records []kafkax.Record
	for key, value := range map[string]string{
		"x":                   "not json",
		"pin/acme/version/m":  `{"schema_version":0,"kind":"pin","id":"acme/version/m"}`,
		"pin/acme/kindless/m": `{"schema_version":1}`,
		"pin/acme/list/m":     `[1]`,
		"later/thing":         fmt.Sprintf(`{"schema_version":9,"kind":"later","id":"thing","expires_at_ms":%d,"new":{"a":1}}`, expires), // passed over quietly
		"pin/acme/good/m":     fmt.Sprintf(`{"schema_version":9,"kind":"pin","id":"acme/good/m","provider":"p","expires_at_ms":%d,"new":[]}`, expires),
		"pin/acme/past/m":     `{"schema_version":1,"kind":"pin","id":"acme/past/m","provider":"p","expires_at_ms":1}`,
	} {
		records = append(records, kafkax.Record{Key: []byte(key), Value: []byte(value)})
	}
	if _, err := client.NewWriter(topic.State).Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the good one counts and the bad ones are counted", 5*time.Second, func() bool {
		place, ok := n.Place("pin/acme/good/m")
		return ok && place.Provider == "p" && n.Refused() == 4
	})
	if _, ok := n.Place("pin/acme/past/m"); ok {
		t.Error("a pin that has ended is held")
	}
	if _, err := client.NewWriter(topic.State).Write(t.Context(), []kafkax.Record{{Key: []byte("pin/acme/good/m")}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "a deleted pin is forgotten", 5*time.Second, func() bool { _, ok := n.Place("pin/acme/good/m"); return !ok })
	if n.Refused() != 4 {
		t.Errorf("%d records refused", n.Refused())
	}
}

// A node never loses its own newer pin to the echo of an older one.
func TestNoFlicker(t *testing.T) {
	n := startNode(t, kafkatest.New(t, 1), "a", "shared hash key.")
	eventually(t, "ready", 5*time.Second, func() bool { return n.Ready() == nil })
	n.Pin("pin/acme/s/m", Place{Provider: "p0"}, time.Hour)
	eventually(t, "the cache took the pin", time.Second, func() bool { _, ok := n.Place("pin/acme/s/m"); return ok })
	for i := range 300 {
		want := Place{Provider: fmt.Sprint(i)}
		n.Pin("pin/acme/s/m", want, time.Hour)
		if got, _ := n.Place("pin/acme/s/m"); got != want {
			t.Fatalf("after pin %d: %v", i, got)
		}
		time.Sleep(time.Millisecond)
		if got, _ := n.Place("pin/acme/s/m"); got != want {
			t.Fatalf("an echo replaced pin %d: %v", i, got)
		}
	}
}

func TestBrokerAway(t *testing.T) {
	broker := kafkatest.Start(t, 1)
	broker.Stop()
	n := startNode(t, broker.Config(), "a", "shared hash key.")
	eventually(t, "the reason names the address", 10*time.Second, func() bool {
		err := n.Ready()
		return err != nil && strings.Contains(err.Error(), broker.Config().Brokers[0])
	})
	n.Pin("pin/acme/s/m", Place{Provider: "p"}, time.Hour) // blocks nobody
	broker.Start()
	eventually(t, "ready when the broker is there", 20*time.Second, func() bool { return n.Ready() == nil })
	m := startNode(t, broker.Config(), "b", "shared hash key.")
	eventually(t, "what was pinned meanwhile arrives", 10*time.Second, func() bool { _, ok := m.Place("pin/acme/s/m"); return ok })
}

func TestProfilesAreTheProcessors(t *testing.T) {
	cfg := kafkatest.New(t, 1)
	n := startNode(t, cfg, "a", "shared hash key.")
	want := snapshot.NewProfile(1, 1, 1)
	n.PublishProfiles([]Profile{{ID: want.ID, WindowMinutes: 1, Tier1Minutes: 1, Tier2Minutes: 1}}, time.Hour)
	client, err := kafkax.Open(cfg, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	f := client.NewFetcher(topic.State, 0, 0)
	defer f.Close()
	eventually(t, "the processor can read the profile", 5*time.Second, func() bool {
		records, _ := f.Fetch(context.Background(), 100)
		for _, r := range records {
			if p, _, _, ok, err := snapshot.DecodeProfile(r.Key, r.Value); ok && err == nil && p == want {
				return true
			}
		}
		return false
	})
}

func FuzzDecode(f *testing.F) {
	f.Add(record{SchemaVersion: 1, Kind: kindPin, ID: "x", Provider: "p"}.encode())
	f.Add([]byte(`{"schema_version":2,"kind":"later"}`))
	f.Add([]byte(`{"schema_version":1,"kind":"cooldown","expires_at_ms":-1}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		s, err := New(Config{HashKey: []byte("k"), Now: time.Now, Log: quiet})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if r, err := decode(b); err == nil {
			s.apply(r, 1)
		}
	})
}

// A key deleted from the topic is gone for nodes that run as for one started now: cooldowns stayed, an
// invalid key for ever, and a node that had seen another hash key stayed unready.
func TestADeletedRecordIsForgottenByAll(t *testing.T) {
	cfg := kafkatest.New(t, 1)
	n := startNode(t, cfg, "a", "shared hash key.")
	eventually(t, "ready", 5*time.Second, func() bool { return n.Ready() == nil })
	client, err := kafkax.Open(cfg, quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	write := func(key, value string) {
		t.Helper()
		if _, err := client.NewWriter(topic.State).Write(t.Context(), []kafkax.Record{{Key: []byte(key), Value: []byte(value)}}); err != nil {
			t.Fatal(err)
		}
	}
	erase := func(key string) {
		t.Helper()
		if _, err := client.NewWriter(topic.State).Write(t.Context(), []kafkax.Record{{Key: []byte(key)}}); err != nil {
			t.Fatal(err)
		}
	}
	cooling, invalid := KeyID{Provider: "p", Region: "eu", Secret: "s1"}, KeyID{Provider: "p", Region: "", Secret: "s2"}
	unused := KeyID{Provider: "q", Region: "", Secret: "s3"} // a key this node has not used yet
	phase := func(id KeyID) Phase { return n.Keys().Get(id, 0, 0).Phase(time.Now()) }
	phase(cooling)
	phase(invalid)
	expires := time.Now().Add(time.Hour).UnixMilli()
	write("cooldown/p/eu/s1", fmt.Sprintf(`{"schema_version":1,"kind":"cooldown","id":"p/eu/s1","start":"x","provider":"p","region":"eu","secret":"s1","cause":"errors","expires_at_ms":%d,"length_ms":5000}`, expires))
	write("cooldown/q//s3", fmt.Sprintf(`{"schema_version":1,"kind":"cooldown","id":"q//s3","start":"x","provider":"q","secret":"s3","cause":"errors","expires_at_ms":%d,"length_ms":5000}`, expires))
	write("cooldown/p//s2", `{"schema_version":1,"kind":"cooldown","id":"p//s2","start":"x","provider":"p","secret":"s2","cause":"invalid_key"}`)
	write("hash_key/fingerprint", `{"schema_version":1,"kind":"hash_key","id":"fingerprint","start":"x","fingerprint":"another"}`)
	eventually(t, "all is known", 5*time.Second, func() bool {
		return phase(cooling) == Cooling && phase(invalid) == Removed && n.Ready() != nil
	})
	for _, key := range []string{"cooldown/p/eu/s1", "cooldown/q//s3", "cooldown/p//s2", "hash_key/fingerprint"} {
		erase(key)
	}
	eventually(t, "nothing is", 5*time.Second, func() bool {
		return phase(cooling) == Ready && phase(invalid) == Ready && n.Ready() == nil
	})
	if phase(unused) != Ready {
		t.Error("a cooldown is remembered for a key that was not used yet")
	}
}

// After every outage of Kafka the topic was read from its beginning again, and while that lasted pins
// were back where they had been long ago.
func TestPinsDoNotGoBackWhenKafkaComesBack(t *testing.T) {
	broker := kafkatest.Start(t, 1)
	n := startNode(t, broker.Config(), "a", "shared hash key.")
	eventually(t, "ready", 10*time.Second, func() bool { return n.Ready() == nil })
	client, err := kafkax.Open(broker.Config(), quiet)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	const key, moves = "pin/acme/s/m", 20_000
	records := make([]kafkax.Record, moves)
	for i := range records {
		records[i] = kafkax.Record{Key: []byte(key), Value: record{SchemaVersion: 1, Kind: kindPin, ID: "acme/s/m", Start: "x", Provider: fmt.Sprint(i), ExpiresAtMS: time.Now().Add(time.Hour).UnixMilli()}.encode()}
	}
	if _, err := client.NewWriter(topic.State).Write(t.Context(), records); err != nil {
		t.Fatal(err)
	}
	last := fmt.Sprint(moves - 1)
	eventually(t, "the last place", 10*time.Second, func() bool { p, _ := n.Place(key); return p.Provider == last })
	broker.Stop()
	eventually(t, "the node says so and stays ready", 20*time.Second, func() bool {
		return strings.Contains(n.Problem(), "reading the state topic") && n.Ready() == nil
	})
	broker.Start()
	eventually(t, "a new record", 30*time.Second, func() bool {
		if p, _ := n.Place(key); p.Provider != last {
			t.Fatalf("the pin went back from %s to %s", last, p.Provider)
		}
		after := record{SchemaVersion: 1, Kind: kindPin, ID: "acme/after/m", Start: "x", Provider: "p", ExpiresAtMS: time.Now().Add(time.Hour).UnixMilli()}
		if _, known := n.Place(after.key()); known {
			return true
		}
		_, _ = client.NewWriter(topic.State).Write(t.Context(), []kafkax.Record{{Key: []byte(after.key()), Value: after.encode()}})
		return false
	})
	if why := n.Problem(); why != "" {
		t.Errorf("it still says %q", why)
	}
}
