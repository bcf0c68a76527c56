//go:build sdk

package e2e

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
)

const requests = 10_000

// TestMixedRequestsThroughSDKs sends half of the requests with OpenAI's SDK for JavaScript and half
// with the one for Go.
func TestMixedRequestsThroughSDKs(t *testing.T) {
	if _, err := os.Stat("sdk/node_modules/openai"); err != nil {
		t.Fatal("OpenAI's SDK for JavaScript is missing: run make sdk, or npm ci in deploy/e2e/sdk")
	}
	node, err := exec.LookPath("node")
	if err != nil {
		t.Fatal("node is missing: install Node.js 20 or later")
	}
	sent := map[string]int{}
	mixed(t, requests, func(urls []string, first, n int, each func(answered)) {
		var drivers sync.WaitGroup
		drivers.Go(func() { drive(t.Context(), urls, first, n/2, 16, each) })
		drivers.Go(func() {
			cmd := exec.CommandContext(t.Context(), node, "sdk/drive.mjs", strings.Join(urls, ","), token, strings.Join(models, ","),
				strconv.Itoa(first+n/2), strconv.Itoa(n-n/2), "16")
			cmd.Stderr = os.Stderr
			out, err := cmd.StdoutPipe()
			if err == nil {
				err = cmd.Start()
			}
			if err != nil {
				t.Error(err)
				return
			}
			lines := bufio.NewScanner(out)
			for lines.Scan() {
				var r answered
				if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
					t.Errorf("%v in %s", err, lines.Text())
					continue
				}
				sent["npm openai"]++
				each(r)
			}
			if err := cmd.Wait(); err != nil {
				t.Errorf("drive.mjs: %v", err)
			}
		})
		drivers.Wait()
	})
	t.Logf("%d of the requests through npm openai", sent["npm openai"])
}
