package traffic

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// stage is where the conformance suite plays: in memory, or on an API server.
type stage interface {
	// host below a domain that no other test uses: policies of one class must not hold the
	// same hosts.
	host(name string) string
	// rollout writes the groups of the Microservice.
	rollout(groups ...v1alpha1.ReleaseGroup)
	// serve makes releases ready.
	serve(releases ...string)
	// edit changes the policy.
	edit(change func(*v1alpha1.NetworkPolicySpec))
	// confirmed waits until a group is confirmed at a revision with these references.
	confirmed(slug string, revision int64, references ...string)
	// split of what a host, or a listener by its name, routes to by the routes of a
	// provider: "1.0.0=90 1.1.0=10", in order of the versions; "" where nothing does.
	split(entry, provider string) string
	// providers that have routes.
	providers() []string
	// condition is the status and reason of one of the policy; "" where it has none.
	condition(kind string) string
	// drain lets the drain of previous providers end, and waits until nothing of them remains.
	drain()
	// active is the version that the Service of a group routes to.
	active(slug string) string
	// user creates a route of another user.
	user(route *unstructured.Unstructured)
	// objects are the names of all that the policy owns.
	objects() []string
	// remove deletes the policy, and what it owns with it.
	remove()
}

// conformance is what the suite needs to know of a provider, and of a protocol.
type conformance struct {
	// spec sets the provider and ports of a policy, and routes entries to what target
	// reports. Without a target they follow the newest group.
	spec func(spec *v1alpha1.NetworkPolicySpec, entries ...entry)
	// name of the provider.
	name string
	// user is the route of another user whose rules route where the entries would: its
	// hosts are its author's. Nil: the provider has its own routes.
	user *unstructured.Unstructured
	// whole reports that the provider cannot split, and bare that it has Services alone.
	whole, bare bool
}

// entry is a host or listener of a policy.
type entry struct {
	name string
	// version that it is pinned to; "": it follows.
	version string
}

// conform plays the story of a service: whatever a provider is made of, its objects
// carry the same at each step.
func conform(t *testing.T, c conformance, s stage) {
	t.Helper()
	const first, second, pinned = "first.example.com", "second.example.com", "pinned.example.com"
	split := func(step, entry, wanted string) {
		t.Helper()
		if c.bare {
			wanted = ""
		}
		want(t, step+": split of "+entry, s.split(entry, c.name), wanted)
	}
	releases := func(weighted ...string) []string {
		if c.whole {
			return weighted[:1] // Only the active one has requests.
		}
		return slices.Sorted(slices.Values(weighted))
	}

	if c.user != nil {
		s.user(c.user)
	}
	s.rollout(group("1-x", 1, "a 1.0.0 active 100"))
	s.edit(func(spec *v1alpha1.NetworkPolicySpec) { c.spec(spec, entry{name: first}, entry{name: second}) })
	s.serve("a")
	s.confirmed("1-x", 1, "a")
	split("first release", first, "1.0.0=100")
	split("first release", second, "1.0.0=100")
	want(t, "Service", s.active("1-x"), "1.0.0")

	s.serve("b")
	for i, weight := range []int{10, 50} {
		s.rollout(group("1-x", int64(2+i), fmt.Sprintf("b 1.1.0 canary %d", weight), fmt.Sprintf("a 1.0.0 active %d", 100-weight)))
		s.confirmed("1-x", int64(2+i), releases("a", "b")...)
		for _, entry := range []string{first, second} {
			want(t, "Service next to a canary", s.active("1-x"), "1.0.0")
			wanted := fmt.Sprintf("1.0.0=%d 1.1.0=%d", 100-weight, weight)
			if c.whole {
				wanted = "1.0.0=100"
			}
			split(fmt.Sprintf("weight %d", weight), entry, wanted)
		}
	}

	s.rollout(group("1-x", 4, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	s.confirmed("1-x", 4, "a")
	split("abort", first, "1.0.0=100")

	s.rollout(group("1-x", 5, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	s.confirmed("1-x", 5, releases("a", "b")...)
	s.rollout(group("1-x", 6, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	s.confirmed("1-x", 6, "b")
	split("promotion", first, "1.1.0=100")
	want(t, "Service after the promotion", s.active("1-x"), "1.1.0")

	// A pin of the Microservice makes a retained release the active one again.
	s.rollout(group("1-x", 7, "b 1.1.0 deprecated 0", "a 1.0.0 active 100"))
	s.confirmed("1-x", 7, "a")
	split("pin", first, "1.0.0=100")
	want(t, "Service of a pin", s.active("1-x"), "1.0.0")
	s.rollout(group("1-x", 8, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	s.confirmed("1-x", 8, "b")
	split("unpin", first, "1.1.0=100")

	if !c.bare && c.user == nil {
		s.edit(func(spec *v1alpha1.NetworkPolicySpec) {
			c.spec(spec, entry{name: first}, entry{name: second}, entry{name: pinned, version: "1.0.0"})
		})
		s.confirmed("1-x", 8, "a", "b")
		split("pinned domain", pinned, "1.0.0=100")
		split("next to the pinned domain", first, "1.1.0=100")
	}

	s.edit(func(spec *v1alpha1.NetworkPolicySpec) { c.spec(spec, entry{name: first}) })
	s.confirmed("1-x", 8, "b")
	split("without the second", first, "1.1.0=100")

	// What follows the newest group moves to a newer one, comes back, and moves again.
	s.serve("c")
	older := group("1-x", 8, "b 1.1.0 active 100")
	on := func(revision int64, weight int) {
		t.Helper()
		s.rollout(group("2-x", revision, fmt.Sprintf("c 2.0.0 canary %d", weight)), older)
		s.confirmed("2-x", revision, "c")
		s.confirmed("1-x", 8, "b")
		wanted := fmt.Sprintf("1.1.0=%d 2.0.0=%d", 100-weight, weight)
		if c.whole {
			wanted = "1.1.0=100"
		}
		split(fmt.Sprintf("%d on the way to a newer group", weight), first, wanted)
		want(t, "Service of the older group", s.active("1-x"), "1.1.0")
		want(t, "Service of the newer group", s.active("2-x"), "2.0.0")
	}
	on(9, 10)
	on(10, 50)
	s.rollout(group("2-x", 11, "c 2.0.0 error 0"), older)
	s.confirmed("2-x", 11)
	split("back from the newer group", first, "1.1.0=100")
	want(t, "Service of a group that was rejected", s.active("2-x"), "")
	on(12, 50)
	s.rollout(group("2-x", 13, "c 2.0.0 active 100"), older)
	s.confirmed("2-x", 13, "c")
	s.confirmed("1-x", 8, "b")
	split("in the newer group", first, "2.0.0=100")
	want(t, "Service of the older group", s.active("1-x"), "1.1.0")
	if c.user == nil {
		want(t, "split of what is named no longer", s.split(second, c.name)+s.split(pinned, c.name), "")
	}

	s.remove()
	want(t, "what a removal leaves", strings.Join(s.objects(), " "), "")
}

// conformSwitch plays a switch from one provider to another, with a canary in progress, back
// half way, and again.
func conformSwitch(t *testing.T, from, to conformance, s stage) {
	t.Helper()
	first, second := s.host("first"), s.host("second")
	// both looks at the routes of the two providers, of which present is the one that the
	// policy names: both route to the same releases with the same weights, as far as they can.
	both := func(step string, present, previous conformance, weight int, newer ...string) {
		t.Helper()
		canary := append(newer, "1.1.0")[0]
		for _, entry := range []string{first, second} {
			for _, c := range []conformance{present, previous} {
				wanted := fmt.Sprintf("1.0.0=%d %s=%d", 100-weight, canary, weight)
				switch {
				case c.bare:
					wanted = ""
				case weight == 0 || c.whole || present.whole:
					wanted = "1.0.0=100"
				case weight == 100:
					wanted = "1.1.0=100"
				}
				want(t, fmt.Sprintf("%s: split of %s by %s", step, entry, c.name), s.split(entry, c.name), wanted)
			}
		}
		wanted := "True " + ReasonDraining
		if previous.bare {
			wanted = ""
		}
		want(t, step+": switching", s.condition(v1alpha1.ConditionProviderSwitching), wanted)
	}
	alone := func(step string, c conformance) {
		t.Helper()
		wanted := c.name
		if c.bare {
			wanted = ""
		}
		want(t, step+": providers with routes", strings.Join(s.providers(), " "), wanted)
		want(t, step+": switching", s.condition(v1alpha1.ConditionProviderSwitching), "")
	}
	refs := func(present conformance, weighted ...string) []string {
		if present.whole {
			return weighted[:1]
		}
		return slices.Sorted(slices.Values(weighted))
	}
	through := func(c conformance) {
		s.edit(func(spec *v1alpha1.NetworkPolicySpec) {
			c.spec(spec, entry{name: first}, entry{name: second})
			spec.DrainDelay = "1h"
		})
	}

	s.rollout(group("1-x", 1, "a 1.0.0 active 100"))
	through(from)
	s.serve("a", "b")
	s.confirmed("1-x", 1, "a")
	s.rollout(group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	s.confirmed("1-x", 2, refs(from, "a", "b")...)
	alone("before", from)

	through(to)
	s.confirmed("1-x", 2, refs(to, "a", "b")...)
	both("switched", to, from, 10)
	s.rollout(group("1-x", 3, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	s.confirmed("1-x", 3, refs(to, "a", "b")...)
	both("next step", to, from, 50)

	through(from)
	s.confirmed("1-x", 3, refs(from, "a", "b")...)
	both("back half way", from, to, 50)
	s.rollout(group("1-x", 4, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	s.confirmed("1-x", 4, "a")
	both("abort", from, to, 0)

	through(to)
	s.confirmed("1-x", 4, "a")
	s.serve("c")
	older := group("1-x", 4, "a 1.0.0 active 100")
	s.rollout(group("2-x", 5, "c 2.0.0 canary 50"), older)
	s.confirmed("2-x", 5, "c")
	both("on the way to a newer group", to, from, 50, "2.0.0")
	s.rollout(group("2-x", 6, "c 2.0.0 error 0"), older)
	s.confirmed("2-x", 6)
	both("back from it", to, from, 0)
	s.drain()
	alone("drained", to)
	s.rollout(group("1-x", 5, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	s.confirmed("1-x", 5, refs(to, "a", "b")...)
	s.rollout(group("1-x", 6, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	s.confirmed("1-x", 6, "b")
	want(t, "Service after the promotion", s.active("1-x"), "1.1.0")
	s.remove()
	want(t, "what a removal leaves", strings.Join(s.objects(), " "), "")
}

// switches are the ordered pairs of providers between which a policy may go.
func switches() map[string][2]conformance {
	cases, out := providerCases(), map[string][2]conformance{}
	for _, pair := range []struct{ from, to []string }{
		{from: []string{"services", "gateway HTTP", "ingress", "ingress nginx", "apisix"}, to: []string{"services", "gateway HTTP", "ingress", "ingress nginx", "apisix"}},
		{from: []string{"services"}, to: []string{"gateway TCP", "gateway UDP", "gateway GRPC", "gateway TLS"}},
		{from: []string{"gateway TCP", "gateway UDP", "gateway GRPC", "gateway TLS"}, to: []string{"services"}},
	} {
		for _, from := range pair.from {
			for _, to := range pair.to {
				if cases[from].name != cases[to].name {
					out[from+" to "+to] = [2]conformance{cases[from], cases[to]}
				}
			}
		}
	}
	return out
}

func TestConformanceOfSwitches(t *testing.T) {
	for name, c := range switches() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.policy.Spec.Domains = nil
			w.gateways["prod/public"] = openGateway()
			conformSwitch(t, c[0], c[1], &inMemory{t, w})
		})
	}
}

// providerCases are the providers, and of the Gateway API each kind of route.
func providerCases() map[string]conformance {
	parents := []v1alpha1.ParentReference{{Name: "public"}} // A Gateway next to the policy.
	gateway := v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: parents}}
	through := func(by v1alpha1.NetworkProvider, protocol v1alpha1.PortProtocol) conformance {
		name := ProviderOf(&v1alpha1.NetworkPolicy{Spec: v1alpha1.NetworkPolicySpec{Provider: &by}}).Name()
		return conformance{name: name, spec: func(spec *v1alpha1.NetworkPolicySpec, entries ...entry) {
			spec.Provider = &by
			spec.Ports, spec.Domains, spec.Listeners = []v1alpha1.NetworkPort{{Name: "main", Port: 8080, Protocol: protocol}}, nil, nil
			for _, e := range entries {
				d := v1alpha1.Domain{Domain: e.name}
				if e.version != "" {
					d.Release = &v1alpha1.DomainRelease{Version: e.version}
				}
				spec.Domains = append(spec.Domains, d)
			}
		}}
	}
	hosts := func(protocol v1alpha1.PortProtocol) conformance { return through(gateway, protocol) }
	listeners := func(protocol v1alpha1.PortProtocol) conformance {
		return conformance{name: "gateway", spec: func(spec *v1alpha1.NetworkPolicySpec, entries ...entry) {
			spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: parents}}
			spec.Ports, spec.Domains, spec.Listeners = []v1alpha1.NetworkPort{{Name: "main", Port: 8080, Protocol: protocol}}, nil, nil
			for _, e := range entries {
				l := v1alpha1.Listener{Name: listenerOf(e.name), Port: "main", ParentRef: v1alpha1.ParentReference{Name: "public", SectionName: listenerOf(e.name)}}
				if e.version != "" {
					l.Release = &v1alpha1.DomainRelease{Version: e.version}
				}
				spec.Listeners = append(spec.Listeners, l)
			}
		}}
	}
	plain := through(v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "traefik"}}, v1alpha1.ProtocolHTTP)
	plain.whole = true
	// Each has its own class: policies of one class must not hold the same hosts.
	annotated := func(class string) v1alpha1.NetworkProvider {
		return v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: class, AnnotationPrefix: "nginx.ingress.kubernetes.io"}}
	}
	cases := map[string]conformance{
		"services": {name: "services", whole: true, bare: true, spec: func(spec *v1alpha1.NetworkPolicySpec, _ ...entry) {
			spec.Provider, spec.Domains, spec.Listeners = nil, nil, nil
			spec.Ports = []v1alpha1.NetworkPort{{Name: "main", Port: 8080}}
		}},
		"gateway HTTP":  hosts(v1alpha1.ProtocolHTTP),
		"gateway HTTPS": hosts(v1alpha1.ProtocolHTTPS),
		"gateway GRPC":  hosts(v1alpha1.ProtocolGRPC),
		"gateway TLS":   hosts(v1alpha1.ProtocolTLS),
		"gateway TCP":   listeners(v1alpha1.ProtocolTCP),
		"gateway UDP":   listeners(v1alpha1.ProtocolUDP),
		"ingress":       plain,
		"ingress nginx": through(annotated("nginx"), v1alpha1.ProtocolHTTP),
		"ingress HTTPS": through(annotated("nginx-https"), v1alpha1.ProtocolHTTPS),
		"apisix":        through(v1alpha1.NetworkProvider{APISIX: &v1alpha1.APISIXProvider{ClassName: "apisix"}}, v1alpha1.ProtocolHTTP),
	}
	for _, kind := range []string{"HTTPRoute", "GRPCRoute", "TLSRoute", "TCPRoute", "UDPRoute"} {
		cases["route "+kind] = ofUser(kind)
	}
	return cases
}

// ofUser is the case of a route of another user.
func ofUser(kind string) conformance {
	version, protocol, hosts := "v1alpha2", v1alpha1.ProtocolTCP, false
	switch kind {
	case "HTTPRoute", "GRPCRoute":
		version, protocol, hosts = "v1", v1alpha1.ProtocolHTTP, true
	case "TLSRoute":
		hosts = true
	case "UDPRoute":
		protocol = v1alpha1.ProtocolUDP
	}
	route := parse(fmt.Sprintf(`
apiVersion: gateway.networking.k8s.io/%s
kind: %s
metadata: {name: web, namespace: prod, generation: 1}
spec:
  parentRefs: [{name: public}]
  rules:
  - backendRefs: [{name: users-old, namespace: infra, port: 80}]
`, version, kind))
	if hosts {
		route.Object["spec"].(map[string]any)["hostnames"] = []any{"first.example.com", "second.example.com"}
	}
	return conformance{name: "route", user: route, spec: func(spec *v1alpha1.NetworkPolicySpec, _ ...entry) {
		spec.Provider = &v1alpha1.NetworkProvider{RouteRef: &v1alpha1.RouteReference{Kind: kind, Name: "web"}}
		spec.Ports, spec.Domains = []v1alpha1.NetworkPort{{Name: "main", Port: 8080, Protocol: protocol}}, nil
		spec.DeletionPolicy = v1alpha1.DeletionRestore
	}}
}

// listenerOf is the listener that stands for a host in the suite.
func listenerOf(host string) string {
	name, _, _ := strings.Cut(host, ".")
	return name
}

func TestConformance(t *testing.T) {
	for name, c := range providerCases() {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.policy.Spec.Domains = nil
			w.gateways["prod/public"] = openGateway()
			conform(t, c, &inMemory{t, w})
		})
	}
}

// inMemory plays the suite without an API server.
type inMemory struct {
	t *testing.T
	w *world
}

func (s *inMemory) host(name string) string { return name + ".example.com" }

func (s *inMemory) rollout(groups ...v1alpha1.ReleaseGroup) { s.w.rollout(groups...) }

func (s *inMemory) serve(releases ...string) {
	for _, r := range releases {
		s.w.ready[r] = 1
	}
}

func (s *inMemory) edit(change func(*v1alpha1.NetworkPolicySpec)) {
	change(&s.w.policy.Spec)
	s.w.policy.Generation++
}

func (s *inMemory) confirmed(slug string, revision int64, references ...string) {
	s.t.Helper()
	s.w.settle()
	g := s.w.groupTraffic(slug)
	if g.Revision != revision || !slices.Equal(g.References, references) {
		s.t.Fatalf("group %s: revision %d with %v, want %d with %v: %s", slug, g.Revision, g.References, revision, references, mustJSON(s.w.policy.Status))
	}
}

func (s *inMemory) active(slug string) string { return activeVersion(s.w.facts(), slug) }

func activeVersion(f *Observed, slug string) string {
	return versionBehind(f, resources.GroupServiceName(f.Policy.Name, slug))
}

// versionBehind is the version of the release that a Service selects; "" where there is no
// such Service.
func versionBehind(f *Observed, service string) string {
	release := f.Selected(service)
	for _, g := range f.Microservice.Status.ReleaseGroups {
		for _, r := range g.Releases {
			if r.VersionedMicroservice == release {
				return r.SemVer.Version
			}
		}
	}
	return release
}

func (s *inMemory) split(entry, provider string) string {
	return splitOfEntry(s.w.facts(), entry, provider)
}

func (s *inMemory) providers() []string { return providersOf(s.w.facts()) }

func (s *inMemory) condition(kind string) string { return s.w.condition(kind) }

func (s *inMemory) drain() {
	s.t.Helper()
	s.w.now = s.w.now.Add(time.Hour)
	s.w.settle()
}

// providersOf are the providers that have routes.
func providersOf(f *Observed) []string {
	out := []string{}
	for _, live := range f.Live {
		out = append(out, live.Provider)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// splitOfEntry is the split of the live route of a provider that serves a host, or the
// listener that stands for it.
func splitOfEntry(f *Observed, entry, provider string) string {
	var parts []string
	names := []string{}
	for _, protocol := range []v1alpha1.PortProtocol{v1alpha1.ProtocolTCP, v1alpha1.ProtocolUDP} {
		names = append(names, resources.RouteName(f.Policy.Name, "listener/"+listenerOf(entry), "", "main/"+string(protocol), 0))
	}
	for _, live := range f.Live {
		bare := live.User && len(live.Hostnames) == 0
		if live.Provider != provider || !bare && !slices.Contains(live.Hostnames, entry) && !slices.Contains(names, live.Name) {
			continue
		}
		for service, weight := range live.Weights {
			if version := versionBehind(f, service); version != "" {
				parts = append(parts, fmt.Sprintf("%s=%d", version, weight))
			}
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func (s *inMemory) objects() []string {
	out := slices.Concat(SortedKeys(s.w.services), SortedKeys(s.w.routes), SortedKeys(s.w.others))
	for name, u := range s.w.users {
		if ours(u) {
			out = append(out, name)
		}
	}
	return out
}

// ours reports whether something of a policy remains in a route of another user.
func ours(u *unstructured.Unstructured) bool {
	return len(u.GetAnnotations()) > 0 || !strings.Contains(mustJSON(u.Object["spec"]), "users-old")
}

func (s *inMemory) user(route *unstructured.Unstructured) {
	s.w.users[providers.UserRoute(route.GetKind(), route.GetName())] = route
}

// remove takes away what the last reconcile of a closing group leaves: owner references
// collect nothing here.
func (s *inMemory) remove() {
	var closing []v1alpha1.ReleaseGroup
	for _, g := range s.w.ms.Status.ReleaseGroups {
		g = group(g.Slug, g.TrafficRevision+1)
		g.Phase = v1alpha1.GroupClosing
		closing = append(closing, g)
	}
	s.w.rollout(closing...)
	s.w.settle()
	s.w.rollout()
	s.w.settle()
	delete(s.w.services, "shop") // The policy's own Service stays as long as the policy.
}
