package traffic

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// TestPropertiesOverHistories checks random histories of rollout states, endpoints, gateways, and
// specifications.
func TestPropertiesOverHistories(t *testing.T) {
	playTheSame(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		history{t, w, map[string]int64{}, 7, map[string][]string{}}.play()
	})
}

// TestPropertiesOverHistoriesOfProviders checks random histories in which the policy also switches
// between providers.
func TestPropertiesOverHistoriesOfProviders(t *testing.T) {
	playTheSame(t)
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(t)
		history{t, w, map[string]int64{}, 10, map[string][]string{}}.play()
	})
}

// playTheSame makes every run without a given seed play the same histories: a test that gates a
// change must not fail randomly. "make sim-policies" runs other histories, and
// docs/design/findings.md lists the open findings of these runs.
func playTheSame(t *testing.T) {
	seed := flag.Lookup("rapid.seed").Value
	if seed.String() != "0" {
		return
	}
	if err := seed.Set("20261122"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = seed.Set("0") })
}

type history struct {
	*rapid.T
	w        *world
	revision map[string]int64
	// last is the number of the last kind of event.
	last int
	// served contains the releases to which the gateway routes, by route name, as of the gateway's
	// last update. The routes may have changed since.
	served map[string][]string
}

func (h history) play() {
	h.w.policy.Spec.Ports = append(h.w.policy.Spec.Ports,
		v1alpha1.NetworkPort{Name: "calls", Port: 81, Protocol: v1alpha1.ProtocolGRPC}, v1alpha1.NetworkPort{Name: "secret", Port: 443, Protocol: v1alpha1.ProtocolTLS},
		v1alpha1.NetworkPort{Name: "tcp", Port: 5432, Protocol: v1alpha1.ProtocolTCP}, v1alpha1.NetworkPort{Name: "udp", Port: 53, Protocol: v1alpha1.ProtocolUDP})
	h.w.policy.Spec.Domains[0].Port = "http"
	h.w.policy.Spec.Domains = append(h.w.policy.Spec.Domains, v1alpha1.Domain{Domain: "shop.example.com", Port: "http"})
	if rapid.Bool().Draw(h.T, "late") {
		delete(h.w.gateways, "infra/public") // The Gateway is created later, or never.
	}
	h.write()
	for range rapid.IntRange(1, 25).Draw(h.T, "length") {
		switch rapid.IntRange(0, h.last).Draw(h.T, "event") {
		case 0, 1:
			h.write()
		case 2:
			h.w.ready[h.release()] = rapid.IntRange(0, 2).Draw(h.T, "ready")
		case 3, 4:
			h.w.accept()
			h.serve()
		case 5:
			h.w.now = h.w.now.Add(time.Duration(rapid.IntRange(1, 60).Draw(h.T, "seconds")) * time.Second)
		case 6:
			h.w.policy.Spec.Domains = h.domains()
			h.w.policy.Spec.Listeners = h.listeners()
			h.w.policy.Generation++
			h.onlyGatewaysListen()
		case 7:
			if h.w.gateways["infra/public"] == nil {
				h.w.gateways["infra/public"] = gateway(80, "HTTP", "")
			} else if rapid.IntRange(0, 3).Draw(h.T, "lost") == 0 {
				delete(h.w.gateways, "infra/public")
			}
		case 8:
			h.w.policy.Spec.Provider = rapid.SampledFrom([]*v1alpha1.NetworkProvider{&byGateway, &byNginx, &byPlain, &byAPISIX, nil}).Draw(h.T, "provider")
			h.w.policy.Generation++
			h.onlyGatewaysListen()
			h.fitTLS()
		case 9:
			kind := rapid.SampledFrom([]string{"ApisixRoute", "ApisixTls", "ListenerSet", "Certificate"}).Draw(h.T, "kind")
			h.w.lacks = map[string]bool{kind: !h.w.lacks[kind]}
		case 10:
			if h.w.classes["nginx"] {
				h.w.classes = map[string]bool{"traefik": true}
			} else {
				h.w.classes = map[string]bool{"traefik": true, "nginx": true}
			}
		}
		h.pass()
	}
	h.w.gateways["infra/public"] = gateway(80, "HTTP", "")
	h.w.settle()
	h.nothingRemains()
	before := h.w.writes
	h.w.pass()
	if h.w.writes != before {
		h.Fatalf("a reconcile in the stable state writes objects")
	}
	h.noGroupIsStuck()
	h.allIsReported(references(h.w.policy.Status))
	h.nothingSharedRemains()
}

// nothingSharedRemains checks that, in a stable state, only the listeners and certificates of
// existing routes exist, unless a live route is kept because nothing replaces it.
func (h history) nothingSharedRemains() {
	f := h.w.facts()
	out := Plan(f)
	decided, wanted := map[string]bool{}, map[string]bool{}
	for _, r := range out.Routes {
		decided[r.Name] = true
	}
	for _, s := range out.Shared {
		wanted[SharedKey(s)] = true
	}
	for name := range f.Live {
		if !decided[name] {
			return
		}
	}
	for _, o := range f.Rest {
		if !wanted[SharedKey(o)] {
			h.Fatalf("%s remains", SharedKey(o))
		}
	}
}

// listenersExist checks that the ListenerSets to which routes refer exist.
func (h history) listenersExist() {
	for name, route := range h.w.routes {
		for _, p := range route.Spec.ParentRefs {
			if deref(p.Kind) == "ListenerSet" && h.w.others[string(p.Name)] == nil {
				h.Fatalf("route %s refers to ListenerSet %s, which does not exist", name, p.Name)
			}
		}
	}
}

// onlyGatewaysListen removes the listeners if the provider is not a Gateway, and the domains if
// there is no provider, as the CRD validation requires.
func (h history) onlyGatewaysListen() {
	if p := h.w.policy.Spec.Provider; p == nil || p.Gateway == nil {
		h.w.policy.Spec.Listeners = nil
	}
	if h.w.policy.Spec.Provider == nil {
		h.w.policy.Spec.Domains = nil
	}
}

var slugs = []string{"2-x", "1-x"}

func (h history) release() string {
	return rapid.SampledFrom(slugs).Draw(h.T, "group")[:1] + rapid.SampledFrom([]string{"a", "b", "c"}).Draw(h.T, "release")
}

// write creates a rollout state that the planner could write next, with higher revisions.
func (h history) write() {
	var groups []v1alpha1.ReleaseGroup
	for _, slug := range slugs[rapid.IntRange(0, 1).Draw(h.T, "first group"):] {
		h.revision[slug] += int64(rapid.IntRange(0, 1).Draw(h.T, "raise"))
		weight := rapid.SampledFrom([]int{0, 10, 50, 100}).Draw(h.T, "weight")
		var rows []string
		switch rapid.IntRange(0, 7).Draw(h.T, "shape") {
		case 0:
			rows, weight = []string{"a 1.0.0 active 100"}, 0
		case 1:
			rows = []string{fmt.Sprintf("b 1.1.0 canary %d", weight), fmt.Sprintf("a 1.0.0 active %d", 100-weight)}
		case 2:
			rows = []string{"b 1.1.0 active 100", "a 1.0.0 deprecated 0"}
		case 3:
			rows = []string{"c 1.2.0 error 0", "b 1.1.0 active 100", "a 1.0.0 deprecated 0"}
		case 4:
			rows = []string{"a 1.0.0 pending 0"}
		case 5:
			rows = []string{"b 1.1.0 deprecated 0", "a 1.0.0 deprecated 0"}
		case 6: // The canary is the first release of an incoming group.
			rows = []string{fmt.Sprintf("c 1.2.0 canary %d", weight)}
		case 7: // The first release of the group was rejected.
			rows = []string{"c 1.2.0 error 0"}
		}
		for i := range rows {
			rows[i] = slug[:1] + rows[i]
		}
		g := group(slug, h.revision[slug], rows...)
		if rows[0][2:] == "1.1.0 deprecated 0" || rows[0] == slug[:1]+"b 1.1.0 deprecated 0" {
			g.Phase = v1alpha1.GroupClosing
		}
		g.TrafficRevision++ // Each rollout state has its own revision.
		h.revision[slug] = g.TrafficRevision
		groups = append(groups, g)
	}
	h.w.rollout(groups...)
}

func (h history) domains() []v1alpha1.Domain {
	all := []v1alpha1.Domain{
		{Domain: "{{.ReleaseGroupName}}.shop.example.com"},
		{Domain: "shop.example.com"},
		{Domain: "{{.Version}}.example.com"},
		{Domain: "bad_{{.ReleaseGroupName}}.example.com"},
		{Domain: "pin.example.com", Release: &v1alpha1.DomainRelease{Version: "1.0.0"}},
		{Domain: "named.example.com", Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"1-x"}}},
		{Domain: "try.example.com", Release: canaryOf("")},
		{Domain: "try-{{.ReleaseGroupName}}.example.com", Release: canaryOf(v1alpha1.AbsentNotFound)},
		{Domain: "shop.example.com", Path: "/api"},
		{Domain: "{{.ReleaseGroupName}}.calls.example.com", Port: "calls"},
		{Domain: "shop.example.com", Port: "secret"},
	}
	for i := range all {
		if all[i].Port == "" {
			all[i].Port = "http"
		}
	}
	for i := range all {
		if all[i].Port == "http" {
			all[i].TLS = h.tls()
			all[i].RecordTTLSeconds = rapid.SampledFrom([]int32{0, 60}).Draw(h.T, "record")
		}
	}
	n := rapid.IntRange(0, len(all)).Draw(h.T, "domains")
	return slices.Clone(rapid.Permutation(all).Draw(h.T, "order")[:n])
}

// tls returns TLS settings that the CRD allows for a domain with the current provider.
func (h history) tls() *v1alpha1.DomainTLS {
	if h.w.policy.Spec.Provider == nil || rapid.Bool().Draw(h.T, "plain") {
		return nil
	}
	t := &v1alpha1.DomainTLS{SecretName: rapid.SampledFrom([]string{"one-tls", "{{.ReleaseGroupName}}-tls"}).Draw(h.T, "secret")}
	if rapid.Bool().Draw(h.T, "issued") {
		t.IssuerRef = &v1alpha1.IssuerReference{Name: rapid.SampledFrom([]string{"a", "b"}).Draw(h.T, "issuer")}
	}
	if h.w.policy.Spec.Provider.Gateway != nil {
		t.Mode = v1alpha1.TLSListenerSet
		if rapid.Bool().Draw(h.T, "of the Gateway") {
			return &v1alpha1.DomainTLS{}
		}
	}
	return t
}

// fitTLS adapts the TLS settings to a new provider, as the CRD validation requires.
func (h history) fitTLS() {
	domains := slices.Clone(h.w.policy.Spec.Domains)
	for i := range domains {
		if domains[i].TLS != nil {
			domains[i].TLS = h.tls()
		}
	}
	h.w.policy.Spec.Domains = domains
}

func (h history) listeners() []v1alpha1.Listener {
	at := func(section string) v1alpha1.ParentReference {
		return v1alpha1.ParentReference{Namespace: "infra", Name: "public", SectionName: section}
	}
	all := []v1alpha1.Listener{
		{Name: "tcp", Port: "tcp", ParentRef: at("tcp")},
		{Name: "udp", Port: "udp", ParentRef: at("udp"), Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"1-x"}}},
		{Name: "pin", Port: "tcp", ParentRef: at("pin"), Release: &v1alpha1.DomainRelease{Version: "1.0.0"}},
		{Name: "again", Port: "tcp", ParentRef: at("tcp")},
	}
	n := rapid.IntRange(0, len(all)).Draw(h.T, "listeners")
	return slices.Clone(rapid.Permutation(all).Draw(h.T, "order of listeners")[:n])
}

// routes returns the route objects of all kinds.
func (h history) routes() map[string]resources.Object {
	out := map[string]resources.Object{}
	for name, o := range h.w.routes {
		out[name] = o
	}
	for name, o := range h.w.others {
		if readRoute(o) != nil { // Other objects are not routes.
			out[name] = o
		}
	}
	return out
}

// pass runs one reconcile and checks its invariants.
func (h history) pass() {
	f := h.w.facts()
	routes, stamps := h.routes(), map[string]resources.Stamp{}
	named := map[string]bool{}
	for name, route := range routes {
		stamps[name], _ = resources.StampOf(route)
		for service := range servicesOf(route) {
			named[service] = true
		}
	}
	h.sameInAnyOrder(f)
	out, now := h.w.pass()
	for _, name := range out.DeleteServices {
		if named[name] {
			h.Fatalf("Service %s is deleted while a route refers to it", name)
		}
	}
	for name, route := range h.routes() {
		s, _ := resources.StampOf(route)
		if old, ok := stamps[name]; ok && old.Group == s.Group && old.Revision > s.Revision {
			h.Fatalf("the revision of route %s decreases from %d to %d", name, old.Revision, s.Revision)
		}
	}
	h.hostsAreObserved(f, out)
	h.listenersExist()
	h.noWeightWithoutEndpoint(f, out)
	h.canariesAreCanaries(f, out)
	h.rowsHaveEqualTargets(out)
	h.hostsKeepARoute(f, out)
	h.bothRouteToTheSame(out)
	h.confirmedIsWritten(now)
	h.allIsReported(h.retained(now))
	h.servedIsReported(now)
	h.nothingIsWithheldBefore(now)
}

// serve makes the gateways serve the written routes that they have accepted.
func (h history) serve() {
	d := newPlanner(h.w.facts())
	for name, route := range h.w.routes {
		if len(answersOf(route)) > 0 {
			h.served[name] = d.releasesOf(readRoute(route).Services)
		}
	}
}

// servedIsReported checks that the planner keeps a release to which the gateway still routes,
// regardless of later writes. Otherwise, its pods would be deleted. A release without a row is
// forgotten: the planner drops rows only when no gateway routes to the release, but the rollout
// states of this test can lose rows at any time.
func (h history) servedIsReported(now v1alpha1.NetworkPolicyStatus) {
	d, known := newPlanner(h.w.facts()), h.retained(now)
	for name, releases := range h.served {
		if h.w.routes[name] == nil {
			delete(h.served, name)
			continue
		}
		h.served[name] = slices.DeleteFunc(releases, func(release string) bool { return d.rollout.rows[release] == nil })
		for _, release := range h.served[name] {
			if Find(now.Groups, d.rollout.groupOf[release].Slug).ConfirmedTime == nil {
				continue // No gateway has ever accepted a route of the group.
			}
			if !known[release] {
				h.Fatalf("the gateway routes to %s with route %s, but the references do not contain it: %s", release, name, mustJSON(now.Groups))
			}
		}
	}
}

// nothingIsWithheldBefore checks that a policy withholds no release before a gateway has accepted
// any of its routes.
func (h history) nothingIsWithheldBefore(now v1alpha1.NetworkPolicyStatus) {
	if slices.ContainsFunc(now.Groups, func(g v1alpha1.GroupTraffic) bool { return g.ConfirmedTime != nil }) {
		return
	}
	for _, g := range now.Groups {
		if len(g.Withheld) > 0 {
			h.Fatalf("%v of group %s are withheld, although nothing was confirmed", g.Withheld, g.Slug)
		}
	}
}

// noWeightWithoutEndpoint checks that, while an eligible release of a group has a ready endpoint,
// only eligible releases with a ready endpoint have a weight.
func (h history) noWeightWithoutEndpoint(f *Observed, out *Decision) {
	for _, g := range out.groups {
		serves := false
		eligible := func(r v1alpha1.Release) bool {
			return r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseCanary
		}
		for _, r := range g.group.Releases {
			serves = serves || eligible(r) && f.ready(r.VersionedMicroservice)
		}
		if !serves || !live(g.group) {
			continue
		}
		for _, r := range g.group.Releases {
			if g.weights[r.VersionedMicroservice] > 0 && (!f.ready(r.VersionedMicroservice) || !eligible(r)) {
				h.Fatalf("group %s gives %d to %s (%s)", g.slug, g.weights[r.VersionedMicroservice], r.VersionedMicroservice, r.Status)
			}
		}
	}
}

// hostsAreObserved checks that a decision uses only hosts whose claims were read.
func (h history) hostsAreObserved(f *Observed, out *Decision) {
	keys := ClaimKeys(f)
	for _, r := range out.rows {
		key := r.claim
		if r.listener == "" && r.host != "" {
			key = claimKey(r.host, r.path)
		}
		if key != "" && !slices.Contains(keys, key) {
			h.Fatalf("%s uses %q, but claims were read only for %q", r.field, key, keys)
		}
	}
}

// canariesAreCanaries checks that a canary domain routes to a canary that has a ready endpoint, and
// that the canary of the newer group takes precedence. If there is no such canary, a domain with
// whenAbsent NotFound has no route.
func (h history) canariesAreCanaries(f *Observed, out *Decision) {
	for _, route := range out.Routes {
		r := route.rows[0]
		if !r.canary {
			continue
		}
		if x := h.readyCanary(f, r.newer, r.group); x != "" && route.Pinned != x {
			h.Fatalf("%s routes to %q, but the canary is %s", r.field, route.Pinned, x)
		}
		if route.Pinned == "" && strings.HasPrefix(r.target, "canary/NotFound/") {
			h.Fatalf("%s has a route, although there is no canary", r.field)
		}
	}
}

// hostsKeepARoute checks that a host that had routes keeps one of them as long as the specification
// contains it, because no gateway has accepted a new route yet. The host may lose a route if the group or the
// only release of the route must not be reachable.
func (h history) hostsKeepARoute(f *Observed, out *Decision) {
	after, absent := newPlanner(h.w.facts()), map[string]bool{}
	for _, g := range out.groups {
		absent[g.slug] = g.absent || !live(g.group)
	}
	for _, name := range providers.Sorted(f.Live) {
		route := f.Live[name]
		if gone, known := absent[route.Group()]; gone || !known || route.Deleting {
			continue
		}
		if route.Pinned() && !slices.ContainsFunc(providers.Sorted(after.backendsOf(route)), func(name string) bool {
			row := after.rollout.rows[name]
			return row != nil && servable(row)
		}) {
			continue
		}
		for _, r := range out.rows {
			// Rows of canaries and rows without a target may lose their routes.
			if r.host == "" || r.canary || r.group == nil && r.reason != ReasonNotSupported || !slices.Contains(route.Hostnames, r.host) {
				continue
			}
			if !slices.ContainsFunc(providers.Sorted(after.Live), func(name string) bool {
				old := f.Live[name]
				return old != nil && slices.Contains(old.Hostnames, r.host) && slices.Contains(after.Live[name].Hostnames, r.host)
			}) {
				h.Fatalf("%s requests host %q, which had route %s and has no live route now: %s %s", r.field, r.host, name, r.reason, r.message)
			}
		}
	}
}

// rowsHaveEqualTargets checks that all rows of a route have the same target.
func (h history) rowsHaveEqualTargets(out *Decision) {
	for _, route := range out.Routes {
		for _, r := range route.rows {
			if targetOf(r) != targetOf(route.rows[0]) {
				h.Fatalf("%s and %s share route %s, but their targets differ", r.field, route.rows[0].field, route.Name)
			}
		}
	}
}

// readyCanary returns the first canary with a ready endpoint in the given groups.
func (h history) readyCanary(f *Observed, groups ...*v1alpha1.ReleaseGroup) string {
	for _, g := range groups {
		if g == nil {
			continue
		}
		for _, x := range g.Releases {
			if x.Status == v1alpha1.ReleaseCanary && f.ready(x.VersionedMicroservice) {
				return x.VersionedMicroservice
			}
		}
	}
	return ""
}

// bothRouteToTheSame checks that the routes of a previous provider target the same releases as the
// routes of the current provider, as far as both providers support this: an Ingress without canary
// annotations routes to one release. The same applies to routes that are waiting to be replaced by
// another route of the same provider, except that they do not start a move to a newer group.
func (h history) bothRouteToTheSame(out *Decision) {
	d := newPlanner(h.w.facts())
	for _, previous := range out.Previous {
		live := d.Live[previous.Name]
		if live == nil || len(previous.Backends) == 0 || len(live.Hostnames) == 0 {
			continue
		}
		weights := d.backendsOf(live)
		for _, route := range out.Routes {
			if !slices.Contains(route.Hostnames, live.Hostnames[0]) || !samePath(route.Path, live.Path) || d.Live[route.Name] == nil {
				continue
			}
			if !d.previous(live) && live.Group() != d.Live[route.Name].Group() {
				continue // The host moves from one group to another within one provider.
			}
			if r := route.rows[0]; !d.previous(live) && r.newer != nil && !r.canary && !slices.ContainsFunc(providers.Sorted(weights), func(name string) bool {
				return d.rollout.groupOf[name] == r.newer
			}) {
				continue // The route does not start a move to a newer group.
			}
			present := d.backendsOf(d.Live[route.Name])
			if one, many := oneAndMany(live, weights, d.Live[route.Name], present); one != "" {
				if many[one] == 0 {
					h.Fatalf("of routes %s and %s, the route that cannot split traffic routes only to %s, but the other route gives this release no weight", route.Name, previous.Name, one)
				}
				continue
			}
			for name, weight := range present {
				if weights[name] != weight {
					h.Fatalf("route %s gives weight %d to %s, but the previous route %s gives weight %d", route.Name, weight, name, previous.Name, weights[name])
				}
			}
		}
	}
}

// oneAndMany checks whether one of two routes is an Ingress without a split. If so, it returns the only release of
// this route, and the weights of the other route.
func oneAndMany(a *providers.Live, inA map[string]int, b *providers.Live, inB map[string]int) (one string, many map[string]int) {
	for _, pair := range []struct {
		route *providers.Live
		mine  map[string]int
		other map[string]int
	}{{a, inA, inB}, {b, inB, inA}} {
		if pair.route.Provider == "ingress" && len(pair.route.Objects) == 1 && len(pair.mine) == 1 {
			return providers.Sorted(pair.mine)[0], pair.other
		}
	}
	return "", nil
}

// nothingRemains checks that no route of another provider exists after the current provider serves
// everything and the drain delay has passed.
func (h history) nothingRemains() {
	h.w.now = h.w.now.Add(time.Hour)
	h.w.settle()
	f := h.w.facts()
	out := Plan(f)
	vanished := newPlanner(f).vanished() // The routes of vanished groups stay until another group serves.
	for _, name := range f.previousRoutes() {
		if out.replaced && !vanished[f.Live[name].Group()] {
			h.Fatalf("route %s of a previous provider exists: %s", name, mustJSON(h.w.policy.Status.ProviderSwitch))
		}
	}
}

// references returns the releases that a status reports as referenced.
func references(now v1alpha1.NetworkPolicyStatus) map[string]bool {
	out := map[string]bool{}
	for _, g := range now.Groups {
		for _, name := range g.References {
			out[name] = true
		}
	}
	return out
}

// retained returns the releases whose pods the planner retains because of a status: releases
// in the references, and releases with traffic in the rollout state of a group that the policy has
// confirmed. The planner does not remove the latter before the policy confirms a later revision in
// which they have no traffic, so the status need not report them until then.
func (h history) retained(now v1alpha1.NetworkPolicyStatus) map[string]bool {
	out := references(now)
	for _, g := range h.w.ms.Status.ReleaseGroups {
		if Find(now.Groups, g.Slug).Revision == 0 {
			continue
		}
		for _, row := range g.Releases {
			if row.Status == v1alpha1.ReleaseActive || row.Status == v1alpha1.ReleaseCanary && row.Weight > 0 {
				out[row.VersionedMicroservice] = true
			}
		}
	}
	return out
}

// confirmedIsWritten checks that a confirmed revision is never greater than the revision of the
// rollout state.
func (h history) confirmedIsWritten(now v1alpha1.NetworkPolicyStatus) {
	for _, g := range h.w.ms.Status.ReleaseGroups {
		if confirmed := Find(now.Groups, g.Slug).Revision; confirmed > g.TrafficRevision {
			h.Fatalf("group %s is confirmed at revision %d, but the rollout state is at revision %d", g.Slug, confirmed, g.TrafficRevision)
		}
	}
}

// allIsReported checks that each release to which a written object refers is known to the planner.
func (h history) allIsReported(known map[string]bool) {
	d := newPlanner(h.w.facts())
	for name, route := range h.routes() {
		for _, release := range d.releasesOf(readRoute(route).Services) {
			if !known[release] {
				h.Fatalf("route %s refers to %s, which the references do not contain", name, release)
			}
		}
	}
	for name, s := range h.w.services {
		if release := s.Spec.Selector[v1alpha1.LabelRelease]; !OfRelease(s) && !known[release] {
			h.Fatalf("Service %s selects %s, which the references do not contain", name, release)
		}
	}
}

// sameInAnyOrder checks that a decision does not depend on the order of rows.
func (h history) sameInAnyOrder(f *Observed) {
	shuffled := *f
	shuffled.Microservice = f.Microservice.DeepCopy()
	for i := range shuffled.Microservice.Status.ReleaseGroups {
		g := &shuffled.Microservice.Status.ReleaseGroups[i]
		g.Releases = rapid.Permutation(g.Releases).Draw(h.T, "rows")
	}
	if a, b := picture(Plan(f)), picture(Plan(&shuffled)); a != b {
		h.Fatalf("the order of rows matters:\n%s\n%s", a, b)
	}
}

func picture(d *Decision) string {
	text := mustJSON(d.Services) + mustJSON(d.DeleteRoutes) + mustJSON(d.DeleteServices)
	for _, r := range d.Routes {
		text += mustJSON(r.Objects)
	}
	for _, g := range d.groups {
		text += fmt.Sprint(g.slug, g.mode, g.weights, g.withheld, g.pinned, g.answers, g.reason)
	}
	return text
}

// noGroupIsStuck checks that, in a stable state with a gateway that accepts routes, each group is
// confirmed or reports why it is not confirmed.
func (h history) noGroupIsStuck() {
	for _, g := range h.w.ms.Status.ReleaseGroups {
		report := h.w.groupTraffic(g.Slug)
		if report.Revision != g.TrafficRevision && (report.Reason == "" || report.Reason == ReasonPending) {
			h.Fatalf("group %s stays at revision %d of %d: %s %s", g.Slug, report.Revision, g.TrafficRevision, report.Reason, report.Message)
		}
	}
}
