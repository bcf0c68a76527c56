package load

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
	"strconv"
	"strings"
	"time"
)

// Bounds of a trace.
const (
	maxTraceRequests = 2_000_000
	maxTraceLine     = 1 << 20
	maxTraceTokens   = 4 << 20 // of one request, either way
)

// TraceRequest is one request of a trace.
type TraceRequest struct {
	At           time.Duration // since the first request of the trace
	InputTokens  int
	OutputTokens int
	Blocks       []uint64 // ids of the prompt's 512-token blocks; nil: the trace does not say
}

// ReadTrace reads a trace file; see ParseTrace.
func ReadTrace(path string) ([]TraceRequest, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening trace: %w", err)
	}
	defer file.Close()
	requests, err := ParseTrace(file)
	if err != nil {
		return nil, fmt.Errorf("reading trace %s: %w", path, err)
	}
	return requests, nil
}

// ParseTrace reads the Azure LLM inference traces (CSV: TIMESTAMP,ContextTokens,GeneratedTokens) and
// the Mooncake traces (JSON lines: timestamp in ms, input_length, output_length, hash_ids), told
// apart by their first byte. The requests come in order of time, those of one time as they stand.
func ParseTrace(r io.Reader) ([]TraceRequest, error) {
	lines := bufio.NewScanner(r)
	lines.Buffer(make([]byte, 0, 64<<10), maxTraceLine)
	var parse func([]byte) (TraceRequest, error)
	var requests []TraceRequest
	for number := 1; lines.Scan(); number++ {
		line := bytes.TrimSpace(lines.Bytes())
		switch {
		case len(line) == 0:
			continue
		case parse != nil:
		case line[0] == '{':
			parse = parseMooncake
		default:
			if header := string(bytes.TrimPrefix(line, []byte("\ufeff"))); header != azureHeader {
				return nil, fmt.Errorf("line %d: %.60q begins neither an Azure trace (%s) nor a Mooncake trace (a JSON object)", number, header, azureHeader)
			}
			parse = parseAzure
			continue
		}
		if len(requests) == maxTraceRequests {
			return nil, fmt.Errorf("line %d: more than %d requests: cut the trace", number, maxTraceRequests)
		}
		request, err := parse(line)
		if err != nil {
			return nil, fmt.Errorf("line %d: %w", number, err)
		}
		requests = append(requests, request)
	}
	if err := lines.Err(); err != nil {
		return nil, err
	}
	if len(requests) == 0 {
		return nil, errors.New("holds no request")
	}
	slices.SortStableFunc(requests, func(a, b TraceRequest) int { return cmp.Compare(a.At, b.At) })
	begin := requests[0].At
	for i := range requests {
		requests[i].At -= begin
	}
	return requests, nil
}

const azureHeader = "TIMESTAMP,ContextTokens,GeneratedTokens"

// azureEpoch makes times small enough for a Duration.
var azureEpoch = time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC)

func parseAzure(line []byte) (TraceRequest, error) {
	fields := strings.Split(string(line), ",")
	if len(fields) != 3 {
		return TraceRequest{}, fmt.Errorf("has %d fields, not 3", len(fields))
	}
	at, err := time.Parse("2006-01-02 15:04:05", fields[0])
	if err != nil {
		at, err = time.Parse("2006-01-02 15:04:05-07:00", fields[0])
	}
	if err != nil {
		return TraceRequest{}, fmt.Errorf("TIMESTAMP: %q is not like 2023-11-16 18:17:03.9799600", fields[0])
	}
	if at.Before(azureEpoch) || at.Year() > 2100 {
		return TraceRequest{}, fmt.Errorf("TIMESTAMP: %q is not within 2023 and 2100", fields[0])
	}
	in, err := traceTokens("ContextTokens", fields[1])
	if err != nil {
		return TraceRequest{}, err
	}
	out, err := traceTokens("GeneratedTokens", fields[2])
	if err != nil {
		return TraceRequest{}, err
	}
	return TraceRequest{At: at.Sub(azureEpoch), InputTokens: in, OutputTokens: out}, nil
}

func traceTokens(name, text string) (int, error) {
	n, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %q is no whole number", name, text)
	}
	return n, checkTokens(name, n)
}

func checkTokens(name string, n int) error {
	if n < 0 || n > maxTraceTokens {
		return fmt.Errorf("%s: %d is not within 0 and %d", name, n, maxTraceTokens)
	}
	return nil
}

func parseMooncake(line []byte) (TraceRequest, error) {
	var m struct {
		Timestamp    *float64 `json:"timestamp"`
		InputLength  *int     `json:"input_length"`
		OutputLength *int     `json:"output_length"`
		HashIDs      []uint64 `json:"hash_ids"`
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return TraceRequest{}, err
	}
	const week = 7 * 24 * 3600 * 1000
	switch {
	case m.Timestamp == nil || !(*m.Timestamp >= 0 && *m.Timestamp <= week):
		return TraceRequest{}, errors.New("timestamp: must be milliseconds from 0 to a week")
	case m.InputLength == nil:
		return TraceRequest{}, errors.New("input_length: is missing")
	case m.OutputLength == nil:
		return TraceRequest{}, errors.New("output_length: is missing")
	}
	if err := errors.Join(checkTokens("input_length", *m.InputLength), checkTokens("output_length", *m.OutputLength)); err != nil {
		return TraceRequest{}, err
	}
	if want := (*m.InputLength + BlockTokens - 1) / BlockTokens; len(m.HashIDs) != want {
		return TraceRequest{}, fmt.Errorf("hash_ids: %d ids, but %d tokens are %d blocks of %d", len(m.HashIDs), *m.InputLength, want, BlockTokens)
	}
	return TraceRequest{
		At:           time.Duration(*m.Timestamp * float64(time.Millisecond)),
		InputTokens:  *m.InputLength,
		OutputTokens: *m.OutputLength,
		Blocks:       m.HashIDs,
	}, nil
}
