package traffic

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/split"
)

// group decides the split of one group.
func (d *planner) group(g *v1alpha1.ReleaseGroup, rows []*DomainRow) *groupDecision {
	out := &groupDecision{group: g, slug: g.Slug, mode: v1alpha1.SplitWhole}
	var routable, refused *DomainRow
	for _, r := range rows {
		out.newest = out.newest || r.newest && !r.canary && r.group == g
		if r.awaited != "" && d.rollout.groupOf[r.awaited] == g {
			out.pinned = Union(out.pinned, []string{r.awaited})
		}
		if r.group != g && r.newer != g {
			continue
		}
		if r.pin {
			if r.pinned != "" {
				out.pinned = Union(out.pinned, []string{r.pinned})
			}
			continue
		}
		if r.canary {
			continue // Canary rows do not follow weights.
		}
		if r.covered {
			continue // Another group has the host. This does not block the row's group.
		}
		// A group has a split even if its domain cannot be routed: otherwise, the group could
		// be reported as programmed.
		out.routed = true
		if providers.Splits(d.View) {
			out.mode = v1alpha1.SplitWeighted
		}
		if r.routable() {
			routable = r
		} else if refused == nil {
			refused = r
		}
	}
	if !live(g) {
		out.answers = true
		return out
	}
	if out.moves = out.mode == v1alpha1.SplitWhole && (out.routed || d.hasPreviousRoutes(g.Slug)); out.moves {
		g = moved(g)
	}
	last := d.liveWeights(g.Slug)
	shares := d.shares(g, last)
	out.weights, out.withheld = split.Weights(shares)
	d.delayFirstTraffic(g, out, shares, last)
	out.answers = out.weights != nil
	d.testTraffic(g, out)
	out.awaited = d.awaited(out, last)
	if g.TrafficRevision > 0 && (d.rejected(g, providers.Sorted(last)...) || mainOf(g) == nil && !d.liveSlugs()[g.Slug]) {
		out.absent, out.answers = true, true
		return out
	}
	if !out.answers {
		out.weights, out.answers = hold(last, g)
	}
	active := mainOf(g)
	switch {
	case active == nil:
		out.reason = reasonNoActiveRelease
		out.message = fmt.Sprintf("release group %q has no active release yet", g.Name)
	case routable == nil && refused != nil:
		out.reason, out.message = refused.reason, refused.message
	case len(out.weights) == 0 || !out.answers:
		out.reason = reasonNoReadyEndpoints
		out.message = fmt.Sprintf("no release of group %q that should receive traffic has a ready endpoint", g.Name)
	}
	return out
}

// shares returns the shares of a group's releases. last contains the weights in the group's live
// routes.
func (d *planner) shares(g *v1alpha1.ReleaseGroup, last map[string]int) []split.Share {
	prev := d.report(g.Slug)
	var shares []split.Share
	for i := range g.Releases {
		r := &g.Releases[i]
		name := r.VersionedMicroservice
		shares = append(shares, split.Share{
			Release: name, Eligible: r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseCanary, Weight: int(r.Weight),
			Ready: d.ready(name), Available: r.Available,
			Withheld: slices.Contains(prev.Withheld, name) && last[name] == 0,
		})
	}
	slices.SortFunc(shares, func(a, b split.Share) int { return cmp.Compare(a.Release, b.Release) })
	return shares
}

// endpointDelay is the time for which a group's routes keep their content and revision while only the
// endpoints of a release are missing. kube-controller-manager creates EndpointSlices at about the same
// time as a Deployment becomes available. Without the delay, routes would be written without the
// release, and would be written again moments later. canaryEndpointDelay is the maximum delay if only a
// canary has no endpoints: while many services are being rolled out, the EndpointSlice of the canary may
// be created more than ten seconds after its Deployment becomes available. Until then, the share of the
// canary remains with the active release.
const (
	endpointDelay       = 5 * time.Second
	canaryEndpointDelay = 30 * time.Second
)

// delayOf returns the delay for those releases of a group that have no endpoints. The delay ends long
// before the progress deadline, because the canary fails at the deadline only if its missing endpoints
// have been reported by then.
func (d *planner) delayOf(g *v1alpha1.ReleaseGroup, withheld []string) time.Duration {
	for i := range g.Releases {
		if r := &g.Releases[i]; r.Status != v1alpha1.ReleaseCanary && slices.Contains(withheld, r.VersionedMicroservice) {
			return endpointDelay
		}
	}
	deadline := time.Duration(0)
	if d.Microservice != nil {
		deadline = time.Duration(d.Microservice.Spec.UpdateStrategy.ProgressDeadlineSeconds) * time.Second
	}
	return max(endpointDelay, min(canaryEndpointDelay, deadline/4))
}

// delayFirstTraffic treats releases that must not get their first traffic yet as not ready. It does this only if
// the live weights can remain unchanged during the delay: the delay of a new release must not also delay the
// removal of an aborted canary. A group without a live route is not delayed.
func (d *planner) delayFirstTraffic(g *v1alpha1.ReleaseGroup, out *groupDecision, shares []split.Share, last map[string]int) {
	report := d.report(g.Slug)
	if g.TrafficTime == nil || len(last) == 0 {
		return
	}
	var end time.Time
	var delayed []string
	without := slices.Clone(shares)
	for i := range without {
		s := &without[i]
		at := d.firstTrafficAt(s.Release)
		if !s.Eligible || !s.Ready || at.IsZero() || report.Revision >= g.TrafficRevision && !slices.Contains(report.Withheld, s.Release) {
			continue
		}
		if s.Ready = false; end.IsZero() || at.Before(end) {
			end = at
		}
		delayed = append(delayed, s.Release)
	}
	if end.IsZero() {
		return
	}
	if weights, withheld := split.Weights(without); maps.Equal(weights, last) {
		out.weights, out.withheld, out.delayed = weights, withheld, end
	} else if d.mayStay(g, last) {
		out.weights, out.withheld, out.delayed = maps.Clone(last), delayed, end
	}
}

// mayStay reports whether the releases of a group can keep their live weights for a moment: all of them are
// ready, each is active, is a canary, or was active before, and no other group's release has a share. A
// canary that was aborted must lose its traffic immediately.
func (d *planner) mayStay(g *v1alpha1.ReleaseGroup, last map[string]int) bool {
	total := 0
	for name, weight := range last {
		if weight == 0 {
			continue
		}
		total += weight
		i := slices.IndexFunc(g.Releases, func(r v1alpha1.Release) bool { return r.VersionedMicroservice == name })
		if i < 0 || !d.ready(name) {
			return false
		}
		r := g.Releases[i]
		if r.Status != v1alpha1.ReleaseActive && r.Status != v1alpha1.ReleaseCanary && (r.Status != v1alpha1.ReleaseDeprecated || r.Promoted == 0) {
			return false
		}
	}
	return total == 100
}

// awaited returns the time until which a group's routes are not written, because the withheld
// releases may get endpoints by then, or zero if there is no delay. The delay applies only if nothing but
// the revision of the routes would change, and only once for each release: it does not apply to a
// release that is already reported as withheld.
func (d *planner) awaited(g *groupDecision, last map[string]int) time.Time {
	if len(g.withheld) == 0 || len(g.weights) == 0 || !maps.Equal(g.weights, last) || g.group.TrafficTime == nil {
		return time.Time{}
	}
	report := d.report(g.slug)
	if report.Revision >= g.group.TrafficRevision {
		return time.Time{} // The routes already have this revision: the releases have lost their endpoints.
	}
	if !g.delayed.IsZero() {
		return g.delayed
	}
	reported := report.Withheld
	if slices.ContainsFunc(g.withheld, func(release string) bool { return slices.Contains(reported, release) }) {
		return time.Time{}
	}
	began := g.group.TrafficTime.Time
	if end := began.Add(d.delayOf(g.group, g.withheld)); !d.Now.Before(began) && d.Now.Before(end) { // The clock of the previous manager may have been ahead.
		return end
	}
	return time.Time{}
}

// addMoves decides the splits of domains that are moving to a newer group.
func (d *planner) addMoves(out *Decision) {
	out.moves = map[move]*groupDecision{}
	for _, r := range out.rows {
		if r.newer == nil || r.canary {
			continue
		}
		key := move{r.group.Slug, r.newer.Slug}
		if out.moves[key] != nil {
			continue
		}
		m := d.move(r.group, r.newer)
		out.moves[key] = m
		for _, g := range out.groups {
			if g.group != r.group && g.group != r.newer {
				continue
			}
			for _, name := range m.withheld {
				if d.rollout.groupOf[name] == g.group {
					g.withheld = Union(g.withheld, []string{name})
				}
			}
		}
	}
}

// move decides the split between a group and the first release of a newer group, which is a canary.
// The canary gets its weight, and the releases of the older group share the remainder.
func (d *planner) move(base, newer *v1alpha1.ReleaseGroup) *groupDecision {
	out := &groupDecision{group: base, slug: base.Slug, mode: v1alpha1.SplitWeighted}
	both := *base
	if !providers.Splits(d.View) {
		both, out.mode = *moved(base), v1alpha1.SplitWhole
	}
	last := d.liveWeightsBetween(base.Slug)
	shares := d.shares(&both, last)
	if canary := mainOf(newer); providers.Splits(d.View) {
		one := *newer
		one.Releases = []v1alpha1.Release{*canary}
		shares = split.Join(shares, d.shares(&one, last)[0])
		both.Releases = slices.Clone(both.Releases)
		for i := range both.Releases {
			both.Releases[i].Weight *= 100 - canary.Weight
		}
		joined := *canary
		joined.Weight *= 100
		both.Releases = append(both.Releases, joined)
	}
	out.weights, out.withheld = split.Weights(shares)
	out.answers = out.weights != nil
	if out.mode == v1alpha1.SplitWeighted {
		d.testTraffic(&both, out)
	}
	if !out.answers {
		out.weights, out.answers = hold(last, &both)
	}
	return out
}

// liveWeightsBetween returns the weights of all releases, of any group, in a group's live routes.
// If there are several routes, it returns the weights of the route with the most releases.
func (d *planner) liveWeightsBetween(slug string) map[string]int {
	var best map[string]int
	for _, name := range providers.Sorted(d.Live) {
		if route := d.Live[name]; route.Group() == slug && !route.Deleting && !route.Pinned() {
			if weights := d.backendsOf(route); len(weights) > len(best) {
				best = weights
			}
		}
	}
	return best
}

// testTraffic decides which matched and mirrored requests the canary gets in addition to its
// weight. A canary without a ready endpoint gets no such requests, and is withheld: its step is not
// programmed as required.
func (d *planner) testTraffic(g *v1alpha1.ReleaseGroup, out *groupDecision) {
	for i := range g.Releases {
		r := &g.Releases[i]
		name := r.VersionedMicroservice
		if r.Status != v1alpha1.ReleaseCanary || !r.Match && r.MirrorPercent == 0 {
			continue
		}
		switch {
		case d.ready(name) && (out.delayed.IsZero() || d.firstTrafficAt(name).IsZero()):
			if r.Match {
				out.matched = name
			}
			if r.MirrorPercent > 0 {
				out.mirrored, out.mirrorPercent = name, r.MirrorPercent
			}
		case !slices.Contains(out.withheld, name):
			out.withheld = append(out.withheld, name)
			slices.Sort(out.withheld)
		}
	}
}

// hold returns the weights of a group's routes while no release that should receive traffic has a ready
// endpoint: the last written weights, excluding those of releases that are rejected in the rollout
// state. If all releases with a last written weight are rejected, it returns the required weights,
// because a rule without backends could not serve requests either. last is nil if the group has no route. last is
// empty if the group's route has only a release of a newer group, from which the domains are moving
// back.
func hold(last map[string]int, g *v1alpha1.ReleaseGroup) (weights map[string]int, answers bool) {
	if last == nil {
		return nil, false
	}
	asked, eligible, earlier := map[string]int{}, map[string]int{}, map[string]int{}
	for _, r := range g.Releases {
		name := r.VersionedMicroservice
		serves := r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseCanary
		if serves && r.Weight > 0 {
			asked[name] = int(r.Weight)
		}
		switch {
		case last[name] == 0:
		case serves:
			eligible[name] = last[name]
		case r.Status == v1alpha1.ReleaseDeprecated && r.Promoted > 0:
			earlier[name] = last[name]
		}
	}
	switch {
	case len(eligible) > 0:
		return split.Percent(eligible), true
	case len(earlier) > 0:
		return split.Percent(earlier), false
	case len(asked) > 0:
		return split.Percent(asked), true
	}
	return split.Percent(last), false // The sum of last may be less than 100, because last omits the weights of another group that shared the routes.
}

// liveWeights returns the weights of a group's releases in the group's live routes, or nil if the
// group has no routes. If there are several routes, it returns the weights of the route with the
// highest revision.
func (d *planner) liveWeights(slug string) map[string]int {
	best, bestRevision := map[string]int(nil), int64(-1)
	for _, name := range providers.Sorted(d.Live) {
		route := d.Live[name]
		s, _ := route.Stamp()
		if route.Group() != slug || route.Deleting || route.Pinned() || s.Revision <= bestRevision {
			continue
		}
		best, bestRevision = d.backendsOf(route), s.Revision
	}
	maps.DeleteFunc(best, func(name string, _ int) bool {
		g := d.rollout.groupOf[name]
		return g != nil && g.Slug != slug // The release belongs to a newer group, to which domains are moving.
	})
	return best
}
