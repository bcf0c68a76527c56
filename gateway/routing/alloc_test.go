package routing

import "testing"

// TestNoAllocation: once its memory has grown, a decision allocates nothing, and neither does a retry.
func TestNoAllocation(t *testing.T) {
	for name, in := range map[string]*Input{
		"10": benchmarkInput(10, false), "64": benchmarkInput(64, false), "64 in regions": benchmarkInput(64, true),
		"explicit": benchmarkInput(10, false), "session": benchmarkInput(10, false), "preference": benchmarkInput(10, false),
	} {
		switch name {
		case "explicit":
			in.Request.Provider = "provider-03"
		case "session":
			in.Request.Session, in.State.Pin = true, Place{Provider: "provider-07"}
		case "preference":
			in.State.Preferred = Place{Provider: "provider-07"}
		}
		retry := &Retry{Tried: []Credentials{Platform}}
		var d Decision
		if n := testing.AllocsPerRun(100, func() {
			Decide(in, &d)
			Next(in, retry, &d)
		}); n != 0 && name != "explicit" {
			t.Errorf("%s: %v allocations", name, n)
		}
		if n := testing.AllocsPerRun(100, func() { Decide(in, &d) }); n != 0 {
			t.Errorf("%s: %v allocations in a decision", name, n)
		}
	}
}
