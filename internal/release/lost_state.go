package release

import (
	"cmp"
	"fmt"
	"slices"
)

// restoring returns why a lost rollout state cannot be recovered yet, or nil. The Services of a policy select the
// release that was serving, and the status of an object shows whether the release was active. Both are reported
// again shortly after a restore that omits the statuses.
func (b *planner) restoring() *wait {
	if len(b.o.State.Groups) > 0 {
		return nil
	}
	lost := slices.DeleteFunc(slices.Clone(b.sorted), func(c Object) bool { return c.Terminating || c.Stamp <= b.o.State.Sequence })
	if len(lost) == 0 {
		return nil
	}
	silent := ""
	for _, p := range b.o.Policies {
		if p.Unreported && (silent == "" || p.Name < silent) {
			silent = p.Name
		}
	}
	if silent != "" {
		return newWait(nil, true, TrafficUnconfirmed, "the rollout state was lost: it is recovered when networkpolicies.hlnr.io %q reports which releases its Services select", silent)
	}
	if slices.ContainsFunc(lost, func(c Object) bool { return !c.Unsettled || c.Reported != "" }) {
		return nil
	}
	return newWait(nil, true, TrafficUnconfirmed, "the rollout state was lost: it is recovered when VersionedMicroservices, such as %s, report their pods", lost[0].Release)
}

// recorded reports whether the rollout state contains the group.
func (s *scope) recorded() bool {
	return slices.ContainsFunc(s.o.State.Groups, func(g Group) bool { return g.Slug == s.g.Slug })
}

// unproven reports whether a release that is recovered along with an active release goes through its steps again, because it
// may have failed, or may never have been active. The status of its object may show this. In all other cases, a version above
// the active version counts as never active. This does not apply to previews, because the commits of a pull request have no order.
func (s *scope) unproven(c, active Object) bool {
	return c.NeverActive || slices.Contains([]Status{Pending, Canary, Error}, c.Reported) ||
		s.g.Level != preview && compare(c.Version, active.Version) > 0
}

// successor returns the row that replaces a lost active release. If there are previously active releases, successor
// returns the pinned one or, without a pin, the one that was active most recently. Otherwise it returns the canary. A
// denied release is chosen only if no other release has an object.
func (s *scope) successor() *Row {
	var next *Row
	waits := false
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
		kept := r.Promoted > 0 && r.Status == Deprecated
		switch c, there := s.object(r.Release); {
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
		return nil // The release in progress will become active.
	}
	return next
}

// precedes reports whether x is preferred to y as the replacement for a lost active release.
func (s *scope) precedes(x, y Row) bool {
	return cmp.Or(
		last(s.denied(x.Version), s.denied(y.Version)),
		last(x.Promoted == 0 || !s.pinned(x), y.Promoted == 0 || !s.pinned(y)),
		cmp.Compare(y.Promoted, x.Promoted),
	) < 0
}

// fit omits the objects that exceed the maximum number of rows when a lost rollout state is recovered. It first omits the
// oldest objects that are not in any route, and then the oldest of the other objects, but never the active
// release.
func (s *scope) fit(cs []Object, active int) ([]Object, int) {
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

// rebuildState creates rows for a group that has release objects but no rows (rule 31), because the rollout state was lost or
// was not written yet. Rows are created for objects whose stamp is higher than the sequence number of the rollout state, and
// for objects to which a route refers. If a late write created an object again after its row was dropped, the object gets no row.
//
// The active release is the release that the group's Service selects. If no policy reports such a release, it is the release whose
// object was reported as active. Otherwise it is the release with the most available pods, preferably one in a route, or the
// oldest such release if there are several. Older releases count as previously active unless they are unproven, and all
// others are pending. A release without pods does not need to be drained. A release that hooks have not approved does not
// become active. A release of a group to which the newest domains have yet to move does not become active either.
func rebuildState(s *scope) {
	if len(s.g.Releases) > 0 || s.g.Phase != Live || s.recorded() {
		return
	}
	var cs []Object
	for _, c := range s.sorted {
		if c.Slug == s.g.Slug && !c.Terminating && !s.isTouched(c.Release) && (c.Stamp > s.o.State.Sequence || s.referenced(c.Release)) {
			cs = append(cs, c)
		}
	}
	active := -1
	for i, c := range cs {
		for _, r := range s.reports {
			if r.Active == c.Release {
				active = i
			}
		}
	}
	mayBeActive := func(c Object) bool { return !c.NeverActive && c.Reported != Error }
	most := func(among func(Object) bool) func(Object) bool { // The release that served has the most pods, because retained releases and canaries have fewer.
		n := 1
		for _, c := range cs {
			if mayBeActive(c) && among(c) {
				n = max(n, c.Available)
			}
		}
		return func(c Object) bool { return among(c) && c.Available >= n }
	}
	routed := func(c Object) bool { return s.referenced(c.Release) }
	for _, sign := range []func(Object) bool{
		func(c Object) bool { return c.Reported == Active },
		most(routed),
		most(func(Object) bool { return true }),
		routed,
		// An object whose stamp is exactly Sequence+1 was created by a plan whose rollout state was not written,
		// because the manager crashed before it could write that state. Its release is just starting, so it does not count as active.
		func(c Object) bool { return c.Replicas > 0 && c.Stamp > s.o.State.Sequence+1 },
	} {
		if active < 0 {
			active = slices.IndexFunc(cs, func(c Object) bool { return mayBeActive(c) && sign(c) })
		}
	}
	if len(cs) > 0 {
		s.g.TrafficRevision, s.g.TrafficTime = s.next, s.now
	}
	if s.arrives() { // A release with a share of the traffic of the newest domains begins its steps again.
		active = -1
		s.arrive()
	}
	cs, active = s.fit(cs, active)
	for i, c := range cs {
		row := Row{Release: c.Release, Name: c.Name, Version: c.Version, Config: c.Config, Since: s.now, Reason: Rebuilt, Status: Pending}
		row.Routed = len(s.reports) > 0 && c.Replicas > 0
		switch {
		case i == active:
			row.Status, row.Weight, row.Promoted = Active, 100, int64(i+1)
		case i < active && !s.unproven(c, cs[active]):
			row.Status, row.Promoted = Deprecated, int64(i+1)
		}
		if i != active && (c.Replicas > 0 || c.Available > 0 || s.referenced(c.Release)) {
			row.Zero = &Zero{Revision: s.next, Time: s.now}
		}
		s.g.Releases = append(s.g.Releases, row)
		s.touch(c.Release)
		s.event(&row, true, Rebuilt, fmt.Sprintf("the rollout state was lost: %s is recovered with status %s", c.Version, row.Status))
	}
	was := *s.g
	was.Releases = slices.Clone(was.Releases) // This plan changes the rows.
	s.before[s.g.Slug] = requiredOf(&was)     // The routes may already have the weights of the recovered rows.
}

// recordReferenced adds a row for each release object that has no row and to which a route refers. The release is drained
// like any other release, starting when no route refers to it any longer.
func recordReferenced(s *scope) {
	for _, c := range s.sorted {
		if c.Slug != s.g.Slug || c.Terminating || !s.referenced(c.Release) {
			continue
		}
		if s.g.Row(c.Release) == nil && s.freeRow() {
			s.g.Releases = append(s.g.Releases, Row{Release: c.Release, Name: c.Name, Version: c.Version, Config: c.Config, Status: Deprecated, Reason: leftover, Since: s.now})
		}
		if r := s.g.Row(c.Release); r == nil || r.Reason == leftover {
			s.state(r, true, OrphanReferenced, fmt.Sprintf("%s was not in the rollout state, but a route refers to it: it is retained until no route refers to it", c.Release))
		}
	}
}

// recordRoutes records which releases have ever been in a route (rules 10 and 18). For a release that gets traffic while
// a policy exists, this is recorded in the write that gives the release traffic, before a route refers to the
// release. This rule records all other releases, for example one whose policy was created after that write, or
// one to which a domain with its version refers.
func recordRoutes(s *scope) {
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		r.Routed = r.Routed || s.referenced(r.Release)
	}
}

// replaceLostActive repairs a group whose active release has lost its object (rule 31).
func replaceLostActive(s *scope) {
	a := s.g.ActiveRow()
	if a == nil {
		return
	}
	if _, there := s.object(a.Release); there {
		return
	}
	if _, can := s.offered(a.Release); can {
		return // The size method creates the object again.
	}
	s.event(a, true, ActiveLost, fmt.Sprintf("the VersionedMicroservice of the active release %s was deleted and cannot be created again", a.Version))
	lost := a.Release
	if next := s.successor(); next != nil {
		s.endRollout()
		s.promote(next, ActiveLost)
		s.touch(next.Release)
	}
	s.dropRow(lost)
}

// dropLost drops rows whose object is gone, if the object cannot be created again or is not needed.
func dropLost(s *scope) {
	for i := len(s.g.Releases) - 1; i >= 0; i-- {
		r := s.g.Releases[i]
		if r.Status == Active {
			continue
		}
		if _, there := s.object(r.Release); there {
			continue
		}
		running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
		if _, can := s.offered(r.Release); can && running {
			continue // The size method creates the object again.
		}
		if running {
			s.endRollout()
		}
		s.noteEndLost(r)
		s.dropRow(r.Release)
	}
}

// arrive records that the newest domains have yet to move to a group whose rows this pass rebuilt.
func (s *scope) arrive() {
	if s.arrived == nil {
		s.arrived = map[string]bool{}
	}
	s.arrived[s.g.Slug] = true
}

// keepHandled keeps the decision of a row that is dropped, in case the row is created again.
func (s *scope) keepHandled(release string, decision *Handled) {
	if s.handled == nil {
		s.handled = map[string]*Handled{}
	}
	s.handled[release] = decision
}

func (s *scope) dropRow(release string) {
	if r := s.g.Row(release); r.Decision != nil {
		s.keepHandled(release, r.Decision)
	}
	s.g.Releases = slices.DeleteFunc(s.g.Releases, func(r Row) bool { return r.Release == release })
}
