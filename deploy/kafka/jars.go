package kafka

import (
	"context"
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
)

//go:embed pom.xml
var pom []byte

// Jars returns the directory with Kafka's jars, fetching them from Maven Central if they are not there
// yet. Its name holds a hash of the pom, so a new version is fetched anew. It is .cache/kafka in the
// module around the working directory, or in the user's cache directory outside of one. Processes may
// fetch at the same time.
func Jars(ctx context.Context) (string, error) {
	root, err := cacheDir()
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(pom)
	dir := filepath.Join(root, "jars-"+hex.EncodeToString(sum[:6]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	mvn, err := exec.LookPath("mvn")
	if err != nil {
		return "", errors.New("apache kafka: its jars are not here and mvn, which fetches them, is not either: install Maven and Java 17")
	}
	work, err := os.MkdirTemp(root, "fetch-")
	if err != nil {
		return "", fmt.Errorf("apache kafka: %w", err)
	}
	defer os.RemoveAll(work)
	if err := os.WriteFile(filepath.Join(work, "pom.xml"), pom, 0o600); err != nil {
		return "", fmt.Errorf("apache kafka: %w", err)
	}
	jars := filepath.Join(work, "jars")
	out, err := exec.CommandContext(ctx, mvn, "-q", "-B", "-f", filepath.Join(work, "pom.xml"), "dependency:copy-dependencies", "-DoutputDirectory="+jars).CombinedOutput()
	if err != nil {
		return "", fmt.Errorf("apache kafka: fetching its jars with mvn: %w\n%s", err, out)
	}
	if err := os.Rename(jars, dir); err != nil {
		if _, there := os.Stat(dir); there == nil { // another process was faster
			return dir, nil
		}
		return "", fmt.Errorf("apache kafka: %w", err)
	}
	return dir, nil
}

func cacheDir() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("apache kafka: %w", err)
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			dir = filepath.Join(dir, ".cache")
			break
		} else if !errors.Is(err, fs.ErrNotExist) {
			return "", fmt.Errorf("apache kafka: %w", err)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			if dir, err = os.UserCacheDir(); err != nil {
				return "", fmt.Errorf("apache kafka: %w", err)
			}
			dir = filepath.Join(dir, "turnout")
			break
		}
		dir = parent
	}
	dir = filepath.Join(dir, "kafka")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("apache kafka: %w", err)
	}
	return dir, nil
}
