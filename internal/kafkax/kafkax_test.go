package kafkax_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/segmentio/kafka-go"
	"go.uber.org/goleak"

	"turnout/internal/config"
	"turnout/internal/kafkax"
	"turnout/internal/testkit/kafkatest"
	"turnout/schemas/topic"
)

func TestMain(m *testing.M) { kafkatest.Main(m) }

func open(t *testing.T, cfg kafkax.Config) *kafkax.Client {
	t.Helper()
	client, err := kafkax.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func records(from, to int) []kafkax.Record {
	var out []kafkax.Record
	for i := from; i < to; i++ {
		out = append(out, kafkax.Record{
			Key:     fmt.Appendf(nil, "key-%d", i),
			Value:   fmt.Appendf(nil, "value-%d", i),
			Headers: []kafkax.Header{{Key: "n", Value: fmt.Appendf(nil, "%d", i)}},
			Time:    time.UnixMilli(1_700_000_000_000 + int64(i)),
		})
	}
	return out
}

// readAll reads a partition from an offset to its end as it is now.
func readAll(t *testing.T, client *kafkax.Client, name string, partition int, from int64) []kafkax.Record {
	t.Helper()
	_, next, err := client.Bounds(t.Context(), name, partition)
	if err != nil {
		t.Fatal(err)
	}
	f := client.NewFetcher(name, partition, from)
	defer f.Close()
	var out []kafkax.Record
	for deadline := time.Now().Add(20 * time.Second); from < next; {
		if time.Now().After(deadline) {
			t.Fatalf("read up to %d of %d", from, next)
		}
		got, err := f.Fetch(t.Context(), 300)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range got {
			out, from = append(out, r), r.Offset+1
		}
	}
	return out
}

func TestEveryRecordIsAckedWithItsPlace(t *testing.T) {
	client := open(t, kafkatest.New(t, 3))
	sent := records(0, 2000)
	acks, err := client.NewWriter(topic.Attempts).Write(t.Context(), sent)
	if err != nil {
		t.Fatal(err)
	}
	type place struct {
		partition int
		offset    int64
	}
	found := map[place]kafkax.Record{}
	for p := range 3 {
		for _, r := range readAll(t, client, topic.Attempts, p, 0) {
			found[place{p, r.Offset}] = r
		}
	}
	if len(found) != len(sent) {
		t.Fatalf("%d records in the log, sent %d", len(found), len(sent))
	}
	for i, ack := range acks {
		r := found[place{ack.Partition, ack.Offset}]
		if !bytes.Equal(r.Key, sent[i].Key) || !bytes.Equal(r.Value, sent[i].Value) || !r.Time.Equal(sent[i].Time) ||
			len(r.Headers) != 1 || !bytes.Equal(r.Headers[0].Value, sent[i].Headers[0].Value) || r.Topic != topic.Attempts || r.Partition != ack.Partition {
			t.Fatalf("record %d: acked at %+v, where the log has %+v", i, ack, r)
		}
	}
}

// Keys must fall where other Kafka clients put them: hashes of Java's murmur2, as librdkafka's tests
// list them.
func TestKeysFallWhereJavaPutsThem(t *testing.T) {
	client := open(t, kafkatest.New(t, 12))
	for key, hash := range map[string]uint32{"kafka": 0xd067cf64, "giberish123456789": 0x8f552b0c, "1234": 0x9fc97b14, "234": 0xe7c009ca, "": 0x106e08d9} {
		acks, err := client.NewWriter(topic.Attempts).Write(t.Context(), []kafkax.Record{{Key: []byte(key), Value: []byte("x")}})
		if err != nil {
			t.Fatal(err)
		}
		if want := int(hash&0x7fffffff) % 12; acks[0].Partition != want {
			t.Errorf("key %q is in partition %d, want %d", key, acks[0].Partition, want)
		}
	}
}

func TestTombstonesEmptyValuesAndLargeBatches(t *testing.T) {
	client := open(t, kafkatest.New(t, 1))
	w := client.NewWriter(topic.Attempts)
	big := bytes.Repeat([]byte("0123456789abcdef"), 1<<14) // 256 KiB
	batch := []kafkax.Record{{Key: []byte("gone")}, {Key: []byte("empty"), Value: []byte{}}}
	for i := range 40 { // 10 MiB: more than one produce request
		batch = append(batch, kafkax.Record{Key: fmt.Append(nil, i), Value: big})
	}
	acks, err := w.Write(t.Context(), batch)
	if err != nil {
		t.Fatal(err)
	}
	for i, ack := range acks {
		if ack.Offset != int64(i) {
			t.Fatalf("record %d at offset %d: the order within a partition is lost", i, ack.Offset)
		}
	}
	got := readAll(t, client, topic.Attempts, 0, 0)
	if len(got) != len(batch) || got[0].Value != nil || got[1].Value == nil || len(got[1].Value) != 0 || !bytes.Equal(got[41].Value, big) {
		t.Errorf("got %d records, tombstone %v, empty %v", len(got), got[0].Value, got[1].Value)
	}
	if none, err := w.Write(t.Context(), nil); err != nil || none != nil {
		t.Errorf("writing nothing: %v %v", none, err)
	}
}

// Records share memory with their neighbours, and readers take strings of them without a copy.
func TestWhatWasFetchedNeverChanges(t *testing.T) {
	client := open(t, kafkatest.New(t, 1))
	batch := []kafkax.Record{{Value: []byte{}}} // empty, and nothing before it
	for i := range 3000 {
		size := 1 + i%300
		if i%100 == 0 {
			size = 40_000
		}
		batch = append(batch, kafkax.Record{Key: fmt.Append(nil, i), Value: bytes.Repeat([]byte{byte('a' + i%26)}, size)})
	}
	if _, err := client.NewWriter(topic.Attempts).Write(t.Context(), batch); err != nil {
		t.Fatal(err)
	}
	f := client.NewFetcher(topic.Attempts, 0, 0)
	defer f.Close()
	var all []kafkax.Record
	for deadline := time.Now().Add(20 * time.Second); len(all) < len(batch); {
		got, err := f.Fetch(t.Context(), 7)
		if err != nil || time.Now().After(deadline) {
			t.Fatal(len(all), err)
		}
		for _, r := range got { // whoever appends to a slice gets one of their own
			_, _ = append(r.Key, "written over"...), append(r.Value, "written over"...)
		}
		all = append(all, got...)
	}
	if all[0].Key != nil || all[0].Value == nil {
		t.Errorf("an empty value without a key is %v and %v", all[0].Value, all[0].Key)
	}
	for i, r := range all {
		if !bytes.Equal(r.Key, batch[i].Key) || !bytes.Equal(r.Value, batch[i].Value) {
			t.Fatalf("record %d: key %q, a value of %d bytes that is not what was written", i, r.Key, len(r.Value))
		}
	}
}

func TestATooLargeRecordFailsAloneInItsPartition(t *testing.T) {
	client := open(t, kafkatest.New(t, 3))
	incompressible := make([]byte, 9<<20)
	x := uint64(1)
	for i := range incompressible {
		x ^= x << 13
		x ^= x >> 7
		x ^= x << 17
		incompressible[i] = byte(x)
	}
	batch := records(0, 30)
	batch[10].Value = incompressible
	acks, err := client.NewWriter(topic.Attempts).Write(t.Context(), batch)
	if !kafkax.IsTooLarge(err) || !kafkax.IsTooLarge(acks[10].Err) {
		t.Fatalf("error %v, of the record %v", err, acks[10].Err)
	}
	for i, ack := range acks {
		if behind := ack.Partition == acks[10].Partition && i >= 10; (ack.Err != nil) != behind {
			t.Errorf("record %d (partition %d): %v", i, ack.Partition, ack.Err)
		}
	}
}

func TestUnknownTopicIsNotMade(t *testing.T) {
	client := open(t, kafkatest.New(t, 1))
	acks, err := client.NewWriter("unknown").Write(t.Context(), records(0, 2))
	if !errors.Is(err, kafka.UnknownTopicOrPartition) || len(acks) != 2 || acks[1].Err == nil || !strings.Contains(err.Error(), "turnout topics") {
		t.Errorf("got %v %v", acks, err)
	}
	if _, err := client.Partitions(t.Context(), "unknown"); !errors.Is(err, kafka.UnknownTopicOrPartition) {
		t.Errorf("the topic has been made: %v", err)
	}
}

func TestEnsureTopicsNeverChangesPartitions(t *testing.T) {
	cfg := kafkatest.New(t, 3)
	client := open(t, cfg)
	if created, err := client.EnsureTopics(t.Context(), topic.Specs(3)); err != nil || len(created) != 0 {
		t.Errorf("again: %v %v", created, err)
	}
	_, err := client.EnsureTopics(t.Context(), topic.Specs(12))
	if err == nil || !strings.Contains(err.Error(), topic.Attempts) || !strings.Contains(err.Error(), "3 partitions, wanted 12") {
		t.Errorf("got %v", err)
	}
	if n, err := client.Partitions(t.Context(), topic.Attempts); err != nil || n != 3 {
		t.Errorf("%d partitions, %v", n, err)
	}
	// Another client that starts at the same time finds them made.
	name := fmt.Sprintf("raced-%d", time.Now().UnixNano())
	var wg sync.WaitGroup
	made := make([]int, 4)
	for i := range made {
		wg.Go(func() {
			created, err := open(t, cfg).EnsureTopics(t.Context(), []topic.Spec{{Name: name, Partitions: 2, Retention: time.Hour}})
			if err != nil {
				t.Error(err)
			}
			made[i] = len(created)
		})
	}
	wg.Wait()
	if slices.Max(made) != 1 || made[0]+made[1]+made[2]+made[3] != 1 {
		t.Errorf("made by %v", made)
	}
	if err := client.DeleteTopics(t.Context(), []string{name}); err != nil {
		t.Error(err)
	}
}

func TestTopicsHaveTheirSettings(t *testing.T) {
	cfg := kafkatest.New(t, 3)
	client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...)}
	for name, want := range map[string]map[string]string{
		topic.Attempts: {"cleanup.policy": "delete", "retention.ms": "604800000", "message.timestamp.type": "CreateTime", "max.message.bytes": "8388608"},
		topic.State:    {"cleanup.policy": "compact,delete", "retention.ms": "93600000", "min.cleanable.dirty.ratio": "0.1", "segment.ms": "600000"},
		topic.Config:   {"cleanup.policy": "compact", "retention.ms": "-1", "min.compaction.lag.ms": "604800000"},
	} {
		answer, err := client.DescribeConfigs(t.Context(), &kafka.DescribeConfigsRequest{Resources: []kafka.DescribeConfigRequestResource{{ResourceType: kafka.ResourceTypeTopic, ResourceName: name}}})
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]string{}
		for _, entry := range answer.Resources[0].ConfigEntries {
			got[entry.ConfigName] = entry.ConfigValue
		}
		for key, value := range want {
			if got[key] != value {
				t.Errorf("%s: %s is %q, want %q", name, key, got[key], value)
			}
		}
	}
}

func TestFetcherNeverMovesPastALostRange(t *testing.T) {
	cfg := kafkatest.New(t, 1)
	client := open(t, cfg)
	if _, err := client.NewWriter(topic.Attempts).Write(t.Context(), records(0, 100)); err != nil {
		t.Fatal(err)
	}
	reader := client.NewFetcher(topic.Attempts, 0, 10)
	if got, err := reader.Fetch(t.Context(), 5); err != nil || len(got) != 5 || got[0].Offset != 10 || got[4].Offset != 14 {
		t.Fatalf("%v %v", got, err)
	}
	kafkatest.DeleteRecords(t, cfg, topic.Attempts, 0, 40)
	if first, next, err := client.Bounds(t.Context(), topic.Attempts, 0); err != nil || first != 40 || next != 100 {
		t.Fatalf("bounds %d %d %v", first, next, err)
	}
	for _, offset := range []int64{0, 39, 101, 1000} {
		f := client.NewFetcher(topic.Attempts, 0, offset)
		for range 2 { // it stays so
			got, err := f.Fetch(t.Context(), 10)
			var lost *kafkax.OffsetError
			if !errors.Is(err, kafkax.ErrOffsetOutOfRange) || !errors.As(err, &lost) || lost.First != 40 || lost.Next != 100 || lost.Offset != offset || len(got) != 0 {
				t.Errorf("offset %d: %d records, %v", offset, len(got), err)
			}
		}
	}
	if got := readAll(t, client, topic.Attempts, 0, 40); len(got) != 60 || got[0].Offset != 40 {
		t.Errorf("%d records from offset 40", len(got))
	}
	begin := time.Now()
	if got, err := client.NewFetcher(topic.Attempts, 0, 100).Fetch(t.Context(), 10); err != nil || len(got) != 0 {
		t.Errorf("at the end: %v %v", got, err)
	}
	if wait := time.Since(begin); wait < 100*time.Millisecond || wait > 3*time.Second {
		t.Errorf("waited %s for nothing", wait)
	}
}

func TestEveryPartitionHasOneWorker(t *testing.T) {
	cfg := kafkatest.New(t, 4)
	client := open(t, cfg)
	group := kafkax.Group{ID: fmt.Sprintf("group-%d", time.Now().UnixNano()), Topic: topic.Attempts}

	var mu sync.Mutex
	working := map[int]int{} // partition to member
	var double []string
	member := func(id int) (stop func()) {
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan struct{})
		consumer := open(t, cfg)
		go func() {
			defer close(done)
			err := consumer.Consume(ctx, group, func(ctx context.Context, partition int) {
				mu.Lock()
				if other, taken := working[partition]; taken {
					double = append(double, fmt.Sprintf("partition %d: %d and %d", partition, other, id))
				}
				working[partition] = id
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				delete(working, partition)
				mu.Unlock()
			})
			if err != nil {
				t.Error(err)
			}
		}()
		return func() { cancel(); <-done }
	}
	share := func(id int) int {
		mu.Lock()
		defer mu.Unlock()
		n := 0
		for _, m := range working {
			if m == id {
				n++
			}
		}
		return n
	}
	await := func(what string, ok func() bool) {
		t.Helper()
		for deadline := time.Now().Add(25 * time.Second); !ok(); time.Sleep(20 * time.Millisecond) {
			if time.Now().After(deadline) {
				mu.Lock()
				defer mu.Unlock()
				t.Fatalf("%s: partition to member is %v", what, working)
			}
		}
	}

	stop1 := member(1)
	await("alone", func() bool { return share(1) == 4 })
	stop2 := member(2)
	await("two", func() bool { return share(1) == 2 && share(2) == 2 })
	stop1()
	await("the other left", func() bool { return share(2) == 4 })
	stop2()
	if len(double) > 0 {
		t.Error(double)
	}
	if len(working) != 0 {
		t.Errorf("workers outlive Consume: %v", working)
	}
	// The group is empty now: an outsider may commit.
	if err := client.Commit(t.Context(), group.ID, topic.Attempts, map[int]int64{0: 7, 3: 9}); err != nil {
		t.Error(err)
	}
	if got := committed(t, cfg, group); got[0] != 7 || got[3] != 9 {
		t.Errorf("committed %v", got)
	}
}

func TestAMemberCommits(t *testing.T) {
	cfg := kafkatest.New(t, 2)
	client := open(t, cfg)
	group := kafkax.Group{ID: fmt.Sprintf("group-%d", time.Now().UnixNano()), Topic: topic.Attempts}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	errs := make(chan error, 2)
	err := client.Consume(ctx, group, func(ctx context.Context, partition int) {
		errs <- client.Commit(ctx, group.ID, topic.Attempts, map[int]int64{partition: int64(100 + partition)})
		if len(errs) == 2 {
			cancel()
		}
		<-ctx.Done()
	})
	if err != nil || <-errs != nil || <-errs != nil {
		t.Fatal(err)
	}
	if got := committed(t, cfg, group); got[0] != 100 || got[1] != 101 {
		t.Errorf("committed %v", got)
	}
}

func committed(t *testing.T, cfg kafkax.Config, group kafkax.Group) map[int]int64 {
	t.Helper()
	// The driver keeps what it knew of topics, and these have just been made anew.
	transport := &kafka.Transport{MetadataTTL: 50 * time.Millisecond}
	defer transport.CloseIdleConnections()
	client := &kafka.Client{Addr: kafka.TCP(cfg.Brokers...), Transport: transport}
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		offsets, err := client.ConsumerOffsets(t.Context(), kafka.TopicAndGroup{Topic: group.Topic, GroupId: group.ID})
		if err != nil {
			t.Fatal(err)
		}
		if len(offsets) > 0 || time.Now().After(deadline) {
			return offsets
		}
	}
}

// A member that starts before the broker, and sees it go, works whenever it is there.
func TestAMemberOutlastsOutages(t *testing.T) {
	broker := kafkatest.Start(t, 1)
	client := open(t, broker.Config())
	broker.Kill()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began, done := make(chan int, 10), make(chan error)
	group := kafkax.Group{ID: fmt.Sprintf("group-%d", time.Now().UnixNano()), Topic: topic.Attempts}
	go func() {
		done <- client.Consume(ctx, group, func(ctx context.Context, partition int) {
			began <- partition
			<-ctx.Done()
		})
	}()
	await := func(what string) {
		t.Helper()
		select {
		case <-began:
		case <-time.After(25 * time.Second):
			t.Fatal(what)
		}
	}
	time.Sleep(300 * time.Millisecond)
	broker.Start()
	await("no worker although the broker is there")
	broker.Kill()
	time.Sleep(300 * time.Millisecond)
	broker.Start()
	await("no worker after the outage")
	begin := time.Now()
	cancel()
	if err := <-done; err != nil || time.Since(begin) > 4*time.Second {
		t.Errorf("%v after %s", err, time.Since(begin))
	}
}

func TestNothingIsLeftRunning(t *testing.T) {
	cfg := kafkatest.New(t, 2)
	defer goleak.VerifyNone(t, goleak.IgnoreCurrent())
	client, err := kafkax.Open(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	if _, err := client.NewWriter(topic.Attempts).Write(t.Context(), records(0, 10)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.NewFetcher(topic.Attempts, 0, 0).Fetch(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	if err := client.Consume(ctx, kafkax.Group{ID: "leaks", Topic: topic.Attempts}, func(ctx context.Context, _ int) {
		cancel()
		<-ctx.Done()
	}); err != nil {
		t.Fatal(err)
	}
}

// Nothing acknowledged is lost when the broker is killed, and the same client works on afterwards.
func TestAcksSurviveKills(t *testing.T) {
	broker := kafkatest.Start(t, 3)
	client := open(t, broker.Config())
	w := client.NewWriter(topic.Attempts)
	var acked []kafkax.Ack
	next := 0
	write := func() (failed int) {
		batch := records(next, next+100)
		next += 100
		acks, _ := w.Write(t.Context(), batch)
		for _, ack := range acks {
			if ack.Err != nil {
				failed++
				continue
			}
			acked = append(acked, ack)
		}
		return failed
	}
	await := func() {
		t.Helper()
		for deadline := time.Now().Add(30 * time.Second); write() > 0; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatal("no write succeeds after the restart")
			}
		}
	}
	await()
	broker.Kill()
	begin := time.Now()
	if failed := write(); failed != 100 {
		t.Errorf("%d of 100 writes failed without a broker", failed)
	}
	if err := client.Ping(t.Context()); err == nil || !strings.Contains(err.Error(), broker.Config().Brokers[0]) {
		t.Errorf("ping without a broker: %v", err)
	}
	if time.Since(begin) > 2*time.Second {
		t.Errorf("refused connections took %s", time.Since(begin))
	}
	broker.Start()
	await()
	broker.Stop()
	broker.Start()
	await()
	if err := client.Ping(t.Context()); err != nil {
		t.Error(err)
	}
	for p := range 3 {
		have := map[int64]bool{}
		for _, r := range readAll(t, client, topic.Attempts, p, 0) {
			have[r.Offset] = true
		}
		for _, ack := range acked {
			if ack.Partition == p && !have[ack.Offset] {
				t.Fatalf("%+v is lost", ack)
			}
		}
	}
}

func TestASilentBrokerHoldsNobody(t *testing.T) {
	broker := kafkatest.Start(t, 1)
	client := open(t, broker.Config())
	if err := client.Ping(t.Context()); err != nil {
		t.Fatal(err)
	}
	broker.Pause()
	defer broker.Resume()
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if err := client.Ping(ctx); err == nil {
		t.Error("a ping succeeded")
	}
	if acks, err := client.NewWriter(topic.Attempts).Write(ctx, records(0, 1)); err == nil || acks[0].Err == nil {
		t.Error("a write succeeded")
	}
	if _, err := client.NewFetcher(topic.Attempts, 0, 0).Fetch(ctx, 1); err == nil {
		t.Error("a fetch succeeded")
	}
	if time.Since(begin) > 2*time.Second {
		t.Errorf("held for %s", time.Since(begin))
	}
}

func TestValidateNamesEveryMistake(t *testing.T) {
	cfg := kafkax.Config{Brokers: []string{"localhost"}, TLS: config.TLS{CAFile: "a", CertFile: "b"}, SASL: kafkax.SASL{Mechanism: "PLAIN"}}
	err := cfg.Validate()
	for _, want := range []string{"kafka.brokers", "kafka.tls.enabled", "kafka.tls.cert_file", "kafka.sasl.mechanism"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("missing %q in %v", want, err)
		}
	}
	if err := kafkax.Default().Validate(); err != nil {
		t.Error(err)
	}
	if _, err := kafkax.Open(kafkax.Config{Brokers: []string{"a:1"}, TLS: config.TLS{Enabled: true, CAFile: "missing.pem"}}, nil); err == nil || !strings.Contains(err.Error(), "kafka.tls.ca_file") {
		t.Errorf("got %v", err)
	}
}

func TestOffsetAtFindsTheFirstRecordOfATime(t *testing.T) {
	client := open(t, kafkatest.New(t, 1))
	if _, err := client.NewWriter(topic.Attempts).Write(t.Context(), records(0, 50)); err != nil {
		t.Fatal(err)
	}
	if _, err := client.NewWriter(topic.Attempts).Write(t.Context(), records(50, 100)); err != nil {
		t.Fatal(err)
	}
	for at, want := range map[int64]int64{0: 0, 50: 50, 1000: 100} {
		got, err := client.OffsetAt(t.Context(), topic.Attempts, 0, time.UnixMilli(1_700_000_000_000+at))
		if err != nil || got != want {
			t.Errorf("%d ms: offset %d, want %d, %v", at, got, want, err)
		}
	}
	if _, err := client.OffsetAt(t.Context(), topic.Attempts, 7, time.Now()); err == nil {
		t.Error("a partition that does not exist has an offset")
	}
}

// Topics that somebody else made, or changed: what would lose records is named with what to do.
func TestTopicsThatWouldLoseRecordsAreRefused(t *testing.T) {
	cfg := kafkatest.New(t, 3)
	client, raw := open(t, cfg), &kafka.Client{Addr: kafka.TCP(cfg.Brokers...)}
	if err := client.CheckTopics(t.Context(), topic.Specs(0)); err != nil {
		t.Fatalf("topics as `turnout topics` makes them: %v", err)
	}
	for _, c := range []struct{ name, setting, value, was, says string }{
		{topic.Attempts, "cleanup.policy", "compact", "delete", `cleanup.policy is "compact", set it to delete`},
		{topic.Requests, "message.timestamp.type", "LogAppendTime", "CreateTime", "set it to CreateTime"},
		{topic.State, "cleanup.policy", "delete", "compact,delete", "set it to compact,delete"},
		{topic.Config, "cleanup.policy", "delete", "compact", "set it to compact"},
		{topic.DeadLetter, "max.message.bytes", "1000", "8388608", "set it to 1048576 or more"},
	} {
		alter := func(value string) {
			t.Helper()
			answer, err := raw.IncrementalAlterConfigs(t.Context(), &kafka.IncrementalAlterConfigsRequest{Resources: []kafka.IncrementalAlterConfigsRequestResource{{
				ResourceType: kafka.ResourceTypeTopic, ResourceName: c.name,
				Configs: []kafka.IncrementalAlterConfigsRequestConfig{{Name: c.setting, Value: value, ConfigOperation: kafka.ConfigOperationSet}},
			}}})
			if err == nil {
				err = answer.Resources[0].Error
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		alter(c.value)
		deadline := time.Now().Add(10 * time.Second)
		var err error
		for err == nil && time.Now().Before(deadline) { // brokers take a moment
			err = client.CheckTopics(t.Context(), topic.Specs(0))
		}
		if err == nil || !strings.Contains(err.Error(), c.name) || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s with %s=%s: %v", c.name, c.setting, c.value, err)
		}
		if _, err := client.EnsureTopics(t.Context(), topic.Specs(3)); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("making topics beside such a one: %v", err)
		}
		alter(c.was)
	}
	if err := client.DeleteTopics(t.Context(), []string{topic.State, topic.Config}); err != nil {
		t.Fatal(err)
	}
	if _, err := client.EnsureTopics(t.Context(), []topic.Spec{{Name: topic.State, Partitions: 4, Retention: time.Hour, Compact: true}}); err != nil {
		t.Fatal(err)
	}
	err := client.CheckTopics(t.Context(), topic.Specs(0))
	if err == nil || !strings.Contains(err.Error(), "it has 4 partitions and is read as one log") || !strings.Contains(err.Error(), topic.Config) || !strings.Contains(err.Error(), "turnout topics") {
		t.Errorf("a state topic of four partitions and no configuration topic: %v", err)
	}
}

// Partitions that somebody added to a topic were read only after the next rebalance, whenever that was.
func TestPartitionsAddedLaterAreRead(t *testing.T) {
	cfg := kafkatest.New(t, 1)
	client, raw := open(t, cfg), &kafka.Client{Addr: kafka.TCP(cfg.Brokers...)}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	assigned := make(chan int, 100)
	go func() {
		ended <- client.Consume(ctx, kafkax.Group{ID: "later", Topic: topic.Attempts}, func(ctx context.Context, p int) {
			assigned <- p
			<-ctx.Done()
		})
	}()
	await := func(want int) {
		t.Helper()
		for deadline := time.After(40 * time.Second); ; {
			select {
			case p := <-assigned:
				if p == want {
					return
				}
			case <-deadline:
				t.Fatalf("nobody reads partition %d", want)
			}
		}
	}
	await(0)
	answer, err := raw.CreatePartitions(t.Context(), &kafka.CreatePartitionsRequest{Topics: []kafka.TopicPartitionsConfig{{Name: topic.Attempts, Count: 2}}})
	if err == nil {
		err = answer.Errors[topic.Attempts]
	}
	if err != nil {
		t.Fatal(err)
	}
	await(1)
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}
