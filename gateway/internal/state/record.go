package state

import (
	"encoding/json"
	"fmt"
	"time"
)

// schemaVersion is the version of the records this binary writes.
const schemaVersion = 1

// Kinds of records.
const (
	kindPin        = "pin"
	kindPreference = "preference"
	kindCooldown   = "cooldown"
	kindProfile    = "profile"
	kindHashKey    = "hash_key"
)

// record is the value of one record of turnout.state.v1. Its key is kind/id; the last one in log
// order wins. Readers ignore kinds and fields they do not know.
type record struct {
	SchemaVersion int    `json:"schema_version"`
	Kind          string `json:"kind"`
	ID            string `json:"id"`
	NodeID        string `json:"node_id"`
	Start         string `json:"start"` // of the writing process; with Seq it tells a node its own records
	Seq           uint64 `json:"seq"`
	ExpiresAtMS   int64  `json:"expires_at_ms,omitempty"` // 0: never

	Provider string `json:"provider,omitempty"` // pin, preference, cooldown
	Region   string `json:"region,omitempty"`
	Model    string `json:"model,omitempty"` // pin of the model auto: the model chosen

	Secret   string `json:"secret,omitempty"` // cooldown: keyed hash of the credential
	Cause    Cause  `json:"cause,omitempty"`
	LengthMS int64  `json:"length_ms,omitempty"`

	WindowMinutes int `json:"window_minutes,omitempty"` // profile
	Tier1Minutes  int `json:"tier1_minutes,omitempty"`
	Tier2Minutes  int `json:"tier2_minutes,omitempty"`

	Fingerprint string `json:"fingerprint,omitempty"` // hash_key
}

func (r record) key() string { return r.Kind + "/" + r.ID }

func (r record) expires() time.Time {
	if r.ExpiresAtMS == 0 {
		return time.Time{}
	}
	return time.UnixMilli(r.ExpiresAtMS)
}

func (r record) live(now time.Time) bool {
	return r.ExpiresAtMS == 0 || now.UnixMilli() < r.ExpiresAtMS
}

func (r record) encode() []byte {
	b, err := json.Marshal(r)
	if err != nil { // a struct of strings and numbers
		panic(fmt.Sprintf("state: %v", err))
	}
	return b
}

// decode reads a record. A newer schema_version is read as far as it is known.
func decode(b []byte) (record, error) {
	var r record
	if err := json.Unmarshal(b, &r); err != nil {
		return record{}, fmt.Errorf("decoding state record: %w", err)
	}
	if r.SchemaVersion < 1 || r.Kind == "" {
		return record{}, fmt.Errorf("decoding state record: schema_version %d, kind %q", r.SchemaVersion, r.Kind)
	}
	return r, nil
}
