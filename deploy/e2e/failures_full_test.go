//go:build sdk

package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

// TestNodeSDKFailures: so do npm's openai and ai, the latter with @ai-sdk/openai-compatible.
func TestNodeSDKFailures(t *testing.T) {
	if _, err := os.Stat("sdk/node_modules/ai"); err != nil {
		t.Fatal("the SDKs for JavaScript are missing: run make sdk, or npm ci in deploy/e2e/sdk")
	}
	g, upstreams := failures(t)
	byName, names := map[string]failing{}, []string{}
	for _, f := range failings() {
		byName[f.name] = f
		names = append(names, f.name)
	}
	cmd := exec.CommandContext(t.Context(), "node", "sdk/failures.mjs", g.url, token, strings.Join(names, ","))
	cmd.Stderr = os.Stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	hung := time.AfterFunc(90*time.Second, func() { _ = cmd.Process.Kill() })
	defer hung.Stop()
	var got []met
	for lines := bufio.NewScanner(out); lines.Scan(); {
		var m met
		if err := json.Unmarshal(lines.Bytes(), &m); err != nil {
			t.Errorf("%v in %s", err, lines.Text())
		}
		got = append(got, m)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("failures.mjs: %v", err)
	}
	if want := 2 * 2 * len(names); len(got) != want {
		t.Errorf("%d results, want %d", len(got), want)
	}
	time.Sleep(time.Second)
	for _, m := range got {
		t.Run(m.Client+"/"+m.Failure+"/"+m.Form, func(t *testing.T) {
			check(t, byName[m.Failure], m, upstreams[m.Client+"-"+m.Failure+"-"+m.Form])
		})
	}
}
