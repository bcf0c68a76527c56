package resource

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// MaxFile bounds a resource file, in bytes.
const MaxFile = 16 << 20

// ParseFiles reads files and folders: of a folder, everything below it that ends in .yaml, .yml or
// .json, in order of path. Names that begin with a dot are left out.
func ParseFiles(paths []string) (*Set, error) {
	sources, err := ReadFiles(paths)
	if err != nil {
		return nil, err
	}
	return Parse(sources...)
}

// ReadFiles reads what ParseFiles parses.
func ReadFiles(paths []string) ([]Source, error) {
	names, err := ListFiles(paths)
	if err != nil {
		return nil, err
	}
	var sources []Source
	for _, name := range names {
		info, err := os.Stat(name)
		if err != nil {
			return nil, fmt.Errorf("reading resources: %w", err)
		}
		if info.Size() > MaxFile {
			return nil, fmt.Errorf("reading resources: %s has %d bytes, more than %d: split it", name, info.Size(), MaxFile)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading resources: %w", err)
		}
		sources = append(sources, Source{Name: name, Data: data})
	}
	return sources, nil
}

// ListFiles returns the files that paths stand for, each once.
func ListFiles(paths []string) ([]string, error) {
	var out []string
	add := func(name string) {
		if !slices.Contains(out, name) {
			out = append(out, name)
		}
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("reading resources: there is no file or folder %s", path)
		}
		if err != nil {
			return nil, fmt.Errorf("reading resources: %w", err)
		}
		if !info.IsDir() {
			add(filepath.Clean(path))
			continue
		}
		if err := walk(path, 0, add); err != nil {
			return nil, fmt.Errorf("reading resources: %w", err)
		}
	}
	return out, nil
}

// walk follows links, which mounted folders are made of, to a bounded depth.
func walk(folder string, depth int, add func(string)) error {
	if depth > 16 {
		return fmt.Errorf("%s nests too deep: is there a link to a folder above it?", folder)
	}
	entries, err := os.ReadDir(folder)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		if strings.HasPrefix(entry.Name(), ".") {
			continue
		}
		name := filepath.Join(folder, entry.Name())
		info, err := os.Stat(name)
		if err != nil {
			return err
		}
		if info.IsDir() {
			if err := walk(name, depth+1, add); err != nil {
				return err
			}
			continue
		}
		switch filepath.Ext(name) {
		case ".yaml", ".yml", ".json":
			add(name)
		}
	}
	return nil
}
