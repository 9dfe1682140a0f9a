package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/status"
)

// groupReports returns the reports for all groups in the rollout state, and for other groups to which
// live objects still belong. While no group is known, because the rollout state was lost, all previous
// reports stay: a gateway may still send requests to releases that a route targeted before it moved to
// another group.
func (r *reporter) groupReports() []v1alpha1.GroupTraffic {
	var out []v1alpha1.GroupTraffic
	for _, g := range r.out.groups {
		out = append(out, r.groupReport(g))
	}
	slugs, lost := r.liveSlugs(), len(r.rollout.groups) == 0
	if lost {
		for _, g := range r.Policy.Status.Groups {
			slugs[g.Slug] = true
		}
	}
	for slug := range slugs {
		if r.rollout.bySlug[slug] == nil {
			prev, known := r.report(slug), []string(nil)
			if lost {
				known = prev.References
			}
			prev.References = Union(r.written(slug), known)
			prev.Active, prev.Split = cmp.Or(r.selectedOf(slug), prev.Active), cmp.Or(prev.Split, v1alpha1.SplitWhole)
			prev.CanaryDomains, prev.Canary = false, "" // The group no longer has domains.
			prev.Reason, prev.Message = reasonNoMicroservice, "the Microservice has no such release group: the objects of the group are deleted when another group serves traffic"
			out = append(out, prev)
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.GroupTraffic) int { return strings.Compare(a.Slug, b.Slug) })
	return out
}

// selectedOf returns the release that the Service of a group selects, or "". It is called for a
// group that the rollout state does not contain: the release was active before the rollout state
// was lost.
func (r *reporter) selectedOf(slug string) string {
	if selected := r.Selected(resources.GroupServiceName(r.Policy.Name, slug)); selected != "" || slug != groupOfAll {
		return selected
	}
	return r.Selected(r.Policy.Name)
}

func (r *reporter) groupReport(g *groupDecision) v1alpha1.GroupTraffic {
	prev := r.report(g.slug)
	written := r.written(g.slug)
	v := r.groupVerdict(g, written, prev)
	out := v1alpha1.GroupTraffic{
		Slug: g.slug, Split: g.mode, Pinned: g.pinned, Newest: g.newest,
		Active: r.Selected(r.following(g.group)),
	}
	var why string
	out.CanaryDomains, out.Canary, why = r.canaryReport(g.group)
	if v.Accepted {
		out.Revision, out.References, out.Withheld = g.group.TrafficRevision, written, g.withheld
		out.ConfirmedTime = prev.ConfirmedTime
		if out.ConfirmedTime == nil || prev.Revision != out.Revision || !sameSet(prev.References, out.References) {
			out.ConfirmedTime = &metav1.MicroTime{Time: r.Now}
		}
		return out
	}
	if out.ConfirmedTime = prev.ConfirmedTime; prev.Revision <= g.group.TrafficRevision { // A greater revision belongs to another rollout state.
		out.Revision = prev.Revision
	}
	// Until the revision is confirmed, all releases to which objects referred or now refer count as
	// referenced.
	out.References = Union(prev.References, written)
	more := out.Active != prev.Active || !sameSet(out.References, prev.References)
	if out.Revision > 0 && more && serves(g.group, out, prev) && r.inGrace(g) {
		out.References, out.Active = prev.References, prev.Active
	}
	switch {
	case out.Revision > 0 || r.cameFrom(g):
		out.Withheld = Union(prev.Withheld, slices.DeleteFunc(slices.Clone(g.withheld), func(release string) bool { return r.unseen(g, release) != nil }))
	case out.ConfirmedTime == nil && !r.inGrace(g):
		// No gateway accepted these routes within the grace period. The references are the releases
		// to which objects now refer, and the releases to which a gateway is known to have routed before.
		// If all previous references stayed, the pods of more and more releases would be retained.
		out.References = Union(written, slices.DeleteFunc(slices.Clone(prev.References), func(release string) bool { return !r.mayRoute(release) }))
	}
	out.Unrouted = out.Revision > 0 && r.unrouted(g)
	out.Reason, out.Message = v.Reason, status.Line(v.Message)
	switch {
	case !v.Pending:
	case !r.inGrace(g) && g.delayed.IsZero():
		out.Reason = cmp.Or(v.Late, v.Reason)
	case out.Revision > 0 || prev.Reason == ReasonPending: // The status does not change if only the message differs.
		out.Reason, out.Message = prev.Reason, prev.Message
	}
	if why != "" {
		out.Message = status.Line(why)
	}
	return out
}

// serves reports whether the rollout state gives traffic to all releases to which a group's objects
// now refer but that prev does not contain. If so, the report about these releases can wait for the
// confirmation: none of them is removed before a later revision that does not contain them is confirmed.
func serves(g *v1alpha1.ReleaseGroup, now, prev v1alpha1.GroupTraffic) bool {
	unserved := func(name string) bool {
		return !slices.ContainsFunc(g.Releases, func(row v1alpha1.Release) bool {
			return row.VersionedMicroservice == name && (row.Status == v1alpha1.ReleaseActive || row.Status == v1alpha1.ReleaseCanary && row.Weight > 0)
		}) && !slices.Contains(prev.References, name)
	}
	return !slices.ContainsFunc(now.References, unserved) && (now.Active == prev.Active || prev.Active != "" && !unserved(now.Active))
}

// unrouted reports whether a group has domains, listeners or routes, but none of them is
// programmed, for a reason that does not depend on the group's releases.
func (r *reporter) unrouted(g *groupDecision) bool {
	if g.reason != "" || g.absent {
		return false
	}
	some := false
	for _, row := range r.out.rows {
		if row.group != g.group && row.newer != g.group || row.pinned != "" || row.canary {
			continue
		}
		if r.routed(row, v1alpha1.DomainStatus{Reason: row.reason}, nil).Programmed {
			return false
		}
		some = true
	}
	return some
}

// canaryReport reports whether a group has canary domains, and returns the release to which all of
// them route, or "". why is a message about a domain that the gateway rejected, or did not accept within
// the grace period.
func (r *reporter) canaryReport(g *v1alpha1.ReleaseGroup) (domains bool, release, why string) {
	for i, row := range slices.DeleteFunc(slices.Clone(r.out.rows), func(row *DomainRow) bool { return !r.ofCanary(row, g) }) {
		route := r.routeOf(row)
		if r.rollout.groupOf[row.pinned] != g || route == nil || i > 0 && row.pinned != release {
			return true, "", ""
		}
		if v := r.routeState(route); !v.Accepted {
			if !v.Pending || !r.fresh(r.routeWritten(route)) {
				why = fmt.Sprintf("domain %q: %s", cmp.Or(row.host, row.listener, row.user), v.Message)
			}
			return true, "", why
		}
		domains, release = true, row.pinned
	}
	return domains, release, ""
}

// ofCanary reports whether a row is a canary row of a group. A canary row belongs to the group to
// which it routes or, while domains are moving to a newer group, to that newer group. A row with an
// error belongs to no group.
func (r *reporter) ofCanary(row *DomainRow, g *v1alpha1.ReleaseGroup) bool {
	if !row.canary || row.reason != "" && row.reason != reasonNoCanary {
		return false
	}
	holder := cmp.Or(r.rollout.groupOf[row.pinned], row.newer, row.group)
	return holder == g || row.newest && r.mayMove(row.group, holder, g)
}

// mayMove reports whether canary domains that belong to the holder group will route to a newer
// group when hooks test that newer group's release, which has no ready endpoint yet. Until the
// domains route to the newer group, hooks would reach the older release.
func (r *reporter) mayMove(base, holder, to *v1alpha1.ReleaseGroup) bool {
	if r.activeAnswers(to) || to.Level == v1alpha1.LevelPreview || base == nil || base.ActiveRelease() == nil || base.Level == v1alpha1.LevelPreview {
		return false
	}
	groups := r.liveGroups()
	return slices.Contains(groups, to) && slices.Index(groups, to) < slices.Index(groups, holder)
}

// cameFrom reports whether domains are moving to a group from another group with a confirmed
// revision: a gateway is known to route them to that other group.
func (r *reporter) cameFrom(g *groupDecision) bool {
	for way := range r.out.moves {
		if way.to == g.slug && r.report(way.from).Revision > 0 {
			return true
		}
	}
	return false
}
