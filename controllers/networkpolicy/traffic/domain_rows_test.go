package traffic

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
)

func TestRender(t *testing.T) {
	g := group("1-x", 1, "a 1.2.3 active 100")
	branch := group("feature-foo-7", 1, "a 0.0.0-7+build active 100")
	branch.Name, branch.PullRequest = "feature/foo", 7
	for name, tc := range map[string]struct {
		domain string
		group  *v1alpha1.ReleaseGroup
		want   string
		fault  string
	}{
		"plain":                       {"shop.example.com", nil, "shop.example.com", ""},
		"slug":                        {"{{.ReleaseGroupName}}.example.com", &g, "1-x.example.com", ""},
		"stream":                      {"{{ .StreamName }}.example.com", &g, "1.x.example.com", ""},
		"full name":                   {"{{.FullName}}.example.com", &g, "shop-1-x.example.com", ""},
		"version":                     {"v{{.Version}}.example.com", &g, "v1.2.3.example.com", ""},
		"names of the policy":         {"{{.Name}}.{{.Microservice}}.{{.Namespace}}.example.com", nil, "shop.shop.prod.example.com", ""},
		"wildcard":                    {"*.example.com", nil, "*.example.com", ""},
		"branch":                      {"{{.ReleaseGroupName}}.example.com", &branch, "feature-foo-7.example.com", ""},
		"branch in StreamName":        {"{{.StreamName}}.example.com", &branch, "", "not a host name"},
		"build metadata in version":   {"{{.Version}}.example.com", &branch, "", "not a host name"},
		"number":                      {"pr-{{.Number}}.example.com", &branch, "pr-7.example.com", ""},
		"no number":                   {"pr-{{.Number}}.example.com", &g, "", "{{.Number}} has no value"},
		"group field without a group": {"{{.ReleaseGroupName}}.example.com", nil, "", "{{.ReleaseGroupName}} has no value"},
		"long label":                  {strings.Repeat("a", 64) + ".example.com", nil, "", "more than 63"},
		"long name":                   {strings.Repeat("aaaaaaaaa.", 26) + "com", nil, "", "not a host name"},
		"address":                     {"10.0.0.1", nil, "", "address"},
		"inner wildcard":              {"a.*.example.com", nil, "", "not a host name"},
		"empty label":                 {"a..example.com", nil, "", "not a host name"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := render(tc.domain, newWorld(t).policy, tc.group)
			if tc.fault != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fault) {
					t.Fatalf("got %q, %v; want an error with %q", got, err, tc.fault)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("got %q, %v; want %q", got, err, tc.want)
			}
		})
	}
}

func TestGroupsOfDomains(t *testing.T) {
	groups := []v1alpha1.ReleaseGroup{group("2-x", 1, "b 2.0.0 active 100"), group("1-x", 1, "a 1.0.0 active 100")}
	named := func(names ...string) *v1alpha1.DomainGroups {
		return &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNamed, Names: names}
	}
	for name, tc := range map[string]struct {
		domain v1alpha1.Domain
		want   []string
	}{
		"each by template":                {v1alpha1.Domain{Domain: "{{.ReleaseGroupName}}.e.com"}, []string{"2-x.e.com 2-x ", "1-x.e.com 1-x "}},
		"newest by default":               {v1alpha1.Domain{Domain: "e.com"}, []string{"e.com 2-x "}},
		"newest with a template":          {v1alpha1.Domain{Domain: "{{.ReleaseGroupName}}.e.com", Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsNewest}}, []string{"2-x.e.com 2-x "}},
		"each without template":           {v1alpha1.Domain{Domain: "e.com", Groups: &v1alpha1.DomainGroups{Policy: v1alpha1.GroupsEach}}, []string{"e.com 2-x ", "e.com 1-x DomainConflict"}},
		"named by group name":             {v1alpha1.Domain{Domain: "e.com", Groups: named("1.x")}, []string{"e.com 1-x "}},
		"named by slug":                   {v1alpha1.Domain{Domain: "e.com", Groups: named("1-x", "2-x")}, []string{"e.com 1-x "}},
		"named with template":             {v1alpha1.Domain{Domain: "{{.ReleaseGroupName}}.e.com", Groups: named("1-x", "9-x")}, []string{"1-x.e.com 1-x ", "{{.ReleaseGroupName}}.e.com  GroupNotFound"}},
		"named group that does not exist": {v1alpha1.Domain{Domain: "e.com", Groups: named("9-x")}, []string{"e.com  GroupNotFound"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, groups...)
			w.ready["a"], w.ready["b"] = 1, 1
			w.policy.Spec.Domains = []v1alpha1.Domain{tc.domain}
			var got []string
			for _, d := range w.settle().Domains {
				got = append(got, d.Domain+" "+d.Group+" "+d.Reason)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestURLAndListeners(t *testing.T) {
	for name, tc := range map[string]struct {
		gateway     *gatewayv1.Gateway
		url, reason string
	}{
		"usual port":     {gateway(80, "HTTP", ""), "http://" + host, ""},
		"other port":     {gateway(18080, "HTTP", ""), "http://" + host + ":18080", ""},
		"https":          {gateway(443, "HTTPS", "*.example.com"), "https://" + host, ""},
		"other hostname": {gateway(80, "HTTP", "*.example.org"), "http://" + host, reasonNoMatchingListener},
		"wrong protocol": {gateway(80, "TCP", ""), "http://" + host, reasonNoMatchingListener},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"], w.gateways["infra/public"] = 1, tc.gateway
			d := w.settle().Domains[0]
			want(t, "url", d.URL, tc.url)
			want(t, "reason", d.Reason, tc.reason)
		})
	}
}

// TestGatewayThatIsNotProgrammed checks that a policy is not ready while the status of a Gateway
// shows that the Gateway is not programmed, even if the Gateway accepts the routes. A report about
// an earlier generation does not count. The policy is not stalled, because the Gateway controller
// might still program the Gateway.
func TestGatewayThatIsNotProgrammed(t *testing.T) {
	for name, tc := range map[string]struct {
		status             metav1.ConditionStatus
		generation         int64
		programmed, stalls string
	}{
		"not programmed":           {metav1.ConditionFalse, 1, "False GatewayNotProgrammed", ""},
		"programmed":               {metav1.ConditionTrue, 1, "True Programmed", ""},
		"not known":                {metav1.ConditionUnknown, 1, "True Programmed", ""},
		"of an earlier generation": {metav1.ConditionFalse, 0, "True Programmed", ""},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
			w.ready["a"], w.gateways["infra/public"] = 1, gateway(80, "HTTP", "")
			w.gateways["infra/public"].Status.Conditions = []metav1.Condition{{
				Type: string(gatewayv1.GatewayConditionProgrammed), Status: tc.status, ObservedGeneration: tc.generation, Reason: "AddressNotUsable", Message: "said",
			}}
			now := w.settle()
			want(t, "Programmed", w.condition(v1alpha1.ConditionProgrammed), tc.programmed)
			want(t, "Ready", w.condition(v1alpha1.ConditionReady), tc.programmed)
			want(t, "Stalled", w.condition(v1alpha1.ConditionStalled), tc.stalls)
			want(t, "the group's revision", Find(now.Groups, "1-x").Revision, int64(1))
			if c := meta.FindStatusCondition(now.Conditions, v1alpha1.ConditionProgrammed); c.Status == metav1.ConditionFalse {
				want(t, "message", c.Message, `spec.provider.gateway.parentRefs[0]: Gateway "infra/public" is not programmed: AddressNotUsable: said`)
			}
		})
	}
}

func TestAcceptance(t *testing.T) {
	parent := v1alpha1.ParentReference{Namespace: "infra", Name: "public"}
	ref := parentRefOf("infra", "public")
	for name, tc := range map[string]struct {
		parents []gatewayv1.RouteParentStatus
		want    verdict
	}{
		"no entry":               {nil, verdict{Pending: true}},
		"accepted":               {[]gatewayv1.RouteParentStatus{answer(ref, 3, "True", "Accepted")}, verdict{Accepted: true}},
		"old generation":         {[]gatewayv1.RouteParentStatus{answer(ref, 2, "True", "Accepted")}, verdict{Pending: true}},
		"unknown":                {[]gatewayv1.RouteParentStatus{answer(ref, 3, "Unknown", "Pending")}, verdict{Pending: true}},
		"rejected":               {[]gatewayv1.RouteParentStatus{answer(ref, 3, "False", "NotAllowedByListeners")}, verdict{Reason: "NotAllowedByListeners"}},
		"another parent":         {[]gatewayv1.RouteParentStatus{answer(parentRefOf("infra", "other"), 3, "True", "Accepted")}, verdict{Pending: true}},
		"one of two controllers": {[]gatewayv1.RouteParentStatus{answer(ref, 3, "False", "NoMatchingParent"), answer(ref, 3, "True", "Accepted")}, verdict{Accepted: true}},
	} {
		t.Run(name, func(t *testing.T) {
			route := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Generation: 3}}
			route.Status.Parents = tc.parents
			want(t, "verdict", gatewayapi.Acceptance(route, parent), tc.want)
		})
	}
}

func parentRefOf(namespace, name string) gatewayv1.ParentReference {
	return gatewayv1.ParentReference{Namespace: new(gatewayv1.Namespace(namespace)), Name: gatewayv1.ObjectName(name)}
}

func TestClaims(t *testing.T) {
	policy := func(namespace, name string, second int64, parent v1alpha1.ParentReference, domains ...v1alpha1.DomainStatus) v1alpha1.NetworkPolicy {
		return v1alpha1.NetworkPolicy{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name, UID: "other", CreationTimestamp: metav1.Unix(second, 0)},
			Spec:       v1alpha1.NetworkPolicySpec{Provider: &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{parent}}}},
			Status:     v1alpha1.NetworkPolicyStatus{Domains: domains},
		}
	}
	naming := func(p v1alpha1.NetworkPolicy) v1alpha1.NetworkPolicy {
		p.Spec.Domains = []v1alpha1.Domain{{Domain: p.Status.Domains[0].Domain}}
		return p
	}
	public := v1alpha1.ParentReference{Namespace: "infra", Name: "public"}
	section := func(name string) v1alpha1.ParentReference {
		return v1alpha1.ParentReference{Namespace: "infra", Name: "public", SectionName: name}
	}
	row := v1alpha1.DomainStatus{Domain: "a.example.com", URL: "http://a.example.com", Programmed: true}
	lost, coming, unserved := row, row, row
	lost.Programmed, lost.Reason = false, reasonDomainConflict
	coming.Programmed, coming.Reason = false, ReasonPending
	unserved.Programmed, unserved.Reason = false, ReasonNotAccepted
	leaving := policy("a", "a", 4, public, row)
	leaving.DeletionTimestamp = &metav1.Time{Time: time.Unix(9, 0)}
	for name, tc := range map[string]struct {
		own, other v1alpha1.NetworkPolicy
		want       int
	}{
		"older":                        {policy("b", "b", 5, public), policy("a", "a", 4, public, row), 1},
		"younger":                      {policy("b", "b", 5, public), policy("a", "a", 6, public, row), 0},
		"same age, order of names":     {policy("b", "b", 5, public), policy("a", "a", 5, public, row), 1},
		"other Gateway":                {policy("b", "b", 5, public), policy("a", "a", 4, v1alpha1.ParentReference{Name: "public"}, row), 0},
		"same listener":                {policy("b", "b", 5, section("web")), policy("a", "a", 4, section("web"), row), 1},
		"other listener":               {policy("b", "b", 5, section("web")), policy("a", "a", 4, section("tls"), row), 0},
		"all listeners":                {policy("b", "b", 5, public), policy("a", "a", 4, section("tls"), row), 1},
		"rejected":                     {policy("b", "b", 5, public), policy("a", "a", 4, public, lost), 0},
		"in progress":                  {policy("b", "b", 5, public), policy("a", "a", 4, public, coming), 1},
		"not accepted":                 {policy("b", "b", 5, public), policy("a", "a", 4, public, unserved), 0},
		"policy that is being deleted": {policy("b", "b", 5, public), leaving, 1},
		"younger, named in the specification and served":  {policy("b", "b", 5, public), naming(policy("a", "a", 6, public, row)), 1},
		"younger, named in the specification but pending": {policy("b", "b", 5, public), naming(policy("a", "a", 6, public, coming)), 0},
	} {
		t.Run(name, func(t *testing.T) {
			tc.own.UID = "own"
			f := &Observed{Policy: &tc.own}
			f.SetViews(newWorld(t).input(f.Policy))
			want(t, "claims", len(ClaimsOf(f, []v1alpha1.NetworkPolicy{tc.own, tc.other, tc.other})), tc.want)
		})
	}
}

// TestDomainOfATag checks that a domain can select its version by tag, as a Microservice pin can.
func TestDomainOfATag(t *testing.T) {
	for version, release := range map[string]string{"1.0.0": "a", "v1.0.0": "a", "v1.1.0": "b", "1.1.0_7": "", "v9.0.0": ""} {
		w := newWorld(t, group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
		w.ready = map[string]int{"a": 1, "b": 1}
		w.ms.Status.ReleaseGroups[0].Releases[1].Promoted = 1
		w.policy.Spec.Domains = []v1alpha1.Domain{{Domain: newestHost}, {Domain: "pin.example.com", Release: &v1alpha1.DomainRelease{Version: version}}}
		w.settle()
		var got []string
		for _, b := range w.policy.Status.Domains[1].Backends {
			got = append(got, b.Release)
		}
		want(t, version, strings.Join(got, " "), release)
	}
}
