package failpoint

import "testing"

func TestReach(t *testing.T) {
	Reach("nobody listens")
	var seen []string
	Set(func(name string) { seen = append(seen, name) })
	defer hook.Store(nil)
	Reach("a")
	Reach("b")
	if len(seen) != 2 || seen[0] != "a" || seen[1] != "b" {
		t.Errorf("%q", seen)
	}
}
