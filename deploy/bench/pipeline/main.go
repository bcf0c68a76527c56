// Command pipeline puts Turnout's processor beside ClickHouse's own Kafka engine, the thing one would
// take instead: both read the same full topic into the same columns and keep sums by ten seconds and by
// hour, first undisturbed and then with processes killed on the way. `make bench-pipeline` runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"turnout/deploy/internal/process"
	"turnout/deploy/local"
	"turnout/internal/chx"
	"turnout/internal/kafkax"
	"turnout/internal/lifecycle"
	"turnout/migrations"
	"turnout/processor"
	"turnout/schemas/topic"
)

func main() {
	local.Dispatch()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench-pipeline:", err)
	}
	os.Exit(lifecycle.Code(err))
}

func run(ctx context.Context, args []string) error {
	if len(args) > 0 && args[0] == "processor" {
		return processor.Main(ctx, lifecycle.Env{Args: args[1:], Environ: os.Environ(), Stdout: os.Stdout, Stderr: os.Stderr}, nil)
	}
	flags := flag.NewFlagSet("bench-pipeline", flag.ContinueOnError)
	events := flags.Int("events", 300_000, "events in the topic")
	partitions := flags.Int("partitions", 12, "partitions of the topic")
	patience := flags.Duration("patience", 6*time.Minute, "how long one run may take; one in which nothing moves for half of it is given up")
	memory := flags.Bool("memory", false, "the processor alone, its memory printed each million events")
	if err := flags.Parse(args); err != nil {
		return lifecycle.Usage(err)
	}
	dir, err := os.MkdirTemp("", "turnout-pipeline-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	b := &bench{dir: dir, events: int64(*events), patience: *patience}
	defer b.stop()
	if b.kafka, err = local.StartKafka(ctx, local.KafkaOptions{Dir: filepath.Join(dir, "kafka")}); err != nil {
		return err
	}
	if *memory {
		return b.memory(ctx, *partitions)
	}
	if err := b.fill(ctx, *partitions); err != nil {
		return err
	}
	var results []result
	for _, kills := range []bool{false, true} {
		for _, contestant := range []contestant{&turnout{}, &engine{}} {
			r, err := b.measure(ctx, contestant, kills)
			if err != nil {
				return fmt.Errorf("%s: %w", contestant.name(), err)
			}
			results = append(results, r)
		}
	}
	return b.print(results)
}

// contestant reads the topic into a ClickHouse that is its own.
type contestant interface {
	name() string
	// begin lets it start reading.
	begin(ctx context.Context, b *bench) error
	// kill kills what it has beside ClickHouse and starts that again; false: there is nothing.
	kill(ctx context.Context, b *bench) (bool, error)
	stop()
	pids() []int
	// complaint is what it says of itself when it does not get on.
	complaint(ctx context.Context, b *bench) string
	// rows are all raw rows, and counted the attempts that its sums hold.
	rows() string
	counted() string
}

type bench struct {
	dir        string
	events     int64
	patience   time.Duration
	kafka      *local.Kafka
	clickhouse *local.Server
	options    local.Options
	db         *chx.Conn
	runs       int
}

func (b *bench) stop() {
	if b.db != nil {
		_ = b.db.Close()
	}
	if b.clickhouse != nil {
		b.clickhouse.Kill()
	}
	if b.kafka != nil {
		b.kafka.Kill()
	}
}

// result is one run.
type result struct {
	name               string
	kills              int
	first              time.Duration // until there were rows
	took               time.Duration // until every event was there, or nothing moved any more
	reader, clickhouse time.Duration // CPU
	broker             time.Duration
	distinct           int64 // events that are there
	rows               int64 // raw rows as stored, duplicates included
	counted            int64 // attempts in the sums
}

func (b *bench) measure(ctx context.Context, c contestant, kills bool) (result, error) {
	r := result{name: c.name()}
	if err := b.ownClickHouse(ctx); err != nil {
		return r, err
	}
	defer func() {
		c.stop()
		_ = b.db.Close()
		b.clickhouse.Kill()
		b.clickhouse, b.db = nil, nil
		_ = os.RemoveAll(b.options.Dir)
	}()
	if _, _, err := migrations.Up(ctx, b.clickhouse.Config()); err != nil {
		return r, err
	}
	b.options.HTTPPort, b.options.NativePort = port(b.clickhouse.HTTPAddr()), port(b.clickhouse.NativeAddr())
	broker := cpu(b.kafka.Pid())
	if err := c.begin(ctx, b); err != nil {
		return r, err
	}
	began, moved := time.Now(), time.Now()
	last, steps := int64(-1), disturbances
	for {
		have, err := b.number(ctx, "SELECT toInt64(count()) FROM "+c.rows())
		if err != nil {
			return r, err
		}
		if have != last {
			if last == 0 {
				r.first = time.Since(began)
			}
			last, moved = have, time.Now()
		}
		if kills && len(steps) > 0 && have >= b.events*steps[0].percent/100 {
			time.Sleep(rand.N(500 * time.Millisecond)) // so that it falls anywhere
			if err := b.disturb(ctx, c, steps[0].beside, &r); err != nil {
				return r, err
			}
			steps = steps[1:]
			continue
		}
		if have >= b.events {
			if r.distinct, err = b.number(ctx, "SELECT toInt64(uniqExact(event_id)) FROM "+c.rows()); err != nil {
				return r, err
			}
			if r.distinct >= b.events {
				break
			}
		}
		if time.Since(began) > b.patience || time.Since(moved) > b.patience/2 {
			break
		}
		time.Sleep(200 * time.Millisecond)
	}
	r.took = moved.Sub(began)
	if r.distinct < b.events {
		fmt.Fprintf(os.Stderr, "%s was given up with %d rows of %d events after %s: %s\n", c.name(), last, b.events, time.Since(began).Round(time.Second), c.complaint(ctx, b))
	}
	for _, pid := range c.pids() {
		r.reader += cpu(pid)
	}
	r.clickhouse, r.broker = cpu(b.clickhouse.Pid()), cpu(b.kafka.Pid())-broker
	time.Sleep(2 * time.Second) // the sums of the last rows
	var err error
	if r.distinct, err = b.number(ctx, "SELECT toInt64(uniqExact(event_id)) FROM "+c.rows()); err != nil {
		return r, err
	}
	if r.rows, err = b.number(ctx, "SELECT toInt64(count()) FROM "+c.rows()); err != nil {
		return r, err
	}
	r.counted, err = b.number(ctx, "SELECT toInt64(sum(attempts)) FROM "+c.counted())
	return r, err
}

// disturbances are the kills of a disturbed run: when so many percent of the events are rows, ClickHouse
// dies, or what the contestant has beside it.
var disturbances = []struct {
	percent int64
	beside  bool
}{{1, false}, {20, false}, {35, true}, {50, false}, {70, false}}

// disturb kills ClickHouse, or what the contestant has beside it.
func (b *bench) disturb(ctx context.Context, c contestant, beside bool, r *result) error {
	if beside {
		killed, err := c.kill(ctx, b)
		if killed {
			r.kills++
		}
		return err
	}
	b.clickhouse.Kill()
	r.kills++
	_ = b.db.Close()
	return b.startClickHouse(ctx)
}

// ownClickHouse starts one in a folder of its own.
func (b *bench) ownClickHouse(ctx context.Context) error {
	b.runs++
	b.options = local.Options{Dir: filepath.Join(b.dir, fmt.Sprintf("clickhouse-%d", b.runs)), Grants: []string{"GRANT KAFKA ON *.*"}}
	return b.startClickHouse(ctx)
}

func (b *bench) startClickHouse(ctx context.Context) (err error) {
	if b.clickhouse, err = local.StartClickHouse(ctx, b.options); err != nil {
		return err
	}
	b.db, err = chx.Open(b.clickhouse.Config())
	return err
}

func (b *bench) number(ctx context.Context, query string) (n int64, err error) {
	for range 50 { // it may have been started a moment ago
		if err = b.db.QueryRow(ctx, query).Scan(&n); err == nil || ctx.Err() != nil {
			return n, err
		}
		time.Sleep(100 * time.Millisecond)
	}
	return 0, fmt.Errorf("%s: %w", query, err)
}

func (b *bench) print(results []result) error {
	fmt.Printf("%d events in the topic; ClickHouse, broker and processor are processes of their own\n\n", b.events)
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "\tkills -9\tevents/s\tfirst rows s\tall rows s\tprocessor us/event\tClickHouse us/event\tbroker us/event\tmissing\traw rows twice\tsums are off by\t")
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(b.events) }
	var wrong []error
	for _, r := range results {
		reader, ch := fmt.Sprintf("%.1f", per(r.reader)), fmt.Sprintf("%.1f", per(r.clickhouse))
		if r.kills > 0 {
			reader, ch = "-", "-" // what is known is of the last life only
		}
		fmt.Fprintf(w, "%s\t%d\t%.0f\t%.1f\t%.1f\t%s\t%s\t%.1f\t%d\t%d\t%+d\t\n", r.name, r.kills, float64(r.distinct)/r.took.Seconds(), r.first.Seconds(), r.took.Seconds(),
			reader, ch, per(r.broker), b.events-r.distinct, r.rows-r.distinct, r.counted-b.events)
		if r.name == (&turnout{}).name() && (r.distinct != b.events || r.counted != b.events) {
			wrong = append(wrong, fmt.Errorf("turnout's own figures are wrong: %d of %d events, %d counted", r.distinct, b.events, r.counted))
		}
	}
	fmt.Fprintln(w)
	return errors.Join(append(wrong, w.Flush())...)
}

func (b *bench) client() (*kafkax.Client, error) {
	return kafkax.Open(b.kafka.Config(), slog.New(slog.DiscardHandler))
}

// turnout is `turnout processor`.
type turnout struct {
	proc  *process.Process
	lives int
}

func (t *turnout) name() string    { return "turnout processor" }
func (t *turnout) rows() string    { return "attempts FINAL" }
func (t *turnout) counted() string { return "usage_hourly" }
func (t *turnout) pids() []int     { return []int{t.proc.Pid()} }

func (t *turnout) begin(_ context.Context, b *bench) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	t.lives++
	ch := b.clickhouse.Config()
	cmd := exec.Command(self, "processor", "--processor.listen", "127.0.0.1:0", "--kafka.brokers", b.kafka.Addr(), "--clickhouse.addr", ch.Addr[0], "--clickhouse.database", ch.Database,
		"--clickhouse.username", ch.Username, "--clickhouse.password", ch.Password.Reveal(), "--log.level", "warn")
	t.proc, err = process.Start("processor", filepath.Join(b.dir, fmt.Sprintf("processor-%d-%d.log", b.runs, t.lives)), cmd)
	return err
}

func (t *turnout) kill(ctx context.Context, b *bench) (bool, error) {
	t.proc.Kill()
	return true, t.begin(ctx, b)
}

func (t *turnout) stop() {
	if t.proc != nil {
		t.proc.Kill()
	}
}

func (t *turnout) complaint(context.Context, *bench) string { return t.proc.Log() }

func port(address string) (n int) {
	_, text, _ := strings.Cut(address, ":")
	_, _ = fmt.Sscan(text, &n)
	return n
}

// gatewayRound is about how many records a busy gateway sends at once.
const gatewayRound = 2000

// startTopics makes the topics.
func (b *bench) startTopics(ctx context.Context, partitions int) error {
	client, err := b.client()
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.EnsureTopics(ctx, topic.Specs(partitions))
	return err
}

// fill writes the events and returns when the topic holds them all.
func (b *bench) fill(ctx context.Context, partitions int) error {
	if err := b.startTopics(ctx, partitions); err != nil {
		return err
	}
	client, err := b.client()
	if err != nil {
		return err
	}
	defer client.Close()
	writer, g := client.NewWriter(topic.Attempts), newGenerator()
	for done := int64(0); done < b.events; {
		records := g.records(min(gatewayRound, b.events-done))
		if _, err := writer.Write(ctx, records); err != nil {
			return fmt.Errorf("filling the topic: %w", err)
		}
		done += int64(len(records))
	}
	return nil
}
