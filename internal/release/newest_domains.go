package release

import (
	"slices"
	"time"
)

// follows reports whether a policy has domains that route to the newest group.
func (b *planner) follows(policy string) bool {
	return slices.ContainsFunc(b.o.Policies, func(p Policy) bool {
		return p.Name == policy && slices.ContainsFunc(p.Groups, func(r Report) bool { return r.Newest })
	})
}

// followed reports whether any policy has domains that route to the newest group.
func (b *planner) followed() bool {
	return slices.ContainsFunc(b.o.Policies, func(p Policy) bool { return b.follows(p.Name) })
}

// older returns the group from which the newest domains move, in steps, to the first release of this
// group. If there is no such group, older returns nil. If all policies are gone, older still returns the group for a
// canary, because the canary waits for a policy (rule 10). A policy that has not reported, because it was created
// again or lost its status, may have newest domains.
func (s *scope) older() *scope {
	if s.g.Rollout == nil {
		return nil
	}
	r := s.g.Row(s.g.Rollout.Release)
	if r == nil {
		return nil
	}
	return s.olderThan(*r)
}

// olderThan is like older, for a release that may not have started yet.
func (s *scope) olderThan(r Row) *scope {
	if s.g.Phase != Live || s.g.ActiveRow() != nil || len(s.steps()) == 0 {
		return nil
	}
	if r.Promoted > 0 || !s.followed() && !(r.Status == Canary && len(s.reports) == 0) && !s.mayFollow(r) {
		return nil
	}
	g := s.servingGroup()
	if g == nil || byNewest(g, s.g) < 0 {
		return nil
	}
	return s.planner.scope(g)
}

// mayFollow reports whether a policy that has not reported may have newest domains, in which case a release goes
// through its steps. If the release has not begun its first step by the deadline, the policy no longer counts (rule 12). For
// example, a policy does not report if the manager cannot read its routes.
func (s *scope) mayFollow(r Row) bool {
	return s.unreported() && (r.Status == Canary || s.g.Rollout == nil || s.now.Before(s.silentFrom()))
}

// silentFrom returns the time from which the rollout of the group no longer considers policies that have
// not reported.
func (s *scope) silentFrom() time.Time { return s.g.Rollout.Started.Add(s.o.Spec.Deadline) }

// rival returns the active release that shares the traffic with the release of a rollout, and the group of the
// active release. That group is either the group of the rollout, or the group from which the newest domains
// move. If there is no such release, the row is nil.
func (s *scope) rival() (*scope, *Row) {
	if s.g.Rollout == nil {
		return s, s.g.ActiveRow()
	}
	r := s.g.Row(s.g.Rollout.Release)
	if r == nil {
		return s, s.g.ActiveRow()
	}
	return s.rivalOf(*r)
}

// rivalOf is like rival, but for a release that may not have started yet.
func (s *scope) rivalOf(r Row) (*scope, *Row) {
	if a := s.g.ActiveRow(); a != nil {
		return s, a
	}
	if from := s.olderThan(r); from != nil {
		return from, from.g.ActiveRow()
	}
	return s, nil
}

// successorGroup returns the newer group to which the newest domains will move from this group, if the
// newer group has no active release yet. Otherwise, it returns nil. The first release of the newer group may be in progress
// or may have failed.
func (s *scope) successorGroup() *Group {
	if s.servingGroup() != s.g {
		return nil
	}
	for i := range s.groups {
		g := &s.groups[i]
		if g.Phase != Live || g.Level == preview || g.ActiveRow() != nil || byNewest(g, s.g) >= 0 || s.ended(g.Slug, g.Name, g.PullRequest) {
			continue
		}
		if s.followed() || s.unreported() || s.planner.scope(g).older() != nil {
			return g
		}
	}
	return nil
}

// arrives reports whether the newest domains route to an older group and move from there to this group in steps. It also
// returns true if the domains may route to the active release of an older group, because a policy has not
// reported. Except in that case, the result depends only on the policies, not on the rollout state.
func (s *scope) arrives() bool {
	return len(s.steps()) > 0 && slices.ContainsFunc(s.groups, func(g Group) bool {
		return g.Phase == Live && g.Level != preview && byNewest(&g, s.g) > 0 && (s.unreported() && g.ActiveRow() != nil ||
			slices.ContainsFunc(s.planner.reportsOf(g.Slug), func(r Report) bool { return r.Newest && r.Active != "" }))
	})
}

// crossedWait returns why a release whose traffic was removed must wait for a canary of another group,
// or nil. If the release shares domains with the canary, and the routes cannot serve both, the release
// waits until the rollout of the canary ends (rule 32).
func (s *scope) crossedWait(r *Row) *wait {
	if r.Attempt == 0 {
		return nil
	}
	x, g := s.crossing()
	if x == nil {
		return nil
	}
	return newWait(r, false, AwaitingGroup, "%s is waiting: its traffic was removed, and it shares domains with %s in group %s, whose rollout is in progress", r.Version, x.Version, g.Name)
}

// crossing returns a canary of another group that shares domains with the rollout of this group.
func (s *scope) crossing() (*Row, *Group) {
	from := s.older()
	for i := range s.groups {
		g := &s.groups[i]
		if g.Slug == s.g.Slug || g.Rollout == nil {
			continue
		}
		x := g.Row(g.Rollout.Release)
		if x == nil || x.Status != Canary {
			continue
		}
		if from != nil && (from.g.Slug == g.Slug || s.planner.scope(g).hasNewest()) || g.Rollout.From == s.g.Slug || g.Rollout.From != "" && s.hasNewest() {
			return x, g
		}
	}
	return nil, nil
}

// hasNewest reports whether any policy routes its newest domains to this group. This group may be older than the group from which
// the domains move, if the active release of that group has no ready endpoint.
func (s *scope) hasNewest() bool {
	return slices.ContainsFunc(s.reports, func(r Report) bool { return r.Newest })
}

// queueWait reports that a group that is starting must wait while the newest domains move to another
// group, or returns nil.
func (s *scope) queueWait(r *Row) *wait {
	for i := range s.groups {
		g := &s.groups[i]
		if g.Slug == s.g.Slug || g.Phase != Live || g.Level == preview || g.ActiveRow() != nil || g.Rollout == nil {
			continue
		}
		if x := g.Row(g.Rollout.Release); x != nil && x.Status == Canary {
			return newWait(r, false, AwaitingGroup, "%s is waiting: the domains that follow the newest group are moving to %s in group %s", r.Version, x.Version, g.Name)
		}
	}
	return nil
}
