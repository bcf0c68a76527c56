package tenant

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// crowd is documents of projects with a history each: those of the given ids.
func crowd(ids ...int) string {
	var b strings.Builder
	b.WriteString("kind: organization\nid: acme\n")
	for _, id := range ids {
		fmt.Fprintf(&b, "---\n{kind: project, id: p%02d, organization: acme, routing: {history: {window_minutes: %d}}}\n", id, 20+id)
	}
	return b.String()
}

// A 17th history was once routed without snapshots and nobody was told; and a project that joined
// with one could drive out another's.
func TestAProjectThatBringsA17thHistoryIsRefused(t *testing.T) {
	path := filepath.Join(t.TempDir(), "all.yaml")
	ids := []int{2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16} // with the default one 16
	write(t, path, crowd(ids...)+"---\n{kind: project, id: plain, organization: acme}\n")
	changed := make(chan *View, 1)
	s := open(t, []string{path}, Options{Every: 20 * time.Millisecond, OnChange: func(v *View) { changed <- v }})
	if v := s.Current(); len(v.Problems) != 0 || len(v.Profiles) != 16 {
		t.Fatalf("%d profiles, problems %v", len(v.Profiles), v.Problems)
	}
	refusal := func(v *View) (ids []string) {
		t.Helper()
		for _, p := range v.Problems {
			id, ok := strings.CutSuffix(strings.TrimPrefix(p.Subject, "project "), " routing.history")
			if project, known := v.Project(id); !ok || !known || project.Refused == "" || !strings.Contains(p.Message, "the 17th of all projects and there may be 16") {
				t.Errorf("problem %+v", p)
			}
			ids = append(ids, id)
		}
		return ids
	}
	// p01 comes first in the file and is refused all the same; twin shares a history and is served.
	write(t, path, crowd(append([]int{1}, ids...)...)+"---\n{kind: project, id: twin, organization: acme, routing: {history: {window_minutes: 36}}}\n---\n{kind: project, id: plain, organization: acme}\n")
	v := <-changed
	if got := refusal(v); len(got) != 1 || got[0] != "p01" || len(v.Profiles) != 16 {
		t.Errorf("refused: %v, %d profiles", got, len(v.Profiles))
	}
	for _, id := range []string{"p02", "p16", "twin", "plain"} {
		if p, ok := v.Project(id); !ok || p.Refused != "" {
			t.Errorf("project %s: %v %+v", id, ok, p)
		}
	}
	// Room is made, and it is served.
	write(t, path, crowd(append([]int{1}, ids[1:]...)...))
	if got := refusal(<-changed); len(got) != 0 {
		t.Errorf("refused with room for it: %v", got)
	}
}
