//go:build !linux

package emit

import "os"

func allocate(*os.File, int64) error { return nil }

func datasync(f *os.File) error { return f.Sync() }
