package networkpolicy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/internal/status"
)

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

// userReports are the rules in routes of others: that of the specification, with a
// domain for each of its hosts, and those that the policy still has rules in.
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
	return r.routed(row, out, unserved)
}

// routed completes the report of a row by what is known of its route.
func (r *reporter) routed(row *row, out v1alpha1.DomainStatus, unserved *providers.Problem) v1alpha1.DomainStatus {
	route, prev := r.routeOf(row), r.before(row)
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
		if prev != nil {
			out.Backends = prev.Backends // They are what it carries, as far as is known.
		}
		return out
	}
	for _, b := range route.Backends {
		release := r.releases[b.Service]
		out.Backends = append(out.Backends, v1alpha1.DomainBackend{Release: release, Version: r.ledger.versionOf(release), Weight: b.Weight})
	}
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

// before is what the last report says of a row; nil: nothing.
func (r *reporter) before(row *row) *v1alpha1.DomainStatus {
	now := &r.policy.Status
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

func (r *reporter) routeOf(want *row) *routeDecision {
	for _, route := range r.out.routes {
		if slices.Contains(route.rows, want) {
			return route
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
