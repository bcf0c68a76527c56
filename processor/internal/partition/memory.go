package partition

import "strings"

func (k Key) cloned() Key {
	k.Provider, k.Model, k.Region = strings.Clone(k.Provider), strings.Clone(k.Model), strings.Clone(k.Region)
	k.Class, k.Organization, k.Project = strings.Clone(k.Class), strings.Clone(k.Organization), strings.Clone(k.Project)
	return k
}

// remembered is how many event ids are held at least; twice as many at most.
const remembered = 1 << 14

// memory maps the last event ids to their lowest offset. It finds duplicates that stand close
// together without asking the database, and those that nobody marked.
type memory struct {
	young, old map[id]int64
	odd        map[string]int64 // ids that are no UUIDs
}

type id [16]byte

func (m *memory) get(text string) (int64, bool) {
	key, ok := parseID(text)
	return m.of(text, key, ok)
}

// of is get of an id that was parsed before.
func (m *memory) of(text string, key id, isUUID bool) (int64, bool) {
	if !isUUID {
		offset, ok := m.odd[text]
		return offset, ok
	}
	offset, ok := m.young[key]
	if !ok {
		offset, ok = m.old[key]
	}
	return offset, ok
}

// lowest returns the remembered offset of an id, or remembers this one.
func (m *memory) lowest(text string, offset int64) (int64, bool) {
	key, isUUID := parseID(text)
	if known, ok := m.of(text, key, isUUID); ok && known <= offset {
		return known, true
	}
	if !isUUID {
		if m.odd == nil || len(m.odd) >= remembered {
			m.odd = map[string]int64{}
		}
		m.odd[strings.Clone(text)] = offset
		return 0, false
	}
	if m.young == nil || len(m.young) >= remembered {
		m.young, m.old = make(map[id]int64, len(m.young)), m.young // a full one's room at once
	}
	m.young[key] = offset
	return 0, false
}

// parseID reads a UUID in its canonical form.
func parseID(text string) (out id, ok bool) {
	if len(text) != 36 {
		return out, false
	}
	n := 0
	for i := 0; i < 36; {
		if i == 8 || i == 13 || i == 18 || i == 23 {
			if text[i] != '-' {
				return out, false
			}
			i++
			continue
		}
		high, low := hexDigit(text[i]), hexDigit(text[i+1])
		if high > 15 || low > 15 {
			return out, false
		}
		out[n] = high<<4 | low
		n++
		i += 2
	}
	return out, true
}

func hexDigit(c byte) byte {
	switch {
	case c >= '0' && c <= '9':
		return c - '0'
	case c >= 'a' && c <= 'f':
		return c - 'a' + 10
	}
	return 255
}
