package sim

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"sync"
	"time"
)

// How a call left the simulator.
const (
	Open      = "open"      // under way, or the simulator was killed during it
	Completed = "completed" // everything that was to be sent was, error answers included
	Cut       = "cut"       // the simulator ended the connection before the end of the answer
	Canceled  = "canceled"  // the caller left before the end
)

// Entry is one call that arrived at a provider.
type Entry struct {
	Seq        int64     `json:"seq"` // over all providers, from 1
	Provider   string    `json:"provider"`
	Call       int64     `json:"call"` // at this provider, from 1
	ReceivedAt time.Time `json:"received_at"`
	FinishedAt time.Time `json:"finished_at,omitzero"`
	TraceID    string    `json:"trace_id,omitempty"` // of the traceparent
	SpanID     string    `json:"span_id,omitempty"`  // its parent id: the caller's span
	APIKey     string    `json:"api_key,omitempty"`  // masked: the last four characters
	Endpoint   string    `json:"endpoint"`           // chat | embeddings
	Model      string    `json:"model,omitempty"`
	Stream     bool      `json:"stream,omitempty"`
	Outcome    string    `json:"outcome"`
	Fault      string    `json:"fault,omitempty"`  // what was done to it on purpose
	Status     int       `json:"status,omitempty"` // 0: no answer
	Chunks     int       `json:"chunks,omitempty"` // events with output that were sent

	InputTokens       int `json:"input_tokens,omitempty"`
	CachedInputTokens int `json:"cached_input_tokens,omitempty"`
	OutputTokens      int `json:"output_tokens,omitempty"` // as sent, reasoning included
	ReasoningTokens   int `json:"reasoning_tokens,omitempty"`
}

// Injected faults beside the error kinds.
const (
	FaultSilence = "silence"
	FaultStall   = "stall"
	FaultCut     = "cut"
)

// ledger keeps the newest entries in a ring and, with a file, appends each entry twice: when it is
// opened and when it is closed. Of two lines with one sequence number the later one counts.
type ledger struct {
	mu      sync.Mutex
	limit   int
	ring    []Entry
	start   int   // place of the oldest entry
	first   int64 // its sequence number
	next    int64
	dropped int64
	file    *os.File
	fileErr error // the first failure to write; reported by close
}

func openLedger(limit int, path string) (*ledger, error) {
	l := &ledger{limit: limit, first: 1, next: 1}
	if path == "" {
		return l, nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening ledger: %w", err)
	}
	if err := l.restore(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("reading ledger %s: %w", path, err)
	}
	l.file = file
	return l, nil
}

// restore takes over the entries of an earlier run and cuts off a line that a kill left unfinished:
// its call had no answer yet.
func (l *ledger) restore(file *os.File) error {
	entries, whole, err := readLedger(file)
	if err != nil {
		return err
	}
	if err := file.Truncate(whole); err != nil || len(entries) == 0 {
		return err
	}
	for i := 1; i < len(entries); i++ {
		if entries[i].Seq != entries[i-1].Seq+1 {
			return fmt.Errorf("seq %d follows %d: entries are missing; move the file away to begin a new one", entries[i].Seq, entries[i-1].Seq)
		}
	}
	kept := entries[max(0, len(entries)-l.limit):]
	l.ring = slices.Clone(kept)
	l.first, l.next = kept[0].Seq, kept[len(kept)-1].Seq+1
	l.dropped = int64(len(entries) - len(kept))
	return nil
}

// at returns the place of a sequence number, nil if it is not held.
func (l *ledger) at(seq int64) *Entry {
	if seq < l.first || seq >= l.next {
		return nil
	}
	return &l.ring[(l.start+int(seq-l.first))%len(l.ring)]
}

// begin gives the entry its number and keeps it as open.
func (l *ledger) begin(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	e.Seq, e.Outcome = l.next, Open
	l.next++
	if len(l.ring) < l.limit {
		l.ring = append(l.ring, *e)
	} else {
		l.ring[l.start] = *e
		l.start = (l.start + 1) % l.limit
		l.first++
		l.dropped++
	}
	l.write(e)
}

// end keeps what became of the entry, unless it has been dropped meanwhile.
func (l *ledger) end(e *Entry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	held := l.at(e.Seq)
	if held == nil {
		return
	}
	*held = *e
	l.write(e)
}

func (l *ledger) write(e *Entry) {
	if l.file == nil || l.fileErr != nil {
		return
	}
	line, err := json.Marshal(e)
	if err == nil {
		_, err = l.file.Write(append(line, '\n'))
	}
	if err != nil {
		l.fileErr = fmt.Errorf("writing ledger: %w", err)
	}
}

// since copies the entries above a sequence number.
func (l *ledger) since(seq int64) (entries []Entry, dropped int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for s := max(seq+1, l.first); s < l.next; s++ {
		entries = append(entries, *l.at(s))
	}
	return entries, l.dropped
}

// clear forgets every entry; numbers go on.
func (l *ledger) clear() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ring, l.start, l.first, l.dropped = nil, 0, l.next, 0
	if l.file == nil {
		return nil
	}
	if err := l.file.Truncate(0); err != nil {
		return fmt.Errorf("clearing ledger: %w", err)
	}
	return nil
}

func (l *ledger) stats() (held, dropped, last int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next - l.first, l.dropped, l.next - 1
}

func (l *ledger) close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.file == nil {
		return nil
	}
	err := errors.Join(l.fileErr, l.file.Close())
	l.file = nil
	return err
}

// ReadLedger reads entries as GET /ledger and the ledger file hold them: JSON lines, in order of
// their numbers; of two lines with one number the later one counts. A last line without an end that
// does not parse was cut off by a kill and is left out.
func ReadLedger(r io.Reader) ([]Entry, error) {
	entries, _, err := readLedger(r)
	return entries, err
}

// readLedger also returns the size of the lines that are whole.
func readLedger(r io.Reader) (entries []Entry, whole int64, err error) {
	place := map[int64]int{}
	lines := bufio.NewReader(r)
	for number := 1; ; number++ {
		line, readErr := lines.ReadBytes('\n')
		if readErr != nil && !errors.Is(readErr, io.EOF) {
			return nil, 0, readErr
		}
		last := readErr != nil
		if text := bytes.TrimSpace(line); len(text) > 0 {
			var e Entry
			parseErr := json.Unmarshal(text, &e)
			switch {
			case parseErr != nil && last:
				line = nil
			case parseErr != nil:
				return nil, 0, fmt.Errorf("line %d: %w", number, parseErr)
			case e.Seq < 1:
				return nil, 0, fmt.Errorf("line %d: seq: %d is below 1", number, e.Seq)
			default:
				if i, ok := place[e.Seq]; ok {
					entries[i] = e
					break
				}
				place[e.Seq] = len(entries)
				entries = append(entries, e)
			}
		}
		whole += int64(len(line))
		if last {
			slices.SortFunc(entries, func(a, b Entry) int { return cmp.Compare(a.Seq, b.Seq) })
			return entries, whole, nil //nolint:nilerr // a torn last line is cut, not an error
		}
	}
}
