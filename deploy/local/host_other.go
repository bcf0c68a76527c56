//go:build !(linux && amd64)

package local

import (
	"context"
	"runtime"
)

func supported() error { return errUnsupported(runtime.GOOS + "/" + runtime.GOARCH) }

func hostClickHouse(context.Context, string, []string) error { return supported() }
