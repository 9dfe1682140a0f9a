package traffic

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
)

// literal reports whether a row has no host, or has a host that does not depend on the group.
func (d *planner) literal(r *DomainRow) bool {
	return r.host == "" || !templated(d.Policy.Spec.Domains[r.entry].Domain)
}

// settleClaims rejects hosts and listeners that an older policy or another entry already uses.
// Entries whose host does not depend on the group have precedence over all others. Otherwise,
// earlier entries have precedence. A preview does not get a host that an entry names independently
// of the group, because the host of a preview can contain the branch name, which the author of the pull
// request chooses. This rule applies to all paths of the host, even if the host is not routed. The same
// applies to a host that another policy, even a younger one, serves and names independently of the group.
// However, if a preview already has a route for such a host of another policy, the preview keeps the host,
// because a host that is already served is not taken away. If one entry renders the same host for two
// groups, the newer group gets the host when its active release has a ready endpoint, or earlier if the
// other group cannot serve the host.
func (d *planner) settleClaims(rows []*DomainRow) {
	own, named := map[string]*DomainRow{}, map[string]*DomainRow{}
	var literal, rest []*DomainRow
	for _, r := range rows {
		if !d.literal(r) {
			rest = append(rest, r)
			continue
		}
		literal, named[r.host] = append(literal, r), cmp.Or(named[r.host], r)
	}
	for _, r := range slices.Concat(literal, rest) {
		host, path := r.holds()
		if host == "" {
			continue
		}
		if first := named[r.host]; first != nil && !d.literal(r) && preview(r) {
			r.kept = false
			r.fail(reasonDomainConflict, fmt.Sprintf("%s: %q is the host of %s, so a preview cannot use it: rename the branch, or use {{.ReleaseGroupName}}", r.source(), host, first.field))
		}
		what, fix := fmt.Sprintf("%q with path %q", host, path), "use another host or path"
		if r.listener != "" {
			what, fix = fmt.Sprintf("the listener of %s.parentRef", r.field), "name another listener"
		}
		for _, c := range d.Claims {
			switch {
			case c.host == host && c.path == path && !c.younger:
				r.kept = false
				r.fail(reasonDomainConflict, fmt.Sprintf("%s: %s is already used by the older networkpolicies.hlnr.io %q: %s", r.source(), what, c.policy, fix))
			case c.host == host && c.literal && !d.literal(r) && preview(r) && !d.hasRoute(host):
				r.kept = false
				r.fail(reasonDomainConflict, fmt.Sprintf("%s: %q is the host of networkpolicies.hlnr.io %q, so a preview cannot use it: rename the branch, or use {{.ReleaseGroupName}}", r.source(), host, c.policy))
			}
		}
		if first := own[host+path]; first != nil {
			if r.listener == "" {
				fix += ", or {{.ReleaseGroupName}}"
			}
			holder := first.field
			if first.field == r.field && first.group != nil {
				// It is not an error if one entry renders the same host for two groups: two groups can have the
				// same version for a while, for example a group that the specification no longer includes and
				// its successor. If the successor were blocked until it had the host, the other group could not
				// close.
				if first.reason == "" && r.reason == "" && d.keepsHost(r, first.group) {
					first, r = r, first
					own[host+path] = first
				}
				r.covered = r.reason == ""
				holder = fmt.Sprintf("%s for release group %q", first.field, first.group.Name)
			}
			r.kept = false
			r.fail(reasonDomainConflict, fmt.Sprintf("%s: %s is already used by %s: %s", r.source(), what, holder, fix))
			continue
		}
		if r.reason == "" || r.kept {
			own[host+path] = r
		}
	}
}

// keepsHost reports whether a row keeps a host that a newer group also renders. The row keeps the
// host only while the newer group has no active release with a ready endpoint. In addition, one of
// two conditions must be true: a route already routes the host to the row's group, or no route has
// the host and the active release of the row's group has a ready endpoint.
func (d *planner) keepsHost(r *DomainRow, newer *v1alpha1.ReleaseGroup) bool {
	if a := newer.ActiveRelease(); a != nil && d.ready(a.VersionedMicroservice) {
		return false
	}
	switch d.hostGroup(r.host, r.path) {
	case r.group.Slug:
		return true
	case "":
		a := r.group.ActiveRelease()
		return a != nil && d.ready(a.VersionedMicroservice)
	}
	return false
}

// Holds reports whether a policy with this domain status uses the host, that is, whether the host is
// or will be served. A host that cannot be routed as specified is still served if its live route
// stays.
func Holds(d v1alpha1.DomainStatus) bool {
	switch {
	case d.URL == "":
		return false
	case MissingKind(d.Reason) || d.Reason == ReasonNotSupported:
		return d.Programmed || len(d.Backends) > 0
	}
	return d.Programmed || d.Reason == ReasonPending || d.Reason == ReasonCertificateNotReady || d.Reason == ReasonListenerNotReady
}

// HoldsListener reports whether a policy with this listener status uses the listener.
func HoldsListener(l v1alpha1.ListenerStatus) bool { return l.Programmed || l.Reason == ReasonPending }

// namesHost reports whether a policy contains a host literally.
func namesHost(p *v1alpha1.NetworkPolicy, host string) bool {
	return slices.ContainsFunc(p.Spec.Domains, func(entry v1alpha1.Domain) bool { return entry.Domain == host })
}

// A policy is indexed under a key for each host and path in its status, so that policies that share a host, but no path, do not find each
// other. These words replace the path in the keys under which policies are found by the host alone.
const (
	literalHost  = " literal"  // hosts with a path, which the policy contains literally
	renderedHost = " rendered" // other hosts
)

// claimKey returns the key of a host and path. Without a path, this is the key of the path "/".
func claimKey(host, path string) string { return host + cmp.Or(path, "/") }

// HostKeys returns the keys under which a policy is indexed: those of the hosts in its status, of its listeners, and of its user-managed
// route.
func HostKeys(p *v1alpha1.NetworkPolicy) []string {
	confirmed := slices.ContainsFunc(p.Status.Groups, func(g v1alpha1.GroupTraffic) bool { return g.ConfirmedTime != nil })
	var out []string
	for _, d := range p.Status.Domains {
		out = append(out, claimKey(d.Domain, d.Path))
		if confirmed && mayMove(d) {
			out = append(out, claimKey(d.Domain, ""))
		}
		switch {
		case !namesHost(p, d.Domain):
			out = append(out, d.Domain+renderedHost)
		case d.Path != "":
			out = append(out, d.Domain+literalHost)
		}
	}
	return Union(out, ownKeys(p))
}

// mayMove reports whether a live route of a policy with confirmed traffic may still have the host of a domain with another path. Domains that
// wait for a release have no route.
func mayMove(d v1alpha1.DomainStatus) bool {
	return !d.Programmed && d.Reason != reasonNoCanary && d.Reason != reasonNoActiveRelease && d.Reason != reasonNoReadyEndpoints
}

// AffectedKeys returns the keys of the policies whose decisions may depend on the claims of a policy. These are the policies with the same
// path of a host; those without a path, because a protocol without paths uses the whole host; and those whose path of the host may be
// changing. If the policy contains the host literally, they also include policies with previews that have the host.
func AffectedKeys(p *v1alpha1.NetworkPolicy) []string {
	var out []string
	for _, d := range p.Status.Domains {
		out = append(out, claimKey(d.Domain, ""), claimKey(d.Domain, d.Path))
		if namesHost(p, d.Domain) {
			out = append(out, d.Domain+renderedHost)
		}
	}
	return Union(out, ownKeys(p))
}

// ownKeys returns the keys of the listeners and of the user-managed route of a policy.
func ownKeys(p *v1alpha1.NetworkPolicy) (out []string) {
	for _, l := range p.Spec.Listeners {
		out = append(out, ListenerHost(p, l))
	}
	if route := RouteHost(p); route != "" {
		out = append(out, route)
	}
	return out
}

// ClaimKeys returns the keys of the policies whose claims the decision about the observed policy may depend on. The decision uses
// the hosts to which the domains render for any group, and the hosts of live routes, each with its path. If a live route has no path,
// the decision uses the claims to all paths of the host. For the host of a preview, it uses the claims of policies that contain the host
// literally.
func ClaimKeys(f *Observed) []string {
	if !routed(f.Policy) || gatewayapi.UserRef(f.Policy) != nil || f.Microservice == nil {
		return nil
	}
	out := map[string]bool{}
	add := func(keys ...string) {
		for _, key := range keys {
			out[key] = true
		}
	}
	eachHost(f.Policy, f.Microservice, func(entry v1alpha1.Domain, g *v1alpha1.ReleaseGroup, host string) {
		add(claimKey(host, entry.Path))
		if g != nil && g.Level == v1alpha1.LevelPreview && templated(entry.Domain) {
			add(claimKey(host, ""), host+literalHost)
		}
	})
	add(ownKeys(f.Policy)...)
	for _, route := range f.Live {
		for _, host := range route.Hostnames {
			if add(claimKey(host, route.Path)); route.Path == "" {
				add(host+literalHost, host+renderedHost)
			}
		}
	}
	return providers.Sorted(out)
}

// ClaimsOf returns the claims of the policies whose routes could conflict with those of the
// observed policy: the hosts and listeners that older policies use, and the hosts that younger
// policies name in their specification and serve. A policy that is being deleted keeps its
// hosts until the policy and its routes no longer exist.
func ClaimsOf(f *Observed, others []v1alpha1.NetworkPolicy) []Claim {
	var out []Claim
	p := f.Policy
	for i := range others {
		o := &others[i]
		if o.UID == p.UID || !f.shares(o) {
			continue
		}
		younger := !Older(o, p)
		for _, d := range o.Status.Domains {
			// A younger policy that names a host has no claim to it until a gateway has accepted a route
			// for the host. Otherwise, any user could prevent the owner of a host from using it.
			literal := namesHost(o, d.Domain)
			if younger && !(literal && d.Programmed) {
				continue
			}
			if Holds(d) {
				path := cmp.Or(d.Path, "/")
				if strings.HasPrefix(d.URL, "tls://") {
					path = pathOfTLS
				}
				out = append(out, Claim{host: d.Domain, path: path, policy: o.Namespace + "/" + o.Name, literal: literal, younger: younger})
			}
		}
		for _, s := range o.Status.Listeners {
			i := slices.IndexFunc(o.Spec.Listeners, func(l v1alpha1.Listener) bool { return l.Name == s.Name })
			if i >= 0 && !younger && HoldsListener(s) {
				out = append(out, Claim{host: ListenerHost(o, o.Spec.Listeners[i]), policy: o.Namespace + "/" + o.Name})
			}
		}
	}
	slices.SortFunc(out, func(a, b Claim) int {
		return cmp.Or(cmp.Compare(a.policy, b.policy), cmp.Compare(a.host, b.host), cmp.Compare(a.path, b.path))
	})
	return slices.Compact(out)
}

// checkHosts rejects the hosts that the list of domains does not allow for the namespace. If the
// list cannot be read, checkHosts admits no new host and removes no host that a route of the policy
// has.
func (d *planner) checkHosts(rows []*DomainRow) {
	for _, r := range rows {
		if r.host == "" {
			continue
		}
		if err := d.Owned.refuses(d.Policy.Spec.Domains[r.entry].Domain, r.host); err != nil {
			r.reason, r.message, r.kept = ReasonDomainNotAllowed, fmt.Sprintf("%s: %v", r.source(), err), false
		}
		if d.Owned != nil && d.Owned.Unread != nil && r.reason == "" {
			r.reason, r.kept = ReasonDomainsUnreadable, d.hasRoute(r.host)
			r.message = fmt.Sprintf("%s: the list of domains cannot be read, so it is unknown whether %q is allowed in namespace %q: no host is added, and existing hosts stay, until an administrator fixes the list: %v",
				r.source(), r.host, d.Policy.Namespace, d.Owned.Unread)
		}
	}
}

// refusedHosts returns the hosts that groups must not have, as "slug/host".
func refusedHosts(rows []*DomainRow) map[string]bool {
	out := map[string]bool{}
	for _, r := range rows {
		if r.reason == ReasonDomainNotAllowed && r.group != nil {
			out[r.group.Slug+"/"+r.host] = true
		}
	}
	return out
}

// keepsLive reports whether a row that cannot be routed keeps the live route of its host with the given
// path: invalid input does not remove a route, unless another policy or row uses the host and path.
func (d *planner) keepsLive(r *DomainRow, rows []*DomainRow, path string) bool {
	switch r.reason {
	case ReasonGatewayAPIMissing, providers.ReasonProviderAPIMissing, ReasonNotSupported:
		return samePath(r.path, path) || !d.taken(rows, r.host, path)
	case reasonDomainConflict:
		return !d.taken(rows, r.host, path)
	}
	return false
}

// taken reports whether another policy or a row already uses a host and path.
func (d *planner) taken(rows []*DomainRow, host, path string) bool {
	return d.claimed(host, path) || slices.ContainsFunc(rows, func(r *DomainRow) bool { return r.host == host && samePath(r.path, path) })
}

// claimed reports whether an older policy uses a host and path.
func (d *planner) claimed(host, path string) bool {
	return slices.ContainsFunc(d.Claims, func(c Claim) bool { return !c.younger && c.host == host && samePath(c.path, path) })
}
