package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"strings"
	"time"
)

// Version is the binary's version, set when it is linked.
var Version = "dev"

const versionUsage = "usage: turnout version [--ready URL]"

// VersionMain is `turnout version`: it prints the version, or, with --ready URL, asks a component
// whether it is ready, so that an image without a shell can check its own health.
func VersionMain(ctx context.Context, env Env) error {
	switch {
	case len(env.Args) == 0:
		fmt.Fprintf(env.Stdout, "turnout %s (%s, %s/%s)\n", Version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
		return nil
	case len(env.Args) == 1 && (env.Args[0] == "--help" || env.Args[0] == "-h"):
		fmt.Fprintln(env.Stdout, versionUsage)
		return nil
	case len(env.Args) == 2 && env.Args[0] == "--ready":
		return askReady(ctx, env.Args[1])
	}
	return Usage(errors.New(versionUsage))
}

func askReady(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 3*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return Usage(fmt.Errorf("--ready: %w", err))
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return fmt.Errorf("asking %s: %w", url, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode == http.StatusOK {
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return fmt.Errorf("reading the answer of %s: %w", url, err)
	}
	return fmt.Errorf("%s: %s: %s", url, resp.Status, strings.TrimSpace(string(body)))
}
