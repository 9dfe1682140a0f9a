package providertest

import (
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// World simulates the API server, the endpoint controller and the gateways for the pure parts of the controller. It
// applies decisions in memory.
type World struct {
	t fatal
	// Policy is the policy prod/shop. Microservice is its Microservice, with the rollout state that
	// the planner would write.
	Policy       *v1alpha1.NetworkPolicy
	Microservice *v1alpha1.Microservice
	// Services and Routes are the Services and HTTPRoutes that the policy owns, by name. Others are
	// the policy's objects of other kinds.
	Services map[string]*corev1.Service
	Routes   map[string]*gatewayv1.HTTPRoute
	Others   map[string]resources.Object
	// Users are the user-managed routes, keyed by the names that providers.UserRoute returns.
	Users map[string]*unstructured.Unstructured
	// Written contains the time at which each route was last written, by route name.
	Written map[string]time.Time
	// Ready is the number of ready pods by release; a release without an entry has no ready pods.
	Ready map[string]int
	// Gateways are the existing Gateways, by namespace/name. Classes contains the names of the
	// existing IngressClasses.
	Gateways map[string]*gatewayv1.Gateway
	Classes  map[string]bool
	// Now is the time of the next reconcile. Writes is the number of writes so far.
	Now    time.Time
	Writes int
	// same and serve are the Same and Serve functions of the Case.
	same  func(live, decided resources.Object) bool
	serve func(live resources.Object)
}

type fatal interface {
	Helper()
	Fatalf(format string, args ...any)
}

// NewWorld returns a World with the given groups and with the policy prod/shop, which routes the hosts
// {{.ReleaseGroupName}}.shop.example.com through the Gateway infra/public. Nothing has been written yet, and no pod is
// ready.
func NewWorld(t fatal, groups ...v1alpha1.ReleaseGroup) *World {
	port := intstr.FromInt32(8080)
	return &World{
		t: t, Now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC),
		Policy: &v1alpha1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod", UID: "policy", Generation: 1},
			Spec: v1alpha1.NetworkPolicySpec{
				Ports:    []v1alpha1.NetworkPort{{Name: "http", Port: 80, TargetPort: &port, Protocol: v1alpha1.ProtocolHTTP}},
				Provider: &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "public"}}}},
				Domains:  []v1alpha1.Domain{{Domain: "{{.ReleaseGroupName}}.shop.example.com"}},
			},
		},
		Microservice: &v1alpha1.Microservice{
			ObjectMeta: metav1.ObjectMeta{Name: "shop", Namespace: "prod", UID: "shop-uid"},
			Status:     v1alpha1.MicroserviceStatus{Internal: &v1alpha1.MicroserviceInternal{Sequence: 1}, ReleaseGroups: groups},
		},
		Services: map[string]*corev1.Service{}, Routes: map[string]*gatewayv1.HTTPRoute{}, Others: map[string]resources.Object{}, Users: map[string]*unstructured.Unstructured{}, Ready: map[string]int{}, Written: map[string]time.Time{},
		Gateways: map[string]*gatewayv1.Gateway{"infra/public": Gateway(80, gatewayv1.HTTPProtocolType, "")},
		Classes:  map[string]bool{"traefik": true, "nginx": true, "nginx-https": true},
	}
}

// Observed returns the facts that a reconcile observes.
func (w *World) Observed() *traffic.Observed {
	f := &traffic.Observed{
		Policy: w.Policy.DeepCopy(), Services: w.Services, Written: w.Written,
		Endpoints: map[string]traffic.Endpoints{}, Now: w.Now,
	}
	f.SetViews(w.input(f.Policy))
	if w.Microservice != nil {
		f.Microservice = w.Microservice.DeepCopy()
	}
	for name, s := range w.Services {
		var e traffic.Endpoints
		for i := range w.Ready[s.Spec.Selector[v1alpha1.LabelRelease]] {
			e.All = append(e.All, fmt.Sprintf("%s-%d", s.Spec.Selector[v1alpha1.LabelRelease], i))
		}
		e.Ready = e.All
		f.Endpoints[name] = e
	}
	return f
}

// input returns the input to the providers' views.
func (w *World) input(policy *v1alpha1.NetworkPolicy) providers.Input {
	s := providers.Input{
		Policy: policy, Microservice: "shop", Served: map[string]providers.Served{}, Referents: map[providers.Reference]resources.Object{},
		Services: map[string]bool{}, Releases: map[string]bool{},
	}
	for _, kind := range traffic.AllKinds() {
		s.Served[kind.Kind] = providers.Served{Version: kind.Versions[0]}
	}
	for _, name := range providers.Sorted(w.Others) {
		s.Objects = append(s.Objects, w.Others[name])
	}
	for _, name := range providers.Sorted(w.Routes) {
		s.Objects = append(s.Objects, w.Routes[name])
	}
	for _, name := range traffic.UserNames(policy) {
		if u := w.Users[name]; u != nil {
			s.Users = append(s.Users, u)
		}
	}
	for name, service := range w.Services {
		s.Services[name], s.Releases[name] = true, traffic.OfRelease(service)
	}
	for key, g := range w.Gateways {
		namespace, name, _ := strings.Cut(key, "/")
		s.Referents[providers.Reference{Kind: "Gateway", Namespace: namespace, Name: name}] = g
	}
	for class := range w.Classes {
		s.Referents[providers.Reference{Kind: "IngressClass", Name: class}] = &networkingv1.IngressClass{ObjectMeta: metav1.ObjectMeta{Name: class}}
	}
	return s
}

// OpenGateway returns a Gateway with listeners for HTTP, TLS and TCP, which accept routes from all
// namespaces.
func OpenGateway() *gatewayv1.Gateway {
	g := Gateway(80, gatewayv1.HTTPProtocolType, "")
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

// Gateway returns the Gateway infra/public with one listener. An empty hostname means that the
// listener accepts all hosts.
func Gateway(port int32, protocol gatewayv1.ProtocolType, hostname string) *gatewayv1.Gateway {
	l := gatewayv1.Listener{Name: "web", Port: gatewayv1.PortNumber(port), Protocol: protocol}
	if hostname != "" {
		l.Hostname = new(gatewayv1.Hostname(hostname))
	}
	return &gatewayv1.Gateway{
		ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "public", Generation: 1},
		Spec:       gatewayv1.GatewaySpec{GatewayClassName: "traefik", Listeners: []gatewayv1.Listener{l}},
	}
}

// Group returns a group of releases. Each release has the form "name version status weight". Promoted
// releases must be in order of promotion, with the latest first.
func Group(slug string, revision int64, releases ...string) v1alpha1.ReleaseGroup {
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
