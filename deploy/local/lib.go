package local

import (
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

const (
	libraryName = "libchdb.so"
	inModule    = "deploy/local/chdb/node_modules/@chdb/lib-linux-x64-gnu/" + libraryName
)

// sums names the one library that is hosted: it speaks of itself as ClickHouse 26.7.2, and earlier
// builds have no listeners. chdb/package.json pins the package it comes in. npm skips a package of the
// wrong integrity without a word, so `make deps` checks with this file too.
//
//go:embed chdb/SHA256SUMS
var sums string

func wantedSum() string {
	sum, _, _ := strings.Cut(sums, " ")
	return sum
}

// FindLibrary returns the path of the verified libchdb. explicit (the setting chdb_lib) wins; then
// come TURNOUT_CHDB_LIB, node_modules in the module around the executable and the working directory,
// and the user's cache directory. The error says what to run.
func FindLibrary(explicit string) (string, error) {
	if err := supported(); err != nil {
		return "", err
	}
	if explicit == "" {
		explicit = os.Getenv("TURNOUT_CHDB_LIB")
	}
	if explicit != "" {
		path, err := filepath.Abs(explicit)
		if err != nil {
			return "", fmt.Errorf("clickhouse library %s: %w", explicit, err)
		}
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("clickhouse library %s (from TURNOUT_CHDB_LIB or chdb_lib) cannot be used: %w", explicit, err)
		}
		return path, verify(path)
	}
	for _, path := range candidates() {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return "", fmt.Errorf("clickhouse library: %w", err)
		}
		return path, verify(path)
	}
	return "", errors.New("the embedded ClickHouse needs libchdb, which is not here: run `make deps` (npm ci in deploy/local/chdb) or set TURNOUT_CHDB_LIB to a libchdb.so")
}

func candidates() []string {
	var out []string
	if executable, err := os.Executable(); err == nil {
		out = append(out, upwards(filepath.Dir(executable))...)
	}
	if wd, err := os.Getwd(); err == nil {
		out = append(out, upwards(wd)...)
	}
	if dir, err := os.UserCacheDir(); err == nil {
		out = append(out, filepath.Join(dir, "turnout", libraryName))
	}
	return out
}

// upwards returns where the library would be if dir lay in the module, for dir and all above it.
func upwards(dir string) []string {
	var out []string
	for {
		out = append(out, filepath.Join(dir, filepath.FromSlash(inModule)))
		parent := filepath.Dir(dir)
		if parent == dir {
			return out
		}
		dir = parent
	}
}

// verify compares the checksum. Reading half a gigabyte takes the better part of a second, so a file
// that was found right is remembered by path, size, inode and time of change.
func verify(path string) error {
	info, err := os.Stat(path)
	if err != nil {
		return fmt.Errorf("clickhouse library: %w", err)
	}
	remembered := stamp(path, info)
	if remembered != "" {
		if _, err := os.Stat(remembered); err == nil {
			return nil
		}
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("clickhouse library: %w", err)
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return fmt.Errorf("clickhouse library: %w", err)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != wantedSum() {
		return fmt.Errorf("clickhouse library %s is not the one Turnout was built for (sha256 %s, wanted %s): remove it and run `make deps`", path, sum, wantedSum())
	}
	if remembered != "" && os.MkdirAll(filepath.Dir(remembered), 0o755) == nil {
		_ = os.WriteFile(remembered, nil, 0o644) // only saves time
	}
	return nil
}

func stamp(path string, info fs.FileInfo) string {
	dir, err := os.UserCacheDir()
	if err != nil {
		return ""
	}
	id := fmt.Sprintf("%s %s %d %d", wantedSum(), path, info.Size(), info.ModTime().UnixNano())
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		id = fmt.Sprintf("%s %d", id, s.Ino)
	}
	sum := sha256.Sum256([]byte(id))
	return filepath.Join(dir, "turnout", "verified-"+hex.EncodeToString(sum[:8]))
}
