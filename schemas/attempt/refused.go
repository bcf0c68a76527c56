package attempt

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"
)

// AppendRefused appends r's JSON to dst, its time in UTC cut to microseconds. It fails where a
// number is NaN or infinite. Refusals are rare: encoding/json is fast enough.
func AppendRefused(dst []byte, r *Refused) ([]byte, error) {
	c := *r
	c.At = c.At.UTC().Truncate(time.Microsecond)
	text, err := json.Marshal(&c)
	if err != nil {
		return dst, fmt.Errorf("encoding refusal %s: %w", r.EventID, err)
	}
	return append(dst, text...), nil
}

// DecodeRefused reads a refusal of this or any other schema version; unknown fields are passed over.
func DecodeRefused(data []byte) (*Refused, error) {
	r := new(Refused)
	if err := json.Unmarshal(data, r); err != nil {
		if wrong := (*json.UnmarshalTypeError)(nil); errors.As(err, &wrong) {
			return nil, &FieldError{Field: wrong.Field, Offset: int(wrong.Offset), Reason: "expected " + wrong.Type.String() + ", found a " + wrong.Value}
		}
		return nil, &FieldError{Reason: err.Error()}
	}
	e := Event{SchemaVersion: r.SchemaVersion, EventID: r.EventID, RequestID: r.RequestID, StartedAt: r.At}
	if err := e.incomplete(len(data)); err != nil {
		if err.Field == "started_at" {
			err.Field = "at"
		}
		return nil, err
	}
	return r, nil
}
