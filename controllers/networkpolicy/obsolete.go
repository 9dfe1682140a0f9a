package networkpolicy

import (
	"maps"
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// obsolete decides what is deleted. A route goes only when the hosts that are still
// wanted are accepted elsewhere, or when one of its hosts is not allowed; a Service goes
// only when its release has no row and no written object names it.
func (d *decider) obsolete(out *decision) {
	out.held = map[string]*row{}
	wanted := map[string]*routeDecision{}
	byHost := map[string][]*routeDecision{}
	for _, r := range out.routes {
		wanted[r.Name] = r
		for _, host := range r.Hostnames {
			byHost[host] = append(byHost[host], r)
		}
	}
	refused := map[string]bool{}
	for _, r := range out.rows {
		if r.reason == reasonDomainNotAllowed && r.group != nil {
			refused[r.group.Slug+"/"+r.host] = true
		}
	}
	vanished := d.vanished()
	named := map[string]bool{}
	for _, r := range slices.Concat(out.routes, out.former) {
		for _, service := range r.services() {
			named[service] = true
		}
	}
	kept := map[string]bool{}
	for _, r := range out.former {
		kept[r.Name] = !d.drained(out)
	}
	for _, name := range sortedKeys(d.live) {
		route := d.live[name]
		for _, service := range route.Services {
			named[service] = true
		}
		if wanted[name] != nil || route.Leaving || route.User && route.Led == nil {
			continue
		}
		if d.forbidden(route) || slices.ContainsFunc(route.Hostnames, func(host string) bool { return refused[route.Group()+"/"+host] }) {
			out.deleteRoutes = append(out.deleteRoutes, name)
			continue
		}
		if vanished[route.Group()] {
			continue
		}
		if d.former(route) {
			if r := d.stuck(out.rows, route); r != nil {
				out.held[name] = r
			} else if !kept[name] {
				out.deleteRoutes = append(out.deleteRoutes, name)
			}
			continue
		}
		replaced := true
		for _, host := range route.Hostnames {
			// Whatever the path: one that was edited is a route that goes and one that comes.
			for _, by := range byHost[host] {
				replaced = replaced && d.verdict(by).Accepted
			}
		}
		if r := d.stuck(out.rows, route); r != nil {
			out.held[name] = r
		} else if replaced {
			out.deleteRoutes = append(out.deleteRoutes, name)
			continue
		}
		if r := d.follows(route, out); r != nil {
			out.former = append(out.former, r)
		}
	}
	keep := map[string]bool{}
	for _, s := range out.services {
		keep[s.Name] = true
	}
	selected := d.referenced()
	for _, name := range sortedKeys(d.services) {
		s := d.services[name]
		if keep[name] || named[name] || s.DeletionTimestamp != nil {
			continue
		}
		if ofRelease(s) && selected[s.Spec.Selector[v1alpha1.LabelRelease]] || !ofRelease(s) && vanished[s.Labels[v1alpha1.LabelGroup]] {
			continue
		}
		if name == d.policy.Name && len(d.ledger.groups) == 0 {
			continue
		}
		out.deleteServices = append(out.deleteServices, name)
	}
}

// stuck is a row that asks for a host of a live route in a way that the provider cannot
// route; nil: none. What is live stays then, as long as its group does: bad input takes
// nothing away.
func (d *decider) stuck(rows []*row, route *providers.Live) *row {
	if g := d.ledger.bySlug[route.Group()]; g == nil || !live(g) {
		return nil
	}
	for _, r := range rows {
		if r.user != "" && r.reason != "" && !r.kept {
			return r
		}
		switch r.reason {
		case reasonGatewayAPIMissing, providers.ReasonProviderAPIMissing, reasonNotSupported:
			if slices.Contains(route.Hostnames, r.host) {
				return r
			}
		case reasonDomainConflict:
			if slices.Contains(route.Hostnames, r.host) && !d.taken(rows, r.host, route.Path) {
				return r
			}
		}
	}
	return nil
}

// taken says whether another policy holds a host and path, or a row has them.
func (d *decider) taken(rows []*row, host, path string) bool {
	return slices.ContainsFunc(d.claims, func(c claim) bool { return !c.younger && c.host == host && samePath(c.path, path) }) ||
		slices.ContainsFunc(rows, func(r *row) bool { return r.host == host && samePath(r.path, path) })
}

// follows leads a live route that stays, although no row asks for it, to what its group is
// led to: a canary that is taken back must be taken back there too. One on its way to a
// newer group stays on it, as long as its hosts do. One that is not begins no such way: the
// newer group would have traffic that no confirmed route gives it. Nil: it is so already, or
// nothing of the group can answer.
func (d *decider) follows(route *providers.Live, out *decision) *routeDecision {
	if r, ok := d.followsCanary(route, out); ok {
		return r
	}
	i := slices.IndexFunc(out.groups, func(g *groupDecision) bool { return g.slug == route.Group() })
	if i < 0 {
		return nil
	}
	g := out.groups[i]
	if m := d.onItsWay(route, out); m != nil {
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
	if r := d.carry(out, route, nil, map[string]*groupDecision{g.slug: g}); len(r.objects) > 0 {
		return r
	}
	return nil
}

// followsCanary does so for a route of a canary's domain whose canary has become ready since: clients of that domain
// are to see no other release while another route replaces it. ok is false for a route of anything else.
func (d *decider) followsCanary(route *providers.Live, out *decision) (r *routeDecision, ok bool) {
	rows := d.wantedBy(route, out.rows)
	if len(rows) == 0 || slices.ContainsFunc(rows, func(r *row) bool { return !r.canary || r.pinned == "" || r.pinned != rows[0].pinned }) {
		return nil, false
	}
	if slices.Equal(d.releasesOf(route.Services), []string{rows[0].pinned}) {
		return nil, true
	}
	groups := map[string]*groupDecision{}
	for _, g := range out.groups {
		groups[g.slug] = g
	}
	if r := d.carry(out, route, rows, groups); len(r.objects) > 0 {
		return r, true
	}
	return nil, true
}

// onItsWay is the split between the group of a live route that stays and the newer one to
// which it is on its way. Nil: it gives that one nothing, or one of its hosts is to go no
// further, by a route that is to replace it.
func (d *decider) onItsWay(route *providers.Live, out *decision) *groupDecision {
	for way, m := range out.moves { // A group has one that comes.
		if way.from != route.Group() || !slices.ContainsFunc(d.releasesOf(route.Services), func(name string) bool {
			of := d.ledger.groupOf[name]
			return of != nil && of.Slug == way.to
		}) {
			continue
		}
		for _, by := range out.routes {
			if samePath(by.Path, route.Path) && slices.ContainsFunc(by.rows, func(r *row) bool {
				return slices.Contains(route.Hostnames, r.host) && (r.newer == nil || r.newer.Slug != way.to)
			}) {
				return nil
			}
		}
		return m
	}
	return nil
}

// forbiddenRoutes are what goes even where nothing else is decided.
func (d *decider) forbiddenRoutes() []string {
	return slices.DeleteFunc(sortedKeys(d.live), func(name string) bool { return d.live[name].Leaving || !d.forbidden(d.live[name]) })
}

// vanished are groups that live objects carry and the ledger does not know. A group
// leaves by its phase Closing, in which its routes go; one that is simply not there
// belongs to a ledger that was made anew. Its objects stay until some group has an
// active release that answers.
func (d *decider) vanished() map[string]bool {
	for _, g := range d.liveGroups() {
		if a := activeOf(g); a != nil && d.ready(a.VersionedMicroservice) {
			return nil
		}
	}
	out := map[string]bool{}
	consider := func(slug string) {
		if slug != "" && d.ledger.bySlug[slug] == nil {
			out[slug] = true
		}
	}
	for _, s := range d.services {
		consider(s.Labels[v1alpha1.LabelGroup])
	}
	for _, r := range d.live {
		consider(r.Group())
	}
	return out
}

// referenced are the releases that the last report named, and those that live
// Services of groups select.
func (d *decider) referenced() map[string]bool {
	out := map[string]bool{}
	for _, g := range d.policy.Status.Groups {
		for _, name := range g.References {
			out[name] = true
		}
	}
	for _, s := range d.services {
		if !ofRelease(s) {
			out[s.Spec.Selector[v1alpha1.LabelRelease]] = true
		}
	}
	out[d.selected(adoptedName(d.policy))] = true
	return out
}
