package local

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"strings"
	"time"
	"unsafe"

	"github.com/ebitengine/purego"
	"golang.org/x/sys/unix"
)

// supported says whether libchdb can run here. It is built for glibc only.
func supported() error {
	if _, err := os.Stat("/lib64/ld-linux-x86-64.so.2"); err != nil {
		return errUnsupported("linux/amd64 without glibc")
	}
	return nil
}

// stopPatience is how long the engine may take to end before its process does.
const stopPatience = 1500 * time.Millisecond

// chdb is what is used of the library.
type chdb struct {
	setSignalHandlersEnabled func(int32)
	queryCmdline             func(argc int32, argv **byte) uintptr
	resultError              func(uintptr) string
	destroyQueryResult       func(uintptr)
}

func openChdb(path string) (*chdb, error) {
	handle, err := purego.Dlopen(path, purego.RTLD_NOW|purego.RTLD_LOCAL)
	if err != nil {
		return nil, fmt.Errorf("loading %s: %w", path, err)
	}
	lib := &chdb{}
	for name, function := range map[string]any{
		"chdb_set_signal_handlers_enabled": &lib.setSignalHandlersEnabled,
		"chdb_query_cmdline":               &lib.queryCmdline,
		"chdb_result_error":                &lib.resultError,
		"chdb_destroy_query_result":        &lib.destroyQueryResult,
	} {
		// Registering a missing symbol panics.
		if _, err := purego.Dlsym(handle, name); err != nil {
			return nil, fmt.Errorf("%s has no %s: it is another version, run `make deps`", path, name)
		}
		purego.RegisterLibFunc(function, handle, name)
	}
	return lib, nil
}

// hostClickHouse runs the engine in this process until ctx ends or the other end of the standard
// input is gone. It takes the process over: the standard input becomes a terminal of its own and the
// standard output goes nowhere. Without a terminal the engine aborts the process on any exception
// in a connection; at its prompt it waits for ever, and the end of the terminal ends it.
func hostClickHouse(ctx context.Context, library string, args []string) error {
	parent, err := moveStdin()
	if err != nil {
		return err
	}
	master, err := newTerminal()
	if err != nil {
		return err
	}
	if err := silenceStdout(); err != nil {
		return err
	}
	lib, err := openChdb(library)
	if err != nil {
		return err
	}
	lib.setSignalHandlersEnabled(0) // or a nil dereference in Go would kill the process

	go func() { _, _ = io.Copy(io.Discard, master) }() // the prompt
	over, ending := make(chan struct{}), make(chan struct{})
	go func() {
		_, _ = io.Copy(io.Discard, parent)
		close(over)
	}()
	go func() {
		select {
		case <-ctx.Done():
		case <-over:
		}
		close(ending)
		master.Close()
		// The engine waits for connections that clients keep open. What it has acknowledged is on disk.
		time.Sleep(stopPatience)
		os.Exit(0)
	}()

	argv := make([]*byte, 0, len(args)+1)
	for _, arg := range args {
		p, err := unix.BytePtrFromString(arg)
		if err != nil {
			return fmt.Errorf("engine argument %q: %w", arg, err)
		}
		argv = append(argv, p)
	}
	argv = append(argv, nil)
	result := lib.queryCmdline(int32(len(args)), unsafe.SliceData(argv))
	runtime.KeepAlive(argv)
	message := ""
	if result != 0 {
		message = strings.Clone(lib.resultError(result))
		lib.destroyQueryResult(result)
	}
	select {
	case <-ending:
		return nil
	default:
		return fmt.Errorf("the engine ended by itself: %s", cmp.Or(message, "it says why above, if at all"))
	}
}

// moveStdin moves the pipe from the parent out of the way. os.Stdin itself stays as it is: were it
// collected, its finalizer would close whatever stands at descriptor 0 by then.
func moveStdin() (*os.File, error) {
	fd, err := unix.FcntlInt(0, unix.F_DUPFD_CLOEXEC, 100)
	if err != nil {
		return nil, fmt.Errorf("moving the standard input: %w", err)
	}
	return os.NewFile(uintptr(fd), "parent"), nil
}

// newTerminal makes descriptor 0 the inner end of a new pseudo terminal and returns its outer end.
func newTerminal() (*os.File, error) {
	// Non-blocking before os.NewFile, or Close would wait for a Read that is under way.
	master, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("opening /dev/ptmx: %w", err)
	}
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return nil, fmt.Errorf("unlocking the terminal: %w", err)
	}
	number, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return nil, fmt.Errorf("asking for the terminal's number: %w", err)
	}
	slave, err := unix.Open(fmt.Sprintf("/dev/pts/%d", number), unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the terminal: %w", err)
	}
	defer unix.Close(slave)
	if err := unix.Dup3(slave, 0, 0); err != nil {
		return nil, fmt.Errorf("taking the terminal as standard input: %w", err)
	}
	return os.NewFile(uintptr(master), "terminal"), nil
}

func silenceStdout() error {
	null, err := unix.Open(os.DevNull, unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("opening %s: %w", os.DevNull, err)
	}
	defer unix.Close(null)
	if err := unix.Dup3(null, 1, 0); err != nil {
		return fmt.Errorf("silencing the standard output: %w", err)
	}
	return nil
}
