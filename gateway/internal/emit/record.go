package emit

import (
	"sync"
	"time"

	"turnout/internal/kafkax"
	"turnout/schemas/attempt"
	"turnout/schemas/topic"
)

// record is one frame on its way: being written, waiting in memory, or read back from the disk.
type record struct {
	kind       kind
	seq        uint64
	frame      []byte // whole, as in the segment
	value      []byte // the JSON in it
	event      *attempt.Event
	refused    *attempt.Refused
	seg        *segment // where it stands; nil while the disk does not have it
	finished   time.Time
	replayed   bool   // it may stand in Kafka already
	considered []byte // scratch of a start: its list, encoded, for the end to reuse
}

var records = sync.Pool{New: func() any { return new(record) }}

func newRecord(k kind, seq uint64) *record {
	r := records.Get().(*record)
	r.kind, r.seq, r.frame = k, seq, beginFrame(r.frame[:0], k, seq)
	return r
}

// free gives the record and its memory back; nobody may hold either any more.
func (r *record) free() {
	*r = record{frame: r.frame[:0], considered: r.considered[:0]}
	if cap(r.frame) <= 2*maxValue {
		records.Put(r)
	}
}

// maxValue bounds an event's JSON: no client's text may make a record that no broker takes.
const (
	maxValue = 64 << 10
	maxText  = 256
)

// encodeEvent writes e behind the frame's beginning and completes the frame. considered is e's
// list, encoded, or nil.
func (r *record) encodeEvent(e *attempt.Event, considered []byte) {
	r.event = e
	r.frame = appendText(r.frame, e.Traceparent)
	start := len(r.frame)
	r.frame = attempt.AppendReusing(r.frame, e, considered)
	if len(r.frame)-start > maxValue {
		r.frame = attempt.Append(r.frame[:start], clip(e))
	}
	r.value = r.frame[start:]
	sealFrame(r.frame)
}

// clip returns a copy of e that is small whatever a client or an upstream wrote into it.
func clip(e *attempt.Event) *attempt.Event {
	c := *e
	c.Considered = nil
	c.StrippedParameters = nil
	for _, text := range []*string{
		&c.RequestID, &c.ClientRequestID, &c.ParentRequestID, &c.SessionHash, &c.RequestedModel, &c.RequestedProvider,
		&c.Client, &c.Source, &c.CodingClient, &c.Strategy, &c.UpstreamModel, &c.Region, &c.ProviderKeyLabel,
		&c.ServiceTier, &c.ErrorType, &c.FinishReason, &c.UsageFlag, &c.BaselineModel,
	} {
		*text = clipText(*text)
	}
	return &c
}

func clipText(s string) string {
	if len(s) > maxText {
		return s[:maxText]
	}
	return s
}

func (r *record) encodeRefused(e *attempt.Refused) error {
	r.refused = e
	r.frame = appendText(r.frame, "")
	start := len(r.frame)
	frame, err := attempt.AppendRefused(r.frame, e)
	if err == nil && len(frame)-start > maxValue {
		c := *e
		c.Considered = nil
		for _, text := range []*string{&c.RequestID, &c.ClientRequestID, &c.RequestedModel, &c.RequestedProvider, &c.Strategy, &c.ErrorMessage} {
			*text = clipText(*text)
		}
		frame, err = attempt.AppendRefused(r.frame, &c)
	}
	if err != nil {
		return err
	}
	r.frame = frame
	r.value = r.frame[start:]
	sealFrame(r.frame)
	return nil
}

// readRecord makes a record of a frame that was read, copying it.
func readRecord(f frame) (*record, error) {
	r := newRecord(f.kind, f.seq)
	r.frame = append(r.frame, f.payload...)
	traceparent, value := f.text()
	r.value = r.frame[len(r.frame)-len(value):]
	var err error
	switch f.kind {
	case kindRefusal:
		if r.refused, err = attempt.DecodeRefused(value); err == nil {
			r.finished = r.refused.At
		}
	case kindStart:
		if r.event, err = attempt.DecodeStart(value); err == nil {
			r.event.Traceparent = traceparent
		}
	default:
		if r.event, err = attempt.Decode(value); err == nil {
			r.event.Traceparent, r.finished = traceparent, r.event.FinishedAt
		}
	}
	return r, err
}

// interrupt turns a start into the event of an attempt whose process died at about the time died.
func (r *record) interrupt(died time.Time) {
	e := r.event
	e.Outcome, e.UsageSource, e.WillRetry = attempt.Interrupted, attempt.UsageMissing, false
	e.FinishedAt = died.UTC()
	if e.FinishedAt.Before(e.StartedAt) {
		e.FinishedAt = e.StartedAt
	}
	r.kind, r.frame = kindEnd, beginFrame(r.frame[:0], kindEnd, r.seq)
	r.encodeEvent(e, nil)
	r.finished = e.FinishedAt
}

// batch turns records into what Kafka takes, with all headers in two pieces of memory.
type batch struct {
	records []kafkax.Record
	headers []kafkax.Header
	text    []byte
}

const headersEach = 9

func (b *batch) reset(n int) {
	b.records = b.records[:0]
	b.text = b.text[:0]
	b.headers = b.headers[:0]
	if cap(b.headers) < n*headersEach { // never grown later: records point into it
		b.headers = make([]kafkax.Header, 0, n*headersEach)
	}
}

var (
	specVersion = []byte("1.0")
	contentType = []byte("application/json")
	one         = []byte("1")
)

func (b *batch) add(r *record) {
	first := len(b.headers)
	put := func(key string, value []byte) {
		b.headers = append(b.headers, kafkax.Header{Key: key, Value: value})
	}
	id, request, node, project, ceType, at := "", "", "", "", topic.TypeAttemptFinished, time.Time{}
	if e := r.event; e != nil {
		id, request, node, project, at = e.EventID, e.RequestID, e.NodeID, e.ProjectID, e.FinishedAt
	} else if e := r.refused; e != nil {
		id, request, node, project, at, ceType = e.EventID, e.RequestID, e.NodeID, e.ProjectID, e.At, topic.TypeRequestRefused
	}
	put(topic.HeaderSpecVersion, specVersion)
	put(topic.HeaderID, b.keep(id))
	put(topic.HeaderSource, b.keep("/gateway/", node))
	put(topic.HeaderType, b.keep(ceType))
	put(topic.HeaderTime, b.keepTime(at))
	if project != "" {
		put(topic.HeaderSubject, b.keep(project))
	}
	put(topic.HeaderContentType, contentType)
	if r.event != nil && r.event.Traceparent != "" {
		put(topic.HeaderTraceparent, b.keep(r.event.Traceparent))
	}
	if r.replayed {
		put(topic.HeaderReplayed, one)
	}
	b.records = append(b.records, kafkax.Record{
		Key:     b.keep(request),
		Value:   r.value,
		Headers: b.headers[first:len(b.headers):len(b.headers)],
		Time:    at,
	})
}

// keep copies text into the batch. Where text grows into new memory, what was kept stays valid in
// the old.
func (b *batch) keep(parts ...string) []byte {
	start := len(b.text)
	for _, p := range parts {
		b.text = append(b.text, p...)
	}
	return b.text[start:len(b.text):len(b.text)]
}

func (b *batch) keepTime(t time.Time) []byte {
	start := len(b.text)
	b.text = t.UTC().Truncate(time.Microsecond).AppendFormat(b.text, time.RFC3339Nano)
	return b.text[start:len(b.text):len(b.text)]
}
