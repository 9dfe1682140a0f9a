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
func routeName(name string) string  { return "Route/" + name }

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
		now.Summary.Split = r.split(now.Summary.Split)
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
	if v.Accepted {
		out.Revision, out.References, out.Masked = g.group.TrafficRevision, written, g.masked
		out.ConfirmedTime = prev.ConfirmedTime
		if out.ConfirmedTime == nil || prev.Revision != out.Revision || !sameSet(prev.References, out.References) {
			out.ConfirmedTime = &metav1.MicroTime{Time: r.now}
		}
		return out
	}
	// Until it is confirmed, everything counts that was or is written.
	out.References = union(prev.References, written)
	out.Masked = union(prev.Masked, g.masked)
	if prev.Revision <= g.group.TrafficRevision { // Else it is of another ledger.
		out.Revision, out.ConfirmedTime = prev.Revision, prev.ConfirmedTime
	}
	out.Reason, out.Message = v.Reason, status.Line(v.Message)
	switch {
	case !v.Pending:
	case !r.inGrace(g):
		out.Reason = cmp.Or(v.Late, v.Reason)
	case out.Revision > 0:
		out.Reason, out.Message = prev.Reason, prev.Message
	}
	return out
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
		if !s.OfRelease && r.writes.refused[serviceKey(s.Name)] == nil {
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
		return verdict{Accepted: true}
	}
	if g.absent && (len(written) > 0 || r.carriedSlugs()[g.slug]) {
		return verdict{Reason: reasonNoActiveRelease, Message: fmt.Sprintf("release group %q has no active release, and something still leads to one that was turned down", g.group.Name)}
	}
	if g.reason != "" {
		return verdict{Reason: g.reason, Message: g.message}
	}
	for _, check := range []func(*groupDecision) verdict{r.routesVerdict, r.servicesVerdict} {
		if v := check(g); !v.Accepted {
			return v
		}
	}
	if left := difference(prev.References, written); len(left) > 0 {
		if v := r.sharedVerdict(); !v.Accepted {
			return v
		}
	}
	return verdict{Accepted: true}
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
func (r *reporter) sharedVerdict() verdict {
	for _, route := range r.out.routes {
		if v := r.routeState(route); route.rows[0].shared && !v.Accepted {
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
	return verdict{Accepted: true}
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

// domainReports are the rows as people read them.
func (r *reporter) domainReports() []v1alpha1.DomainStatus {
	var out []v1alpha1.DomainStatus
	for _, row := range r.out.rows {
		if row.listener == "" && row.user == "" {
			out = append(out, r.domainReport(row))
		}
	}
	return out
}

// maxRoutes is the number of routes that a status holds.
const maxRoutes = 16

// userReports are the rules in routes of others: that of the specification, with a
// domain for each of its hosts, and those that the policy still has rules in.
func (r *reporter) userReports(now *v1alpha1.NetworkPolicyStatus) {
	before := now.Routes
	now.Routes = nil
	named := ""
	for _, row := range r.out.rows {
		if row.user == "" {
			continue
		}
		named = row.user
		kind, name, _ := strings.Cut(row.user, "/")
		var prev *v1alpha1.DomainStatus
		for _, p := range before {
			if p.Kind == kind && p.Name == name {
				prev = &v1alpha1.DomainStatus{Group: p.Group, Backends: p.Backends, Programmed: p.Programmed, Reason: p.Reason, Message: p.Message}
			}
		}
		is := v1alpha1.DomainStatus{Reason: row.reason, Message: status.Line(row.message)}
		if row.group != nil {
			is.Group = row.group.Slug
		}
		is = r.routed(row, is, prev, nil)
		if p := r.view.Referent(); p != nil && is.Reason == "" {
			is.Reason, is.Message = p.Reason, status.Line(p.Message)
		}
		now.Routes = append(now.Routes, v1alpha1.RouteStatus{
			Kind: kind, Name: name, Group: is.Group, Backends: is.Backends, Programmed: is.Programmed, Reason: is.Reason, Message: is.Message,
		})
		if live := r.live[row.user]; live != nil {
			for _, host := range live.Hostnames {
				now.Domains = append(now.Domains, r.userDomain(row, is, host))
			}
		}
	}
	for _, name := range sortedKeys(r.live) {
		if live := r.live[name]; live.User && live.Led != nil && name != named && len(now.Routes) < maxRoutes {
			kind, object, _ := strings.Cut(name, "/")
			now.Routes = append(now.Routes, v1alpha1.RouteStatus{
				Kind: kind, Name: object, Group: live.Group(), Reason: reasonPending, Message: "its rules are given back when what takes their place is programmed",
			})
		}
	}
}

// userDomain is the report of a host of somebody else's route.
func (r *reporter) userDomain(row *row, is v1alpha1.DomainStatus, host string) v1alpha1.DomainStatus {
	var unserved *providers.Problem
	is.Domain = host
	is.URL, unserved = r.view.Serves(providers.Route{Protocol: row.port.Protocol}, host)
	if unserved != nil && is.Programmed {
		is.Programmed, is.Backends = false, nil
		is.Reason, is.Message = unserved.Reason, status.Line(row.source()+": "+unserved.Message)
	}
	return is
}

// listenerReports are the rows without a host.
func (r *reporter) listenerReports() []v1alpha1.ListenerStatus {
	var out []v1alpha1.ListenerStatus
	for _, row := range r.out.rows {
		if row.listener == "" {
			continue
		}
		var prev *v1alpha1.DomainStatus
		for _, p := range r.policy.Status.Listeners {
			if p.Name == row.listener {
				prev = &v1alpha1.DomainStatus{Group: p.Group, Backends: p.Backends, Programmed: p.Programmed, Reason: p.Reason, Message: p.Message}
			}
		}
		now := v1alpha1.DomainStatus{Reason: row.reason, Message: status.Line(row.message)}
		if row.group != nil {
			now.Group = row.group.Slug
		}
		now = r.routed(row, now, prev, nil)
		out = append(out, v1alpha1.ListenerStatus{
			Name: row.listener, Group: now.Group, Backends: now.Backends, Programmed: now.Programmed, Reason: now.Reason, Message: now.Message,
		})
	}
	return out
}

func (r *reporter) domainReport(row *row) v1alpha1.DomainStatus {
	out := v1alpha1.DomainStatus{Domain: row.host, Path: row.path, Reason: row.reason, Message: status.Line(row.message)}
	if out.Path == "/" {
		out.Path = ""
	}
	if row.host == "" {
		out.Domain = r.policy.Spec.Domains[row.entry].Domain
		return out
	}
	asked := providers.Route{Protocol: row.port.Protocol, Path: row.path, Parents: row.parents, TLS: row.asks()}
	var unserved *providers.Problem
	out.URL, unserved = r.address(asked, row.host)
	if refused := r.refused(row.host); refused != nil {
		unserved = refused
	}
	if row.group != nil {
		out.Group = row.group.Slug
	}
	return r.routed(row, out, r.previous(out.Domain, out.Path, row.port.Protocol == v1alpha1.ProtocolTLS), unserved)
}

// routed completes the report of a row by what is known of its route.
func (r *reporter) routed(row *row, out v1alpha1.DomainStatus, prev *v1alpha1.DomainStatus, unserved *providers.Problem) v1alpha1.DomainStatus {
	route := r.routeOf(row)
	if route == nil {
		if out.Reason == "" {
			out.Reason, out.Message = r.whyUnrouted(row)
		}
		return out
	}
	v := r.routeState(route)
	if v.Pending && prev != nil && prev.Programmed && r.fresh(r.routeWritten(route)) {
		return *prev
	}
	if !v.Accepted {
		if v.Pending && !r.fresh(r.routeWritten(route)) {
			v.Reason = cmp.Or(v.Late, v.Reason)
		}
		out.Reason, out.Message = v.Reason, status.Line(v.Message)
		return out
	}
	if unserved != nil {
		out.Reason, out.Message = unserved.Reason, status.Line(row.source()+": "+unserved.Message)
		return out
	}
	out.Programmed = true
	for _, b := range route.Backends {
		release := r.releases[b.Service]
		out.Backends = append(out.Backends, v1alpha1.DomainBackend{Release: release, Version: r.ledger.versionOf(release), Weight: b.Weight})
	}
	if g := r.groupDecision(row.group); g != nil && row.pinned == "" && g.reason == reasonNoReadyEndpoints {
		out.Reason, out.Message = g.reason, g.message
	}
	return out
}

func (r *reporter) previous(domain, path string, tls bool) *v1alpha1.DomainStatus {
	for i := range r.policy.Status.Domains {
		p := &r.policy.Status.Domains[i]
		if p.Domain == domain && p.Path == path && strings.HasPrefix(p.URL, "tls:") == tls {
			return p
		}
	}
	return nil
}

func (r *reporter) routeOf(want *row) *routeDecision {
	for _, route := range r.out.routes {
		if slices.Contains(route.rows, want) {
			return route
		}
	}
	return nil
}

func (r *reporter) groupDecision(g *v1alpha1.ReleaseGroup) *groupDecision {
	for _, d := range r.out.groups {
		if d.group == g {
			return d
		}
	}
	return nil
}

// whyUnrouted says why a row that is in order is in no route.
func (r *reporter) whyUnrouted(row *row) (reason, message string) {
	g := r.groupDecision(row.group)
	if g != nil && g.absent {
		return reasonNoActiveRelease, status.Line(fmt.Sprintf("release group %q has no active release yet", g.group.Name))
	}
	if g != nil && g.reason != "" {
		return g.reason, status.Line(g.message)
	}
	return reasonNoReadyEndpoints, "nothing that the domain leads to has a ready endpoint"
}

func countDomains(domains []v1alpha1.DomainStatus) (summary, url string) {
	if len(domains) == 0 {
		return "", ""
	}
	programmed, asked := 0, len(domains)
	for _, d := range domains {
		if d.Reason == reasonNoCanary {
			asked-- // Nothing is to be programmed for it.
		}
		if d.Programmed {
			programmed++
			if url == "" {
				url = d.URL
			}
		}
	}
	return fmt.Sprintf("%d/%d", programmed, asked), url
}

// splitGroups is how many groups the summary of the split names.
const splitGroups = 3

// split is what the newest groups are known to carry. It stays as it was while
// something is on its way.
func (r *reporter) split(prev string) string {
	var parts []string
	groups := 0
	for _, g := range r.out.groups {
		if !live(g.group) || activeOf(g.group) == nil {
			continue
		}
		if groups++; groups > splitGroups {
			continue
		}
		text, known := r.groupSplit(g)
		if !known {
			return prev
		}
		if text != "" {
			parts = append(parts, text)
		}
	}
	if groups > splitGroups {
		parts = append(parts, fmt.Sprintf("+%d", groups-splitGroups))
	}
	return strings.Join(parts, "; ")
}

func (r *reporter) groupSplit(g *groupDecision) (text string, known bool) {
	if !g.routed {
		for _, s := range r.out.services {
			if !s.OfRelease && s.Group == g.slug {
				return r.ledger.versionOf(s.Release) + "=100", true
			}
		}
		return "", true
	}
	for _, route := range r.out.routes {
		if route.slug != g.slug || route.rows[0].pin || route.rows[0].canary {
			continue
		}
		v := r.routeState(route)
		if v.Pending {
			return "", false
		}
		if !v.Accepted {
			return "", true
		}
		var parts []string
		for _, b := range slices.SortedFunc(slices.Values(route.Backends), func(a, b providers.Backend) int {
			return strings.Compare(r.ledger.versionOf(r.releases[a.Service]), r.ledger.versionOf(r.releases[b.Service]))
		}) {
			parts = append(parts, fmt.Sprintf("%s=%d", r.ledger.versionOf(r.releases[b.Service]), b.Weight))
		}
		return strings.Join(parts, " "), true
	}
	return "", true
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
