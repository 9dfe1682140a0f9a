package traffic

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

// manyPorts returns a world whose policy has a port of each protocol and no domain.
func manyPorts(t fatal) *world {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"], w.ready["b"] = 1, 1
	w.gateways["infra/public"] = openGateway()
	w.policy.Spec.Domains, w.policy.Spec.Ports = nil, nil
	for i, p := range []v1alpha1.PortProtocol{"HTTP", "HTTPS", "GRPC", "TLS", "TCP", "UDP"} {
		w.policy.Spec.Ports = append(w.policy.Spec.Ports, v1alpha1.NetworkPort{Name: strings.ToLower(string(p)), Port: int32(8000 + i), Protocol: p})
	}
	return w
}

func listener(port, section string) v1alpha1.Listener {
	return v1alpha1.Listener{Name: port, Port: port, ParentRef: v1alpha1.ParentReference{Namespace: "infra", Name: "public", SectionName: section}}
}

func TestMissingKindIsReportedAndBlocksNothingElse(t *testing.T) {
	for kind, port := range map[string]string{"GRPCRoute": "grpc", "TLSRoute": "tls", "TCPRoute": "tcp", "UDPRoute": "udp"} {
		t.Run(kind, func(t *testing.T) {
			w := manyPorts(t)
			w.lacks = map[string]bool{kind: true}
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "web.example.com", Port: "http"}}
			reason := func() (string, string) {
				if port == "tcp" || port == "udp" {
					return w.policy.Status.Listeners[0].Reason, w.policy.Status.Listeners[0].Message
				}
				return w.policy.Status.Domains[1].Reason, w.policy.Status.Domains[1].Message
			}
			if port == "tcp" || port == "udp" {
				w.policy.Spec.Listeners = []v1alpha1.Listener{listener(port, "first")}
			} else {
				w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: "other.example.com", Port: port})
			}
			w.settle()
			got, message := reason()
			want(t, "reason", got, ReasonGatewayAPIMissing)
			want(t, "the kind is named", strings.Contains(message, kind), true)
			want(t, "the other domain", w.policy.Status.Domains[0].Programmed, true)
			want(t, "accepted", w.condition("Accepted"), "False GatewayAPIMissing")
			want(t, "revision follows the routes", w.groupTraffic("1-x").Revision, 1)

			w.lacks = nil
			w.settle()
			got, message = reason()
			want(t, "reason once the kind exists ("+message+")", got, "")
			want(t, "ready", w.condition("Ready"), "True Programmed")
		})
	}
}

func TestRoutesAreWrittenInTheVersionThatIsServed(t *testing.T) {
	w := manyPorts(t)
	alpha := providers.Served{Version: "v1alpha2", Experimental: true}
	w.served = map[string]providers.Served{"TLSRoute": alpha, "TCPRoute": alpha, "UDPRoute": alpha}
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "secret.example.com", Port: "tls"}}
	w.policy.Spec.Listeners = []v1alpha1.Listener{listener("tcp", "first"), listener("udp", "second")}
	w.settle()
	kinds := map[string]bool{}
	for _, o := range w.others {
		kinds[fmt.Sprintf("%T %s", o, o.GetObjectKind().GroupVersionKind().Version)] = true
	}
	want(t, "kinds", cmp.Diff(map[string]bool{
		"*v1alpha2.TLSRoute v1alpha2": true, "*v1alpha2.TCPRoute v1alpha2": true, "*v1alpha2.UDPRoute v1alpha2": true,
	}, kinds), "")
	w.rollout(group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.settle()
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	for _, o := range w.others {
		want(t, fmt.Sprintf("%T", o), mustJSON(readRoute(o).Weights), mustJSON(map[string]int{w.facts().ReleaseService("a"): 90, w.facts().ReleaseService("b"): 10}))
	}
}

func TestEveryProtocolInOnePolicy(t *testing.T) {
	w := manyPorts(t)
	for _, port := range []string{"http", "https", "grpc", "tls"} {
		w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: port + ".example.com", Port: port})
	}
	w.policy.Spec.Listeners = []v1alpha1.Listener{listener("tcp", "first"), listener("udp", "second")}
	now := w.settle()
	want(t, "ready", w.condition("Ready"), "True Programmed")
	var urls []string
	for _, d := range now.Domains {
		urls = append(urls, d.URL)
	}
	want(t, "urls", cmp.Diff([]string{"http://http.example.com", "http://https.example.com", "http://grpc.example.com", "tls://tls.example.com"}, urls), "")
	want(t, "listeners", mustJSON(now.Listeners), `[{"name":"tcp","group":"1-x","backends":[{"release":"a","version":"1.0.0","weight":100}],"programmed":true},`+
		`{"name":"udp","group":"1-x","backends":[{"release":"a","version":"1.0.0","weight":100}],"programmed":true}]`)
	protocols := map[string]string{}
	for _, p := range w.services["shop"].Spec.Ports {
		protocols[p.Name] = string(p.Protocol) + " " + deref(p.AppProtocol)
	}
	want(t, "ports", cmp.Diff(map[string]string{"http": "TCP ", "https": "TCP https", "grpc": "TCP kubernetes.io/h2c", "tls": "TCP ", "tcp": "TCP ", "udp": "UDP "}, protocols), "")

	// Requests are mirrored and matched only for protocols that have requests.
	w.rollout(testTraffic(group("1-x", 2, "b 1.1.0 canary 0", "a 1.0.0 active 100"), true, 50))
	w.settle()
	for _, o := range w.others {
		_, grpc := o.(*gatewayv1.GRPCRoute)
		want(t, fmt.Sprintf("%T names the canary", o), servicesOf(o)[w.facts().ReleaseService("b")], grpc)
	}
}

// TestProtocolChangeKeepsTheRouteUntilTheNewRouteIsAccepted checks that, after a change to a port's
// protocol, the previous route is deleted only when the new route is accepted.
func TestProtocolChangeKeepsTheRouteUntilTheNewRouteIsAccepted(t *testing.T) {
	w := manyPorts(t)
	w.policy.Spec.Ports = w.policy.Spec.Ports[:1]
	w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "shop.example.com"}}
	w.settle()
	w.policy.Spec.Ports[0].Protocol = v1alpha1.ProtocolGRPC
	w.policy.Generation++
	for range 3 {
		w.pass()
		want(t, "HTTPRoutes before the GRPCRoute is accepted", len(w.routes), 1)
		want(t, "GRPCRoutes", len(w.others), 1)
	}
	w.settle()
	want(t, "HTTPRoutes", len(w.routes), 0)
	want(t, "ready", w.condition("Ready"), "True Programmed")
}

// TestAListenerKeepsItsRoute checks that the route of a listener is updated in place, because two
// routes on one listener would conflict.
func TestAListenerKeepsItsRoute(t *testing.T) {
	w := manyPorts(t)
	w.policy.Spec.Listeners = []v1alpha1.Listener{listener("tcp", "first")}
	w.settle()
	name := providers.Sorted(w.others)[0]
	w.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.policy.Spec.Listeners[0].Release = &v1alpha1.DomainRelease{Version: "1.0.0"}
	w.settle()
	want(t, "the same route", cmp.Diff([]string{name}, providers.Sorted(w.others)), "")
	want(t, "pinned", mustJSON(w.policy.Status.Listeners[0].Backends), `[{"release":"a","version":"1.0.0","weight":100}]`)
	want(t, "references", cmp.Diff([]string{"a", "b"}, w.groupTraffic("1-x").References), "")
	w.policy.Spec.Listeners[0].Release = nil
	w.policy.Spec.Listeners[0].Groups = &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: []string{"1.x"}}
	w.settle()
	want(t, "the same route", cmp.Diff([]string{name}, providers.Sorted(w.others)), "")
	want(t, "references", cmp.Diff([]string{"b"}, w.groupTraffic("1-x").References), "")
}

func TestListenerConflicts(t *testing.T) {
	w := manyPorts(t)
	second := listener("tcp", "first")
	second.Name = "again"
	w.policy.Spec.Listeners = []v1alpha1.Listener{listener("tcp", "first"), second, listener("udp", "second")}
	w.claims = []Claim{{host: ListenerHost(w.policy, w.policy.Spec.Listeners[2]), policy: "other/first"}}
	now := w.settle()
	var reasons []string
	for _, l := range now.Listeners {
		reasons = append(reasons, l.Reason)
	}
	want(t, "reasons", cmp.Diff([]string{"", reasonDomainConflict, reasonDomainConflict}, reasons), "")
	want(t, "owner of the host", strings.Contains(now.Listeners[2].Message, `"other/first"`) && strings.Contains(now.Listeners[1].Message, "spec.listeners[0]"), true)
	want(t, "ready", w.condition("Ready"), "False DomainConflict")

	other := *w.policy.DeepCopy()
	other.UID, other.Namespace, other.CreationTimestamp.Time = "other", "a", w.now
	w.policy.CreationTimestamp.Time = w.now.Add(1e9)
	got := ClaimsOf(w.facts(), []v1alpha1.NetworkPolicy{other})
	want(t, "claims of an older policy", fmt.Sprint(got), "[{listener infra/public/first  a/shop false false}]")
}

func TestADomainMayHaveItsOwnParents(t *testing.T) {
	w := manyPorts(t)
	w.gateways["infra/private"] = openGateway()
	w.policy.Spec.Domains = []v1alpha1.Domain{
		{Domain: "a.example.com", Port: "http"},
		{Domain: "b.example.com", Port: "http", ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "private"}}},
	}
	w.settle()
	parents := map[string]string{}
	for _, r := range w.routes {
		parents[hostsOf(r)[0]] = string(r.Spec.ParentRefs[0].Name)
	}
	want(t, "parents", cmp.Diff(map[string]string{"a.example.com": "public", "b.example.com": "private"}, parents), "")
	delete(w.gateways, "infra/private")
	now := w.settle()
	want(t, "the field is named", strings.HasPrefix(now.Domains[1].Message, "spec.domains[1].parentRefs[0]: "), true)
	want(t, "refs", w.condition("ResolvedRefs"), "False ParentNotFound")
	want(t, "the other domain", now.Domains[0].Programmed, true)
}

func TestMatchesThatAProtocolDoesNotHave(t *testing.T) {
	grpc := &v1alpha1.MatchGRPC{Service: "shop.v1.Cart"}
	for name, tc := range map[string]struct {
		port  string
		match v1alpha1.CanaryMatch
		field string
	}{
		"query parameter of a gRPC call": {"grpc", v1alpha1.CanaryMatch{QueryParams: []v1alpha1.MatchValue{{Name: "a", Value: "b"}}}, "queryParams"},
		"path of a gRPC call":            {"grpc", v1alpha1.CanaryMatch{Path: &v1alpha1.MatchPath{Value: "/a"}}, "path"},
		"HTTP method of a gRPC call":     {"grpc", v1alpha1.CanaryMatch{Method: "POST"}, "method"},
		"gRPC match on an HTTP port":     {"http", v1alpha1.CanaryMatch{GRPC: grpc}, "grpc"},
		"call":                           {"grpc", v1alpha1.CanaryMatch{GRPC: grpc, Headers: []v1alpha1.MatchValue{{Name: "a", Value: "b"}}}, ""},
		"path and method":                {"http", v1alpha1.CanaryMatch{Path: &v1alpha1.MatchPath{Value: "/a"}, Method: "POST"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := manyPorts(t)
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "a.example.com", Port: tc.port, CanaryMatches: []v1alpha1.CanaryMatch{tc.match}}}
			d := w.settle().Domains[0]
			if tc.field == "" {
				want(t, "programmed", d.Programmed, true)
				return
			}
			want(t, "reason", d.Reason, ReasonNotSupported)
			want(t, "field", strings.HasPrefix(d.Message, "spec.domains[0].canaryMatches[0]."+tc.field), true)
			want(t, "accepted", w.condition("Accepted"), "False NotSupported")
			want(t, "routes", len(w.routes)+len(w.others), 0)
		})
	}
}

func TestSettingsThatHaveNoFieldAreNamed(t *testing.T) {
	cookie := &v1alpha1.SessionAffinity{Cookie: &v1alpha1.AffinityCookie{Name: "sticky"}}
	for name, tc := range map[string]struct {
		port         string
		experimental bool
		spec         func(*v1alpha1.NetworkPolicySpec)
		field        string
	}{
		"cookie in the standard channel":     {"http", false, func(s *v1alpha1.NetworkPolicySpec) { s.SessionAffinity = cookie }, "spec.sessionAffinity.cookie"},
		"cookie in the experimental channel": {"http", true, func(s *v1alpha1.NetworkPolicySpec) { s.SessionAffinity = cookie }, ""},
		"address": {"http", true, func(s *v1alpha1.NetworkPolicySpec) {
			s.SessionAffinity = &v1alpha1.SessionAffinity{ClientIP: &v1alpha1.AffinityClientIP{}}
		}, "spec.sessionAffinity.clientIP"},
		"cookie over TLS":        {"tls", false, func(s *v1alpha1.NetworkPolicySpec) { s.SessionAffinity = cookie }, ""},
		"timeouts of gRPC calls": {"grpc", false, func(s *v1alpha1.NetworkPolicySpec) { s.Timeouts = &v1alpha1.RouteTimeouts{Request: "1s"} }, "spec.timeouts"},
		"timeouts":               {"http", false, func(s *v1alpha1.NetworkPolicySpec) { s.Timeouts = &v1alpha1.RouteTimeouts{Request: "1s"} }, ""},
		"URL rewrite of gRPC calls": {"grpc", false, func(s *v1alpha1.NetworkPolicySpec) {
			s.Provider.Gateway.Filters = []v1alpha1.RouteFilter{{URLRewrite: &v1alpha1.URLRewrite{Hostname: "a"}}}
		}, "spec.provider.gateway.filters[].urlRewrite"},
	} {
		t.Run(name, func(t *testing.T) {
			w := manyPorts(t)
			w.served = map[string]providers.Served{"HTTPRoute": {Version: "v1", Experimental: tc.experimental}}
			w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: "a.example.com", Port: tc.port}}
			tc.spec(&w.policy.Spec)
			w.settle()
			want(t, "ready", w.condition("Ready"), "True Programmed")
			message := ""
			for _, c := range w.policy.Status.Conditions {
				if c.Type == v1alpha1.ConditionSettingsNotApplied {
					message = c.Message
				}
			}
			if tc.field == "" {
				want(t, "message", message, "")
				return
			}
			want(t, "field in "+message, strings.HasPrefix(message, tc.field), true)
			w.policy.Spec.SessionAffinity, w.policy.Spec.Timeouts, w.policy.Spec.Provider.Gateway.Filters = nil, nil, nil
			w.settle()
			want(t, "condition without the setting", w.condition(v1alpha1.ConditionSettingsNotApplied), "")
		})
	}
}

func TestAddressAffinityIsSetOnServices(t *testing.T) {
	w := manyPorts(t)
	w.policy.Spec.SessionAffinity = &v1alpha1.SessionAffinity{ClientIP: &v1alpha1.AffinityClientIP{}}
	w.settle()
	s := w.services["shop"].Spec
	want(t, "affinity", fmt.Sprint(s.SessionAffinity, *s.SessionAffinityConfig.ClientIP.TimeoutSeconds), "ClientIP10800")
	w.policy.Spec.SessionAffinity = nil
	w.settle()
	want(t, "affinity after its removal", string(w.services["shop"].Spec.SessionAffinity), "")
}

// TestManyHostsAreSpread checks, for any number of hosts, that no route exceeds the maximum number
// of hosts, that each host is in one route, and that the routes do not depend on the order of the
// hosts.
func TestManyHostsAreSpread(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 64).Draw(t, "hosts")
		port := rapid.SampledFrom([]string{"http", "grpc", "tls"}).Draw(t, "port")
		var domains []v1alpha1.Domain
		for i := range n {
			domains = append(domains, v1alpha1.Domain{Domain: fmt.Sprintf("h%d.example.com", i), Port: port})
		}
		routes := func(domains []v1alpha1.Domain) (*world, map[string][]string) {
			w := manyPorts(t)
			w.policy.Spec.Domains = domains
			w.settle()
			out := map[string][]string{}
			for name, r := range w.routes {
				out[name] = hostsOf(r)
			}
			for name, r := range w.others {
				out[name] = hostsOf(r)
			}
			return w, out
		}
		w, first := routes(domains)
		_, again := routes(rapid.Permutation(domains).Draw(t, "order"))
		if diff := cmp.Diff(first, again); diff != "" {
			t.Fatalf("the order of domains matters: %s", diff)
		}
		var all []string
		for name, hosts := range first {
			if len(hosts) > providers.MaxHostnames {
				t.Fatalf("route %s has %d hosts", name, len(hosts))
			}
			all = append(all, hosts...)
		}
		slices.Sort(all)
		if len(all) != n || len(slices.Compact(all)) != n || len(first) != (n+15)/16 {
			t.Fatalf("%d hosts, %d in routes, %d routes", n, len(all), len(first))
		}
		if got := w.policy.Status.Summary.Domains; got != fmt.Sprintf("%d/%d", n, n) {
			t.Fatalf("domains %s", got)
		}
	})
}

// TestAListenerMovesToANewerGroupThatServes checks that a listener moves to the newest group when
// that group is serving, and not before.
func TestAListenerMovesToANewerGroupThatServes(t *testing.T) {
	w := manyPorts(t)
	w.policy.Spec.Listeners = []v1alpha1.Listener{listener("tcp", "first")}
	w.settle()
	w.rollout(group("2-x", 1, "c 2.0.0 active 100"), group("1-x", 1, "a 1.0.0 active 100"))
	w.settle()
	want(t, "group while the newer group has no endpoint", w.policy.Status.Listeners[0].Group, "1-x")
	want(t, "condition", w.condition(v1alpha1.ConditionDomainShared), "True DomainShared")
	w.ready["c"] = 1
	w.settle()
	want(t, "group", w.policy.Status.Listeners[0].Group, "2-x")
	want(t, "routes", len(w.others), 1)
	want(t, "references of the previous group", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").References), "") // The Service of the group refers to the release.
}
