package chat

import "turnout/internal/jsonx"

// Calls keeps the tool calls of a choice apart whose deltas carry no index, or 0 on all of them
// (api.md, "Streams" 10). Indexes that are right are not touched. The zero value is ready.
type Calls struct {
	ids     []string // by the index the client sees; "" unknown
	current int      // the call that deltas without an id belong to
	right   bool     // an index above 0 was seen: the upstream counts
}

// Assign gives the index a delta belongs under. given is -1 where it has none; starts says that it names
// a function.
func (t *Calls) Assign(given int64, id string, starts bool) int64 {
	if given > 0 || given == 0 && t.right {
		t.right = true
		return given
	}
	switch {
	case len(t.ids) == 0:
		t.ids = append(t.ids, id)
		t.current = 0
	case id != "":
		t.current = t.find(id, given < 0)
	case given < 0 && starts && t.ids[t.current] == "":
		t.ids = append(t.ids, "")
		t.current = len(t.ids) - 1
	}
	return int64(t.current)
}

// find returns the index of the call with that id, a new one if there is none. The first call may have
// begun without its id.
func (t *Calls) find(id string, missing bool) int {
	for i, known := range t.ids {
		if known == id {
			return i
		}
	}
	if t.ids[t.current] == "" && !missing {
		t.ids[t.current] = id
		return t.current
	}
	t.ids = append(t.ids, id)
	return len(t.ids) - 1
}

// Intern spares the allocation for an id that is known.
func (t *Calls) Intern(id jsonx.Text) string {
	for _, known := range t.ids {
		if known != "" && id.Is(known) {
			return known
		}
	}
	return id.String()
}
