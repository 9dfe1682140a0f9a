package traffic

import (
	"slices"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// reporter derives the status from the observed facts, the decision and the writes. It is pure.
type reporter struct {
	*planner
	out    *Decision
	writes Applied
	// requeueAfter is the time after which to reconcile again; 0 means that only a change causes a
	// reconcile.
	requeueAfter time.Duration
}

func (r *reporter) groupDecision(g *v1alpha1.ReleaseGroup) *groupDecision {
	for _, d := range r.out.groups {
		if d.group == g {
			return d
		}
	}
	return nil
}

func (r *reporter) routeOf(want *DomainRow) *RouteDecision {
	for _, route := range r.out.Routes {
		if slices.Contains(route.rows, want) {
			return route
		}
	}
	return nil
}

// refused returns a problem if a host depends on an object that could not be written, and nil
// otherwise.
func (r *reporter) refused(host string) *providers.Problem {
	for _, s := range r.out.Shared {
		if err := r.writes.Refused[SharedKey(s)]; err != nil && slices.Contains(s.Hosts, host) {
			return &providers.Problem{Reason: err.Reason, Message: err.Error()}
		}
	}
	return nil
}

// before returns the last reported status of a row, or nil.
func (r *reporter) before(row *DomainRow) *v1alpha1.DomainStatus {
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

// knownBackends returns the backends to which a gateway routes the requests of a row, if known. If
// a gateway accepted the current content of the live route, these are the backends of that route,
// even if the Gateway has since been deleted. Otherwise, these are the backends in the last report
// about the row. If the last report does not contain the row although its route exists, the row was
// edited. In this case, these are the backends of all reported rows that no longer exist.
func (r *reporter) knownBackends(route *RouteDecision, of *DomainRow) []v1alpha1.DomainBackend {
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
		if slices.ContainsFunc(r.out.rows, func(x *DomainRow) bool { return r.before(x) == is }) {
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

// backends returns the releases to which a route's Services route. A release that receives only
// matched or mirrored requests has no weight.
func (r *reporter) backends(services []string, weights map[string]int) (out []v1alpha1.DomainBackend) {
	for _, service := range slices.Compact(slices.Sorted(slices.Values(services))) {
		if release := r.releases[service]; release != "" {
			out = append(out, v1alpha1.DomainBackend{Release: release, Version: r.rollout.versionOf(release), Weight: int32(weights[service])})
		}
	}
	return out
}

// routedTo reports whether a route is known to have routed to one of the given releases when it was
// last programmed. A route that was never programmed routes to no release, and does not block
// anything.
func (r *reporter) routedTo(route *RouteDecision, releases []string) bool {
	return slices.ContainsFunc(route.rows, func(row *DomainRow) bool {
		return slices.ContainsFunc(r.knownBackends(route, row), func(b v1alpha1.DomainBackend) bool { return slices.Contains(releases, b.Release) })
	})
}

// tests reports for each desired route, keyed by its name, whether the route belongs only to canary
// domains and targets only the release that testable returns for the group.
func (r *reporter) tests(g *v1alpha1.ReleaseGroup) map[string]bool {
	tried := testable(g)
	out := map[string]bool{}
	for _, route := range r.out.Routes {
		out[route.Name] = tried != nil && !slices.ContainsFunc(route.rows, func(row *DomainRow) bool { return !row.canary || row.pinned != tried.VersionedMicroservice })
	}
	return out
}

// written returns those releases of a group to which any object refers, either in the form that was
// read or in the form that this reconcile writes.
func (r *reporter) written(slug string) []string { return r.writtenBut(slug, nil) }

// writtenBut is like written, but ignores the given routes.
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
		// Rejected objects are included. A write that failed temporarily may have been applied
		// nevertheless, and the releases that [Reserve] adds to the status before the write must stay in
		// the status after the write. Otherwise, the two status updates would overwrite each other
		// endlessly.
		if !s.OfRelease {
			add(s.Release, s.Stamp.Group)
		}
	}
	slices.Sort(out)
	return out
}

// Probes returns the probes of all routes that this reconcile did not change. Routes that this
// reconcile wrote are probed after they have been read again.
func Probes(f *Observed, out *Decision, w Applied) []providers.Probe {
	var all []providers.Probe
	for _, route := range out.Routes {
		if !w.touched(AppliedRouteKey(route.Name)) {
			all = append(all, f.probesOf(route)...)
		}
	}
	return all
}

// probesOf returns the probes that must succeed before a desired route is accepted.
func (f *Observed) probesOf(route *RouteDecision) []providers.Probe {
	return providers.Probes(f.View, route.Route, route.Objects)
}

// probedSince considers the probes of a route that have not had a correct response yet. It returns
// the latest time at which one of them was first sent; zero if there are no such probes. If a probe
// has not been sent yet, it returns the current time, so that a manager that has just started does
// not report the address as unresponsive.
func (r *reporter) probedSince(route *RouteDecision) time.Time {
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

// routeWritten returns the time at which the grace period of a route starts: the time of its last
// write or the time that probedSince returns, whichever is later.
func (r *reporter) routeWritten(route *RouteDecision) time.Time {
	if r.writes.Changed[AppliedRouteKey(route.Name)] {
		return r.Now
	}
	return later(r.Observed.Written[route.Name], r.probedSince(route))
}

func (r *reporter) fresh(at time.Time) bool { return r.requeueAt(at.Add(providers.Grace)) }

// requeueAt requests a reconcile at a given time, and reports whether that time is in the future.
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
