package gateway

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// probed returns a policy whose routes are probed on all listeners of its Gateway.
func probed(uid types.UID) *v1alpha1.NetworkPolicy {
	p := policy()
	p.UID = uid
	p.Spec.Provider.Gateway.Confirm = v1alpha1.ConfirmProbe
	p.Spec.Provider.Gateway.ParentRefs[0].SectionName = ""
	return p
}

func probedRoute(path string, hosts ...string) providers.Route {
	return providers.Route{Name: "shop-1-x", Hostnames: hosts, Path: path, Port: 80, Backends: []providers.Backend{{Service: "shop-a", Weight: 100}}}
}

// TestProbeRule checks that the rule responds to one path below the path of the route, and that the
// other rules are the same as without probes.
func TestProbeRule(t *testing.T) {
	for path, below := range map[string]string{"/": "/.well-known/hlnr/", "/shop": "/shop/.well-known/hlnr/", "/shop/": "/shop/.well-known/hlnr/"} {
		t.Run(path, func(t *testing.T) {
			r := probedRoute(path, "shop.example.com")
			with := see(probed("1")).Build(r)[0].(*gatewayv1.HTTPRoute)
			without := see(policy()).Build(r)[0].(*gatewayv1.HTTPRoute)
			rule := with.Spec.Rules[0]
			if len(rule.Matches) != 1 || *rule.Matches[0].Path.Type != gatewayv1.PathMatchExact || !strings.HasPrefix(*rule.Matches[0].Path.Value, below) {
				t.Errorf("matches are %+v, want one exact path below %s", rule.Matches, below)
			}
			if len(rule.BackendRefs) != 0 || len(rule.Filters) != 1 || rule.Filters[0].RequestRedirect == nil {
				t.Errorf("rule is %+v, want only a redirect", rule)
			}
			if diff := cmp.Diff(without.Spec.Rules, with.Spec.Rules[1:]); diff != "" {
				t.Errorf("other rules (-without, +with probes):\n%s", diff)
			}
			if diff := cmp.Diff(see(probed("1"), without).Live()["shop-1-x"].Weights, see(probed("1"), with).Live()["shop-1-x"].Weights); diff != "" {
				t.Errorf("weights that are read (-without, +with probes):\n%s", diff)
			}
			if got := see(probed("1"), with).Live()["shop-1-x"].Path; got != path {
				t.Errorf("path that is read is %q, want %q", got, path)
			}
			other := see(probed("2")).Build(r)[0].(*gatewayv1.HTTPRoute)
			if *other.Spec.Rules[0].Matches[0].Path.Value == *rule.Matches[0].Path.Value {
				t.Error("two policies have the same path")
			}
		})
	}
}

// TestProbeRuleHasRoom checks that the probe rule and the maximum number of a policy's rules
// together do not exceed the limit of an HTTPRoute.
func TestProbeRuleHasRoom(t *testing.T) {
	p := probed("1")
	p.Spec.Provider.Gateway.Filters = []v1alpha1.RouteFilter{{URLRewrite: &v1alpha1.URLRewrite{ReplacePrefixMatch: "/"}}}
	r := probedRoute("/", "shop.example.com")
	r.Canary = "shop-b"
	for i := range 8 {
		r.Matches = append(r.Matches, v1alpha1.CanaryMatch{Path: &v1alpha1.MatchPath{Value: fmt.Sprintf("/%d", i)}})
	}
	if n := len(see(p).Build(r)[0].(*gatewayv1.HTTPRoute).Spec.Rules); n != 10 {
		t.Errorf("%d rules, want 10: 8 for the matches, 1 for the split and 1 for the probe; an HTTPRoute can have 16", n)
	}
}

// TestAnswer checks that equal input results in the same answer, that each change results in a
// different answer, and that invalid answers are ignored.
func TestAnswer(t *testing.T) {
	build := func(r providers.Route, live ...resources.Object) *gatewayv1.HTTPRoute {
		return see(probed("1"), live...).Build(r)[0].(*gatewayv1.HTTPRoute)
	}
	a, b := probedRoute("/", "a.example.com"), probedRoute("/", "b.example.com")
	first := build(a)
	if got := answerIn(build(a)); got != answerIn(first) {
		t.Errorf("answers %q and %q for the same content", got, answerIn(first))
	}
	if got := answerIn(build(a, first)); got != answerIn(first) {
		t.Errorf("answer %q became %q without a change", answerIn(first), got)
	}
	second := build(b, first)
	third := build(a, second)
	if answerIn(second) == answerIn(first) || answerIn(third) == answerIn(first) {
		t.Errorf("answers are %q, %q and %q", answerIn(first), answerIn(second), answerIn(third))
	}
	for _, bad := range []string{"", "x", "x.hlnr.invalid", "x-0.hlnr.invalid", "x--1.hlnr.invalid", "x-99999999999999999999.hlnr.invalid", "x-1.example.com"} {
		if _, _, ok := parseAnswer(bad); ok {
			t.Errorf("%q is accepted as an answer", bad)
		}
	}
	for _, route := range []*gatewayv1.HTTPRoute{first, second, third} {
		if label, _, _ := strings.Cut(answerIn(route), "."); len(label) > 63 {
			t.Errorf("label %q has %d characters", label, len(label))
		}
	}
}

// TestQuestions checks which requests are sent to which addresses.
func TestQuestions(t *testing.T) {
	from := func(f gatewayv1.FromNamespaces, labels ...string) *gatewayv1.AllowedRoutes {
		n := &gatewayv1.RouteNamespaces{From: &f}
		if len(labels) == 2 {
			n.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{labels[0]: labels[1]}}
		}
		return &gatewayv1.AllowedRoutes{Namespaces: n}
	}
	listener := func(name string, port int32, protocol gatewayv1.ProtocolType, hostname string, change ...func(*gatewayv1.Listener)) gatewayv1.Listener {
		l := gatewayv1.Listener{Name: gatewayv1.SectionName(name), Port: gatewayv1.PortNumber(port), Protocol: protocol, AllowedRoutes: from(gatewayv1.NamespacesFromAll)}
		if hostname != "" {
			l.Hostname = new(gatewayv1.Hostname(hostname))
		}
		for _, c := range change {
			c(&l)
		}
		return l
	}
	allowed := func(a *gatewayv1.AllowedRoutes) func(*gatewayv1.Listener) {
		return func(l *gatewayv1.Listener) { l.AllowedRoutes = a }
	}
	web := listener("web", 80, gatewayv1.HTTPProtocolType, "")
	name := "hlnr-" + digest(types.UID("1"), "shop-1-x")
	for label, test := range map[string]struct {
		listeners []gatewayv1.Listener
		statuses  []gatewayv1.ListenerStatus
		section   string
		addresses []gatewayv1.GatewayStatusAddress
		hosts     []string
		want      []string
	}{
		"one": {want: []string{"http 192.0.2.1 80 a.example.com"}},
		"one host is sufficient": {
			hosts: []string{"*.example.com", "a.example.com", "b.example.com"}, want: []string{"http 192.0.2.1 80 a.example.com"},
		},
		"HTTP and HTTPS": {
			listeners: []gatewayv1.Listener{web, listener("tls", 443, gatewayv1.HTTPSProtocolType, "")},
			want:      []string{"http 192.0.2.1 80 a.example.com", "https 192.0.2.1 443 a.example.com"},
		},
		"another protocol": {listeners: []gatewayv1.Listener{listener("tcp", 9000, gatewayv1.TCPProtocolType, ""), web}, want: []string{"http 192.0.2.1 80 a.example.com"}},
		"a section":        {section: "second", listeners: []gatewayv1.Listener{web, listener("second", 81, gatewayv1.HTTPProtocolType, "")}, want: []string{"http 192.0.2.1 81 a.example.com"}},
		"each listener with its own host": {
			listeners: []gatewayv1.Listener{listener("a", 80, gatewayv1.HTTPProtocolType, "a.example.com"), listener("b", 80, gatewayv1.HTTPProtocolType, "*.example.org")},
			hosts:     []string{"a.example.com", "b.example.org"},
			want:      []string{"http 192.0.2.1 80 a.example.com", "http 192.0.2.1 80 b.example.org"},
		},
		"duplicate probes":             {listeners: []gatewayv1.Listener{web, listener("again", 80, gatewayv1.HTTPProtocolType, "*.example.com")}, want: []string{"http 192.0.2.1 80 a.example.com"}},
		"no listener matches the host": {listeners: []gatewayv1.Listener{listener("a", 80, gatewayv1.HTTPProtocolType, "a.example.org")}},
		"a wildcard":                   {hosts: []string{"*.example.com"}, want: []string{"http 192.0.2.1 80 " + name + ".example.com"}},
		"a wildcard on a listener with one host": {
			listeners: []gatewayv1.Listener{listener("a", 80, gatewayv1.HTTPProtocolType, "a.example.com")}, hosts: []string{"*.example.com"}, want: []string{"http 192.0.2.1 80 a.example.com"},
		},
		"a wildcard on a listener with a narrower wildcard": {
			listeners: []gatewayv1.Listener{listener("a", 80, gatewayv1.HTTPProtocolType, "*.eu.example.com")}, hosts: []string{"*.example.com"}, want: []string{"http 192.0.2.1 80 " + name + ".eu.example.com"},
		},
		"an allowed namespace": {listeners: []gatewayv1.Listener{listener("a", 80, gatewayv1.HTTPProtocolType, "", allowed(from(gatewayv1.NamespacesFromSelector, "team", "a")))}, want: []string{"http 192.0.2.1 80 a.example.com"}},
		"a namespace that is not allowed": {
			listeners: []gatewayv1.Listener{
				listener("a", 80, gatewayv1.HTTPProtocolType, "", allowed(from(gatewayv1.NamespacesFromSelector, "team", "b"))),
				listener("b", 81, gatewayv1.HTTPProtocolType, "", allowed(from(gatewayv1.NamespacesFromSame))),
				listener("c", 82, gatewayv1.HTTPProtocolType, "", allowed(from(gatewayv1.NamespacesFromNone))),
				listener("d", 83, gatewayv1.HTTPProtocolType, ""),
			},
			want: []string{"http 192.0.2.1 83 a.example.com"},
		},
		"a listener for other route kinds only": {
			listeners: []gatewayv1.Listener{web, listener("grpc", 81, gatewayv1.HTTPProtocolType, "", func(l *gatewayv1.Listener) {
				l.AllowedRoutes.Kinds = []gatewayv1.RouteGroupKind{{Kind: "GRPCRoute"}}
			})},
			want: []string{"http 192.0.2.1 80 a.example.com"},
		},
		"a listener without its certificate": {
			listeners: []gatewayv1.Listener{web, listener("tls", 443, gatewayv1.HTTPSProtocolType, "")}, statuses: []gatewayv1.ListenerStatus{failed("tls")},
			want: []string{"http 192.0.2.1 80 a.example.com"},
		},
		"no programmed listener": {statuses: []gatewayv1.ListenerStatus{failed("web")}, want: []string{"http 192.0.2.1 80 a.example.com"}},
		"addresses": {
			addresses: []gatewayv1.GatewayStatusAddress{
				{Value: "2001:db8::1", Type: new(gatewayv1.IPAddressType)}, {Value: "gateway.example.net", Type: new(gatewayv1.HostnameAddressType)},
				{Value: "eni-1", Type: new(gatewayv1.AddressType("example.com/nic"))}, {Value: ""},
			},
			want: []string{"http 2001:db8::1 80 a.example.com", "http gateway.example.net 80 a.example.com"},
		},
		"no address": {addresses: []gatewayv1.GatewayStatusAddress{}, want: []string{"none: the status of the Gateway has no address: check that its controller assigns one"}},
	} {
		t.Run(label, func(t *testing.T) {
			p := probed("1")
			p.Spec.Provider.Gateway.ParentRefs[0].SectionName = test.section
			g := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: "infra", Name: "public", Generation: 1}}
			if g.Spec.Listeners = test.listeners; test.listeners == nil {
				g.Spec.Listeners = []gatewayv1.Listener{web}
			}
			if g.Status.Addresses = test.addresses; test.addresses == nil {
				g.Status.Addresses = []gatewayv1.GatewayStatusAddress{{Value: "192.0.2.1"}}
			}
			g.Status.Listeners = test.statuses
			if test.hosts == nil {
				test.hosts = []string{"a.example.com", "b.example.com"}
			}
			v := see(p).(*view)
			v.Namespace = map[string]string{"team": "a"}
			v.Referents = map[providers.Reference]resources.Object{{Kind: "Gateway", Namespace: "infra", Name: "public"}: g}
			r := probedRoute("/", test.hosts...)
			var got []string
			for _, q := range v.questions(r, v.Build(r)[0]) {
				if q.problem != "" {
					got = append(got, "none: "+q.problem)
					continue
				}
				scheme, _, _ := strings.Cut(q.at(), ":")
				got = append(got, fmt.Sprint(scheme, " ", q.Address, " ", q.Port, " ", q.Host))
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("questions (-want +got):\n%s", diff)
			}
		})
	}
}

// failed returns the status of a listener that is not programmed.
func failed(name string) gatewayv1.ListenerStatus {
	return gatewayv1.ListenerStatus{Name: gatewayv1.SectionName(name), Conditions: []metav1.Condition{
		{Type: string(gatewayv1.ListenerConditionProgrammed), Status: metav1.ConditionFalse, ObservedGeneration: 1},
	}}
}
