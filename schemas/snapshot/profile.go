package snapshot

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// MaxProfiles is how many distinct profiles, the default one among them, are published.
const MaxProfiles = 16

// DefaultProfile is the profile of projects that say nothing.
func DefaultProfile() Profile { return NewProfile(60, 1, 5) }

// NewProfile names a History by its bounds. Projects whose histories differ only in weights share one.
func NewProfile(windowMinutes, tier1Minutes, tier2Minutes int) Profile {
	p := Profile{WindowMinutes: windowMinutes, Tier1Minutes: tier1Minutes, Tier2Minutes: tier2Minutes}
	if windowMinutes != 60 || tier1Minutes != 1 || tier2Minutes != 5 {
		p.ID = fmt.Sprintf("%d-%d-%d", windowMinutes, tier1Minutes, tier2Minutes)
	}
	return p
}

// Validate says what no profile can be.
func (p Profile) Validate() error {
	if p.WindowMinutes < 1 || p.WindowMinutes > 120 {
		return fmt.Errorf("profile %q: window_minutes is %d, must be 1 to 120", p.ID, p.WindowMinutes)
	}
	if p.Tier1Minutes < 0 || p.Tier2Minutes < 0 {
		return fmt.Errorf("profile %q: tier1_minutes is %d and tier2_minutes %d, must not be negative", p.ID, p.Tier1Minutes, p.Tier2Minutes)
	}
	return nil
}

// Tier returns the tier of an age. ok is false beyond the window. A tier of no minutes is empty.
func (p Profile) Tier(age time.Duration) (tier int, ok bool) {
	switch {
	case age > time.Duration(p.WindowMinutes)*time.Minute:
		return 0, false
	case p.Tier1Minutes > 0 && age <= time.Duration(p.Tier1Minutes)*time.Minute:
		return Tier1, true
	case p.Tier2Minutes > 0 && age <= time.Duration(p.Tier2Minutes)*time.Minute:
		return Tier2, true
	}
	return Tier3, true
}

// ProfileKind is the kind of profile records in turnout.state.v1, and what their keys begin with.
const ProfileKind = "profile"

// profileRecord is the part of a record of turnout.state.v1 that profiles need.
type profileRecord struct {
	SchemaVersion int    `json:"schema_version"`
	Kind          string `json:"kind"`
	ID            string `json:"id"`
	ExpiresAtMS   int64  `json:"expires_at_ms,omitempty"` // 0: never
	WindowMinutes int    `json:"window_minutes"`
	Tier1Minutes  int    `json:"tier1_minutes"`
	Tier2Minutes  int    `json:"tier2_minutes"`
}

// EncodeProfile is the record that asks for a profile to be published until it expires (never: the
// zero time). The last record of a key in log order wins; one without a value takes it back.
func EncodeProfile(p Profile, expires time.Time) (key string, value []byte) {
	r := profileRecord{SchemaVersion: 1, Kind: ProfileKind, ID: p.ID, WindowMinutes: p.WindowMinutes, Tier1Minutes: p.Tier1Minutes, Tier2Minutes: p.Tier2Minutes}
	if !expires.IsZero() {
		r.ExpiresAtMS = expires.UnixMilli()
	}
	value, err := json.Marshal(r)
	if err != nil { // strings and numbers
		panic(fmt.Sprintf("snapshot: %v", err))
	}
	return ProfileKind + "/" + p.ID, value
}

// DecodeProfile reads a record of turnout.state.v1. ok is false for records about something else. A
// record without a value takes the profile back: it comes with its ID alone and withdrawn set.
func DecodeProfile(key, value []byte) (p Profile, expires time.Time, withdrawn, ok bool, err error) {
	id, ok := strings.CutPrefix(string(key), ProfileKind+"/")
	if !ok {
		return Profile{}, time.Time{}, false, false, nil
	}
	if len(value) == 0 {
		return Profile{ID: id}, time.Time{}, true, true, nil
	}
	var r profileRecord
	if err := json.Unmarshal(value, &r); err != nil {
		return Profile{}, time.Time{}, false, true, fmt.Errorf("reading profile %q: %w", id, err)
	}
	p = Profile{ID: r.ID, WindowMinutes: r.WindowMinutes, Tier1Minutes: r.Tier1Minutes, Tier2Minutes: r.Tier2Minutes}
	if r.SchemaVersion < 1 || r.Kind != ProfileKind || r.ID != id {
		return Profile{}, time.Time{}, false, true, fmt.Errorf("reading profile %q: schema_version %d, kind %q, id %q", id, r.SchemaVersion, r.Kind, r.ID)
	}
	if r.ExpiresAtMS != 0 {
		expires = time.UnixMilli(r.ExpiresAtMS).UTC()
	}
	return p, expires, false, true, p.Validate()
}
