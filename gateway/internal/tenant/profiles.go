package tenant

import (
	"fmt"

	"turnout/internal/fold"
	"turnout/schemas/resource"
	"turnout/schemas/snapshot"
)

// Profiles are the distinct metrics histories of a set's projects, the default one first, and why
// projects are refused that bring one more than there may be (by project id). Projects whose history
// was there before go first, so that one which joins never drives another out; among the others the
// first of the set do.
func Profiles(set *resource.Set, before []snapshot.Profile) (admitted []snapshot.Profile, refused map[string]string) {
	wanted := make(map[string]bool, len(set.Projects))
	for i := range set.Projects {
		wanted[fold.ProfileOf(set.Projects[i].Routing.History).ID] = true
	}
	admitted = []snapshot.Profile{snapshot.DefaultProfile()}
	known := map[string]bool{snapshot.DefaultProfile().ID: true}
	admit := func(p snapshot.Profile) bool {
		if !known[p.ID] && len(admitted) < snapshot.MaxProfiles {
			known[p.ID] = true
			admitted = append(admitted, p)
		}
		return known[p.ID]
	}
	for _, p := range before {
		if wanted[p.ID] {
			admit(p)
		}
	}
	refused = map[string]string{}
	for i := range set.Projects {
		h := set.Projects[i].Routing.History
		if !admit(fold.ProfileOf(h)) {
			refused[set.Projects[i].ID] = fmt.Sprintf("its history (window_minutes %d, tier1_minutes %d, tier2_minutes %d) would be the %dth of all projects and there may be %d: give it that of another project",
				h.WindowMinutes, h.Tier1Minutes, h.Tier2Minutes, snapshot.MaxProfiles+1, snapshot.MaxProfiles)
		}
	}
	return admitted, refused
}
