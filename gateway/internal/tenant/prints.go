package tenant

import (
	"crypto/sha256"
	"fmt"
	"os"
	"strings"
	"time"
)

// prints remembers what files held, so that a look at unchanged ones need not read them.
type prints map[string]print

type print struct {
	size     int64
	modified time.Time
	looked   time.Time
	sum      [sha256.Size]byte
}

// coarse is how far apart two changes must be for every file system to give them different times.
const coarse = 2 * time.Second

// of says what the files hold, in order. A file that cannot be read is part of the answer too.
func (p prints) of(names []string) string {
	var b strings.Builder
	for _, name := range names {
		sum, err := p.one(name)
		if err != nil {
			fmt.Fprintf(&b, "%q: %v\n", name, err)
			continue
		}
		fmt.Fprintf(&b, "%q %x\n", name, sum)
	}
	return b.String()
}

func (p prints) one(name string) (sum [sha256.Size]byte, err error) {
	info, err := os.Stat(name)
	if err != nil {
		return sum, err
	}
	known, ok := p[name]
	if ok && known.size == info.Size() && known.modified.Equal(info.ModTime()) && known.looked.Sub(known.modified) > coarse {
		return known.sum, nil
	}
	looked := time.Now()
	data, err := os.ReadFile(name)
	if err != nil {
		return sum, err
	}
	sum = sha256.Sum256(data)
	p[name] = print{info.Size(), info.ModTime(), looked, sum}
	return sum, nil
}
