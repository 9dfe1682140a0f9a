package traffic

import (
	"maps"
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// obsolete decides which objects are deleted. A route is deleted only if other routes have been
// accepted for those of its hosts that are still required, or if one of its hosts is not allowed. A
// Service is deleted only if its release has no row and no written object refers to the Service.
func (d *planner) obsolete(out *Decision) {
	d.obsoleteRoutes(out)
	d.obsoleteServices(out)
}

// obsoleteRoutes decides which live routes are deleted, which routes stay because nothing can
// replace them, and which routes follow their group until other routes have replaced them.
func (d *planner) obsoleteRoutes(out *Decision) {
	wanted := map[string]*RouteDecision{}
	for _, r := range out.Routes {
		wanted[r.Name] = r
	}
	refused := refusedHosts(out.rows)
	vanished := d.vanished()
	stays := map[string]bool{}
	for _, r := range out.Previous {
		stays[r.Name] = !d.drained(out)
	}
	for _, name := range providers.Sorted(d.Live) {
		route := d.Live[name]
		if wanted[name] != nil || route.Deleting || route.User && route.Managed == nil {
			continue
		}
		if d.forbidden(route) || slices.ContainsFunc(route.Hostnames, func(host string) bool { return refused[route.Group()+"/"+host] }) {
			out.DeleteRoutes = append(out.DeleteRoutes, name)
			continue
		}
		if vanished[route.Group()] {
			continue
		}
		if d.previous(route) {
			if r := d.stuck(out, route); r != nil {
				out.held[name] = r
				out.unreplaced(r.message)
			} else if !stays[name] {
				out.DeleteRoutes = append(out.DeleteRoutes, name)
			}
			continue
		}
		if r := d.stuck(out, route); r != nil {
			out.held[name] = r
		} else if d.replaced(route, out) {
			out.DeleteRoutes = append(out.DeleteRoutes, name)
			continue
		}
		if r := d.follows(route, out); r != nil {
			out.Previous = append(out.Previous, r)
		}
	}
}

// replaced reports whether all desired routes for hosts of a live route are accepted, regardless of
// their paths: when a path is edited, a route with another path replaces the live route.
func (d *planner) replaced(route *providers.Live, out *Decision) bool {
	for _, by := range out.Routes {
		for _, host := range route.Hostnames {
			if slices.Contains(by.Hostnames, host) && !d.verdict(by).Accepted {
				return false
			}
		}
	}
	return true
}

// obsoleteServices decides which Services are deleted.
func (d *planner) obsoleteServices(out *Decision) {
	keep := map[string]bool{}
	for _, s := range out.Services {
		keep[s.Name] = true
	}
	for _, r := range slices.Concat(out.Routes, out.Previous) {
		for _, service := range r.services() {
			keep[service] = true
		}
	}
	for _, route := range d.Live {
		for _, service := range route.Services {
			keep[service] = true
		}
	}
	vanished, referenced := d.vanished(), d.referenced()
	for _, name := range providers.Sorted(d.Services) {
		s := d.Services[name]
		switch {
		case keep[name] || s.DeletionTimestamp != nil:
		case OfRelease(s) && referenced[s.Spec.Selector[v1alpha1.LabelRelease]]:
		case !OfRelease(s) && vanished[s.Labels[v1alpha1.LabelGroup]]:
		case name == d.Policy.Name && len(d.rollout.groups) == 0:
		default:
			out.DeleteServices = append(out.DeleteServices, name)
		}
	}
}

// stuck returns a row that requests a host of a live route but cannot be routed, for example
// because the provider does not support it. As long as there is such a row, the live route stays,
// because invalid input must not remove a route. stuck returns nil if there is no such row, or if
// the group of the live route should not be reachable.
func (d *planner) stuck(out *Decision, route *providers.Live) *DomainRow {
	if g := d.rollout.bySlug[route.Group()]; g == nil || !live(g) {
		return nil
	}
	if slices.ContainsFunc(out.groups, func(g *groupDecision) bool { return g.slug == route.Group() && g.absent }) {
		return nil
	}
	for _, r := range out.rows {
		if r.user != "" && r.reason != "" && !r.kept {
			return r
		}
		if slices.Contains(route.Hostnames, r.host) && d.keepsLive(r, out.rows, route.Path) {
			return r
		}
	}
	return nil
}

// follows updates a live route that stays although no row requires it. The route gets the split of
// its group, because a canary that is rolled back must not get traffic from this route either. A
// route that is moving to a newer group keeps moving as long as its hosts are moving. Other routes
// do not start such a move, because the newer group would then get traffic from a route that is not
// considered when that group is confirmed. follows returns nil if the route is up to date, or if no
// release of the group is ready.
func (d *planner) follows(route *providers.Live, out *Decision) *RouteDecision {
	if r, ok := d.followCanary(route, out); ok {
		return r
	}
	i := slices.IndexFunc(out.groups, func(g *groupDecision) bool { return g.slug == route.Group() })
	if i < 0 {
		return nil
	}
	g := out.groups[i]
	if m := d.movingFrom(route, out); m != nil {
		g = m
	}
	if len(g.weights) == 0 {
		return nil
	}
	stray := slices.ContainsFunc(d.releasesOf(route.Services), func(release string) bool {
		return g.weights[release] == 0 && release != g.matched && release != g.mirrored
	})
	if !stray && maps.Equal(d.backendsOf(route), g.weights) {
		return nil
	}
	if r := d.carry(out, route, nil, map[string]*groupDecision{g.slug: g}); len(r.Objects) > 0 {
		return r
	}
	return nil
}

// followCanary updates a live route of a canary domain whose canary has become ready: clients of
// that domain must not reach another release while a new route is replacing the live route. ok is
// false for routes that do not belong to such a domain.
func (d *planner) followCanary(route *providers.Live, out *Decision) (r *RouteDecision, ok bool) {
	rows := d.wantedBy(route, out.rows)
	if len(rows) == 0 || slices.ContainsFunc(rows, func(r *DomainRow) bool { return !r.canary || r.pinned == "" || r.pinned != rows[0].pinned }) {
		return nil, false
	}
	if slices.Equal(d.releasesOf(route.Services), []string{rows[0].pinned}) {
		return nil, true
	}
	groups := map[string]*groupDecision{}
	for _, g := range out.groups {
		groups[g.slug] = g
	}
	if r := d.carry(out, route, rows, groups); len(r.Objects) > 0 {
		return r, true
	}
	return nil, true
}

// movingFrom returns the split between the group of a live route that stays and the newer group to
// which the route is moving. It returns nil if the live route gives the newer group no traffic, or
// if a host of the live route is not moving in the route that replaces the live route.
func (d *planner) movingFrom(route *providers.Live, out *Decision) *groupDecision {
	for way, m := range out.moves { // There is at most one incoming group.
		if way.from != route.Group() || !slices.ContainsFunc(d.releasesOf(route.Services), func(name string) bool {
			of := d.rollout.groupOf[name]
			return of != nil && of.Slug == way.to
		}) {
			continue
		}
		for _, by := range out.Routes {
			if samePath(by.Path, route.Path) && slices.ContainsFunc(by.rows, func(r *DomainRow) bool {
				return slices.Contains(route.Hostnames, r.host) && (r.newer == nil || r.newer.Slug != way.to)
			}) {
				return nil
			}
		}
		return m
	}
	return nil
}

// forbiddenRoutes returns the routes with hosts that are not allowed. These routes are deleted even
// if the Microservice does not exist.
func (d *planner) forbiddenRoutes() []string {
	return slices.DeleteFunc(providers.Sorted(d.Live), func(name string) bool { return d.Live[name].Deleting || !d.forbidden(d.Live[name]) })
}

// vanished returns the groups that are in the labels of live objects but not in the rollout state.
// A group normally ends in the Closing phase, in which its routes are deleted. A missing group
// belonged to a rollout state that was lost. Its objects stay until another group has an active
// release with a ready endpoint, or all existing groups are ending.
func (d *planner) vanished() map[string]bool {
	groups := d.liveGroups()
	if len(groups) == 0 && slices.ContainsFunc(d.rollout.groups, func(g *v1alpha1.ReleaseGroup) bool { return g.Phase == v1alpha1.GroupClosing }) {
		return nil
	}
	for _, g := range groups {
		if a := g.ActiveRelease(); a != nil && d.ready(a.VersionedMicroservice) {
			return nil
		}
	}
	out := map[string]bool{}
	consider := func(slug string) {
		if slug != "" && d.rollout.bySlug[slug] == nil {
			out[slug] = true
		}
	}
	for _, s := range d.Services {
		consider(s.Labels[v1alpha1.LabelGroup])
	}
	for _, r := range d.Live {
		consider(r.Group())
	}
	return out
}

// referenced returns the releases that the policy's current status contains as references of
// groups, and the releases that the groups' live Services or the adopted Service select.
func (d *planner) referenced() map[string]bool {
	out := map[string]bool{}
	for _, g := range d.Policy.Status.Groups {
		for _, name := range g.References {
			out[name] = true
		}
	}
	for _, s := range d.Services {
		if !OfRelease(s) {
			out[s.Spec.Selector[v1alpha1.LabelRelease]] = true
		}
	}
	out[d.Selected(AdoptedName(d.Policy))] = true
	return out
}

// LiveObject returns the object of a live route that has the same kind and name as want, or nil if
// there is no such object.
func LiveObject(live *providers.Live, want resources.Object) resources.Object {
	if live == nil {
		return nil
	}
	for _, o := range live.Objects {
		if o.GetName() == want.GetName() && o.GetObjectKind().GroupVersionKind().GroupKind() == want.GetObjectKind().GroupVersionKind().GroupKind() {
			return o
		}
	}
	return nil
}

// Surplus returns the live objects of the routes to be deleted, and objects that are no longer part of
// a route that remains. The object that was created last is deleted first.
func Surplus(f *Observed, out *Decision) []resources.Object {
	var gone []resources.Object
	for _, name := range out.DeleteRoutes {
		if f.Live[name].User {
			continue // User-managed routes are restored, not deleted.
		}
		gone = append(gone, f.Live[name].Objects...)
	}
	for _, route := range slices.Concat(out.Routes, out.Previous) {
		gone = append(gone, Leftovers(f, route)...)
	}
	slices.Reverse(gone)
	return gone
}

// Leftovers returns the live objects that are no longer part of a route that remains, such as the Ingress of a canary.
func Leftovers(f *Observed, route *RouteDecision) (gone []resources.Object) {
	live := f.Live[route.Name]
	if live == nil || live.User || len(route.Objects) == 0 {
		return nil // The route is new, is user-managed, or does not change.
	}
	for _, o := range live.Objects {
		if !slices.ContainsFunc(route.Objects, func(want resources.Object) bool { return LiveObject(live, want) == o }) {
			gone = append(gone, o)
		}
	}
	return gone
}
