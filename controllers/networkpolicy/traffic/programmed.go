package traffic

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/status"
)

// knownBackends are the backends to which a gateway routes the requests of a row, as far as is known. If
// a gateway accepted the live route as it is, they are those of that route, even if the Gateway was
// deleted since. Otherwise they are those of the last report of the row. If the last report does not have
// the row although its route exists, the row was edited: then they are those of all rows of the report
// that no longer exist.
func (r *reporter) knownBackends(route *RouteDecision, of *Row) []v1alpha1.DomainBackend {
	if live := r.Live[route.Name]; live != nil && live.Acknowledged && !live.User {
		return r.backends(live.Services, live.Weights)
	}
	if prev := r.before(of); prev != nil {
		return prev.Backends
	}
	if _, there := r.Live[route.Name]; !there {
		return nil
	}
	var out []v1alpha1.DomainBackend
	for i := range r.Policy.Status.Domains {
		is := &r.Policy.Status.Domains[i]
		if slices.ContainsFunc(r.out.rows, func(x *Row) bool { return r.before(x) == is }) {
			continue
		}
		for _, b := range is.Backends {
			if !slices.ContainsFunc(out, func(x v1alpha1.DomainBackend) bool { return x.Release == b.Release }) {
				out = append(out, b)
			}
		}
	}
	return out
}

// backends are the releases behind the Services of a route, by their names. One that only matches or
// mirrored requests come to has no weight.
func (r *reporter) backends(services []string, weights map[string]int) (out []v1alpha1.DomainBackend) {
	for _, service := range slices.Compact(slices.Sorted(slices.Values(services))) {
		if release := r.releases[service]; release != "" {
			out = append(out, v1alpha1.DomainBackend{Release: release, Version: r.rollout.versionOf(release), Weight: int32(weights[service])})
		}
	}
	return out
}

// before is what the last report reports of a row; nil: nothing.
func (r *reporter) before(row *Row) *v1alpha1.DomainStatus {
	now := &r.Policy.Status
	if row.user != "" {
		for _, p := range now.Routes {
			if providers.UserRoute(p.Kind, p.Name) == row.user {
				return &v1alpha1.DomainStatus{Group: p.Group, Backends: p.Backends, Programmed: p.Programmed, Reason: p.Reason, Message: p.Message}
			}
		}
		return nil
	}
	if row.listener != "" {
		for _, p := range now.Listeners {
			if p.Name == row.listener {
				return &v1alpha1.DomainStatus{Group: p.Group, Backends: p.Backends, Programmed: p.Programmed, Reason: p.Reason, Message: p.Message}
			}
		}
		return nil
	}
	path := row.path
	if path == "/" {
		path = ""
	}
	for i := range now.Domains {
		p := &now.Domains[i]
		if p.Domain == row.host && p.Path == path && strings.HasPrefix(p.URL, "tls:") == (row.port.Protocol == v1alpha1.ProtocolTLS) {
			return p
		}
	}
	return nil
}

func (r *reporter) routeOf(want *Row) *RouteDecision {
	for _, route := range r.out.Routes {
		if slices.Contains(route.rows, want) {
			return route
		}
	}
	return nil
}

// previousVerdict is about a route of a previous provider. It is waited for while its
// gateway may still answer: one that is gone must hold nothing up.
func (r *reporter) previousVerdict(name string) verdict {
	live, key := r.Live[name], RouteName(name)
	if r.writes.Refused[key] == nil && (r.writes.Changed[key] || !live.Taken && r.fresh(r.Observed.Written[name])) {
		return verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("%s of the previous provider is being written", ObjectName(live.Objects[0]))}
	}
	return verdict{Accepted: true}
}

// probesOf are the probes without which a decided route is not accepted.
func (f *Observed) probesOf(route *RouteDecision) []providers.Probe {
	return providers.Probes(f.View, route.Route, route.Objects)
}

// Probes of all routes that this reconcile left as they were read: what it wrote is probed
// once it has been read.
func Probes(f *Observed, out *Decision, w Applied) []providers.Probe {
	var all []providers.Probe
	for _, route := range out.Routes {
		if !w.touched(RouteName(route.Name)) {
			all = append(all, f.probesOf(route)...)
		}
	}
	return all
}

// asked is since when the addresses that have not answered yet are asked; zero: there
// are none. What this reconcile finds first is asked from now on, so that a manager that
// was just started takes nothing for unanswered that it never asked.
func (r *reporter) asked(route *RouteDecision) time.Time {
	var since time.Time
	for _, p := range r.probesOf(route) {
		known, ok := r.Probed[p]
		switch {
		case !ok:
			return r.Now
		case !known.Served:
			since = later(since, known.Since)
		}
	}
	return since
}

// reporter turns facts, decision and writes into a status. It is pure.
type reporter struct {
	*planner
	out    *Decision
	writes Applied
	// requeueAfter is when the report wants to be made again; 0: when something changes.
	requeueAfter time.Duration
}

// tests are the routes that route to nothing but the release that hooks try.
func (r *reporter) tests(g *v1alpha1.ReleaseGroup) map[string]bool {
	tried := testable(g)
	out := map[string]bool{}
	for _, route := range r.out.Routes {
		out[route.Name] = tried != nil && !slices.ContainsFunc(route.rows, func(row *Row) bool { return !row.canary || row.pinned != tried.VersionedMicroservice })
	}
	return out
}

// written are the releases of a group that any object names, as it was read or as
// it is written in this reconcile.
func (r *reporter) written(slug string) []string { return r.writtenBut(slug, nil) }

// writtenBut are the same without some routes.
func (r *reporter) writtenBut(slug string, without map[string]bool) []string {
	var out []string
	add := func(release, fallback string) {
		owner := fallback
		if g := r.rollout.groupOf[release]; g != nil {
			owner = g.Slug
		}
		if release != "" && owner == slug && !slices.Contains(out, release) {
			out = append(out, release)
		}
	}
	for name, route := range r.Live {
		for _, release := range r.releasesOf(route.Services) {
			if !without[name] {
				add(release, route.Group())
			}
		}
	}
	for _, s := range r.Services {
		if !OfRelease(s) {
			stamp, _ := resources.StampOf(s)
			add(s.Spec.Selector[v1alpha1.LabelRelease], stamp.Group)
		}
	}
	if s := r.Adopted; s != nil {
		stamp, _ := resources.StampOf(s)
		add(s.Spec.Selector[v1alpha1.LabelRelease], stamp.Group)
	}
	for _, route := range slices.Concat(r.out.Routes, r.out.Previous) {
		for _, release := range r.releasesOf(route.services()) {
			if !without[route.Name] {
				add(release, route.slug)
			}
		}
	}
	for _, s := range r.out.Services {
		// A write that failed in passing may have been carried out all the same.
		if err := r.writes.Refused[ServiceKey(s.Name)]; !s.OfRelease && (err == nil || err.Class == status.Transient) {
			add(s.Release, s.Stamp.Group)
		}
	}
	slices.Sort(out)
	return out
}

// groupVerdict reports whether every object of a group carries its revision, and is
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
		if v := r.unseen(release); v != nil {
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

// leavingVerdict is about the objects of a group that ends: what its routes wait for, because
// nothing else has their hosts, or that they are being deleted.
func (r *reporter) leavingVerdict(slug string) verdict {
	for _, name := range SortedKeys(r.Live) {
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

// unseen is why nothing is known of the endpoints of a release: its Service was not there
// when this reconcile began, and is to be. nil: something is.
func (r *reporter) unseen(release string) *verdict {
	name := r.ReleaseService(release)
	if r.Services[name] != nil {
		return nil
	}
	if err := r.writes.Refused[ServiceKey(name)]; err != nil {
		return &verdict{Reason: err.Reason, Message: err.Error()}
	}
	if r.writes.Changed[ServiceKey(name)] {
		return &verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("Service %q is being created", name)}
	}
	return nil
}

// removedVerdict is about releases that no written object of a group names any more: what
// moved them to another group has to be accepted first.
func (r *reporter) removedVerdict(written []string, prev v1alpha1.GroupTraffic) verdict {
	left := difference(prev.References, written)
	if len(left) == 0 {
		return verdict{Accepted: true}
	}
	return r.sharedVerdict(left)
}

// routesVerdict is about the routes of a group: those that are to be, and those
// that are to go.
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
		if route.rows[0].newer != nil && !route.answers {
			return verdict{Reason: reasonNoReadyEndpoints, Message: fmt.Sprintf("no release of group %q that should receive traffic has a ready endpoint", g.group.Name)}
		}
	}
	for _, name := range SortedKeys(r.Live) {
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

func (r *reporter) routeState(route *RouteDecision) verdict {
	if err := r.writes.Refused[RouteName(route.Name)]; err != nil {
		return verdict{Reason: err.Reason, Message: err.Error()}
	}
	v := r.verdict(route)
	if v.Accepted && r.writes.touched(RouteName(route.Name)) {
		return verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("%s is being written", ObjectName(route.Objects[0]))}
	}
	return v
}

// servicesVerdict is about the Services that follow a group.
func (r *reporter) servicesVerdict(g *groupDecision) verdict {
	for _, s := range r.out.Services {
		if s.OfRelease || s.Stamp.Group != g.slug {
			continue
		}
		if err := r.writes.Refused[ServiceKey(s.Name)]; err != nil {
			// The rest continues, unless the Service is all that the group has.
			if !g.routed && (s.Group == g.slug || r.alone(g.group)) {
				return verdict{Reason: err.Reason, Message: err.Error()}
			}
			continue
		}
		v := r.followVerdict(s, g.group)
		if v.Accepted && r.writes.touched(ServiceKey(s.Name)) {
			v = verdict{Pending: true, Reason: ReasonPending, Message: fmt.Sprintf("Service %q is being written", s.Name)}
		}
		if !v.Accepted {
			return v
		}
	}
	return verdict{Accepted: true}
}

// sharedVerdict is about what moves between groups: releases that it has left are
// named until it is where it should be.
func (r *reporter) sharedVerdict(left []string) verdict {
	for _, route := range r.out.Routes {
		if v := r.routeState(route); route.rows[0].shared && !v.Accepted && r.routedTo(route, left) {
			return v
		}
	}
	for _, s := range r.out.Services {
		if s.Name != r.Policy.Name && !s.Adopted || r.writes.Refused[ServiceKey(s.Name)] != nil {
			continue
		}
		if v := r.carriedOut(s); !v.Accepted || r.writes.touched(ServiceKey(s.Name)) {
			return verdict{Pending: true, Reason: ReasonPending, Message: v.Message}
		}
	}
	for _, route := range r.out.Previous {
		if v := r.previousVerdict(route.Name); !v.Accepted {
			return v
		}
	}
	return verdict{Accepted: true}
}

// routedTo reports whether a route is known to have routed to one of some releases when it was
// programmed last. One that never was routes nowhere, and nothing waits for it.
func (r *reporter) routedTo(route *RouteDecision, releases []string) bool {
	return slices.ContainsFunc(route.rows, func(row *Row) bool {
		return slices.ContainsFunc(r.knownBackends(route, row), func(b v1alpha1.DomainBackend) bool { return slices.Contains(releases, b.Release) })
	})
}

// mayRoute reports whether a gateway is known to have routed to a release by a route that it has not
// taken since.
func (r *reporter) mayRoute(release string) bool {
	return slices.ContainsFunc(r.out.Routes, func(route *RouteDecision) bool {
		return !r.routeState(route).Accepted && r.routedTo(route, []string{release})
	})
}

// inGrace reports whether the routes of a group were written so lately that no answer
// is no fault, and requests a reconcile when that is over.
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

// routeWritten is since when an answer on a route, or of it, is waited for.
func (r *reporter) routeWritten(route *RouteDecision) time.Time {
	if r.writes.Changed[RouteName(route.Name)] {
		return r.Now
	}
	return later(r.Observed.Written[route.Name], r.asked(route))
}

func (r *reporter) fresh(at time.Time) bool { return r.requeueAt(at.Add(providers.Grace)) }

// requeueAt requests a reconcile at a time, and reports whether it is still to come.
func (r *reporter) requeueAt(at time.Time) bool {
	left := at.Sub(r.Now)
	if left <= 0 {
		return false
	}
	if r.requeueAfter == 0 || left < r.requeueAfter {
		r.requeueAfter = left
	}
	return true
}

func (r *reporter) groupDecision(g *v1alpha1.ReleaseGroup) *groupDecision {
	for _, d := range r.out.groups {
		if d.group == g {
			return d
		}
	}
	return nil
}

// refused is why an object that a host needs could not be written; nil: all were.
func (r *reporter) refused(host string) *providers.Problem {
	for _, s := range r.out.Shared {
		if err := r.writes.Refused[SharedKey(s)]; err != nil && slices.Contains(s.Hosts, host) {
			return &providers.Problem{Reason: err.Reason, Message: err.Error()}
		}
	}
	return nil
}
