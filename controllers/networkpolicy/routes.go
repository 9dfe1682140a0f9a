package networkpolicy

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// routeKey tells which rows share routes.
type routeKey struct {
	target, path, port string
	// protocol, so that routes of two kinds never meet in a name; "": HTTP and HTTPS.
	protocol v1alpha1.PortProtocol
	// matches tells canaryMatches apart, and parents those of single domains; "": none.
	matches, parents string
	// provider by name, where it is not the gateway: the objects of two providers must not
	// meet in a name when a policy goes from one to the other.
	provider string
	// own tells apart what a route says as a whole: whether it is attached to ListenerSets,
	// and for how long DNS records may be kept; "": neither is said.
	own string
	// user is the route of somebody else; "": a route of ours.
	user string
}

func keyOf(r *row) routeKey {
	if r.user != "" {
		return routeKey{user: r.user}
	}
	key := routeKey{target: r.target, path: r.path, port: r.port.Name, protocol: r.port.Protocol, matches: resources.MatchesKey(r.matches)}
	if r.listener != "" {
		return key // Its name says it all.
	}
	if r.tls != nil && r.tls.Mode == v1alpha1.TLSListenerSet {
		key.own = "/" + string(r.tls.Mode)
	}
	if r.recordTTL > 0 {
		key.own += fmt.Sprintf("/%d", r.recordTTL)
	}
	for _, p := range r.parents {
		key.parents += fmt.Sprintf("/%s/%s/%s", p.Namespace, p.Name, p.SectionName)
	}
	return key.plain()
}

// listenerKey is the key of the one route of a listener.
func listenerKey(name string, port v1alpha1.NetworkPort) routeKey {
	return routeKey{target: "listener/" + name, port: port.Name, protocol: port.Protocol}
}

// plain leaves out the protocols of HTTPRoutes: a port may change between them without
// a new route.
func (k routeKey) plain() routeKey {
	if k.protocol == v1alpha1.ProtocolHTTP || k.protocol == v1alpha1.ProtocolHTTPS {
		k.protocol = ""
	}
	return k
}

// name of the index-th route of the key.
func (k routeKey) name(policy string, index int) string {
	if k.user != "" {
		return k.user
	}
	target, port := k.target, k.port
	if k.matches != "" {
		target += "/" + k.matches
	}
	target += k.parents + k.own
	if k.provider != "" {
		port += "/" + k.provider
	}
	if k.protocol != "" {
		port += "/" + string(k.protocol)
	}
	return resources.RouteName(policy, target, k.path, port, index)
}

// addRoutes puts the rows into routes.
func (d *decider) addRoutes(out *decision) {
	groups := map[string]*groupDecision{}
	for _, g := range out.groups {
		groups[g.slug] = g
	}
	buckets := map[routeKey][]*row{}
	for _, r := range out.rows {
		if !r.routable() {
			continue
		}
		if r.pinned == "" && len(d.splitOf(out, r, groups).weights) == 0 {
			continue // Nothing that could answer has a ready endpoint, and nothing did.
		}
		if r.pinned != "" && !d.ready(r.pinned) && !d.carriesPin(r) {
			r.fail(reasonNoReadyEndpoints, fmt.Sprintf("%s.release.version: release %q has no ready endpoint yet", r.field, r.pinned))
			continue
		}
		if problem := d.unsupported(r); problem != nil {
			r.fail(problem.Reason, r.field+"."+problem.Message)
			continue
		}
		for _, r := range append([]*row{r}, d.meanwhile(r)...) {
			key := keyOf(r)
			if d.view.Apart() {
				key = routeKey{target: r.host, path: r.path}
			}
			if p := provider(d.policy); p != gatewayProvider {
				key.provider = p.Name()
			}
			buckets[key] = append(buckets[key], r)
		}
	}
	keys := slices.SortedFunc(maps.Keys(buckets), func(a, b routeKey) int {
		return cmp.Or(cmp.Compare(a.target, b.target), cmp.Compare(a.path, b.path), cmp.Compare(a.port, b.port), cmp.Compare(a.matches, b.matches),
			cmp.Compare(a.protocol, b.protocol), cmp.Compare(a.parents, b.parents), cmp.Compare(a.own, b.own))
	})
	for _, key := range keys {
		for i, rows := range d.allocate(key, buckets[key]) {
			if len(rows) > 0 {
				name := key.name(d.policy.Name, i)
				out.routes = append(out.routes, d.route(name, rows, d.splitOf(out, rows[0], groups)))
			}
		}
	}
	slices.SortStableFunc(out.routes, func(a, b *routeDecision) int {
		return cmp.Compare(d.loses(a), d.loses(b))
	})
	d.addFormer(out, groups)
}

// splitOf is what the route of a row carries.
func (d *decider) splitOf(out *decision, r *row, groups map[string]*groupDecision) *groupDecision {
	if r.newer != nil && !r.canary {
		return out.moves[move{r.group.Slug, r.newer.Slug}]
	}
	return groups[r.group.Slug]
}

// serves says whether a live route is for what a row names.
func (d *decider) serves(route *providers.Live, r *row) bool {
	if r.user != "" {
		return route.Name == r.user
	}
	if r.listener != "" {
		return route.Name == listenerKey(r.listener, r.port).name(d.policy.Name, 0)
	}
	return route.Path == r.path && slices.Contains(route.Hostnames, r.host)
}

// carriesPin says whether a live route leads the row's host to its release already.
func (d *decider) carriesPin(r *row) bool {
	for _, route := range d.live {
		if !route.Leaving && route.Pinned() && d.serves(route, r) && d.backendsOf(route)[r.pinned] > 0 {
			return true
		}
	}
	return false
}

// allocate spreads rows over routes of at most providers.MaxHostnames hosts. A host
// stays in the live route that has it, because the age of a route decides who gets
// a host that two claim; a new one goes into the first with room.
func (d *decider) allocate(key routeKey, rows []*row) [][]*row {
	slices.SortFunc(rows, func(a, b *row) int { return cmp.Compare(a.host, b.host) })
	var out [][]*row
	at := func(i int) *[]*row {
		for len(out) <= i {
			out = append(out, nil)
		}
		return &out[i]
	}
	var fresh []*row
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
		slices.SortFunc(part, func(a, b *row) int { return cmp.Compare(a.host, b.host) })
	}
	return out
}

// placed is the index of the live route of key that has host; -1 where none has.
func (d *decider) placed(key routeKey, host string) int {
	for i := range maxRows / providers.MaxHostnames {
		name := key.name(d.policy.Name, i)
		if route, ok := d.live[name]; ok && !route.Leaving && slices.Contains(route.Hostnames, host) {
			return i
		}
	}
	return -1
}

// loses is 1 where a route is to lose hosts that it has.
func (d *decider) loses(r *routeDecision) int {
	if old, ok := d.live[r.Name]; ok {
		for _, host := range old.Hostnames {
			if !slices.Contains(r.Hostnames, host) {
				return 1
			}
		}
	}
	return 0
}

// services that a route names in any way.
func (r *routeDecision) services() []string {
	var out []string
	for _, b := range r.Backends {
		out = append(out, b.Service)
	}
	for _, s := range []string{r.Canary, r.Mirror} {
		if s != "" {
			out = append(out, s)
		}
	}
	return out
}

// verdict tells how far a decided route is.
func (d *decider) verdict(r *routeDecision) verdict { return d.view.Verdict(r.Route, r.objects) }

// concerns says whether a revision of a group counts as carried only with the route.
func (r *routeDecision) concerns(slug string) bool {
	if r.slug == slug {
		return true
	}
	return len(r.rows) > 0 && r.rows[0].newer != nil && r.rows[0].newer.Slug == slug
}

func (d *decider) route(name string, rows []*row, g *groupDecision) *routeDecision {
	out := &routeDecision{slug: g.slug, rows: rows, answers: g.answers || rows[0].pinned != "", Route: d.plan(name, rows, g)}
	if user := rows[0].user; user != "" {
		out.Hostnames = d.live[user].Hostnames
	}
	out.objects = d.view.Build(out.Route)
	return out
}

// plan is what a route of rows is to carry.
func (d *decider) plan(name string, rows []*row, g *groupDecision) providers.Route {
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
		out.Active = d.releaseService(active.VersionedMicroservice)
	}
	weights := g.weights
	if first.pinned != "" {
		weights = map[string]int{first.pinned: 100}
	}
	for _, release := range sortedKeys(weights) {
		if w := weights[release]; w > 0 {
			out.Backends = append(out.Backends, providers.Backend{Service: d.releaseService(release), Weight: int32(w)})
		}
	}
	if first.pinned == "" {
		if g.matched != "" && len(first.matches) > 0 {
			out.Canary, out.Matches = d.releaseService(g.matched), first.matches
		}
		if g.mirrored != "" && readable(first.port.Protocol) {
			out.Mirror, out.MirrorPercent = d.releaseService(g.mirrored), g.mirrorPercent
		}
	}
	if old := d.live[name]; old != nil {
		kept := d.routeStamp(old, out.Stamp, g, first.pin)
		if !first.newest || d.carriesSame(old, out) && (first.newer == nil || kept.Sequence >= first.newer.TrafficRevision) {
			out.Stamp = kept
		}
	}
	return out
}

// carriesSame says whether a live route leads to the same releases in the same shares. One
// between two groups must not keep the stamp of another state of either.
func (d *decider) carriesSame(old *providers.Live, now providers.Route) bool {
	weights := map[string]int{}
	for _, b := range now.Backends {
		weights[b.Service] = int(b.Weight)
	}
	r := routeDecision{Route: now}
	return maps.Equal(old.Weights, weights) && sameSet(old.Services, r.services())
}

// readable says whether gateways see single requests of a protocol.
func readable(p v1alpha1.PortProtocol) bool {
	return p != v1alpha1.ProtocolTLS && p != v1alpha1.ProtocolTCP && p != v1alpha1.ProtocolUDP
}

// routeStamp is the stamp of a route that is there already. A route that holds what
// was written before does not answer the present revision, and one for a version
// answers every one.
func (d *decider) routeStamp(old *providers.Live, stamp resources.Stamp, g *groupDecision, pinned bool) resources.Stamp {
	was, ok := old.Stamp()
	if !ok || was.Ledger != stamp.Ledger || was.Group != stamp.Group {
		return stamp
	}
	if was.Revision == stamp.Revision || pinned || !g.answers {
		return was
	}
	return stamp
}
