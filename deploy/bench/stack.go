package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"turnout/deploy/internal/process"
	"turnout/deploy/local"
	"turnout/internal/kafkax"
	"turnout/migrations"
	"turnout/schemas/topic"

	"log/slog"
)

const (
	apiKey = "to-bench-0000000000000000000000000000"
	model  = "bench-model"
)

// bench is what runs while measuring.
type bench struct {
	targets []target
	dir     string
	stops   []func() error
}

func (b *bench) stop() error {
	var failed []error
	for i := len(b.stops) - 1; i >= 0; i-- {
		failed = append(failed, b.stops[i]())
	}
	return errors.Join(append(failed, os.RemoveAll(b.dir))...)
}

// start brings up the upstream, the reverse proxy and a gateway with both engines behind it.
func start(ctx context.Context, fsync string) (*bench, error) {
	dir, err := os.MkdirTemp("", "turnout-bench-")
	b := &bench{dir: dir}
	if err != nil {
		return b, err
	}
	upstream, pid, err := b.role("upstream", "0s")
	if err != nil {
		return b, err
	}
	b.targets = append(b.targets, target{name: "direct", url: "http://" + upstream, model: model, pid: pid})
	proxy, pid, err := b.role("proxy", "http://"+upstream)
	if err != nil {
		return b, err
	}
	b.targets = append(b.targets, target{name: "proxy", url: "http://" + proxy, model: model, pid: pid})

	kafka, err := local.StartKafka(ctx, local.KafkaOptions{Dir: filepath.Join(dir, "kafka")})
	if err != nil {
		return b, err
	}
	b.stops = append(b.stops, func() error { return kafka.Stop(context.WithoutCancel(ctx)) })
	clickhouse, err := local.StartClickHouse(ctx, local.Options{Dir: filepath.Join(dir, "clickhouse")})
	if err != nil {
		return b, err
	}
	b.stops = append(b.stops, func() error { return clickhouse.Stop(context.WithoutCancel(ctx)) })
	if _, _, err := migrations.Up(ctx, clickhouse.Config()); err != nil {
		return b, err
	}
	client, err := kafkax.Open(kafka.Config(), slog.New(slog.DiscardHandler))
	if err != nil {
		return b, err
	}
	defer client.Close()
	if _, err := client.EnsureTopics(ctx, topic.Specs(12)); err != nil {
		return b, err
	}
	if err := os.WriteFile(filepath.Join(dir, "resources.yaml"), resources(upstream), 0o600); err != nil {
		return b, err
	}
	listen, err := process.FreeAddress()
	if err != nil {
		return b, err
	}
	admin, err := process.FreeAddress()
	if err != nil {
		return b, err
	}
	ch := clickhouse.Config()
	_, pid, err = b.spawn(false, "role", "gateway", "--listen", listen, "--admin_listen", admin, "--resources", filepath.Join(dir, "resources.yaml"),
		"--spool.dir", filepath.Join(dir, "spool"), "--spool.fsync", fsync, "--kafka.brokers", kafka.Addr(), "--clickhouse.addr", ch.Addr[0],
		"--clickhouse.database", ch.Database, "--clickhouse.username", ch.Username, "--clickhouse.password", ch.Password.Reveal(), "--log.level", "warn")
	if err != nil {
		return b, err
	}
	b.targets = append(b.targets, target{name: "turnout", url: "http://" + listen, key: apiKey, model: model, pid: pid})
	return b, process.AwaitOK(ctx, "the gateway", "http://"+listen+"/readyz")
}

// resources of one project and ten providers of one model, all the same upstream: a decision has ten
// candidates.
func resources(upstream string) []byte {
	var b strings.Builder
	for i := range 10 {
		fmt.Fprintf(&b, "kind: provider\nid: bench-%d\nprotocol: openai\nbase_url: http://%s/v1\nallow_private: true\ncredentials: [{id: main, secret: env:PATH}]\n---\n", i, upstream)
	}
	fmt.Fprintf(&b, "kind: model\nid: %s\noutput: [text]\nmappings:\n", model)
	for i := range 10 {
		fmt.Fprintf(&b, "  - {provider: bench-%d, upstream: bench-upstream, price: {input: 1.%d, output: 2}, context: 128000}\n", i, i)
	}
	sum := sha256.Sum256([]byte(apiKey))
	fmt.Fprintf(&b, "---\nkind: organization\nid: bench\n---\nkind: project\nid: bench\norganization: bench\n---\nkind: api_key\nid: bench\nproject: bench\nhash: sha256:%s\n", hex.EncodeToString(sum[:]))
	return []byte(b.String())
}

// role runs this program as another process and returns the address it prints.
func (b *bench) role(args ...string) (address string, pid int, err error) {
	return b.spawn(true, append([]string{"role"}, args...)...)
}

func (b *bench) spawn(prints bool, args ...string) (address string, pid int, err error) {
	self, err := os.Executable()
	if err != nil {
		return "", 0, err
	}
	cmd := exec.Command(self, args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	var out io.ReadCloser
	if prints {
		if out, err = cmd.StdoutPipe(); err != nil {
			return "", 0, err
		}
	}
	if err := cmd.Start(); err != nil {
		return "", 0, fmt.Errorf("starting %s: %w", args[1], err)
	}
	b.stops = append(b.stops, func() error {
		_ = cmd.Process.Signal(syscall.SIGTERM)
		timer := time.AfterFunc(10*time.Second, func() { _ = cmd.Process.Kill() })
		defer timer.Stop()
		_ = cmd.Wait()
		return nil
	})
	if !prints {
		return "", cmd.Process.Pid, nil
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return "", 0, fmt.Errorf("starting %s: %w", args[1], err)
	}
	return strings.TrimSpace(line), cmd.Process.Pid, nil
}
