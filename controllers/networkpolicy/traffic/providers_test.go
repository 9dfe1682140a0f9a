package traffic

import (
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
)

var (
	byGateway = v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Namespace: "infra", Name: "public"}}}}
	byPlain   = v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "traefik"}}
	byNginx   = v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "nginx", AnnotationPrefix: "nginx.ingress.kubernetes.io"}}
	byAPISIX  = v1alpha1.NetworkProvider{APISIX: &v1alpha1.APISIXProvider{}}
)

const shopHost = "1-x.shop.example.com"

// routedBy returns a world with a provider, in which a canary has 10 percent of the traffic.
func routedBy(t *testing.T, provider v1alpha1.NetworkProvider) *world {
	w := newWorld(t, group("1-x", 1, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.policy.Spec.Provider = &provider
	w.ready["a"], w.ready["b"] = 1, 1
	w.settle()
	return w
}

// change edits the spec of the policy.
func (w *world) change(edit func(*v1alpha1.NetworkPolicySpec)) {
	edit(&w.policy.Spec)
	w.policy.Generation++
}

// splitOf returns the split of a host in the routes of the policy's provider.
func (w *world) splitOf(host string) string {
	return splitOfEntry(w.facts(), host, ProviderOf(w.policy).Name())
}

// TestClassWithoutWeights checks that Ingresses of a class that does not support weights route only to the
// active release, regardless of the weights in the rollout state, and that the policy reports that there is no
// split.
func TestClassWithoutWeights(t *testing.T) {
	for name, tc := range map[string]struct {
		releases []string
		unready  string
		split    string
	}{
		"a canary":                      {[]string{"b 1.1.0 canary 10", "a 1.0.0 active 90"}, "", "1.0.0=100"},
		"a canary with all traffic":     {[]string{"b 1.1.0 canary 100", "a 1.0.0 active 0"}, "", "1.0.0=100"},
		"a promotion":                   {[]string{"b 1.1.0 active 100", "a 1.0.0 deprecated 0"}, "", "1.1.0=100"},
		"the active release is unready": {[]string{"b 1.1.0 canary 50", "a 1.0.0 active 50"}, "a", "1.1.0=100"}, // The canary replaces the active release.
		"the next release is unready":   {[]string{"b 1.1.0 active 100", "a 1.0.0 deprecated 0"}, "b", "1.0.0=100"},
	} {
		t.Run(name, func(t *testing.T) {
			w := routedBy(t, byPlain)
			want(t, "first split", w.splitOf(shopHost), "1.0.0=100")
			w.rollout(group("1-x", 2, tc.releases...))
			delete(w.ready, tc.unready)
			w.settle()
			want(t, "split", w.splitOf(shopHost), tc.split)
			want(t, "mode", w.groupTraffic("1-x").Split, v1alpha1.SplitWhole)
			want(t, "objects", len(w.others), 1)
			if tc.unready == "" {
				want(t, "revision", w.groupTraffic("1-x").Revision, 2)
			}
		})
	}
}

// TestAnnotationsTakenOut checks that canary Ingresses are deleted when the policy no longer has an
// annotation prefix.
func TestAnnotationsTakenOut(t *testing.T) {
	w := routedBy(t, byNginx)
	want(t, "split", w.splitOf(shopHost), "1.0.0=90 1.1.0=10")
	want(t, "mode", w.groupTraffic("1-x").Split, v1alpha1.SplitWeighted)
	want(t, "objects", len(w.others), 2)
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Provider = &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "nginx"}}
	})
	w.settle()
	want(t, "split", w.splitOf(shopHost), "1.0.0=100")
	want(t, "mode", w.groupTraffic("1-x").Split, v1alpha1.SplitWhole)
	want(t, "objects", len(w.others), 1)
}

// TestProviderKindMissing checks that a kind that the API server lacks is reported in a condition,
// and that live objects stay.
func TestProviderKindMissing(t *testing.T) {
	w := routedBy(t, byGateway)
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Provider = &byAPISIX })
	w.lacks = map[string]bool{"ApisixRoute": true}
	w.settle()
	want(t, "Accepted", w.condition("Accepted"), "False "+providers.ReasonProviderAPIMissing)
	want(t, "live routes", w.split(shopHost), "1.0.0=90 1.1.0=10")
	w.rollout(group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	w.settle()
	want(t, "revision that is not programmed", w.groupTraffic("1-x").Revision, 1)
	want(t, "reason", w.groupTraffic("1-x").Reason, providers.ReasonProviderAPIMissing)
	want(t, "domain", w.policy.Status.Domains[0].Reason, providers.ReasonProviderAPIMissing)
	if m := w.policy.Status.Domains[0].Message; !strings.Contains(m, "ApisixRoute of apisix.apache.org/v2") {
		t.Errorf("message: %s", m)
	}
	want(t, "live routes follow the releases", w.split(shopHost), "1.0.0=50 1.1.0=50")
	want(t, "switching", w.condition(v1alpha1.ConditionProviderSwitching), "True Replacing")
	w.lacks = nil
	w.settle()
	want(t, "split", w.splitOf(shopHost), "1.0.0=50 1.1.0=50")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
	w.now = w.now.Add(time.Minute)
	w.settle()
	want(t, "routes of the previous provider", len(w.routes), 0)
	want(t, "Ready", w.condition("Ready"), "True Programmed")
}

// TestProviderCannotExpress checks that a domain with a setting that the provider cannot express is
// not served, and that the message names the field.
func TestProviderCannotExpress(t *testing.T) {
	w := routedBy(t, byNginx)
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Domains[0].CanaryMatches = []v1alpha1.CanaryMatch{{Method: "POST"}}
	})
	w.settle()
	d := w.policy.Status.Domains[0]
	want(t, "reason", d.Reason, ReasonNotSupported)
	if !strings.HasPrefix(d.Message, "spec.domains[0].canaryMatches[0]: ") {
		t.Errorf("message: %s", d.Message)
	}
	want(t, "live routes", w.splitOf(shopHost), "1.0.0=90 1.1.0=10")

	// The domain with the problem prevents the group from being confirmed, even if another domain
	// has no problem.
	w.change(func(s *v1alpha1.NetworkPolicySpec) {
		s.Domains = append(s.Domains, v1alpha1.Domain{Domain: "other.example.com"})
	})
	w.rollout(group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	w.settle()
	want(t, "split of the other domain", w.splitOf("other.example.com"), "1.0.0=50 1.1.0=50")
	want(t, "revision that is not programmed", w.groupTraffic("1-x").Revision, 1)
	want(t, "reason", w.groupTraffic("1-x").Reason, ReasonNotSupported)
	w.change(func(s *v1alpha1.NetworkPolicySpec) { s.Domains[0].CanaryMatches = nil })
	w.settle()
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)
}
