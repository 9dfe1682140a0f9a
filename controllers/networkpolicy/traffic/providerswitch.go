package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// Reasons for the ProviderSwitching condition.
const (
	reasonReplacing = "Replacing"
	ReasonDraining  = "Draining"
)

const (
	// defaultDrain is the drain delay of a Microservice that does not set a drain delay.
	defaultDrain = 30 * time.Second
	// minDrain is the minimum time for which the routes of a previous provider stay, unless the policy
	// sets a delay. It is needed because a gateway accepts a new route before it serves that route.
	minDrain = 5 * time.Second
)

// drain returns how long the routes of a previous provider stay after other routes have replaced
// them.
func (f *Observed) drain() time.Duration {
	least := minDrain
	if f.Microservice != nil {
		least = max(least, f.Microservice.Spec.UpdateStrategy.DrainDelay.Std(defaultDrain))
	}
	return f.Policy.Spec.DrainDelay.Std(least)
}

// addPrevious updates the routes of previous providers so that they have the same targets as the
// current routes, and records whether the current provider serves everything that previous
// providers serve.
func (d *planner) addPrevious(out *Decision, groups map[string]*groupDecision) {
	out.replaced = true
	routeOf := map[*DomainRow]*RouteDecision{}
	for _, route := range out.Routes {
		for _, r := range route.rows {
			routeOf[r] = route
		}
	}
	for _, name := range d.previousRoutes() {
		old := d.Live[name]
		if old.Deleting {
			continue
		}
		rows := d.wantedBy(old, out.rows)
		replacing := slices.Clone(rows)
		rows = slices.DeleteFunc(rows, func(r *DomainRow) bool { return r.user == "" && !samePath(r.path, old.Path) })
		if len(replacing) == 0 && len(old.Hostnames) > 0 && routed(d.Policy) {
			continue // The specification no longer has the hosts of the route, so the route is deleted.
		}
		if len(rows) > 0 {
			replacing = rows
		}
		kept := d.carry(out, old, rows, groups)
		if g := d.rollout.bySlug[old.Group()]; g != nil && !live(g) && len(kept.Backends) == 0 {
			continue // The route is deleted with its group, and does not route to another group.
		}
		if g := groups[old.Group()]; g != nil && g.absent && len(kept.Backends) == 0 {
			continue // The group of the route must no longer be reachable.
		}
		for _, r := range replacing {
			route := routeOf[r]
			if route == nil {
				out.unreplaced(fmt.Sprintf("%s: %s", r.field, cmp.Or(r.message, "there is no route yet")))
			} else if v := d.verdict(route); !v.Accepted {
				out.unreplaced(v.Message)
			} else if p := d.unready(route.Route, r.host); p != nil {
				out.unreplaced(p.Message)
			}
		}
		out.Previous = append(out.Previous, kept)
	}
	if len(out.Previous) == 0 {
		return
	}
	if p := providers.Referent(d.View); p != nil {
		out.unreplaced(p.Message)
	}
	if !routed(d.Policy) {
		d.replacedByServices(out)
	}
}

func (d *Decision) unreplaced(message string) {
	if d.replaced {
		d.replaced, d.waits = false, message
	}
}

// replacedByServices checks whether the Services of groups with routes of previous providers route to
// the active releases. The policy's provider writes no routes, so these Services replace the routes.
func (d *planner) replacedByServices(out *Decision) {
	for _, s := range out.Services {
		if g := d.rollout.bySlug[s.Stamp.Group]; g != nil && !s.OfRelease && s.Group == g.Slug && d.hasPreviousRoutes(g.Slug) {
			if v := d.followVerdict(s, g); !v.Accepted {
				out.unreplaced(v.Message)
			}
		}
	}
}

// wantedBy returns the rows for the hosts that a live route serves, regardless of the rows' paths.
// Rows without a target are excluded: such a row gets no route that could replace the live route.
func (d *planner) wantedBy(live *providers.Live, rows []*DomainRow) []*DomainRow {
	return slices.DeleteFunc(slices.Clone(rows), func(r *DomainRow) bool {
		if r.user != "" {
			return !d.sharesHosts(live, d.Live[r.user])
		}
		unserved := r.reason == reasonNoCanary || (r.reason == reasonPinnedUnavailable || r.reason == reasonFrozen) && !r.kept
		return r.host == "" || unserved || !slices.Contains(live.Hostnames, r.host)
	})
}

// sharesHosts reports whether a user-managed route replaces a live route: the two routes have a
// host in common, one of them has no hosts, or the hosts are not known yet.
func (d *planner) sharesHosts(live, user *providers.Live) bool {
	return user == nil || len(user.Hostnames) == 0 || len(live.Hostnames) == 0 ||
		slices.ContainsFunc(live.Hostnames, func(host string) bool { return slices.Contains(user.Hostnames, host) })
}

// carry updates a live route so that it has the target of the rows or, if there are no rows, of its
// group. If the rows have different targets, the route stays as it is.
func (d *planner) carry(all *Decision, live *providers.Live, rows []*DomainRow, groups map[string]*groupDecision) *RouteDecision {
	out := &RouteDecision{slug: live.Group(), rows: rows, Route: providers.Route{Name: live.Name}}
	var first DomainRow
	switch g := d.rollout.bySlug[live.Group()]; {
	case len(rows) > 0:
		first = *rows[0]
	case g == nil || live.Pinned():
		return out
	default:
		first = DomainRow{group: g}
	}
	apart := slices.ContainsFunc(rows, func(r *DomainRow) bool {
		return r.group != first.group || r.newer != first.newer || r.pinned != first.pinned
	})
	if apart || first.group == nil || first.pin && first.pinned == "" {
		return out
	}
	if first.pinned == "" && len(d.splitOf(all, &first, groups).weights) == 0 {
		return out // No release that may receive traffic has a ready endpoint.
	}
	if len(rows) == 0 {
		rows = []*DomainRow{&first}
	}
	out.slug = first.group.Slug
	out.Route = d.plan(live.Name, rows, d.splitOf(all, &first, groups))
	out.TLS, out.RecordTTL, out.Parents = nil, 0, nil // Without these values, Carry keeps the live values.
	out.Objects = providers.Carry(d.viewOf(live.Provider), live, out.Route)
	return out
}

// drained reports whether routes of previous providers may be deleted. This requires that, for at
// least the drain delay, the current provider has served everything that these routes serve.
func (d *planner) drained(out *Decision) bool {
	s := d.Policy.Status.ProviderSwitch
	return out.replaced && s != nil && s.ReplacedTime != nil && d.sameProvider() && !d.Now.Before(s.ReplacedTime.Add(d.drain()))
}

// sameProvider reports whether the policy's current status was written for the current provider. If
// so, the times in the status belong to the switch to that provider.
func (f *Observed) sameProvider() bool {
	return f.Policy.Status.Provider == ProviderOf(f.Policy).Name()
}
