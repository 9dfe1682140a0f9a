package traffic

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// addRoutes assigns the rows to routes.
func (d *planner) addRoutes(out *Decision) {
	groups := out.bySlug()
	buckets, byHost := map[RouteKey][]*DomainRow{}, map[string]*DomainRow{}
	for _, r := range out.rows {
		if !r.routable() {
			continue
		}
		if r.pinned == "" && len(d.splitOf(out, r, groups).weights) == 0 {
			continue // No release that may receive traffic has a ready endpoint, and there is no live route.
		}
		if d.unreadyPin(r) {
			r.fail(reasonNoReadyEndpoints, unreadyMessage(r))
			continue
		}
		if problem := d.unsupported(r); problem != nil {
			r.fail(problem.Reason, r.field+"."+problem.Message)
			continue
		}
		byHost[r.host] = cmp.Or(byHost[r.host], r)
		for _, r := range append([]*DomainRow{r}, d.meanwhile(r)...) {
			key := keyOf(r)
			if providers.Apart(d.View) {
				key = RouteKey{Target: r.host, Path: r.path}
			}
			if p := ProviderOf(d.Policy); p != gatewayProvider {
				key.provider = p.Name()
			}
			buckets[key] = append(buckets[key], r)
		}
	}
	d.splitBuckets(buckets)
	keys := slices.SortedFunc(maps.Keys(buckets), func(a, b RouteKey) int {
		return cmp.Or(cmp.Compare(a.Target, b.Target), cmp.Compare(a.Path, b.Path), cmp.Compare(a.Port, b.Port), cmp.Compare(a.matches, b.matches),
			cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.parents, b.parents), cmp.Compare(a.own, b.own))
	})
	for _, key := range keys {
		for i, rows := range d.allocate(key, append(buckets[key], d.remaining(out, key, buckets[key], byHost)...)) {
			if len(rows) > 0 {
				name := key.Name(d.Policy.Name, i)
				out.Routes = append(out.Routes, d.route(name, rows, d.splitOf(out, rows[0], groups)))
			}
		}
	}
	d.removeReplaced(out, groups)
	slices.SortStableFunc(out.Routes, func(a, b *RouteDecision) int {
		return cmp.Compare(d.loses(a), d.loses(b))
	})
}

// remaining returns rows for the live hosts that the routes of a key would lose although the
// specification still contains these hosts: a host stays in its live route until all other routes of
// the host are accepted, and for as long as it cannot be routed as specified. In the meantime, it
// follows the target of its live route. byHost contains, for each host, the first row with a route.
func (d *planner) remaining(out *Decision, key RouteKey, rows []*DomainRow, byHost map[string]*DomainRow) (stay []*DomainRow) {
	if providers.Apart(d.View) || rows[0].host == "" {
		return nil
	}
	refused := refusedHosts(out.rows)
	for i := range maxRows / providers.MaxHostnames {
		live := d.Live[key.Name(d.Policy.Name, i)]
		if live == nil || live.Deleting {
			continue
		}
		for _, host := range live.Hostnames {
			switch {
			case slices.ContainsFunc(rows, func(r *DomainRow) bool { return r.host == host }):
			case d.Owned.refuses(host, host) != nil || refused[live.Group()+"/"+host] || d.claimed(host, live.Path):
			default:
				r := d.heldBy(out, host, live.Path)
				if by := byHost[host]; r == nil && by != nil && !excludes(by, rows[0]) {
					r = by
				}
				if r != nil {
					kept := *rows[0]
					kept.host, kept.replaced, kept.tls = host, true, d.liveTLS(r, rows[0])
					stay = append(stay, &kept)
				}
			}
		}
	}
	return stay
}

// excludes reports whether the routes of two rows are of different kinds, only one of which a gateway
// accepts for a host: an HTTPRoute and a GRPCRoute (see GRPCRoute in the Gateway API). If the existing route kept the
// host, the gateway would never accept the other route.
func excludes(a, b *DomainRow) bool {
	return a.port.Protocol != b.port.Protocol && readable(a.port.Protocol) && readable(b.port.Protocol) &&
		(a.port.Protocol == v1alpha1.ProtocolGRPC || b.port.Protocol == v1alpha1.ProtocolGRPC)
}

// heldBy returns a row that keeps a host in its live route because the row cannot be routed; nil
// if there is none.
func (d *planner) heldBy(out *Decision, host, path string) *DomainRow {
	if i := slices.IndexFunc(out.rows, func(r *DomainRow) bool { return r.host == host && d.keepsLive(r, out.rows, path) }); i >= 0 {
		return out.rows[i]
	}
	return nil
}

// removeReplaced removes from each route the temporarily kept hosts that other routes now serve. It
// also removes the routes that contain no other hosts.
func (d *planner) removeReplaced(out *Decision, groups map[string]*groupDecision) {
	next := map[*RouteDecision][]*DomainRow{}
	for _, route := range out.Routes {
		var rows []*DomainRow
		for _, r := range route.rows {
			if r.replaced {
				if by := d.heldBy(out, r.host, r.path); by != nil {
					out.held[route.Name] = by
				} else if d.served(out, r.host) {
					continue
				}
			}
			rows = append(rows, r)
		}
		if len(rows) < len(route.rows) {
			next[route] = rows
		}
	}
	// A route that contains only replaced hosts is no longer desired.
	out.Routes = slices.DeleteFunc(out.Routes, func(route *RouteDecision) bool {
		rows, changed := next[route]
		return changed && len(rows) == 0
	})
	for route, rows := range next {
		if len(rows) > 0 {
			*route = *d.route(route.Name, rows, d.splitOf(out, rows[0], groups))
		}
	}
}

// served reports whether all routes that the specification requires for a host are accepted, and
// whether the host's own listeners are ready.
func (d *planner) served(out *Decision, host string) bool {
	return !slices.ContainsFunc(out.Routes, func(route *RouteDecision) bool {
		i := slices.IndexFunc(route.rows, func(r *DomainRow) bool { return r.host == host && !r.replaced })
		return i >= 0 && (!d.verdict(route).Accepted || ofSet(route.rows[i].tls) && d.unready(route.Route, host) != nil)
	})
}

// target is the target of a row's route.
type target struct {
	group, newer *v1alpha1.ReleaseGroup
	pinned       string
}

func targetOf(r *DomainRow) target { return target{r.group, r.newer, r.pinned} }

// key returns a string that identifies a target among the targets of one domain.
func (t target) key() string {
	text := "/" + t.pinned
	for _, g := range []*v1alpha1.ReleaseGroup{t.group, t.newer} {
		if g != nil {
			text += "/" + g.Slug
		}
	}
	return text
}

// splitBuckets moves rows to other buckets if their targets differ from the target of their bucket.
// Rows of a bucket can have different targets because a host keeps its live target in some cases. The
// target of a bucket is that of the first row whose host is in a live route of the bucket, so that
// other hosts do not change the target.
func (d *planner) splitBuckets(buckets map[RouteKey][]*DomainRow) {
	for _, key := range slices.Collect(maps.Keys(buckets)) {
		rows := buckets[key]
		slices.SortFunc(rows, func(a, b *DomainRow) int { return cmp.Compare(a.host, b.host) })
		if !slices.ContainsFunc(rows, func(r *DomainRow) bool { return targetOf(r) != targetOf(rows[0]) }) {
			continue
		}
		first := rows[max(0, slices.IndexFunc(rows, func(r *DomainRow) bool { return d.placed(key, r.host) >= 0 }))]
		buckets[key] = nil
		for _, r := range rows {
			own := key
			if targetOf(r) != targetOf(first) {
				own.Target += targetOf(r).key()
			}
			buckets[own] = append(buckets[own], r)
		}
	}
}

// splitOf returns the split of a row's route.
func (d *planner) splitOf(out *Decision, r *DomainRow, groups map[string]*groupDecision) *groupDecision {
	if r.newer != nil && !r.canary {
		return out.moves[move{r.group.Slug, r.newer.Slug}]
	}
	return groups[r.group.Slug]
}

// keepUnready keeps the live target of a domain or listener until its new target has a ready
// endpoint: the host must not become unreachable while the pods of the new target start. The same
// applies to the live host of an invalid domain. The release of a row with a version is still reported
// as pinned, so that it gets pods.
func (d *planner) keepUnready(rows []*DomainRow) {
	for _, r := range rows {
		if r.host == "" && r.listener == "" || !r.routable() || r.kept && r.reason != reasonInvalidDomain || r.canary {
			continue
		}
		if d.unreadyPin(r) {
			asked, message := r.pinned, unreadyMessage(r)
			if d.keepTarget(r, rows); r.kept {
				r.awaited = asked
				r.fail(reasonNoReadyEndpoints, message)
			}
			continue
		}
		if main := mainOf(r.group); r.pin || main != nil && d.ready(main.VersionedMicroservice) {
			continue
		}
		if g := d.group(r.group, rows); len(g.weights) == 0 {
			if d.keepTarget(r, rows); r.kept {
				r.fail(g.unrouted())
			}
		}
	}
}

// unreadyPin reports whether a row with a version cannot be routed yet, because its release has no
// ready endpoint, or has just become ready, and no live route routes to it.
func (d *planner) unreadyPin(r *DomainRow) bool {
	ready := d.ready(r.pinned) && d.firstTrafficAt(r.pinned).IsZero()
	return r.pinned != "" && !ready && !d.carriesPin(r)
}

func unreadyMessage(r *DomainRow) string {
	return fmt.Sprintf("%s.release.version: release %q has no ready endpoint yet", r.field, r.pinned)
}

// carriesPin reports whether a live route already routes the row's host to the row's release.
func (d *planner) carriesPin(r *DomainRow) bool {
	for _, route := range d.Live {
		if !route.Deleting && route.Pinned() && d.serves(route, r) && d.backendsOf(route)[r.pinned] > 0 {
			return true
		}
	}
	return false
}

// allocate distributes rows across routes with at most providers.MaxHostnames hosts each. A host
// stays in the live route that has it, because the age of a route decides between two claims to a
// host. A new host is added to the first route that has room for it.
func (d *planner) allocate(key RouteKey, rows []*DomainRow) [][]*DomainRow {
	slices.SortFunc(rows, func(a, b *DomainRow) int { return cmp.Compare(a.host, b.host) })
	var out [][]*DomainRow
	at := func(i int) *[]*DomainRow {
		for len(out) <= i {
			out = append(out, nil)
		}
		return &out[i]
	}
	var fresh []*DomainRow
	for _, r := range rows {
		i := d.placed(key, r.host)
		if i < 0 {
			fresh = append(fresh, r)
			continue
		}
		*at(i) = append(*at(i), r)
	}
	i := 0
	for _, r := range fresh {
		for len(*at(i)) >= providers.MaxHostnames {
			i++
		}
		*at(i) = append(*at(i), r)
	}
	for _, part := range out {
		slices.SortFunc(part, func(a, b *DomainRow) int { return cmp.Compare(a.host, b.host) })
	}
	return out
}

// loses returns 1 if a live route loses hosts, otherwise 0.
func (d *planner) loses(r *RouteDecision) int {
	if old, ok := d.Live[r.Name]; ok {
		for _, host := range old.Hostnames {
			if !slices.Contains(r.Hostnames, host) {
				return 1
			}
		}
	}
	return 0
}

// verdict returns the state of a desired route.
func (d *planner) verdict(r *RouteDecision) verdict { return d.View.Verdict(r.Route, r.Objects) }

// concerns reports whether the revision of a group is programmed only if the route is programmed.
func (r *RouteDecision) concerns(slug string) bool {
	if r.slug == slug {
		return true
	}
	return len(r.rows) > 0 && r.rows[0].newer != nil && r.rows[0].newer.Slug == slug
}

func (d *planner) route(name string, rows []*DomainRow, g *groupDecision) *RouteDecision {
	out := &RouteDecision{slug: g.slug, rows: rows, answers: g.answers || rows[0].pinned != "", Route: d.plan(name, rows, g)}
	if user := rows[0].user; user != "" {
		out.Hostnames = d.Live[user].Hostnames
	}
	out.Objects = d.View.Build(out.Route)
	return out
}

// plan returns the desired content of a route with the given rows.
func (d *planner) plan(name string, rows []*DomainRow, g *groupDecision) providers.Route {
	first := rows[0]
	out := providers.Route{
		Name: name, Protocol: first.port.Protocol, Pinned: first.pinned, Path: first.path, Port: first.port.Port, Stamp: d.stamp(g.group), Parents: first.parents,
		RecordTTL: first.recordTTL, TLS: tlsOf(rows),
	}
	for _, r := range rows {
		if r.host != "" {
			out.Hostnames = append(out.Hostnames, r.host)
		}
	}
	if active := mainOf(g.group); active != nil {
		out.Active = d.ReleaseService(active.VersionedMicroservice)
	}
	weights := g.weights
	if first.pinned != "" {
		weights = map[string]int{first.pinned: 100}
	}
	for _, release := range providers.Sorted(weights) {
		if w := weights[release]; w > 0 {
			out.Backends = append(out.Backends, providers.Backend{Service: d.ReleaseService(release), Weight: int32(w)})
		}
	}
	if first.pinned == "" {
		if g.matched != "" && len(first.matches) > 0 {
			out.Canary, out.Matches = d.ReleaseService(g.matched), first.matches
		}
		if g.mirrored != "" && readable(first.port.Protocol) {
			out.Mirror, out.MirrorPercent = d.ReleaseService(g.mirrored), g.mirrorPercent
		}
	}
	if old := d.Live[name]; old != nil {
		kept := d.routeStamp(old, out.Stamp, g, first.pin)
		if !first.newest || d.carriesSame(old, out) && (first.newer == nil || kept.Sequence >= first.newer.TrafficRevision) {
			out.Stamp = kept
		}
	}
	return out
}

// carriesSame reports whether a live route targets the same releases with the same weights. Only in
// this case may a route that follows the newest group keep its stamp. Such a route can split traffic
// between two groups, so its stamp could otherwise belong to an earlier state of one of the groups.
func (d *planner) carriesSame(old *providers.Live, now providers.Route) bool {
	weights := map[string]int{}
	for _, b := range now.Backends {
		weights[b.Service] = int(b.Weight)
	}
	r := RouteDecision{Route: now}
	return maps.Equal(old.Weights, weights) && sameSet(old.Services, r.services())
}

// readable reports whether gateways can read individual requests that use a protocol.
func readable(p v1alpha1.PortProtocol) bool {
	return p != v1alpha1.ProtocolTLS && p != v1alpha1.ProtocolTCP && p != v1alpha1.ProtocolUDP
}

// routeStamp returns the stamp of an existing route. The route keeps its previous stamp if the
// revision of its group has not changed, if it is waiting for endpoints, or if it routes to a version:
// such a route does not depend on revisions.
func (d *planner) routeStamp(old *providers.Live, stamp resources.Stamp, g *groupDecision, pinned bool) resources.Stamp {
	was, ok := old.Stamp()
	if !ok || was.RolloutState != stamp.RolloutState || was.Group != stamp.Group {
		return stamp
	}
	if was.Revision == stamp.Revision || pinned || !g.answers || !g.awaited.IsZero() {
		return was
	}
	return stamp
}

// WeightsAlone returns the live objects of a route with the weights of the desired route, and
// without the hosts that the desired route no longer has. All other content remains unchanged.
// WeightsAlone returns no objects if nothing changes. The objects are written if the API server
// rejects the rest of the decision: an error in a filter must not keep traffic on a release that
// has no pods, or on a canary that was aborted.
func (f *Observed) WeightsAlone(route *RouteDecision) []resources.Object {
	live := f.Live[route.Name]
	if live == nil || live.User || live.Deleting || f.previous(live) {
		return nil
	}
	alone, input := route.Route, f.Input
	alone.Hostnames = slices.DeleteFunc(slices.Clone(live.Hostnames), func(host string) bool { return !slices.Contains(route.Hostnames, host) })
	alone.TLS, alone.RecordTTL, alone.Parents = nil, 0, nil // Without these values, Carry keeps the live values.
	input.Policy = f.Policy.DeepCopy()
	input.Policy.Spec.Provider = nil // The view then behaves as if the policy no longer used the provider.
	return providers.Carry(ProviderOf(f.Policy).NewView(input), live, alone)
}
