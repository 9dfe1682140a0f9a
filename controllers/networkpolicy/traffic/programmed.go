package traffic

import (
	"fmt"
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// groupVerdict reports whether every object of a group has the revision of the group and is
// accepted.
func (r *reporter) groupVerdict(g *groupDecision, written []string, prev v1alpha1.GroupTraffic) verdict {
	if !live(g.group) {
		if len(written) > 0 || r.liveSlugs()[g.slug] {
			return r.leavingVerdict(g.slug)
		}
		return r.removedVerdict(written, prev)
	}
	if tests := r.tests(g.group); g.absent && (len(r.writtenBut(g.slug, tests)) > 0 || r.liveSlugsBut(tests)[g.slug]) {
		return verdict{Reason: reasonNoActiveRelease, Message: fmt.Sprintf("release group %q has no active release, but a route still points to a release that was rolled back", g.group.Name)}
	}
	if g.reason != "" {
		return verdict{Reason: g.reason, Message: g.message}
	}
	for _, release := range g.withheld {
		if v := r.unseen(g, release); v != nil {
			return *v
		}
	}
	for _, check := range []func(*groupDecision) verdict{r.routesVerdict, r.servicesVerdict} {
		if v := check(g); !v.Accepted {
			return v
		}
	}
	return r.removedVerdict(written, prev)
}

// leavingVerdict reports why the objects of a group that is ending still exist: its routes cannot
// be replaced yet, or the objects are being deleted.
func (r *reporter) leavingVerdict(slug string) verdict {
	for _, name := range providers.Sorted(r.Live) {
		route := r.Live[name]
		if route.Group() != slug {
			continue
		}
		if row := r.out.held[name]; row != nil && row.reason != "" {
			return verdict{Reason: row.reason, Message: row.message}
		}
		for _, by := range r.out.Routes {
			if !slices.ContainsFunc(by.Hostnames, func(host string) bool { return slices.Contains(route.Hostnames, host) }) {
				continue
			}
			if v := r.routeState(by); !v.Accepted && !v.Pending {
				return v
			}
		}
	}
	return verdict{Pending: true, Reason: ReasonPending, Message: "the routes and Services of the group are being deleted"}
}

// removedVerdict reports whether traffic has stopped reaching the releases to which the objects of
// a group no longer refer: the routes that moved to another group must be accepted first.
func (r *reporter) removedVerdict(written []string, prev v1alpha1.GroupTraffic) verdict {
	left := difference(prev.References, written)
	if len(left) == 0 {
		return verdict{Accepted: true}
	}
	return r.sharedVerdict(left)
}

// unseen returns why the endpoints of a group's release are not known, or nil if they are known.
// The Service of the release may not have existed when this reconcile began, or its EndpointSlices
// may not exist yet.
func (r *reporter) unseen(g *groupDecision, release string) *verdict {
	name := r.ReleaseService(release)
	if r.Services[name] != nil {
		if !g.delayed.IsZero() && r.requeueAt(g.awaited) {
			return &verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("Service %q has had a ready endpoint for less than %s", name, FirstTrafficDelay)}
		}
		if r.requeueAt(g.awaited) {
			return &verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("the EndpointSlices of Service %q have no ready endpoint yet", name)}
		}
		return nil
	}
	if err := r.writes.Refused[AppliedServiceKey(name)]; err != nil {
		return &verdict{Reason: err.Reason, Message: err.Error()}
	}
	if r.writes.Changed[AppliedServiceKey(name)] {
		return &verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("Service %q is being created", name)}
	}
	return nil
}

// routesVerdict reports whether the desired routes of a group are programmed, and whether its other
// routes have been deleted.
func (r *reporter) routesVerdict(g *groupDecision) verdict {
	wanted := map[string]bool{}
	for _, route := range r.out.Routes {
		wanted[route.Name] = true
		if !route.concerns(g.slug) {
			continue
		}
		if v := r.routeState(route); !v.Accepted {
			return v
		}
		if row := r.out.held[route.Name]; row != nil {
			return verdict{Reason: row.reason, Message: row.message}
		}
		if route.rows[0].newer != nil && !route.answers {
			return verdict{Reason: reasonNoReadyEndpoints, Message: fmt.Sprintf("no release of group %q that should receive traffic has a ready endpoint", g.group.Name)}
		}
	}
	for _, name := range providers.Sorted(r.Live) {
		if !wanted[name] && r.Live[name].Group() == g.slug {
			if row := r.out.held[name]; row != nil {
				return verdict{Reason: row.reason, Message: row.message}
			}
			if r.previous(r.Live[name]) {
				if v := r.previousVerdict(name); !v.Accepted {
					return v
				}
				continue
			}
			return verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("%s is being deleted", ObjectName(r.Live[name].Objects[0]))}
		}
	}
	return verdict{Accepted: true}
}

// servicesVerdict reports whether the Services that follow a group route to the active release.
func (r *reporter) servicesVerdict(g *groupDecision) verdict {
	for _, s := range r.out.Services {
		if s.OfRelease || s.Stamp.Group != g.slug {
			continue
		}
		if err := r.writes.Refused[AppliedServiceKey(s.Name)]; err != nil {
			// The error counts only if no domain or listener follows the group and this is the group's own or only Service.
			if !g.routed && (s.Group == g.slug || r.alone(g.group)) {
				return verdict{Reason: err.Reason, Message: err.Error()}
			}
			continue
		}
		v := r.followVerdict(s, g.group)
		if v.Accepted && r.writes.touched(AppliedServiceKey(s.Name)) {
			v = verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("Service %q is being written", s.Name)}
		}
		if !v.Accepted {
			return v
		}
	}
	return verdict{Accepted: true}
}

// sharedVerdict reports whether the routes that move between groups have stopped routing to their
// previous releases. These releases count as referenced until the move is accepted.
func (r *reporter) sharedVerdict(left []string) verdict {
	for _, route := range r.out.Routes {
		if v := r.routeState(route); route.rows[0].shared && !v.Accepted && r.routedTo(route, left) {
			return v
		}
	}
	for _, s := range r.out.Services {
		if s.Name != r.Policy.Name && !s.Adopted || r.writes.Refused[AppliedServiceKey(s.Name)] != nil {
			continue
		}
		if v := r.carriedOut(s); !v.Accepted || r.writes.touched(AppliedServiceKey(s.Name)) {
			return verdict{Pending: true, Reason: ReasonPending, Message: v.Message}
		}
	}
	for _, route := range r.out.Previous {
		if v := r.previousVerdict(route.Name); !v.Accepted {
			return v
		}
	}
	return r.unwantedVerdict(left)
}

// unwantedVerdict reports whether the live routes that the specification no longer requires have
// stopped routing to the releases in left. Such routes stay until other routes have replaced them.
// If the gateway has not accepted a route's last change, the gateway may still send requests to the
// route's previous releases.
func (r *reporter) unwantedVerdict(left []string) verdict {
	for _, name := range providers.Sorted(r.Live) {
		live := r.Live[name]
		wanted := slices.ContainsFunc(r.out.Routes, func(route *RouteDecision) bool { return route.Name == name })
		if wanted || live.Deleting || live.Accepted && !(live.User && r.writes.touched(AppliedRouteKey(name))) || r.previous(live) {
			continue
		}
		if live.User {
			if slices.ContainsFunc(backendsOf(r.Policy.Status.Routes, name), func(b v1alpha1.DomainBackend) bool { return slices.Contains(left, b.Release) }) {
				return verdict{Pending: true, Late: providers.ReasonNotAccepted, Reason: ReasonPending, Message: fmt.Sprintf("not all Gateways of %s have accepted the restored rules yet", ObjectName(live.Objects[0]))}
			}
			continue
		}
		if slices.ContainsFunc(r.Policy.Status.Domains, func(d v1alpha1.DomainStatus) bool {
			return slices.Contains(live.Hostnames, d.Domain) && slices.ContainsFunc(d.Backends, func(b v1alpha1.DomainBackend) bool { return slices.Contains(left, b.Release) })
		}) {
			return verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("the last change to %s has not been accepted yet", ObjectName(live.Objects[0]))}
		}
	}
	return verdict{Accepted: true}
}

// backendsOf returns the reported backends of a user-managed route.
func backendsOf(routes []v1alpha1.RouteStatus, name string) []v1alpha1.DomainBackend {
	for _, s := range routes {
		if s.Kind+"/"+s.Name == name {
			return s.Backends
		}
	}
	return nil
}

func (r *reporter) routeState(route *RouteDecision) verdict {
	if err := r.writes.Refused[AppliedRouteKey(route.Name)]; err != nil {
		return verdict{Reason: err.Reason, Message: err.Error()}
	}
	v := r.verdict(route)
	if v.Accepted && r.writes.touched(AppliedRouteKey(route.Name)) {
		return verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("%s is being written", ObjectName(route.Objects[0]))}
	}
	return v
}

// previousVerdict reports whether the last change to a route of a previous provider has been
// accepted. A change that has not been accepted blocks the group only for a limited time after the
// write, because the previous provider's gateway may no longer exist.
func (r *reporter) previousVerdict(name string) verdict {
	live, key := r.Live[name], AppliedRouteKey(name)
	if r.writes.Refused[key] == nil && (r.writes.Changed[key] || !live.Accepted && r.fresh(r.Observed.Written[name])) {
		return verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("%s of the previous provider is being written", ObjectName(live.Objects[0]))}
	}
	return verdict{Accepted: true}
}

// inGrace reports whether the routes of a group were written so recently that a missing status report
// does not count as a fault yet. It requests a reconcile at the end of the grace period.
func (r *reporter) inGrace(g *groupDecision) bool {
	at := time.Time{}
	if g.group.TrafficTime != nil {
		at = g.group.TrafficTime.Time
	}
	for _, route := range r.out.Routes {
		if route.concerns(g.slug) {
			at = later(at, r.routeWritten(route))
		}
	}
	return r.fresh(at)
}

// mayRoute reports whether a gateway may still route to a release: a route is known to have routed
// to the release, and the latest change to the route has not been accepted yet.
func (r *reporter) mayRoute(release string) bool {
	return slices.ContainsFunc(r.out.Routes, func(route *RouteDecision) bool {
		return !r.routeState(route).Accepted && r.routedTo(route, []string{release})
	})
}
