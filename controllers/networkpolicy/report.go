package networkpolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/internal/status"
)

// writes is what became of the objects of a decision.
type writes struct {
	// changed names the objects that this pass wrote: what is known of them is of
	// the time before.
	changed map[string]bool
	// refused names the objects that could not be written, with the cause: a name
	// that somebody else has, or a value that the server does not take.
	refused map[string]*status.Error
}

func (w writes) touched(name string) bool { return w.changed[name] || w.refused[name] != nil }

func serviceKey(name string) string { return "Service/" + name }

func routeName(name string) string { return "Route/" + name }

// reporter turns facts, decision and writes into a status. It is pure.
type reporter struct {
	*decider
	out    *decision
	writes writes
	// wake is when the report wants to be looked at again; 0: when something changes.
	wake time.Duration
}

// report gives the policy's new status, and the time after which to look again.
func report(f *facts, out *decision, w writes) (v1alpha1.NetworkPolicyStatus, time.Duration) {
	r := &reporter{decider: newDecider(f), out: out, writes: w}
	now := *f.policy.Status.DeepCopy()
	now.ObservedGeneration = f.policy.Generation
	now.Microservice = microserviceName(f.policy)
	now.Provider = provider(f.policy).Name()
	if f.microservice != nil {
		now.ProviderSwitch = r.providerSwitch(now.ProviderSwitch)
		now.Groups = r.groupReports()
		now.Adopted = r.adoptionReport(now.Adopted)
		now.Domains, now.Listeners = r.domainReports(), r.listenerReports()
		r.userReports(&now)
		now.Summary.Domains, now.URL = countDomains(now.Domains)
		foremost := r.foremost(now.Domains)
		if foremost != nil {
			now.URL = foremost.URL
		}
		now.Summary.Split = r.split(foremost, now.Summary.Split)
	} else {
		now.Domains = f.withdrawn(now.Domains)
		now.Summary.Domains, now.URL = countDomains(now.Domains)
	}
	r.conditions(&now)
	return now, r.wake
}

// groupReports are the reports of all groups of the ledger, and of those that only
// live objects still carry.
func (r *reporter) groupReports() []v1alpha1.GroupTraffic {
	var out []v1alpha1.GroupTraffic
	for _, g := range r.out.groups {
		out = append(out, r.groupReport(g))
	}
	for slug := range r.carriedSlugs() {
		if r.ledger.bySlug[slug] == nil {
			prev := r.report(slug)
			prev.References = union(r.written(slug), nil)
			prev.Reason, prev.Message = reasonNoMicroservice, "the Microservice has no such release group: its objects go when another group serves"
			out = append(out, prev)
		}
	}
	slices.SortFunc(out, func(a, b v1alpha1.GroupTraffic) int { return strings.Compare(a.Slug, b.Slug) })
	return out
}

// carriedSlugs are the groups that live objects were written for.
func (r *reporter) carriedSlugs() map[string]bool {
	out := map[string]bool{}
	for _, s := range r.services {
		if slug := s.Labels[v1alpha1.LabelGroup]; slug != "" && !ofRelease(s) {
			out[slug] = true
		}
	}
	for _, route := range r.live {
		if slug := route.Group(); slug != "" {
			out[slug] = true
		}
	}
	return out
}

// foretell gives the status that names what a pass is to write for groups of which no
// revision is confirmed yet, and says whether that is more than the status names. It goes
// first: who ends between the two must not leave an object that nobody knows to name a
// release.
func foretell(f *facts, out *decision) (now v1alpha1.NetworkPolicyStatus, more bool) {
	r := &reporter{decider: newDecider(f), out: out}
	now = *f.policy.Status.DeepCopy()
	for _, g := range out.groups {
		is := r.report(g.slug)
		names := union(is.References, r.written(g.slug))
		if is.Revision > 0 || sameSet(is.References, names) {
			continue
		}
		if is.References = names; is.Split == "" {
			is.Split, is.Reason, is.Message = g.mode, reasonPending, "the first objects of the group are being written"
		}
		now.Groups = slices.DeleteFunc(now.Groups, func(o v1alpha1.GroupTraffic) bool { return o.Slug == g.slug })
		now.Groups, more = append(now.Groups, is), true
	}
	slices.SortFunc(now.Groups, func(a, b v1alpha1.GroupTraffic) int { return strings.Compare(a.Slug, b.Slug) })
	return now, more
}

func (r *reporter) groupReport(g *groupDecision) v1alpha1.GroupTraffic {
	prev := r.report(g.slug)
	written := r.written(g.slug)
	v := r.groupVerdict(g, written, prev)
	out := v1alpha1.GroupTraffic{
		Slug: g.slug, Split: g.mode, Pinned: g.pinned, Newest: g.newest,
		Active: r.selected(resources.GroupServiceName(r.policy.Name, g.slug)),
	}
	var why string
	out.CanaryDomains, out.Canary, why = r.canaryReport(g.group)
	if v.Accepted {
		out.Revision, out.References, out.Masked = g.group.TrafficRevision, written, g.masked
		out.ConfirmedTime = prev.ConfirmedTime
		if out.ConfirmedTime == nil || prev.Revision != out.Revision || !sameSet(prev.References, out.References) {
			out.ConfirmedTime = &metav1.MicroTime{Time: r.now}
		}
		return out
	}
	if out.ConfirmedTime = prev.ConfirmedTime; prev.Revision <= g.group.TrafficRevision { // Else it is of another ledger.
		out.Revision = prev.Revision
	}
	// Until it is confirmed, everything counts that was or is written.
	out.References = union(prev.References, written)
	switch {
	case out.Revision > 0 || r.cameFrom(g):
		out.Masked = union(prev.Masked, slices.DeleteFunc(slices.Clone(g.masked), func(release string) bool { return r.unseen(release) != nil }))
	case out.ConfirmedTime == nil && !r.inGrace(g):
		// No gateway ever took these routes, and the time to take them is over: they lead to
		// what is written now, and would keep the pods of one release after another.
		out.References = written
	}
	out.Unrouted = out.Revision > 0 && r.unrouted(g)
	out.Reason, out.Message = v.Reason, status.Line(v.Message)
	switch {
	case !v.Pending:
	case !r.inGrace(g):
		out.Reason = cmp.Or(v.Late, v.Reason)
	case out.Revision > 0:
		out.Reason, out.Message = prev.Reason, prev.Message
	}
	if why != "" {
		out.Message = status.Line(why)
	}
	return out
}

// unrouted reports whether a group has domains, listeners or routes and none of them is
// programmed, by no fault of its releases.
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

// written are the releases of a group that any object names, as it was read or as
// it is written in this pass.
func (r *reporter) written(slug string) []string {
	var out []string
	add := func(release, fallback string) {
		owner := fallback
		if g := r.ledger.groupOf[release]; g != nil {
			owner = g.Slug
		}
		if release != "" && owner == slug && !slices.Contains(out, release) {
			out = append(out, release)
		}
	}
	for _, route := range r.live {
		for _, release := range r.releasesOf(route.Services) {
			add(release, route.Group())
		}
	}
	for _, s := range r.services {
		if !ofRelease(s) {
			stamp, _ := resources.StampOf(s)
			add(s.Spec.Selector[v1alpha1.LabelRelease], stamp.Group)
		}
	}
	if s := r.adopted; s != nil {
		stamp, _ := resources.StampOf(s)
		add(s.Spec.Selector[v1alpha1.LabelRelease], stamp.Group)
	}
	for _, route := range slices.Concat(r.out.routes, r.out.former) {
		for _, release := range r.releasesOf(route.services()) {
			add(release, route.slug)
		}
	}
	for _, s := range r.out.services {
		// A write that failed in passing may have been carried out all the same.
		if err := r.writes.refused[serviceKey(s.Name)]; !s.OfRelease && (err == nil || err.Class == status.Transient) {
			add(s.Release, s.Stamp.Group)
		}
	}
	slices.Sort(out)
	return out
}

// groupVerdict says whether every object of a group carries its revision, and is
// accepted.
func (r *reporter) groupVerdict(g *groupDecision, written []string, prev v1alpha1.GroupTraffic) verdict {
	if !live(g.group) {
		if len(written) > 0 || r.carriedSlugs()[g.slug] {
			return verdict{Pending: true, Reason: reasonPending, Message: "the routes and Services of the group are being deleted"}
		}
		return r.leftVerdict(written, prev)
	}
	if g.absent && (len(written) > 0 || r.carriedSlugs()[g.slug]) {
		return verdict{Reason: reasonNoActiveRelease, Message: fmt.Sprintf("release group %q has no active release, and something still leads to one that was turned down", g.group.Name)}
	}
	if g.reason != "" {
		return verdict{Reason: g.reason, Message: g.message}
	}
	for _, release := range g.masked {
		if v := r.unseen(release); v != nil {
			return *v
		}
	}
	for _, check := range []func(*groupDecision) verdict{r.routesVerdict, r.servicesVerdict} {
		if v := check(g); !v.Accepted {
			return v
		}
	}
	return r.leftVerdict(written, prev)
}

// canaryReport says whether there are domains of the canary of a group, and to which of its
// releases all of them route; "": to none, or not all do. why says which one the gateway does
// not take, where it had the time to.
func (r *reporter) canaryReport(g *v1alpha1.ReleaseGroup) (domains bool, release, why string) {
	for i, row := range slices.DeleteFunc(slices.Clone(r.out.rows), func(row *row) bool { return !r.ofCanary(row, g) }) {
		route := r.routeOf(row)
		if row.pinned == "" || route == nil || i > 0 && row.pinned != release {
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

// ofCanary says whether a row belongs to the canary of a group: where domains are on their
// way to a newer group, to that of the newer one. One that is at fault itself does not.
func (r *reporter) ofCanary(row *row, g *v1alpha1.ReleaseGroup) bool {
	if !row.canary || row.reason != "" && row.reason != reasonNoCanary {
		return false
	}
	if of := r.ledger.groupOf[row.pinned]; of != nil {
		return of == g
	}
	return row.newer == g || row.newer == nil && row.group == g
}

// unseen is why nothing is known of the endpoints of a release: its Service was not there
// when this pass began, and is to be. nil: something is.
func (r *reporter) unseen(release string) *verdict {
	name := r.releaseService(release)
	if r.services[name] != nil {
		return nil
	}
	if err := r.writes.refused[serviceKey(name)]; err != nil {
		return &verdict{Reason: err.Reason, Message: err.Error()}
	}
	if r.writes.changed[serviceKey(name)] {
		return &verdict{Pending: true, Reason: reasonPending, Message: fmt.Sprintf("Service %q is being made", name)}
	}
	return nil
}

// cameFrom says whether domains are on their way to a group from one of which a revision
// is confirmed: then a gateway is known to keep them from its releases.
func (r *reporter) cameFrom(g *groupDecision) bool {
	for way := range r.out.moves {
		if way.to == g.slug && r.report(way.from).Revision > 0 {
			return true
		}
	}
	return false
}

// leftVerdict is about releases that no written object of a group names any more: what
// moved them to another group has to be accepted first.
func (r *reporter) leftVerdict(written []string, prev v1alpha1.GroupTraffic) verdict {
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
	for _, route := range r.out.routes {
		wanted[route.Name] = true
		if !route.concerns(g.slug) {
			continue
		}
		if v := r.routeState(route); !v.Accepted {
			return v
		}
		if route.rows[0].newer != nil && !route.answers {
			return verdict{Reason: reasonNoReadyEndpoints, Message: fmt.Sprintf("nothing that is to have traffic of group %q has a ready endpoint", g.group.Name)}
		}
	}
	for _, name := range sortedKeys(r.live) {
		if !wanted[name] && r.live[name].Group() == g.slug {
			if row := r.out.held[name]; row != nil {
				return verdict{Reason: row.reason, Message: row.message}
			}
			if r.former(r.live[name]) {
				if v := r.formerVerdict(name); !v.Accepted {
					return v
				}
				continue
			}
			return verdict{Pending: true, Reason: reasonPending, Message: fmt.Sprintf("%s is being deleted", objectName(r.live[name].Objects[0]))}
		}
	}
	return verdict{Accepted: true}
}

func (r *reporter) routeState(route *routeDecision) verdict {
	if err := r.writes.refused[routeName(route.Name)]; err != nil {
		return verdict{Reason: err.Reason, Message: err.Error()}
	}
	v := r.verdict(route)
	if v.Accepted && r.writes.touched(routeName(route.Name)) {
		return verdict{Pending: true, Reason: reasonPending, Message: fmt.Sprintf("%s is being written", objectName(route.objects[0]))}
	}
	return v
}

// servicesVerdict is about the Services that follow a group.
func (r *reporter) servicesVerdict(g *groupDecision) verdict {
	for _, s := range r.out.services {
		if s.OfRelease || s.Stamp.Group != g.slug {
			continue
		}
		if err := r.writes.refused[serviceKey(s.Name)]; err != nil {
			// The rest goes on, unless the Service is all that the group has.
			if !g.routed && s.Group == g.slug {
				return verdict{Reason: err.Reason, Message: err.Error()}
			}
			continue
		}
		v := r.followVerdict(s, g.group)
		if v.Accepted && r.writes.touched(serviceKey(s.Name)) {
			v = verdict{Pending: true, Reason: reasonPending, Message: fmt.Sprintf("Service %q is being written", s.Name)}
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
	for _, route := range r.out.routes {
		if v := r.routeState(route); route.rows[0].shared && !v.Accepted && r.ledTo(route, left) {
			return v
		}
	}
	for _, s := range r.out.services {
		if s.Name != r.policy.Name && !s.Adopted || r.writes.refused[serviceKey(s.Name)] != nil {
			continue
		}
		if v := r.carriedOut(s); !v.Accepted || r.writes.touched(serviceKey(s.Name)) {
			return verdict{Pending: true, Reason: reasonPending, Message: v.Message}
		}
	}
	for _, route := range r.out.former {
		if v := r.formerVerdict(route.Name); !v.Accepted {
			return v
		}
	}
	return verdict{Accepted: true}
}

// ledTo says whether a route is known to have led to one of some releases when it was
// programmed last. One that never was leads nowhere, and nothing waits for it.
func (r *reporter) ledTo(route *routeDecision, releases []string) bool {
	return slices.ContainsFunc(route.rows, func(row *row) bool {
		return slices.ContainsFunc(r.carries(route, row), func(b v1alpha1.DomainBackend) bool { return slices.Contains(releases, b.Release) })
	})
}

// inGrace says whether the routes of a group were written so lately that no answer
// is no fault, and sees to it that somebody looks when that is over.
func (r *reporter) inGrace(g *groupDecision) bool {
	at := time.Time{}
	if g.group.TrafficTime != nil {
		at = g.group.TrafficTime.Time
	}
	for _, route := range r.out.routes {
		if route.concerns(g.slug) {
			at = later(at, r.routeWritten(route))
		}
	}
	return r.fresh(at)
}

// routeWritten is since when an answer on a route, or of it, is waited for.
func (r *reporter) routeWritten(route *routeDecision) time.Time {
	if r.writes.changed[routeName(route.Name)] {
		return r.now
	}
	return later(r.facts.written[route.Name], r.asked(route))
}

func (r *reporter) fresh(at time.Time) bool { return r.lookAt(at.Add(providers.Grace)) }

// lookAt sees to it that somebody looks at a time, and says whether it is still to come.
func (r *reporter) lookAt(at time.Time) bool {
	left := at.Sub(r.now)
	if left <= 0 {
		return false
	}
	if r.wake == 0 || left < r.wake {
		r.wake = left
	}
	return true
}

// maxRoutes is the number of routes that a status holds.
const maxRoutes = 16

func (r *reporter) groupDecision(g *v1alpha1.ReleaseGroup) *groupDecision {
	for _, d := range r.out.groups {
		if d.group == g {
			return d
		}
	}
	return nil
}

// objectName is the kind and name of an object that was read or built.
func objectName(o client.Object) string {
	kind := o.GetObjectKind().GroupVersionKind().Kind
	return fmt.Sprintf("%s %q", cmp.Or(kind, "route"), o.GetName())
}

func union(a, b []string) []string {
	out := slices.Concat(a, b)
	slices.Sort(out)
	return slices.Compact(out)
}

// difference is what a has and b has not.
func difference(a, b []string) []string {
	return slices.DeleteFunc(slices.Clone(a), func(s string) bool { return slices.Contains(b, s) })
}

func sameSet(a, b []string) bool { return slices.Equal(union(a, nil), union(b, nil)) }

func later(a, b time.Time) time.Time {
	if b.After(a) {
		return b
	}
	return a
}
