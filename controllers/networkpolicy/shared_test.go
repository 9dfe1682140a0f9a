package networkpolicy

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	gatewayv1alpha2 "sigs.k8s.io/gateway-api/apis/v1alpha2"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/apisix"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/certmanager"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/ingress"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/status"
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
	// remove deletes the policy, and waits until nothing remains of what it owned.
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
		wanted := "True " + traffic.ReasonDraining
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

// providerCases are the providers, and of the Gateway API each kind of route.
func providerCases() map[string]conformance {
	parents := []v1alpha1.ParentReference{{Name: "public"}} // A Gateway next to the policy.
	gateway := v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: parents}}
	through := func(by v1alpha1.NetworkProvider, protocol v1alpha1.PortProtocol) conformance {
		name := traffic.ProviderOf(&v1alpha1.NetworkPolicy{Spec: v1alpha1.NetworkPolicySpec{Provider: &by}}).Name()
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

func activeVersion(f *traffic.Observed, slug string) string {
	return versionBehind(f, resources.GroupServiceName(f.Policy.Name, slug))
}

// versionBehind is the version of the release that a Service selects; "" where there is no
// such Service.
func versionBehind(f *traffic.Observed, service string) string {
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

// providersOf are the providers that have routes.
func providersOf(f *traffic.Observed) []string {
	out := []string{}
	for _, live := range f.Live {
		out = append(out, live.Provider)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// splitOfEntry is the split of the live route of a provider that serves a host, or the
// listener that stands for it.
func splitOfEntry(f *traffic.Observed, entry, provider string) string {
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

// ours reports whether something of a policy remains in a route of another user.
func ours(u *unstructured.Unstructured) bool {
	return len(u.GetAnnotations()) > 0 || !strings.Contains(mustJSON(u.Object["spec"]), "users-old")
}

const host = "1-x.shop.example.com"

// stepOf is a group whose canary b has a weight, next to a.
func stepOf(revision int64, rows ...string) v1alpha1.ReleaseGroup {
	return group("1-x", revision, rows...)
}

// onlyRoute is the one route that there is.
func onlyRoute(t *testing.T, w *world) *gatewayv1.HTTPRoute {
	t.Helper()
	if len(w.routes) != 1 {
		t.Fatalf("there are %d routes, want 1", len(w.routes))
	}
	for _, r := range w.routes {
		return r
	}
	return nil
}

func listener(port, section string) v1alpha1.Listener {
	return v1alpha1.Listener{Name: port, Port: port, ParentRef: v1alpha1.ParentReference{Namespace: "infra", Name: "public", SectionName: section}}
}

var (
	byNginx = v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "nginx", AnnotationPrefix: "nginx.ingress.kubernetes.io"}}
)

// routedBy is a world in which a canary has 10 percent, by a provider.
func routedBy(t *testing.T, provider v1alpha1.NetworkProvider) *world {
	w := newWorld(t, group("1-x", 1, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.policy.Spec.Provider = &provider
	w.ready["a"], w.ready["b"] = 1, 1
	w.settle()
	return w
}

// ownListener asks for a ListenerSet with a Secret whose certificate cert-manager makes.
func ownListener(secret string) *v1alpha1.DomainTLS {
	return &v1alpha1.DomainTLS{Mode: v1alpha1.TLSListenerSet, SecretName: secret, IssuerRef: &v1alpha1.IssuerReference{Name: "ca", Kind: "ClusterIssuer"}}
}

// usersRoute is what another user wrote: two named rules with filters, and one of a
// field that no type of the project knows.
const usersRoute = `
apiVersion: gateway.networking.k8s.io/v1
kind: HTTPRoute
metadata:
  name: web
  namespace: prod
  generation: 1
  annotations: {team: web}
spec:
  parentRefs: [{name: public}]
  hostnames: [first.example.com]
  rules:
  - name: static
    matches: [{path: {type: PathPrefix, value: /static}}]
    backendRefs: [{name: users-static, port: 80}]
  - name: main
    matches: [{path: {type: PathPrefix, value: /shop}}]
    fromTheFuture: {keep: me}
    filters:
    - type: ResponseHeaderModifier
      responseHeaderModifier: {remove: [Server]}
    backendRefs: [{name: users-old, port: 8080, weight: 3}]
`

func parse(text string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	content, err := yaml.YAMLToJSON([]byte(text))
	if err == nil {
		err = u.UnmarshalJSON(content)
	}
	if err != nil {
		panic(err)
	}
	return u
}

// world plays the API server, the endpoint controller and the gateway around the
// pure parts of the controller: it carries decisions out in memory.
type world struct {
	t        fatal
	policy   *v1alpha1.NetworkPolicy
	ms       *v1alpha1.Microservice
	services map[string]*corev1.Service
	routes   map[string]*gatewayv1.HTTPRoute
	// others are the objects of other kinds than HTTPRoute that carry routes.
	others map[string]client.Object
	// users are routes of another user, by name as in providers.UserRoute, and older the
	// policies that name one of them.
	users map[string]*unstructured.Unstructured
	older []*v1alpha1.NetworkPolicy
	// lacks are kinds that the API server does not know; served reports in which version,
	// and channel, it serves those that it serves in another way than the newest.
	lacks   map[string]bool
	served  map[string]providers.Served
	written map[string]time.Time
	// pods that are ready, by release; a release without an entry has none.
	ready    map[string]int
	gateways map[string]*gatewayv1.Gateway
	// classes are the IngressClasses that exist.
	classes map[string]bool
	// uncertain are the Certificates that are not ready, with the reason.
	uncertain map[string]string
	claims    []traffic.Claim
	owned     *traffic.Ownership
	// probed is what gateways answered to probes.
	probed  map[providers.Probe]providers.Probed
	foreign map[string]bool
	// full reports that no Service can be created, for a quota that may be raised.
	full bool
	// lag keeps EndpointSlices of following Services as they were.
	lag    map[string]string
	noAPI  bool
	now    time.Time
	writes int
}

type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newWorld(t fatal, groups ...v1alpha1.ReleaseGroup) *world {
	port := intstr.FromInt32(8080)
	return &world{
		t: t, now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		policy: &v1alpha1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod", UID: "policy", Generation: 1},
			Spec: v1alpha1.NetworkPolicySpec{
				Ports:    []v1alpha1.NetworkPort{{Name: "http", Port: 80, TargetPort: &port, Protocol: v1alpha1.ProtocolHTTP}},
				Provider: &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "public"}}}},
				Domains:  []v1alpha1.Domain{{Domain: "{{.ReleaseGroupName}}.shop.example.com"}},
			},
		},
		ms: &v1alpha1.Microservice{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod", UID: "ledger"},
			Status:     v1alpha1.MicroserviceStatus{Internal: &v1alpha1.MicroserviceInternal{Sequence: 1}, ReleaseGroups: groups},
		},
		services: map[string]*corev1.Service{}, routes: map[string]*gatewayv1.HTTPRoute{}, others: map[string]client.Object{}, users: map[string]*unstructured.Unstructured{}, ready: map[string]int{}, written: map[string]time.Time{},
		gateways: map[string]*gatewayv1.Gateway{"infra/public": gateway(80, gatewayv1.HTTPProtocolType, "")},
		classes:  map[string]bool{"traefik": true, "nginx": true, "nginx-https": true}, uncertain: map[string]string{},
		foreign: map[string]bool{}, lag: map[string]string{},
	}
}

func gateway(port int32, protocol gatewayv1.ProtocolType, hostname string) *gatewayv1.Gateway {
	l := gatewayv1.Listener{Name: "web", Port: gatewayv1.PortNumber(port), Protocol: protocol}
	if hostname != "" {
		l.Hostname = new(gatewayv1.Hostname(hostname))
	}
	return &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "public", Generation: 1},
		Spec:       gatewayv1.GatewaySpec{GatewayClassName: "traefik", Listeners: []gatewayv1.Listener{l}},
	}
}

// openGateway has listeners of all protocols, which take routes from all namespaces.
func openGateway() *gatewayv1.Gateway {
	g := gateway(80, gatewayv1.HTTPProtocolType, "")
	all := &gatewayv1.AllowedRoutes{Namespaces: &gatewayv1.RouteNamespaces{From: new(gatewayv1.NamespacesFromAll)}}
	g.Spec.Listeners[0].AllowedRoutes = all
	tls := gatewayv1.Listener{Name: "tls", Port: 443, Protocol: gatewayv1.TLSProtocolType, AllowedRoutes: all}
	tls.TLS = &gatewayv1.ListenerTLSConfig{Mode: new(gatewayv1.TLSModePassthrough)}
	g.Spec.Listeners = append(g.Spec.Listeners, tls)
	for i, name := range []gatewayv1.SectionName{"first", "second", "pinned"} {
		g.Spec.Listeners = append(g.Spec.Listeners, gatewayv1.Listener{
			Name: name, Port: gatewayv1.PortNumber(9000 + i), Protocol: gatewayv1.TCPProtocolType, AllowedRoutes: all,
		})
	}
	return g
}

// group of releases; each is "name version status weight", promoted in order of
// mention from the last.
func group(slug string, revision int64, releases ...string) v1alpha1.ReleaseGroup {
	g := v1alpha1.ReleaseGroup{Name: strings.ReplaceAll(slug, "-", "."), Slug: slug, Phase: v1alpha1.GroupLive, TrafficRevision: revision}
	for i, text := range releases {
		var r v1alpha1.Release
		if _, err := fmt.Sscanf(text, "%s %s %s %d", &r.VersionedMicroservice, &r.SemVer.Version, &r.Status, &r.Weight); err != nil {
			panic(err)
		}
		r.Available = r.Status != v1alpha1.ReleasePending
		if r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseDeprecated {
			r.Promoted = int64(len(releases) - i)
		}
		g.Releases = append(g.Releases, r)
	}
	return g
}

// rollout replaces the groups by a later state.
func (w *world) rollout(groups ...v1alpha1.ReleaseGroup) {
	w.ms = w.ms.DeepCopy()
	w.ms.Status.Internal = &v1alpha1.MicroserviceInternal{Sequence: w.ms.Status.Sequence() + 1}
	w.ms.Status.ReleaseGroups = groups
}

func (w *world) facts() *traffic.Observed {
	f := &traffic.Observed{
		Policy: w.policy.DeepCopy(), Services: w.services, Written: w.written,
		Endpoints: map[string]traffic.Endpoints{}, Claims: w.claims, Owned: w.owned, Probed: w.probed, Now: w.now,
	}
	f.See(w.scene(f.Policy))
	if w.ms != nil {
		f.Microservice = w.ms.DeepCopy()
	}
	for name, s := range w.services {
		release := s.Spec.Selector[v1alpha1.LabelRelease]
		if old, lags := w.lag[name]; lags {
			release = old
		}
		var e traffic.Endpoints
		for i := range w.ready[release] {
			e.All = append(e.All, fmt.Sprintf("%s-%d", release, i))
		}
		e.Ready = e.All
		f.Endpoints[name] = e
	}
	return f
}

// scene is what the controller reads of the provider's objects.
func (w *world) scene(policy *v1alpha1.NetworkPolicy) providers.Scene {
	s := providers.Scene{
		Policy: policy, Microservice: "shop", Served: map[string]providers.Served{}, Referents: map[providers.Reference]resources.Object{},
		Probed: w.probed,
	}
	if !w.noAPI {
		for _, kind := range traffic.AllKinds() {
			if w.lacks[kind.Kind] {
				continue
			}
			s.Served[kind.Kind] = providers.Served{Version: kind.Versions[0]}
			if how, ok := w.served[kind.Kind]; ok {
				s.Served[kind.Kind] = how
			}
		}
		for _, name := range traffic.SortedKeys(w.others) {
			s.Objects = append(s.Objects, w.others[name])
		}
		for _, name := range traffic.SortedKeys(w.routes) {
			s.Objects = append(s.Objects, w.routes[name])
		}
		for _, name := range traffic.UserNames(policy) {
			if u := w.users[name]; u != nil {
				s.Users = append(s.Users, u)
			}
		}
		s.Older, s.Services, s.Releases = w.older, map[string]bool{}, map[string]bool{}
		for name, service := range w.services {
			s.Services[name], s.Releases[name] = true, traffic.OfRelease(service)
		}
		for key, g := range w.gateways {
			namespace, name, _ := strings.Cut(key, "/")
			s.Referents[providers.Reference{Kind: "Gateway", Namespace: namespace, Name: name}] = g
		}
		for class := range w.classes {
			s.Referents[providers.Reference{Kind: "IngressClass", Name: class}] = &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: class}}
		}
	}
	return s
}

// pass makes one reconcile of the controller, and one more where the first one only foretells.
func (w *world) pass() (*traffic.Decision, v1alpha1.NetworkPolicyStatus) {
	w.t.Helper()
	f := w.facts()
	out := traffic.Plan(f)
	if now, more := traffic.Reserve(f, out); more {
		w.policy.Status = now
		w.writes++
		f = w.facts()
		out = traffic.Plan(f)
	}
	done := w.carryOut(f, out)
	now, _ := traffic.Status(f, out, done)
	if mustJSON(now) != mustJSON(w.policy.Status) {
		w.writes++
	}
	w.policy.Status = now
	w.check()
	return out, now
}

// carryOut does what apply.go does, in the same order.
func (w *world) carryOut(f *traffic.Observed, out *traffic.Decision) traffic.Applied {
	done, failed := traffic.Applied{Changed: map[string]bool{}, Refused: map[string]*status.Error{}}, false
	w.services, w.routes = maps.Clone(w.services), maps.Clone(w.routes)
	for _, s := range out.Services {
		if w.foreign[s.Name] {
			done.Refused[traffic.ServiceKey(s.Name)] = &status.Error{Class: status.Terminal, Reason: status.ReasonNameConflict, Err: fmt.Errorf("Service %q exists", s.Name)}
			continue
		}
		if w.full && w.services[s.Name] == nil {
			done.Refused[traffic.ServiceKey(s.Name)] = &status.Error{Class: status.Transient, Reason: "QuotaExceeded", Err: fmt.Errorf("Service %q: exceeded quota", s.Name)}
			failed = true
			continue
		}
		built := s.Build(f.Policy, "shop")
		if old, ok := w.services[s.Name]; !ok || mustJSON(old) != mustJSON(built) {
			done.Changed[traffic.ServiceKey(s.Name)] = true
			w.writes++
		}
		w.services[s.Name] = built
	}
	w.others = maps.Clone(w.others)
	w.carryShared(out, done)
	w.users = maps.Clone(w.users)
	put := func(name string, next *unstructured.Unstructured) {
		if gatewayapi.Patch(w.users[name], next) == nil {
			return
		}
		if mustJSON(next.Object["spec"]) != mustJSON(w.users[name].Object["spec"]) {
			next.SetGeneration(next.GetGeneration() + 1)
		}
		w.written[name] = w.now
		done.Changed[traffic.RouteName(name)] = true
		w.writes++
		w.users[name] = next
	}
	for _, name := range out.DeleteRoutes {
		if f.Live[name].User {
			next, _ := gatewayapi.Restore(w.users[name], w.policy.Name, f.Scene.Releases)
			put(name, next)
		}
	}
	for _, route := range slices.Concat(out.Routes, out.Previous) {
		if len(route.Objects) == 0 {
			continue // One of a previous provider that is so already.
		}
		if cause, missing := f.RestsOnFailed(route, out, done); missing {
			done.Refused[traffic.RouteName(route.Name)] = cause
			continue
		}
		if u, ok := route.Objects[0].(*unstructured.Unstructured); ok {
			put(route.Name, u.DeepCopy())
			continue
		}
		if _, http := route.Objects[0].(*gatewayv1.HTTPRoute); !http {
			w.carryOther(route, done)
			continue
		}
		next := route.Objects[0].(*gatewayv1.HTTPRoute).DeepCopy()
		old, ok := w.routes[route.Name]
		if ok && fmt.Sprint(old.Labels) == fmt.Sprint(next.Labels) && gatewayapi.Same(old, next) {
			continue
		}
		next.Generation, next.UID = 1, types.UID(route.Name)
		if ok {
			next.Generation, next.Status = old.Generation, old.Status
			if mustJSON(old.Spec) != mustJSON(next.Spec) {
				next.Generation++
			}
		}
		w.written[route.Name] = w.now
		done.Changed[traffic.RouteName(route.Name)] = true
		w.writes++
		w.routes[route.Name] = next
	}
	if failed {
		return done
	}
	for _, o := range slices.Concat(traffic.Surplus(f, out), out.DeleteShared) {
		w.writes++
		delete(w.routes, o.GetName())
		delete(w.others, o.GetName())
	}
	for _, name := range out.DeleteServices {
		w.writes++
		delete(w.services, name)
	}
	return done
}

// carryShared writes the objects on which routes rest.
func (w *world) carryShared(out *traffic.Decision, done traffic.Applied) {
	for _, s := range out.Shared {
		next := s.Object.DeepCopyObject().(client.Object)
		if w.foreign[next.GetName()] {
			done.Refused[traffic.SharedKey(next)] = &status.Error{Class: status.Terminal, Reason: status.ReasonNameConflict, Err: fmt.Errorf("%s exists", traffic.SharedKey(next))}
			continue
		}
		next.SetGeneration(1)
		if old := w.others[next.GetName()]; old != nil {
			if mustJSON(content(old)) == mustJSON(content(next)) {
				continue
			}
			next.SetGeneration(old.GetGeneration() + 1)
		}
		done.Changed[traffic.SharedKey(next)] = true
		w.writes++
		w.others[next.GetName()] = next
	}
}

// content of an object that carries no route, without its status.
func content(o client.Object) any {
	switch o := o.(type) {
	case *certmanager.Certificate:
		return o.Spec
	case *apisix.ApisixTls:
		return o.Spec
	case *gatewayv1.ListenerSet:
		return o.Spec
	case *gatewayapi.XListenerSet:
		return o.Spec
	}
	panic(fmt.Sprintf("%T carries a route", o))
}

// carryOther writes the objects of a route of another kind than HTTPRoute.
func (w *world) carryOther(route *traffic.RouteDecision, done traffic.Applied) {
	for _, built := range route.Objects {
		next := built.DeepCopyObject().(client.Object)
		old, ok := w.others[next.GetName()]
		if ok && fmt.Sprint(old.GetLabels()) == fmt.Sprint(next.GetLabels()) && sameObject(old, next) {
			continue
		}
		next.SetGeneration(1)
		next.SetUID(types.UID(next.GetName()))
		if ok {
			setAnswers(next, answersOf(old))
			next.SetGeneration(old.GetGeneration() + 1)
		}
		w.written[route.Name] = w.now
		done.Changed[traffic.RouteName(route.Name)] = true
		w.writes++
		w.others[next.GetName()] = next
	}
}

// sameObject asks the provider that writes objects of its kind.
func sameObject(old, want client.Object) bool {
	switch want.(type) {
	case *networkingv1.Ingress:
		return ingress.Same(old, want)
	case *apisix.ApisixRoute:
		return apisix.Same(old, want)
	}
	return gatewayapi.Same(old, want)
}

// accept lets all parents that exist accept all routes.
func (w *world) accept() {
	routes := map[string]*gatewayv1.HTTPRoute{}
	for name, route := range w.routes {
		route = route.DeepCopy()
		route.Status.Parents = nil
		for _, p := range route.Spec.ParentRefs {
			if w.exists(p, route.Namespace) {
				route.Status.Parents = append(route.Status.Parents, answer(p, route.Generation, metav1.ConditionTrue, "Accepted"))
			}
		}
		routes[name] = route
	}
	w.routes = routes
	users := map[string]*unstructured.Unstructured{}
	for name, u := range w.users {
		users[name] = u.DeepCopy()
		var route gatewayv1.HTTPRoute
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, &route); err != nil {
			panic(err)
		}
		parents := []any{}
		for _, p := range route.Spec.ParentRefs {
			if w.gateways[refNamespace(p, route.Namespace)+"/"+string(p.Name)] == nil {
				continue
			}
			a := answer(p, route.Generation, metav1.ConditionTrue, "Accepted")
			said, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&a)
			if err != nil {
				panic(err)
			}
			parents = append(parents, said)
		}
		users[name].Object["status"] = map[string]any{"parents": parents}
	}
	w.users = users
	others := map[string]client.Object{}
	for name, o := range w.others {
		o = o.DeepCopyObject().(client.Object)
		switch o := o.(type) {
		case *apisix.ApisixRoute:
			o.Status.Conditions = []metav1.Condition{taken(o)}
		case *certmanager.Certificate:
			ready := metav1.Condition{Type: "Ready", Status: metav1.ConditionTrue, Reason: "Ready", ObservedGeneration: o.Generation}
			if why := w.uncertain[o.Name]; why != "" {
				ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, why, "see the order."
			}
			o.Status.Conditions = []metav1.Condition{ready}
		case *gatewayv1.ListenerSet:
			if w.gateways[setGateway(o)] != nil {
				programSet(o)
			}
		case *gatewayapi.XListenerSet:
			if w.gateways[setGateway((*gatewayv1.ListenerSet)(o))] != nil {
				programSet((*gatewayv1.ListenerSet)(o))
			}
		}
		var answers []gatewayv1.RouteParentStatus
		for _, p := range parentsOf(o) {
			if w.exists(p, o.GetNamespace()) {
				answers = append(answers, answer(p, o.GetGeneration(), metav1.ConditionTrue, "Accepted"))
			}
		}
		setAnswers(o, answers)
		others[name] = o
	}
	w.others = others
}

// exists reports whether there is a parent to answer.
func (w *world) exists(p gatewayv1.ParentReference, namespace string) bool {
	if deref(p.Kind) == "Gateway" {
		return w.gateways[refNamespace(p, namespace)+"/"+string(p.Name)] != nil
	}
	switch set := w.others[string(p.Name)].(type) {
	case *gatewayv1.ListenerSet:
		return w.gateways[setGateway(set)] != nil
	case *gatewayapi.XListenerSet:
		return w.gateways[setGateway((*gatewayv1.ListenerSet)(set))] != nil
	}
	return false
}

// setGateway is the Gateway whose listeners a ListenerSet adds to: without it no gateway answers for the set.
func setGateway(s *gatewayv1.ListenerSet) string {
	namespace := s.Namespace
	if s.Spec.ParentRef.Namespace != nil {
		namespace = string(*s.Spec.ParentRef.Namespace)
	}
	return namespace + "/" + string(s.Spec.ParentRef.Name)
}

// programSet is how a gateway reports that it serves a ListenerSet.
func programSet(s *gatewayv1.ListenerSet) {
	var conditions []metav1.Condition
	for _, kind := range []string{"Accepted", "ResolvedRefs", "Programmed"} {
		conditions = append(conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: kind, ObservedGeneration: s.Generation})
	}
	s.Status.Conditions = conditions
	s.Status.Listeners = nil
	for _, l := range s.Spec.Listeners {
		s.Status.Listeners = append(s.Status.Listeners, gatewayv1.ListenerEntryStatus{Name: l.Name, Conditions: conditions})
	}
}

// taken is how APISIX reports that it took a route over.
func taken(r *apisix.ApisixRoute) metav1.Condition {
	return metav1.Condition{
		Type: "ResourcesAvailable", Status: metav1.ConditionTrue, Reason: "ResourcesSynced", Message: "Sync Successfully",
		ObservedGeneration: r.Generation, LastTransitionTime: r.CreationTimestamp,
	}
}

// parentsOf a route of any kind.
func parentsOf(o client.Object) []gatewayv1.ParentReference {
	parents, _ := common(o)
	return parents.ParentRefs
}

func answersOf(o client.Object) []gatewayv1.RouteParentStatus { _, s := common(o); return s.Parents }

func setAnswers(o client.Object, answers []gatewayv1.RouteParentStatus) {
	_, s := common(o)
	s.Parents = answers
}

// common are the parts that routes of all kinds have.
func common(o client.Object) (*gatewayv1.CommonRouteSpec, *gatewayv1.RouteStatus) {
	switch r := o.(type) {
	case *gatewayv1.HTTPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.GRPCRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.TLSRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1alpha2.TLSRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.TCPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1alpha2.TCPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1.UDPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *gatewayv1alpha2.UDPRoute:
		return &r.Spec.CommonRouteSpec, &r.Status.RouteStatus
	case *networkingv1.Ingress, *apisix.ApisixRoute, *apisix.ApisixTls, *certmanager.Certificate, *gatewayv1.ListenerSet, *gatewayapi.XListenerSet:
		return &gatewayv1.CommonRouteSpec{}, &gatewayv1.RouteStatus{} // They have no parents.
	}
	panic(fmt.Sprintf("%T is no route", o))
}

func answer(p gatewayv1.ParentReference, generation int64, accepted metav1.ConditionStatus, reason string) gatewayv1.RouteParentStatus {
	return gatewayv1.RouteParentStatus{ParentRef: p, ControllerName: "example.com/gateway", Conditions: []metav1.Condition{
		{Type: string(gatewayv1.RouteConditionAccepted), Status: accepted, Reason: reason, ObservedGeneration: generation},
		{Type: string(gatewayv1.RouteConditionResolvedRefs), Status: metav1.ConditionTrue, Reason: "ResolvedRefs", ObservedGeneration: generation},
	}}
}

// settle passes and accepts until nothing is written any more.
func (w *world) settle() v1alpha1.NetworkPolicyStatus {
	w.t.Helper()
	for range 12 {
		before, unanswered := w.writes, mustJSON(w.routes)+mustJSON(w.others)+mustJSON(w.users)
		w.pass()
		w.accept()
		if w.writes == before && mustJSON(w.routes)+mustJSON(w.others)+mustJSON(w.users) == unanswered {
			return w.policy.Status
		}
	}
	w.t.Fatalf("still writing after 12 passes")
	return v1alpha1.NetworkPolicyStatus{}
}

// check holds what must be true after every reconcile.
func (w *world) check() {
	w.t.Helper()
	for name, route := range w.routes {
		for _, rule := range route.Spec.Rules {
			if slices.ContainsFunc(rule.Filters, func(f gatewayv1.HTTPRouteFilter) bool { return f.RequestRedirect != nil }) {
				continue // It answers probes, and has no backends.
			}
			sum := 0
			for _, b := range rule.BackendRefs {
				sum += int(deref(b.Weight))
				if deref(b.Weight) <= 0 {
					w.t.Fatalf("route %s gives %s weight %d", name, b.Name, deref(b.Weight))
				}
			}
			if sum != 100 {
				w.t.Fatalf("weights of a rule of route %s add up to %d", name, sum)
			}
		}
		for service := range servicesOf(route) {
			if w.services[service] == nil {
				w.t.Fatalf("route %s names Service %s, which is not there", name, service)
			}
		}
		if n := len(route.Spec.Hostnames); n < 1 || n > 16 {
			w.t.Fatalf("route %s has %d hosts", name, n)
		}
	}
	f := &traffic.Observed{Policy: w.policy}
	f.See(w.scene(w.policy))
	for name, route := range f.Live {
		if w.routes[name] != nil || route.User && route.Managed == nil {
			continue
		}
		sum := 0
		for _, weight := range route.Weights {
			sum += weight
			if weight <= 0 {
				w.t.Fatalf("route %s gives a Service weight %d", name, weight)
			}
		}
		if sum != 100 {
			w.t.Fatalf("weights of route %s add up to %d", name, sum)
		}
		for _, service := range route.Services {
			if w.services[service] == nil && !strings.HasPrefix(service, "users-") {
				w.t.Fatalf("route %s names Service %s, which is not there", name, service)
			}
		}
		if n := len(route.Hostnames); n > 16 {
			w.t.Fatalf("route %s has %d hosts", name, n)
		}
	}
}

// split of a host as it is written: "1.1.0=90 1.2.0=10"; empty where no route has it.
func (w *world) split(host string) string {
	w.t.Helper()
	f := w.facts()
	var parts []string
	for _, route := range w.routes {
		if !slices.Contains(hostsOf(route), host) {
			continue
		}
		for service, weight := range f.Live[route.Name].Weights {
			parts = append(parts, fmt.Sprintf("%s=%d", versionBehind(f, service), weight))
		}
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

func (w *world) groupTraffic(slug string) v1alpha1.GroupTraffic {
	return traffic.Find(w.policy.Status.Groups, slug)
}

// readRoute is an object of a route as its provider reads it.
func readRoute(route client.Object) *providers.Live {
	for _, p := range traffic.Known {
		for _, live := range p.See(providers.Scene{Policy: &v1alpha1.NetworkPolicy{}, Objects: []resources.Object{route}}).Live() {
			return live
		}
	}
	return nil
}

func hostsOf(route client.Object) []string { return readRoute(route).Hostnames }

// servicesOf are the Services that a route names in any way.
func servicesOf(route client.Object) map[string]bool {
	out := map[string]bool{}
	for _, s := range readRoute(route).Services {
		out[s] = true
	}
	return out
}

func refNamespace(p gatewayv1.ParentReference, fallback string) string {
	return cmp.Or(string(deref(p.Namespace)), fallback)
}

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}

func mustJSON(v any) string {
	text, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

func want[T comparable](t *testing.T, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}
