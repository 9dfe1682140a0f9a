package release

import (
	"cmp"
	"slices"
)

// recorded reports whether the rollout state has the group.
func (s *scope) recorded() bool {
	return slices.ContainsFunc(s.o.State.Groups, func(g Group) bool { return g.Slug == s.g.Slug })
}

// unproven reports whether a release that is rebuilt next to an active one takes its steps again,
// because it was never active, or failed, as far as is known: its object says so, or its
// version is above the active one's. The commits of a pull request have no order.
func (s *scope) unproven(c, active Child) bool {
	return c.NeverActive || slices.Contains([]Status{Pending, Canary, Error}, c.Reported) ||
		s.g.Level != preview && compare(c.Version, active.Version) > 0
}

// successor of an active release that is lost: of those that were active, what a pin
// wants, else the last one; else the canary, which alone has traffic. What is denied serves
// only where no other release has an object.
func (s *scope) successor() *Row {
	var next *Row
	waits := false
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
		kept := r.Promoted > 0 && r.Status == Deprecated
		switch c, there := s.child(r.Release); {
		case !there || c.Terminating:
		case kept, running && r.Status == Canary:
			if next == nil || s.precedes(*r, *next) {
				next = r
			}
		case running:
			waits = waits || !s.denied(r.Version)
		}
	}
	if next != nil && s.denied(next.Version) && waits {
		return nil // for what is in progress
	}
	return next
}

// precedes reports that x rather than y follows an active release that is lost.
func (s *scope) precedes(x, y Row) bool {
	return cmp.Or(
		last(s.denied(x.Version), s.denied(y.Version)),
		last(x.Promoted == 0 || !s.pinned(x), y.Promoted == 0 || !s.pinned(y)),
		cmp.Compare(y.Promoted, x.Promoted),
	) < 0
}

// fit leaves out of what a lost record is rebuilt from what there is no room for:
// the oldest that are in no route, then the oldest, and never the active one.
func (s *scope) fit(cs []Child, active int) ([]Child, int) {
	for _, routed := range []bool{false, true} {
		for i := 0; i < len(cs) && len(cs) > s.quota(); {
			if i == active || s.referenced(cs[i].Release) && !routed {
				i++
				continue
			}
			if cs = slices.Delete(cs, i, i+1); i < active {
				active--
			}
		}
	}
	return cs, active
}
