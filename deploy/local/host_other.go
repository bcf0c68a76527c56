//go:build !(linux && amd64)

package local

import (
	"context"
	"os/exec"
	"runtime"
)

func supported() error { return errUnsupported(runtime.GOOS + "/" + runtime.GOARCH) }

func ownSession(*exec.Cmd) {}

func hostClickHouse(context.Context, string, []string) error { return supported() }
