package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// Reasons of condition ProviderSwitching.
const (
	reasonReplacing = "Replacing"
	ReasonDraining  = "Draining"
)

const (
	// defaultDrain is the drain delay of a Microservice that names none.
	defaultDrain = 30 * time.Second
	// minDrain is how long the routes of a previous provider stay at least where the policy
	// does not say itself: acceptance comes before service.
	minDrain = 5 * time.Second
)

// drain is how long the routes of a previous provider stay after others have replaced them.
func (f *Observed) drain() time.Duration {
	least := minDrain
	if f.Microservice != nil {
		least = max(least, f.Microservice.Spec.UpdateStrategy.DrainDelay.Std(defaultDrain))
	}
	return f.Policy.Spec.DrainDelay.Std(least)
}

// addPrevious keeps what routes of previous providers route to the same as what those of the
// current one route to, and reports whether these serve all that the previous ones serve.
func (d *planner) addPrevious(out *Decision, groups map[string]*groupDecision) {
	out.replaced = true
	routeOf := map[*Row]*RouteDecision{}
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
		if len(rows) == 0 && len(old.Hostnames) > 0 && routed(d.Policy) {
			continue // Its hosts were taken out of the specification: it goes.
		}
		carried := d.carry(out, old, rows, groups)
		if g := d.rollout.bySlug[old.Group()]; g != nil && !live(g) && len(carried.Backends) == 0 {
			continue // It goes with its group, and is routed to no other.
		}
		if g := groups[old.Group()]; g != nil && g.absent && len(carried.Backends) == 0 {
			continue // Nothing of its group is to be reached any more.
		}
		for _, r := range rows {
			route := routeOf[r]
			if route == nil {
				out.unreplaced(fmt.Sprintf("%s: %s", r.field, cmp.Or(r.message, "it has no route yet")))
			} else if v := d.verdict(route); !v.Accepted {
				out.unreplaced(v.Message)
			} else if p := d.unready(route.Route, r.host); p != nil {
				out.unreplaced(p.Message)
			}
		}
		out.Previous = append(out.Previous, carried)
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

// replacedByServices looks at the Services of groups that have routes: they are all that
// callers are to use.
func (d *planner) replacedByServices(out *Decision) {
	for _, s := range out.Services {
		if g := d.rollout.bySlug[s.Stamp.Group]; g != nil && !s.OfRelease && s.Group == g.Slug && d.hasPreviousRoutes(g.Slug) {
			if v := d.followVerdict(s, g); !v.Accepted {
				out.unreplaced(v.Message)
			}
		}
	}
}

// wantedBy are the rows for what a live route of a previous provider serves. Those that route to nothing are not among
// them, because no route of the current provider would ever replace it.
func (d *planner) wantedBy(live *providers.Live, rows []*Row) []*Row {
	return slices.DeleteFunc(slices.Clone(rows), func(r *Row) bool {
		if r.user != "" {
			return !d.sharesHosts(live, d.Live[r.user])
		}
		unserved := r.reason == reasonNoCanary || r.reason == reasonPinnedUnavailable && !r.kept
		return r.host == "" || unserved || !slices.Contains(live.Hostnames, r.host) || !samePath(r.path, live.Path)
	})
}

// sharesHosts reports whether a route of another user takes the place of a live one: it has
// one of its hosts, or one of them has none, or no one knows its hosts yet.
func (d *planner) sharesHosts(live, user *providers.Live) bool {
	return user == nil || len(user.Hostnames) == 0 || len(live.Hostnames) == 0 ||
		slices.ContainsFunc(live.Hostnames, func(host string) bool { return slices.Contains(user.Hostnames, host) })
}

// carry routes a route of a previous provider to what rows are routed to, or the group that it
// is of where there are none. Where rows route to different things it stays as it is.
func (d *planner) carry(all *Decision, live *providers.Live, rows []*Row, groups map[string]*groupDecision) *RouteDecision {
	out := &RouteDecision{slug: live.Group(), rows: rows, Route: providers.Route{Name: live.Name}}
	var first Row
	switch g := d.rollout.bySlug[live.Group()]; {
	case len(rows) > 0:
		first = *rows[0]
	case g == nil || live.Pinned():
		return out
	default:
		first = Row{group: g}
	}
	apart := slices.ContainsFunc(rows, func(r *Row) bool { return r.group != first.group || r.newer != first.newer || r.pinned != first.pinned })
	if apart || first.group == nil || first.pin && first.pinned == "" {
		return out
	}
	if first.pinned == "" && len(d.splitOf(all, &first, groups).weights) == 0 {
		return out // Nothing that could answer has a ready endpoint.
	}
	if len(rows) == 0 {
		rows = []*Row{&first}
	}
	out.slug = first.group.Slug
	out.Route = d.plan(live.Name, rows, d.splitOf(all, &first, groups))
	out.TLS, out.RecordTTL, out.Parents = nil, 0, nil // What was specified of them stays.
	out.Objects = providers.Carry(d.viewOf(live.Provider), live, out.Route)
	return out
}

// drained reports whether routes of previous providers may go: what they serve has been
// served by the current one for the drain delay.
func (d *planner) drained(out *Decision) bool {
	s := d.Policy.Status.ProviderSwitch
	return out.replaced && s != nil && s.ReplacedTime != nil && d.sameProvider() && !d.Now.Before(s.ReplacedTime.Add(d.drain()))
}

// sameProvider reports whether the last report was made under the current provider, so that
// the time in it is of this switch.
func (f *Observed) sameProvider() bool {
	return f.Policy.Status.Provider == ProviderOf(f.Policy).Name()
}
