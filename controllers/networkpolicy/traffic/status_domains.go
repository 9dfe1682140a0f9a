package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/status"
)

// domainReports returns the status of the domains. While no group is known, because the rollout
// state was lost, no domain moves, and the reports about domains that had routes stay: a gateway that is
// not reachable may still serve these domains.
func (r *reporter) domainReports(prev []v1alpha1.DomainStatus) []v1alpha1.DomainStatus {
	var out []v1alpha1.DomainStatus
	if len(r.rollout.groups) == 0 {
		for _, d := range r.withdrawn(slices.Clone(prev)) {
			if len(d.Backends) > 0 && r.hasRoute(d.Domain) {
				out = append(out, r.asAcknowledged(d))
			}
		}
	}
	kept := out
	for _, row := range r.out.rows {
		if row.listener == "" && row.user == "" && !slices.ContainsFunc(kept, func(d v1alpha1.DomainStatus) bool {
			return d.Domain == row.host && d.Path == strings.TrimSuffix(row.path, "/")
		}) {
			out = append(out, r.domainReport(row))
		}
	}
	return out
}

// asAcknowledged returns the last report for a domain. If a gateway accepted the current content of the live
// route that serves the domain, the report has the backends of that route, because the route may have been
// written after the report.
func (r *reporter) asAcknowledged(d v1alpha1.DomainStatus) v1alpha1.DomainStatus {
	for _, name := range providers.Sorted(r.Live) {
		live := r.Live[name]
		if live.User || live.Deleting || !live.Acknowledged || strings.TrimSuffix(live.Path, "/") != d.Path || !slices.Contains(live.Hostnames, d.Domain) {
			continue
		}
		if now := r.backends(live.Services, live.Weights); len(now) > 0 {
			for i := range now {
				now[i].Version = cmp.Or(r.versionBefore(now[i].Release), now[i].Version)
			}
			d.Backends = now
			if d.Reason == ReasonPending {
				d.Programmed, d.Reason, d.Message = true, "", ""
			}
		}
		break
	}
	return d
}

// versionBefore returns the version of a release in the last report, or "".
func (r *reporter) versionBefore(release string) string {
	for _, d := range r.Policy.Status.Domains {
		for _, b := range d.Backends {
			if b.Release == release {
				return b.Version
			}
		}
	}
	return ""
}

// userReports sets the reports for user-managed routes: the route in the specification, with a domain for
// each of its hosts, and the routes in which the policy still has rules.
func (r *reporter) userReports(now *v1alpha1.NetworkPolicyStatus) {
	now.Routes = nil
	named := ""
	for _, row := range r.out.rows {
		if row.user == "" {
			continue
		}
		named = row.user
		kind, name, _ := strings.Cut(row.user, "/")
		is := v1alpha1.DomainStatus{Reason: row.reason, Message: status.Line(row.message)}
		if row.group != nil {
			is.Group = row.group.Slug
		}
		is = r.routed(row, is, nil)
		if r.routeOf(row) == nil {
			is.Backends = r.restoredBackends(row.user)
		}
		if p := providers.Referent(r.View); p != nil && is.Reason == "" {
			is.Reason, is.Message = p.Reason, status.Line(p.Message)
		}
		now.Routes = append(now.Routes, v1alpha1.RouteStatus{
			Kind: kind, Name: name, Group: is.Group, Backends: is.Backends, Programmed: is.Programmed, Reason: is.Reason, Message: is.Message,
		})
		if live := r.Live[row.user]; live != nil {
			for _, host := range live.Hostnames {
				now.Domains = append(now.Domains, r.userDomain(row, is, host))
			}
		}
	}
	for _, name := range providers.Sorted(r.Live) {
		if live := r.Live[name]; live.User && live.Managed != nil && name != named && len(now.Routes) < maxRoutes {
			kind, object, _ := strings.Cut(name, "/")
			now.Routes = append(now.Routes, v1alpha1.RouteStatus{
				Kind: kind, Name: object, Group: live.Group(), Reason: ReasonPending, Message: "the rules are restored when the routes that replace this route are programmed",
			})
		}
	}
}

// restoredBackends returns the last reported backends of a user-managed route whose rules were restored, as long as
// its gateway has not accepted the restored rules: the gateway may still route to these backends.
func (r *reporter) restoredBackends(name string) []v1alpha1.DomainBackend {
	live := r.Live[name]
	if live == nil || live.Deleting || live.Accepted && !r.writes.touched(AppliedRouteKey(name)) {
		return nil
	}
	return backendsOf(r.Policy.Status.Routes, name)
}

// userDomain returns the report for a host of a user-managed route.
func (r *reporter) userDomain(row *DomainRow, is v1alpha1.DomainStatus, host string) v1alpha1.DomainStatus {
	var unserved *providers.Problem
	is.Domain = host
	is.URL, unserved = r.View.Serves(providers.Route{Protocol: row.port.Protocol}, host)
	if unserved != nil && is.Programmed {
		is.Programmed, is.Backends = false, nil
		is.Reason, is.Message = unserved.Reason, status.Line(row.source()+": "+unserved.Message)
	}
	return is
}

// listenerReports returns the status of the listeners.
func (r *reporter) listenerReports() []v1alpha1.ListenerStatus {
	var out []v1alpha1.ListenerStatus
	for _, row := range r.out.rows {
		if row.listener == "" {
			continue
		}
		now := v1alpha1.DomainStatus{Reason: row.reason, Message: status.Line(row.message)}
		if row.group != nil {
			now.Group = row.group.Slug
		}
		now = r.routed(row, now, nil)
		out = append(out, v1alpha1.ListenerStatus{
			Name: row.listener, Group: now.Group, Backends: now.Backends, Programmed: now.Programmed, Reason: now.Reason, Message: now.Message,
		})
	}
	return out
}

// sameWait reports whether a pending domain was already pending in the previous report, with the same group
// and URL. The status does not change if only the message differs.
func sameWait(prev, now v1alpha1.DomainStatus) bool {
	return prev.Reason == ReasonPending && prev.Group == now.Group && prev.URL == now.URL
}

func (r *reporter) domainReport(row *DomainRow) v1alpha1.DomainStatus {
	out := v1alpha1.DomainStatus{Domain: row.host, Path: row.path, Reason: row.reason, Message: status.Line(row.message)}
	if out.Path == "/" {
		out.Path = ""
	}
	if row.host == "" {
		out.Domain = r.Policy.Spec.Domains[row.entry].Domain
		return out
	}
	asked := providers.Route{Protocol: row.port.Protocol, Path: row.path, Parents: row.parents, TLS: row.tlsByHost()}
	var unserved *providers.Problem
	out.URL, unserved = r.address(asked, row.host)
	if refused := r.refused(row.host); refused != nil {
		unserved = refused
	}
	if row.group != nil {
		out.Group = row.group.Slug
	}
	return r.routed(row, out, unserved)
}

// routed completes the report for a row from the state of its route.
func (r *reporter) routed(row *DomainRow, out v1alpha1.DomainStatus, unserved *providers.Problem) v1alpha1.DomainStatus {
	route, prev := r.routeOf(row), r.before(row)
	if route == nil {
		if out.Reason == "" {
			reason, message := r.groupDecision(row.group).unrouted()
			out.Reason, out.Message = reason, status.Line(message)
		}
		out.Backends = r.unroutedBackends(row, prev)
		return out
	}
	v := r.routeState(route)
	if v.Pending && prev != nil && (prev.Programmed || sameWait(*prev, out)) && r.fresh(r.routeWritten(route)) {
		return *prev
	}
	if !v.Accepted {
		if v.Pending && !r.fresh(r.routeWritten(route)) {
			v.Reason = cmp.Or(v.Late, v.Reason)
		}
		out.Reason, out.Message = v.Reason, status.Line(v.Message)
		out.Backends = r.knownBackends(route, row)
		out.Backends = out.Backends[:min(len(out.Backends), maxBackends)]
		return out
	}
	weights := map[string]int{}
	for _, b := range route.Backends {
		weights[b.Service] = int(b.Weight)
	}
	out.Backends = r.backends(route.services(), weights)
	if unserved != nil {
		out.Reason, out.Message = unserved.Reason, status.Line(row.source()+": "+unserved.Message)
		return out
	}
	out.Programmed = true
	if g := r.groupDecision(row.group); g != nil && row.pinned == "" && g.reason == reasonNoReadyEndpoints {
		out.Reason, out.Message = g.reason, g.message
	}
	return out
}

// unroutedBackends returns the backends of a row without a route if a live route for the row's host stays
// because no other route has replaced it yet, or because the row cannot be routed. Until the gateway has accepted the
// last change to the live route, these are the backends in the last report.
func (r *reporter) unroutedBackends(row *DomainRow, prev *v1alpha1.DomainStatus) []v1alpha1.DomainBackend {
	if row.host == "" {
		return nil
	}
	for _, name := range providers.Sorted(r.Live) {
		live := r.Live[name]
		if live.User || live.Deleting || !samePath(live.Path, row.path) || !slices.Contains(live.Hostnames, row.host) {
			continue
		}
		switch {
		case !live.Accepted && prev != nil:
			return prev.Backends
		case live.Accepted && r.out.held[name] != nil:
			out := r.backends(live.Services, live.Weights)
			return out[:min(len(out), maxBackends)]
		}
	}
	return nil
}

// maxBackends is the maximum number of backends in the status of a domain.
const maxBackends = 16

func countDomains(domains []v1alpha1.DomainStatus) (summary, url string) {
	if len(domains) == 0 {
		return "", ""
	}
	programmed, asked := 0, len(domains)
	for _, d := range domains {
		if d.Reason == reasonNoCanary {
			asked-- // A domain of a canary that does not exist cannot be programmed.
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

// primary returns the domain whose URL is status.url: the first programmed domain that routes to a
// group with an active release, so that the URL does not change to that of a group that is being tested. If
// there is no such domain, primary returns the first programmed domain, or nil if no domain
// is programmed.
func (r *reporter) primary(domains []v1alpha1.DomainStatus) (out *v1alpha1.DomainStatus) {
	for i := range domains {
		if !domains[i].Programmed || domains[i].URL == "" {
			continue
		}
		if g := r.rollout.bySlug[domains[i].Group]; g != nil && g.ActiveRelease() != nil {
			return &domains[i]
		}
		if out == nil {
			out = &domains[i]
		}
	}
	return out
}

// splitParts is the maximum number of different splits in the summary.
const splitParts = 3

// split returns the known split of each host, beginning with the primary domain. Hosts with the
// same split are combined. The result includes hosts only if the splits differ. The result does not
// change while a write is in progress.
func (r *reporter) split(primary *v1alpha1.DomainStatus, prev string) string {
	var parts []splitPart
	add := func(host, text string) {
		if text == "" {
			return
		}
		if i := slices.IndexFunc(parts, func(p splitPart) bool { return p.text == text }); i >= 0 {
			parts[i].more++
			return
		}
		parts = append(parts, splitPart{host: host, text: text})
	}
	for _, row := range r.splitRows(primary) {
		route := r.routeOf(row)
		if route == nil {
			continue
		}
		switch v := r.routeState(route); {
		case v.Pending:
			return prev
		case v.Accepted:
			add(r.callers(row), r.weightsOf(route))
		}
	}
	for _, g := range r.out.groups {
		if g.routed || !live(g.group) || g.group.ActiveRelease() == nil {
			continue
		}
		for _, s := range r.out.Services {
			if !s.OfRelease && s.Group == g.slug {
				add(s.Name, r.rollout.versionOf(s.Release)+"=100")
			}
		}
	}
	return join(parts)
}

// splitPart is a split, the first host that has it, and the number of other hosts that have it.
type splitPart struct {
	host, text string
	more       int
}

func join(parts []splitPart) string {
	if len(parts) == 1 {
		return parts[0].text
	}
	var out []string
	for _, p := range parts[:min(len(parts), splitParts)] {
		host := p.host
		if p.more > 0 {
			host += fmt.Sprintf(" +%d", p.more)
		}
		out = append(out, host+": "+p.text)
	}
	if more := len(parts) - splitParts; more > 0 {
		out = append(out, fmt.Sprintf("+%d", more))
	}
	return strings.Join(out, "; ")
}

// splitRows returns the rows whose traffic is split by the weights of groups. The first is the row of the
// primary domain.
func (r *reporter) splitRows(primary *v1alpha1.DomainStatus) []*DomainRow {
	var first, rest []*DomainRow
	for _, row := range r.out.rows {
		switch {
		case row.pin || row.canary:
		case primary != nil && row.host == primary.Domain && strings.TrimSuffix(row.path, "/") == primary.Path:
			first = append(first, row)
		default:
			rest = append(rest, row)
		}
	}
	return slices.Concat(first, rest)
}

// callers returns the text that identifies a row to its clients: the host with its path; the name
// of the listener; or, for a user-managed route, its first host or the name of the route.
func (r *reporter) callers(row *DomainRow) string {
	switch {
	case row.listener != "":
		return row.listener
	case row.user != "":
		if live := r.Live[row.user]; live != nil && len(live.Hostnames) > 0 {
			return live.Hostnames[0]
		}
		return row.user
	}
	return row.host + strings.TrimSuffix(row.path, "/")
}

// weightsOf returns the weights of a route by version, such as "1.1.0=90 1.2.0=10".
func (r *reporter) weightsOf(route *RouteDecision) string {
	var parts []string
	for _, b := range route.Backends {
		parts = append(parts, fmt.Sprintf("%s=%d", r.rollout.versionOf(r.releases[b.Service]), b.Weight))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// maxRoutes is the maximum number of routes in a status.
const maxRoutes = 16
