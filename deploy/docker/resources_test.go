package docker

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"os"
	"regexp"
	"strings"
	"testing"

	"turnout/deploy/sim"
	"turnout/schemas/resource"
)

var update = flag.Bool("update", false, "write the resources anew")

// token opens the project of the compose stack, which serves simulated models only.
const token = "to-compose-0000000000000000000000000000"

// The resources of the compose stack are what the simulators say of themselves.
func TestResourcesAreTheSimulators(t *testing.T) {
	sum := sha256.Sum256([]byte(token))
	want, err := sim.Resources(sim.ResourceOptions{
		BaseURL:  "http://sim:8070",
		Secret:   func(p string) string { return "env:" + strings.ToUpper(strings.ReplaceAll(p, "-", "_")) + "_KEY" },
		Projects: []sim.Project{{ID: "demo", KeyHash: "sha256:" + hex.EncodeToString(sum[:])}},
	})
	if err != nil {
		t.Fatal(err)
	}
	want = append([]byte("# Written by `go test ./deploy/docker -update`. API key of the project demo: "+token+"\n"), want...)
	const path = "resources/simulated.yaml"
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is out of date: go test ./deploy/docker -update", path)
	}
	if _, err := resource.Parse(resource.Source{Name: path, Data: got}); err != nil {
		t.Error(err)
	}
	compose, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range sim.Default() {
		if !strings.Contains(string(compose), sim.Key(p.ID)) {
			t.Errorf("docker-compose.yml does not hand the gateways %s's key", p.ID)
		}
	}
}

// The image's user is not root, and Docker gives a new volume the owner of the folder it covers.
func TestTheSpoolsVolumeBelongsToTheUser(t *testing.T) {
	compose, err := os.ReadFile("../../docker-compose.yml")
	if err != nil {
		t.Fatal(err)
	}
	dockerfile, err := os.ReadFile("Dockerfile")
	if err != nil {
		t.Fatal(err)
	}
	mounts := regexp.MustCompile(`spool-\d+:(/[^"\s]+)`).FindAllStringSubmatch(string(compose), -1)
	if len(mounts) == 0 {
		t.Fatal("no spool has a volume")
	}
	for _, m := range mounts {
		if !regexp.MustCompile(`(?m)^COPY .*--chown=nonroot:nonroot \S+ ` + regexp.QuoteMeta(m[1]) + `$`).Match(dockerfile) {
			t.Errorf("the image does not have %s for its user", m[1])
		}
		if dir := "TURNOUT_SPOOL_DIR: " + m[1] + "/"; !strings.Contains(string(compose), dir) {
			t.Errorf("docker-compose.yml: the spool is not under %s", m[1])
		}
	}
}
