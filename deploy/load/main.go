package load

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"turnout/internal/config"
	"turnout/internal/lifecycle"
)

// Config are the settings of `turnout load`.
type Config struct {
	URL          string        `koanf:"url" help:"gateway to drive"`
	Key          config.Secret `koanf:"key" help:"API key"`
	Model        []string      `koanf:"model" help:"model, or several with commas, of which each request draws one"`
	Requests     int           `koanf:"requests" help:"how many requests; 0: until the duration or the trace ends"`
	Duration     time.Duration `koanf:"duration" help:"how long to send; 0: until the requests or the trace end"`
	Rate         float64       `koanf:"rate" help:"requests/s, whether or not answers come; 0: as fast as the concurrency allows"`
	Concurrency  int           `koanf:"concurrency" help:"requests under way at most; 0: 64, or 1024 with a rate"`
	StreamShare  float64       `koanf:"stream_share" help:"share of streams, 0 to 1"`
	Seed         uint64        `koanf:"seed" help:"what every random decision follows from"`
	PromptTokens int           `koanf:"prompt_tokens" help:"length of a prompt"`
	MaxTokens    int           `koanf:"max_tokens" help:"max_tokens of a request; 0: not sent"`
	Timeout      time.Duration `koanf:"timeout" help:"of one request"`
	Trace        string        `koanf:"trace" help:"request trace to replay: an Azure CSV or a Mooncake JSONL file"`
	Speed        float64       `koanf:"speed" help:"how many times faster than it was recorded to replay the trace"`
	Sessions     bool          `koanf:"sessions" help:"send the sessions of a Mooncake trace as x-session-id"`
	AllowRemote  bool          `koanf:"allow_remote" help:"the gateway may be on another machine"`
	JSON         bool          `koanf:"json" help:"print the summary as JSON"`
}

// DefaultConfig returns the defaults: closed load on a local gateway.
func DefaultConfig() Config {
	return Config{
		URL: "http://127.0.0.1:8080", Model: []string{"sim-small"}, StreamShare: 0.5,
		Seed: 1, PromptTokens: 100, Timeout: 10 * time.Minute, Speed: 1,
	}
}

// defaultRequests are sent when nothing says how much.
const defaultRequests = 1000

func (c *Config) options() Options {
	o := Options{
		URL: c.URL, Key: c.Key.Reveal(), Models: c.Model, Requests: c.Requests, Duration: c.Duration,
		Rate: c.Rate, Concurrency: c.Concurrency, StreamShare: c.StreamShare, Seed: c.Seed,
		PromptTokens: c.PromptTokens, MaxTokens: c.MaxTokens, Timeout: c.Timeout, Speed: c.Speed,
		Sessions: c.Sessions, AllowRemote: c.AllowRemote,
	}
	if o.Requests == 0 && o.Duration == 0 && c.Trace == "" {
		o.Requests = defaultRequests
	}
	return o
}

// Main is `turnout load`. A run in which requests fail is a run: exit code 0, and the summary says
// what failed; one in which none succeeded is an error.
func Main(ctx context.Context, env lifecycle.Env, known []string) error {
	cfg := DefaultConfig()
	parsed, err := config.Load("load", &cfg, env, known)
	if errors.Is(err, config.ErrHelp) {
		return nil
	}
	if err != nil {
		return err
	}
	o := cfg.options()
	if cfg.Trace != "" {
		if o.Trace, err = ReadTrace(cfg.Trace); err != nil {
			return lifecycle.Usage(err)
		}
	}
	if err := o.Validate(); err != nil {
		return lifecycle.Usage(fmt.Errorf("settings:\n%w", err))
	}
	if parsed.CheckOnly {
		fmt.Fprintln(env.Stdout, "settings are fine")
		return nil
	}
	summary, err := Run(ctx, o, nil)
	if err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	if err := cfg.print(summary, env.Stdout); err != nil {
		return fmt.Errorf("printing the summary: %w", err)
	}
	if summary.OK == 0 && summary.Requests > summary.Errors[CodeCanceled] {
		return errors.New("not one request succeeded")
	}
	return nil
}

func (c *Config) print(summary Summary, out io.Writer) error {
	if !c.JSON {
		return summary.Print(out)
	}
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(summary)
}
