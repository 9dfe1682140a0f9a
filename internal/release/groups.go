package release

import (
	"fmt"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/internal/frozen"
)

// closeGroup starts closing a group whose source is closed (rule 14). It also starts closing a group that a user ends, as
// soon as the group's domains have moved to the newer group. It reopens a closing group that is offered again, unless the
// group is a preview, which needs a slot first.
func closeGroup(s *scope) {
	if end, closed := s.keptUntil(s.g.Slug); closed && s.g.Phase == Live {
		s.requeueAt(end)
	}
	ended := s.ended(s.g.Slug, s.g.Name, s.g.PullRequest)
	switch {
	case s.g.Phase == Live && s.closed(s.g.Slug), s.g.Phase == Expired && s.groupWithdrawn(s.g.Slug, Closed):
		s.close(GroupClosed)
	case ended && s.g.Phase != Closing:
		if w := s.endWait(); w != nil {
			s.record(w)
			return
		}
		s.close(GroupEnded)
	case ended:
	case s.g.Level != preview && s.opensAgain():
		s.g.Phase = Live
		s.event(nil, false, GroupReopened, fmt.Sprintf("group %s is offered again", s.g.Name))
		s.resume()
	}
}

// opensAgain reports whether a closing group is to be reopened because it is offered again, or because a user
// canceled the request to end the group.
func (s *scope) opensAgain() bool {
	if s.g.Phase != Closing || s.ending() || s.withdrawnGroup(s.g.Slug) || s.ended(s.g.Slug, s.g.Name, s.g.PullRequest) {
		return false
	}
	return len(s.candidates) > 0 || slices.ContainsFunc(s.g.Releases, func(r Row) bool { return r.Reason == GroupEnded })
}

// resume makes a release of a closing or expired group active again: of the releases that can still serve, the
// one that was active last. A release can serve if an object that a policy wrote still refers to it, if it has an
// available pod, or if its pods terminated because the group is exclusive. A newer version then goes through its
// steps. A preview that was excluded resumes only an offered commit, because the approval of another commit may
// have been removed.
func (s *scope) resume() {
	var next *Row
	excluded := s.g.Level == preview && slices.ContainsFunc(s.g.Releases, func(r Row) bool { return r.Reason == Reason(Excluded) })
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		c, there := s.object(r.Release)
		serves := there && !c.Terminating && (c.Available > 0 || s.referenced(r.Release) || s.o.Spec.Exclusive)
		offered := !excluded || slices.ContainsFunc(s.candidates, func(c Candidate) bool { return c.Version == r.Version })
		if serves && offered && r.Promoted > 0 && r.Status == Deprecated && !s.denied(r.Version) && (next == nil || s.precedes(*r, *next)) {
			next = r
		}
	}
	if next == nil {
		return
	}
	s.promote(next, GroupReopened)
	s.touch(next.Release)
}

// open adds groups that the rollout state does not contain: the groups of release objects, and the groups that are offered and
// not older than the oldest live group (rule 17). Previews are not ordered relative to other
// groups.
func (b *planner) open() {
	known := map[string]bool{}
	var beyond []string
	add := func(g Group) {
		switch {
		case known[g.Slug]:
		case len(b.groups) >= maxGroups:
			beyond = append(beyond, g.Name)
		default:
			b.groups = append(b.groups, g)
			b.before[g.Slug] = required{load: load{phase: Live}}
		}
		known[g.Slug] = true
	}
	defer func() {
		if len(beyond) > 0 {
			b.note(Note{Warning: true, Reason: TooManyGroups, Message: fmt.Sprintf("status.releaseGroups is limited to %d groups, so group %s and all further groups do not start: offer fewer versions in the ImagePolicy, or define fewer groups with versioning.groupBy", maxGroups, beyond[0])})
		}
	}()
	for _, g := range b.groups {
		known[g.Slug] = true
	}
	for _, c := range b.sorted {
		add(Group{Slug: c.Slug, Name: c.Name, Level: c.Level, PullRequest: c.PullRequest, Phase: Live})
	}
	if b.o.Spec.Paused || b.o.SourceStale || b.missingPin() != nil || !b.o.PullRequests && len(b.strayPins()) > 0 {
		return
	}
	oldest, asked, halted := "", false, []*Group(nil)
	for _, c := range b.offers {
		if known[c.Slug] || b.withdrawnGroup(c.Slug) || b.ended(c.Slug, c.Name, c.PullRequest) {
			continue
		}
		if c.Level == preview && b.o.Spec.Freeze == nil { // assignSlots gives it a slot.
			add(Group{Slug: c.Slug, Name: c.Name, Level: c.Level, PullRequest: c.PullRequest, Phase: Expired, Target: Target{Reason: NoSlot}})
			continue
		}
		if !asked && c.Level != preview {
			oldest, asked = b.oldest(), true
		}
		switch {
		case c.Level != preview && oldest != "" && compare(c.Version, oldest) < 0:
			b.note(Note{Slug: c.Slug, Version: c.Version, Reason: OlderGroup, Message: "it is older than the oldest live group, and does not start"})
			known[c.Slug] = true
		case b.o.Spec.Freeze != nil:
			halted = append(halted, &Group{Slug: c.Slug, Name: c.Name})
			known[c.Slug] = true
		default:
			add(Group{Slug: c.Slug, Name: c.Name, Level: c.Level, Phase: Live})
		}
	}
	b.noteFrozen(halted)
}

// noteFrozen reports that a freeze keeps groups from starting their first releases.
func (b *planner) noteFrozen(groups []*Group) {
	if len(groups) == 0 {
		return
	}
	f, g := b.o.Spec.Freeze, groups[0]
	b.note(Note{Slug: g.Slug, Reason: Frozen, Message: f.wait(frozen.Groups(g.Name, len(groups)-1)).String()})
	b.requeueAt(f.Until)
}

// oldest returns the oldest of the versions of all live groups that are not previews, or an empty string if
// there are none. The version of a group that is serving is its active version. The version of a group that is
// not serving yet is its newest version.
func (b *planner) oldest() string {
	oldest := ""
	for i := range b.groups {
		g := &b.groups[i]
		if g.Phase != Live || g.Level == preview {
			continue
		}
		v := b.newest(g)
		if a := g.ActiveRow(); a != nil {
			v = a.Version
		}
		if oldest == "" || compare(v, oldest) < 0 {
			oldest = v
		}
	}
	return oldest
}

// newest returns the newest version that a group has or that is offered to it.
func (b *planner) newest(g *Group) string {
	var vs []string
	for _, r := range g.Releases {
		vs = append(vs, r.Version)
	}
	for _, c := range b.o.Objects {
		if c.Slug == g.Slug {
			vs = append(vs, c.Version)
		}
	}
	for _, c := range b.perGroup[g.Slug] {
		vs = append(vs, c.Version)
	}
	if len(vs) == 0 {
		return ""
	}
	return slices.MaxFunc(vs, compare)
}

// servingGroup returns the newest group with an active release, or nil.
func (b *planner) servingGroup() *Group {
	var newest *Group
	for i := range b.groups {
		g := &b.groups[i]
		if g.Phase == Live && g.Level != preview && g.ActiveRow() != nil && (newest == nil || byNewest(g, newest) < 0) {
			newest = g
		}
	}
	return newest
}

// withdrawn returns why a version is withdrawn, either alone or with its group.
func (s *scope) withdrawn(version string) (WithdrawReason, bool) {
	for _, w := range s.o.Withdrawn {
		if w.Slug == s.g.Slug && (w.Version == version || w.Version == "" && (w.Reason == Denied || w.Reason == Gone)) {
			return w.Reason, true
		}
	}
	return "", false
}

// denied reports whether a user denied a version. A denied version gets no traffic if another release can
// serve, and neither a pin nor a pause protects it.
func (s *scope) denied(version string) bool { return s.withdrawnFor(version, Denied) }

// withdrawnFor reports whether a version is withdrawn for the given reason, either alone or with
// its group.
func (s *scope) withdrawnFor(version string, reason WithdrawReason) bool {
	return slices.ContainsFunc(s.o.Withdrawn, func(w Withdrawal) bool {
		return w.Slug == s.g.Slug && w.Reason == reason && (w.Version == version || w.Version == "")
	})
}

// activeDenied reports whether the active version is denied. If it is, another release replaces it.
func (s *scope) activeDenied() bool {
	a := s.g.ActiveRow()
	return a != nil && s.denied(a.Version)
}

// isWithdrawn reports whether the version of a release is withdrawn. If it is, the target is allowed to have a lower
// version than the release.
func (s *scope) isWithdrawn(r *Row) bool {
	_, out := s.withdrawn(r.Version)
	return out
}

// withdrawnGroup reports whether a group as a whole is withdrawn. If it is, none of its releases starts.
func (b *planner) withdrawnGroup(slug string) bool {
	return b.groupWithdrawn(slug, Closed) || b.groupWithdrawn(slug, Excluded)
}

func (b *planner) groupWithdrawn(slug string, reason WithdrawReason) bool {
	return slices.ContainsFunc(b.o.Withdrawn, func(w Withdrawal) bool {
		return w.Slug == slug && w.Version == "" && w.Reason == reason
	})
}

// ended reports whether a user ended a group by listing it in spec.endedGroups.
func (b *planner) ended(slug, name string, pullRequest int64) bool {
	return slices.ContainsFunc(b.o.Spec.Ended, func(group string) bool { return Pin{Group: group}.names(slug, name, pullRequest) })
}

// excluded reports whether the specification no longer defines a group. A closed group does not
// count as excluded.
func (b *planner) excluded(slug string) bool {
	return b.groupWithdrawn(slug, Excluded) && !b.groupWithdrawn(slug, Closed)
}

// heirOf returns the slug of the group that takes over from an excluded group. This is the group to which the active version of the excluded group is
// offered or, if there is no such group, the group to which the next higher version is offered. If heirOf returns "", any group may take over.
func (b *planner) heirOf(g *Group) string {
	slug, a := "", g.ActiveRow()
	for _, c := range b.offers { // The highest version comes first.
		if a != nil && c.Level != preview && c.Slug != g.Slug && !b.withdrawnGroup(c.Slug) && !b.ended(c.Slug, c.Name, c.PullRequest) && compare(c.Version, a.Version) >= 0 {
			slug = c.Slug
		}
	}
	return slug
}

// closeExcluded closes a group that a changed specification no longer defines, once another group
// has the same or a higher active version (rule 38). If there is no template, nothing is offered, and
// it is not known which group takes over. No group takes over from the group of a pull request that is
// no longer selected, so such a group closes without waiting for another group.
func (b *planner) closeExcluded(g *Group) {
	s := b.scope(g)
	if !b.excluded(g.Slug) || g.Phase == Closing || b.o.Spec.Paused {
		return
	}
	if g.Level == preview {
		s.close(GroupOut)
		raiseRevision(s)
		return
	}
	a := g.ActiveRow()
	if f := b.o.Spec.Freeze; f != nil {
		w := newWait(a, false, Frozen, "%s", f.wait(fmt.Sprintf("group %s keeps serving, although the specification no longer includes it", g.Name)))
		w.Until = f.Until
		s.record(w)
		return
	}
	if b.o.Config == "" {
		s.state(a, true, GroupExcluded, fmt.Sprintf("the specification no longer includes group %s: the group that replaces it is not known while spec.template cannot be used (see the Ready condition)", g.Name))
		return
	}
	slug := b.heirOf(g)
	for i := range b.groups {
		heir := b.scope(&b.groups[i])
		ha := heir.g.ActiveRow()
		if heir.g == g || slug != "" && heir.g.Slug != slug || heir.g.Phase != Live || heir.g.Level == preview || ha == nil || !ha.Available {
			continue
		}
		if b.closed(heir.g.Slug) || b.excluded(heir.g.Slug) || !heir.confirmed(heir.g.TrafficRevision) {
			continue
		}
		if a == nil || compare(ha.Version, a.Version) >= 0 {
			s.close(GroupOut)
			raiseRevision(s)
			return
		}
	}
	s.state(a, true, GroupExcluded, fmt.Sprintf("the specification no longer includes group %s: the group closes when another group has the same or a higher active version", g.Name))
}

// close starts to close a group.
func (s *scope) close(reason Reason) {
	s.takeDown(Closing, reason)
	s.event(nil, false, reason, fmt.Sprintf("group %s is drained and removed", s.g.label()))
}

// takeDown sets the rows of a group to deprecated in one write. In a closing group, failed releases keep
// the status error.
func (s *scope) takeDown(to Phase, reason Reason) {
	s.endRollout()
	s.g.Phase = to
	s.g.Target = Target{}
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		r.leave()
		if r.Status != Deprecated && (r.Status != Error || to != Closing) {
			s.setStatus(r, Deprecated, reason)
		}
	}
}

// endWait returns why a group in spec.endedGroups has not ended yet, or nil. The group's domains must
// first move to a newer group. If the newer group no longer has a release, the older group keeps serving,
// because its domains would otherwise route to nothing.
func (s *scope) endWait() *wait {
	if to := s.successorGroup(); to != nil {
		return newWait(s.g.ActiveRow(), true, GroupExcluded, "group %s is in spec.endedGroups: it closes when its domains have moved to group %s, which has no active release yet%s; to end both groups, list both", s.g.Name, to.Name, to.standing())
	}
	waited := s.g.Target.Reason == GroupExcluded // The previous plan already waited for the newer group.
	if !waited || s.servingGroup() != s.g || !s.followed() || s.endsNewer() {
		return nil
	}
	return newWait(s.g.ActiveRow(), true, GroupExcluded, "group %s is in spec.endedGroups but keeps serving: the newer group to which its domains were moving no longer has a release; push another version for the newer group; to end group %s anyway, remove it from spec.endedGroups and add it again", s.g.Name, s.g.Name)
}

// endsNewer reports whether spec.endedGroups also lists a newer group. That group may already be
// gone.
func (s *scope) endsNewer() bool {
	return slices.ContainsFunc(s.o.Spec.Ended, func(group string) bool {
		return compareNames(strings.ReplaceAll(group, "-", "."), s.g.Name) > 0
	})
}

// standing describes why a group has no active release yet, if that is known.
func (g *Group) standing() string {
	if g.Rollout == nil {
		return " and no rollout in progress"
	}
	if r := g.Row(g.Rollout.Release); r != nil && g.Rollout.WaitsFor != "" {
		return fmt.Sprintf(" (%s is blocked: %s)", r.Version, g.Rollout.WaitsFor)
	}
	return ""
}
