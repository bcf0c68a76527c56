package emit

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"
)

// Fsync policies: what a host that loses power may take with it.
const (
	FsyncAlways   = "always"   // nothing: Start and Finish return once their record is on the disk
	FsyncInterval = "interval" // the last FsyncInterval
	FsyncNever    = "never"    // what the kernel had not written yet
)

// What happens to starts when the spool is full.
const (
	WhenFullReject     = "reject"      // they are refused with ErrSpoolFull
	WhenFullDropOldest = "drop_oldest" // they push out the oldest unsent events, which are counted
)

const (
	defaultSegmentBytes = 16 << 20
	minSegments         = 8 // of a full spool, so that little is held up by one open segment
	minMaxBytes         = minSegments * 64 << 10
)

// Config says where events wait for Kafka and how safely.
type Config struct {
	Dir           string        `koanf:"dir" help:"directory of the event spool; each process makes its own in it"`
	MaxBytes      int64         `koanf:"max_bytes" help:"bytes the spool may take on the disk"`
	WhenFull      string        `koanf:"when_full" help:"reject new calls or drop_oldest events when the spool is full"`
	Fsync         string        `koanf:"fsync" help:"always, interval or never: what a power loss may cost"`
	FsyncInterval time.Duration `koanf:"fsync_interval" help:"how often the disk is forced with fsync interval"`
}

// Default is what holds when nothing is said: 4 GiB that survive the death of any process.
func Default() Config {
	return Config{
		Dir:           filepath.Join(".turnout", "spool"),
		MaxBytes:      4 << 30,
		WhenFull:      WhenFullReject,
		Fsync:         FsyncInterval,
		FsyncInterval: time.Second,
	}
}

// Validate names every setting that is wrong.
func (c Config) Validate() error {
	var mistakes []error
	if c.Dir == "" {
		mistakes = append(mistakes, errors.New("spool.dir: is empty; name a directory on a local disk"))
	}
	if c.MaxBytes < minMaxBytes {
		mistakes = append(mistakes, fmt.Errorf("spool.max_bytes: %d is too small; at least %d", c.MaxBytes, minMaxBytes))
	}
	if c.WhenFull != WhenFullReject && c.WhenFull != WhenFullDropOldest {
		mistakes = append(mistakes, fmt.Errorf("spool.when_full: %q is neither reject nor drop_oldest", c.WhenFull))
	}
	switch c.Fsync {
	case FsyncAlways, FsyncNever:
	case FsyncInterval:
		if c.FsyncInterval <= 0 {
			mistakes = append(mistakes, fmt.Errorf("spool.fsync_interval: %s is not above 0", c.FsyncInterval))
		}
	default:
		mistakes = append(mistakes, fmt.Errorf("spool.fsync: %q is none of always, interval, never", c.Fsync))
	}
	return errors.Join(mistakes...)
}

func (c Config) segmentBytes() int64 { return min(defaultSegmentBytes, c.MaxBytes/minSegments) }
