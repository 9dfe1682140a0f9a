package traffic

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/allowedhosts"
)

// own sets the list of domains, and the labels of the world's namespace.
func (w *world) own(data map[string]string, labels map[string]string) {
	rules, err := allowedhosts.Parse(data)
	w.owned = &Ownership{Hosts: rules.For(w.policy.Namespace, labels), Unread: err}
}

// broken is a list of domains that cannot be parsed.
var broken = map[string]string{"prod": "not a host"}

// reported returns the domains in a status, each as "host reason programmed".
func reported(s v1alpha1.NetworkPolicyStatus) []string {
	out := []string{}
	for _, d := range s.Domains {
		text := d.Domain + " " + d.Reason
		if d.Programmed {
			text += " programmed"
		}
		out = append(out, text)
	}
	return out
}

// routedHosts returns the hosts of all existing routes.
func (w *world) routedHosts() []string {
	var out []string
	for _, route := range w.routes {
		out = append(out, hostsOf(route)...)
	}
	return Union(out, nil)
}

func TestHostsOfANamespace(t *testing.T) {
	const each = "{{.ReleaseGroupName}}.shop.example.com"
	preview := map[string]string{"team": "shop"}
	for name, tc := range map[string]struct {
		list    map[string]string
		labels  map[string]string
		domains []v1alpha1.Domain
		want    []string
		message string
	}{
		"no list": {domains: []v1alpha1.Domain{{Domain: "a.example.net"}}, want: []string{"a.example.net  programmed"}},
		"empty list": {
			list: map[string]string{}, domains: []v1alpha1.Domain{{Domain: "a.example.net"}}, want: []string{"a.example.net DomainNotAllowed"},
			message: `spec.domains[0].domain: "a.example.net" is not allowed in namespace "prod": use a host of this namespace, or ask an administrator to list it`,
		},
		"allowed by name": {list: map[string]string{"prod": "a.example.net"}, domains: []v1alpha1.Domain{{Domain: "a.example.net"}}, want: []string{"a.example.net  programmed"}},
		"allowed by labels": {
			list: map[string]string{"x": "namespaces: team=shop\n*.example.net"}, labels: preview,
			domains: []v1alpha1.Domain{{Domain: "a.example.net"}}, want: []string{"a.example.net  programmed"},
		},
		"not allowed by labels": {
			list:    map[string]string{"x": "namespaces: team=shop\n*.example.net"},
			domains: []v1alpha1.Domain{{Domain: "a.example.net"}}, want: []string{"a.example.net DomainNotAllowed"},
		},
		"a group named like a host of the namespace": {
			list: map[string]string{"prod": "*.shop.example.com\nwww.shop.example.com"}, domains: []v1alpha1.Domain{{Domain: each}},
			want:    []string{"www.shop.example.com DomainNotAllowed", "1-x.shop.example.com  programmed"},
			message: `spec.domains[0].domain: "www.shop.example.com" is not allowed in namespace "prod": ConfigMap "heighliner-domains" lists "www.shop.example.com" by name`,
		},
		"a host of the namespace, and a group named like it": {
			list: map[string]string{"prod": "*.shop.example.com\nwww.shop.example.com"}, domains: []v1alpha1.Domain{{Domain: each}, {Domain: "www.shop.example.com"}},
			want: []string{"www.shop.example.com DomainNotAllowed", "1-x.shop.example.com  programmed", "www.shop.example.com  programmed"},
		},
		"a group named like a host of another namespace": {
			list: map[string]string{"prod": "*.shop.example.com", "site": "www.shop.example.com"}, domains: []v1alpha1.Domain{{Domain: each}},
			want: []string{"www.shop.example.com DomainNotAllowed", "1-x.shop.example.com  programmed"},
		},
		"a pin": {
			list: map[string]string{"prod": "*.shop.example.com"}, domains: []v1alpha1.Domain{{Domain: "a.example.net", Release: &v1alpha1.DomainRelease{Version: "1.0.0"}}},
			want: []string{"a.example.net DomainNotAllowed"}, message: "spec.domains[0].domain: ",
		},
		"a pin without a release": {
			list: map[string]string{"prod": "*.shop.example.com"}, domains: []v1alpha1.Domain{{Domain: "a.example.net", Release: &v1alpha1.DomainRelease{Version: "9.0.0"}}},
			want: []string{"a.example.net DomainNotAllowed"}, message: "spec.domains[0].domain: ",
		},
		"an allowed pin without a release": {
			list: map[string]string{"prod": "*.example.net"}, domains: []v1alpha1.Domain{{Domain: "a.example.net", Release: &v1alpha1.DomainRelease{Version: "9.0.0"}}},
			want: []string{"a.example.net PinnedReleaseUnavailable"},
		},
		"an invalid host name": {
			list: map[string]string{"prod": "*.shop.example.com"}, domains: []v1alpha1.Domain{{Domain: "{{.ReleaseGroupName}}_.shop.example.com"}},
			want: []string{"{{.ReleaseGroupName}}_.shop.example.com InvalidDomain", "{{.ReleaseGroupName}}_.shop.example.com InvalidDomain"},
		},
		"unreadable, and nothing served": {
			list: broken, domains: []v1alpha1.Domain{{Domain: "a.example.net"}}, want: []string{"a.example.net DomainListUnreadable"},
			message: `spec.domains[0].domain: the list of domains cannot be read, so it is unknown whether "a.example.net" is allowed in namespace "prod": no host is added, and existing hosts stay, until an administrator fixes the list: read list of domains: key "prod": line "not a host"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("www", 1, "b 2.0.0 active 100"), group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"], w.ready["b"] = 1, 1
			w.policy.Spec.Domains = tc.domains
			if tc.list != nil {
				w.own(tc.list, tc.labels)
			}
			s := w.settle()
			if diff := cmp.Diff(tc.want, reported(s)); diff != "" {
				t.Error(diff)
			}
			if !strings.HasPrefix(s.Domains[0].Message, tc.message) {
				t.Errorf("message is %q, want %q", s.Domains[0].Message, tc.message)
			}
			var programmed []string
			for _, d := range s.Domains {
				if d.Programmed {
					programmed = append(programmed, d.Domain)
				}
			}
			if diff := cmp.Diff(Union(programmed, nil), w.routedHosts()); diff != "" {
				t.Errorf("hosts of routes: %s", diff)
			}
		})
	}
}

func TestListRevokesAndAllowsDomains(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: "www.example.com"})
	w.settle()
	want(t, "split without a list", w.split("www.example.com"), "1.0.0=100")

	w.own(map[string]string{"prod": "*.shop.example.com"}, nil)
	w.settle()
	want(t, "hosts", cmp.Diff([]string{host}, w.routedHosts()), "")
	want(t, "accepted", w.condition("Accepted"), "False DomainNotAllowed")
	want(t, "ready", w.condition("Ready"), "False DomainNotAllowed")

	w.owned = nil
	w.settle()
	want(t, "hosts", cmp.Diff([]string{host, "www.example.com"}, w.routedHosts()), "")
	want(t, "ready", w.condition("Ready"), "True Programmed")
}

func TestUnreadableListRevokesNothing(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"], w.ready["b"], w.ready["c"] = 1, 1, 1
	w.settle()
	w.own(broken, nil)
	w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: "www.example.com"})
	w.settle()
	want(t, "rows", cmp.Diff([]string{host + " DomainListUnreadable programmed", "www.example.com DomainListUnreadable"}, reported(w.policy.Status)), "")
	want(t, "hosts", cmp.Diff([]string{host}, w.routedHosts()), "")
	want(t, "accepted", w.condition("Accepted"), "False DomainListUnreadable")

	w.rollout(group("2-x", 1, "c 2.0.0 active 100"), group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.settle()
	want(t, "served routes follow the releases", w.split(host), "1.1.0=100")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	want(t, "the new group", w.groupTraffic("2-x").Reason, ReasonDomainsUnreadable)
	want(t, "hosts", cmp.Diff([]string{host}, w.routedHosts()), "")

	w.own(map[string]string{"prod": "*.example.com"}, nil)
	w.settle()
	want(t, "hosts", cmp.Diff([]string{host, "2-x.shop.example.com", "www.example.com"}, w.routedHosts()), "")
	want(t, "ready", w.condition("Ready"), "True Programmed")
}

// TestNoRetainedRouteHasAHostThatIsNotAllowed checks that hosts that stay although the
// specification does not render them must also be allowed.
func TestNoRetainedRouteHasAHostThatIsNotAllowed(t *testing.T) {
	for name, keep := range map[string]func(*world){
		"the domain became invalid": func(w *world) { w.policy.Spec.Domains[0].Domain = "{{.Version}}_.example.com" },
		"the Microservice is gone":  func(w *world) { w.ms = nil },
		"the group vanished":        func(w *world) { w.rollout() },
		"the policy names a Gateway that does not exist": func(w *world) {
			w.policy.Spec.Provider.Gateway.ParentRefs = []v1alpha1.ParentReference{{Name: "typo"}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"] = 1
			w.settle()
			keep(w)
			w.own(map[string]string{"prod": "*.shop.example.com"}, nil)
			w.settle()
			if !strings.Contains(strings.Join(w.routedHosts(), " "), host) {
				t.Fatalf("allowed hosts are not retained: %q", w.routedHosts())
			}
			w.own(broken, nil)
			w.settle()
			want(t, "hosts with an unreadable list", cmp.Diff([]string{host}, w.routedHosts()), "")
			w.own(map[string]string{"prod": "*.example.net"}, nil)
			s := w.settle()
			want(t, "hosts that are not allowed", len(w.routedHosts()), 0)
			for _, d := range s.Domains {
				want(t, "programmed", d.Programmed, false)
			}
		})
	}
}

// TestRouteOfARejectedGroupIsDeleted checks that the route of a group is deleted if its host is not
// allowed for groups, even though the namespace itself may use the host and another host of the
// route is waiting for a Gateway.
func TestRouteOfARejectedGroupIsDeleted(t *testing.T) {
	w := newWorld(t, group("www", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.policy.Spec.Domains = append(w.policy.Spec.Domains, v1alpha1.Domain{Domain: "{{.ReleaseGroupName}}.preview.example.com"})
	w.settle()
	delete(w.gateways, "infra/public")
	w.policy.Spec.Ports[0].Name = "web" // The other port requires another route, which no gateway accepts.
	w.settle()
	want(t, "routes", len(w.routes), 2)
	want(t, "hosts", cmp.Diff([]string{"www.preview.example.com", "www.shop.example.com"}, w.routedHosts()), "")
	w.own(map[string]string{"prod": "*.shop.example.com\nwww.shop.example.com\n*.preview.example.com"}, nil)
	w.settle()
	want(t, "routes", len(w.routes), 1)
	want(t, "hosts", cmp.Diff([]string{"www.preview.example.com"}, w.routedHosts()), "")
}

func TestDomainThatIsNotAllowedReservesNothing(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.own(map[string]string{"prod": "*.example.net"}, nil)
	w.settle()
	other := newWorld(t).policy.DeepCopy()
	other.UID, other.Namespace = "other", "zzz"
	f := &Observed{Policy: other}
	f.SetViews(newWorld(t).input(other))
	want(t, "claims", len(ClaimsOf(f, []v1alpha1.NetworkPolicy{*w.policy})), 0)
}
