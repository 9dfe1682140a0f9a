package traffic

import (
	"regexp"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	gatewayapi "github.com/heighliner/heighliner/controllers/networkpolicy/providers/gateway"
)

// testTraffic sets a match, a mirror, or both for the canary of a group.
func testTraffic(g v1alpha1.ReleaseGroup, match bool, mirror int32) v1alpha1.ReleaseGroup {
	for i := range g.Releases {
		if g.Releases[i].Status == v1alpha1.ReleaseCanary {
			g.Releases[i].Match, g.Releases[i].MirrorPercent = match, mirror
		}
	}
	return g
}

func beta() []v1alpha1.CanaryMatch {
	return []v1alpha1.CanaryMatch{
		{Headers: []v1alpha1.MatchValue{{Name: "X-User", Value: "beta"}, {Name: "Region", Value: "eu-.*", Type: v1alpha1.MatchRegularExpression}}},
		{Cookie: &v1alpha1.MatchCookie{Name: "canary", Value: "a.b"}, QueryParams: []v1alpha1.MatchValue{{Name: "v", Value: "2"}}},
	}
}

// onlyRoute returns the only route of a world.
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

func TestMatchStepRoutesChosenRequestsToTheCanary(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.policy.Spec.Domains[0].CanaryMatches = beta()
	w.ready["a"], w.ready["b"] = 1, 1
	w.settle()
	want(t, "rules without a canary", len(onlyRoute(t, w).Spec.Rules), 1)

	w.rollout(testTraffic(group("1-x", 2, "b 1.1.0 canary 0", "a 1.0.0 active 100"), true, 0))
	w.settle()
	route := onlyRoute(t, w)
	want(t, "rules", len(route.Spec.Rules), 2)
	want(t, "split of other requests", w.split(host), "1.0.0=100")
	chosen := route.Spec.Rules[0]
	want(t, "backend of chosen requests", string(chosen.BackendRefs[0].Name), w.facts().ReleaseService("b"))
	want(t, "entries", len(chosen.Matches), 2)
	want(t, "headers are in order", string(chosen.Matches[0].Headers[0].Name), "Region")
	want(t, "references", cmp.Diff([]string{"a", "b"}, w.groupTraffic("1-x").References), "")
	want(t, "revision", w.groupTraffic("1-x").Revision, 2)

	// No test traffic remains after its step (rows 9 and 10 of the known failures).
	w.rollout(group("1-x", 3, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	w.settle()
	want(t, "rules after the abort", len(onlyRoute(t, w).Spec.Rules), 1)
	want(t, "references after the abort", cmp.Diff([]string{"a"}, w.groupTraffic("1-x").References), "")
}

func TestMatchAndWeightGoTogether(t *testing.T) {
	w := newWorld(t, testTraffic(group("1-x", 1, "b 1.1.0 canary 20", "a 1.0.0 active 80"), true, 0))
	w.policy.Spec.Domains[0].CanaryMatches = beta()
	w.ready["a"], w.ready["b"] = 1, 1
	w.settle()
	want(t, "rules", len(onlyRoute(t, w).Spec.Rules), 2)
	want(t, "split of other requests", w.split(host), "1.0.0=80 1.1.0=20")
}

func TestChosenRequestsGoToTheActiveWhileTheCanaryIsDown(t *testing.T) {
	w := newWorld(t, testTraffic(group("1-x", 1, "b 1.1.0 canary 0", "a 1.0.0 active 100"), true, 50))
	w.policy.Spec.Domains[0].CanaryMatches = beta()
	w.ready["a"], w.ready["b"] = 1, 1
	w.settle()
	want(t, "rules", len(onlyRoute(t, w).Spec.Rules), 2)
	w.ready["b"] = 0
	w.settle()
	route := onlyRoute(t, w)
	want(t, "rules while the canary is down", len(route.Spec.Rules), 1)
	want(t, "filters while the canary is down", len(route.Spec.Rules[0].Filters), 0)
	want(t, "withheld", cmp.Diff([]string{"b"}, w.groupTraffic("1-x").Withheld), "")
}

func TestMirrorStepCopiesRequests(t *testing.T) {
	for name, tc := range map[string]struct {
		percent int32
		want    int32 // want is the value in the route; 0 means all requests.
	}{"some": {25, 25}, "all": {100, 0}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, testTraffic(group("1-x", 1, "b 1.1.0 canary 0", "a 1.0.0 active 100"), false, tc.percent))
			w.ready["a"], w.ready["b"] = 1, 1
			w.settle()
			rule := onlyRoute(t, w).Spec.Rules[0]
			want(t, "filters", len(rule.Filters), 1)
			mirror := rule.Filters[0].RequestMirror
			want(t, "mirror", string(mirror.BackendRef.Name), w.facts().ReleaseService("b"))
			want(t, "percent", deref(mirror.Percent), tc.want)
			want(t, "split", w.split(host), "1.0.0=100")
			want(t, "references", cmp.Diff([]string{"a", "b"}, w.groupTraffic("1-x").References), "")
			before := w.writes
			w.settle()
			want(t, "writes in the stable state", w.writes, before)
		})
	}
}

func TestDomainsWithOtherMatchesHaveTheirOwnRoutes(t *testing.T) {
	w := newWorld(t, testTraffic(group("1-x", 1, "b 1.1.0 canary 0", "a 1.0.0 active 100"), true, 0))
	w.policy.Spec.Domains = []v1alpha1.Domain{
		{Domain: "plain.example.com"},
		{Domain: "beta.example.com", CanaryMatches: beta()},
		{Domain: "gamma.example.com", CanaryMatches: beta()[:1]},
	}
	w.ready["a"], w.ready["b"] = 1, 1
	w.settle()
	rules := map[string]int{}
	for _, r := range w.routes {
		for _, h := range hostsOf(r) {
			rules[h] = len(r.Spec.Rules)
		}
	}
	want(t, "rules by host", cmp.Diff(map[string]int{"plain.example.com": 1, "beta.example.com": 2, "gamma.example.com": 2}, rules), "")
}

func TestAStepWithMatchNeedsMatches(t *testing.T) {
	w := newWorld(t, testTraffic(group("1-x", 1, "b 1.1.0 canary 0", "a 1.0.0 active 100"), true, 0))
	w.ready["a"], w.ready["b"] = 1, 1
	w.settle()
	want(t, "condition", w.condition(v1alpha1.ConditionCanaryUnmatched), "True CanaryUnmatched")
	w.policy.Spec.Domains[0].CanaryMatches = beta()
	w.settle()
	want(t, "condition with matches", w.condition(v1alpha1.ConditionCanaryUnmatched), "")
}

func TestCookieMatch(t *testing.T) {
	w := newWorld(t, testTraffic(group("1-x", 1, "b 1.1.0 canary 0", "a 1.0.0 active 100"), true, 0))
	w.policy.Spec.Domains[0].CanaryMatches = beta()[1:]
	w.ready["a"], w.ready["b"] = 1, 1
	w.settle()
	headers := onlyRoute(t, w).Spec.Rules[0].Matches[0].Headers
	i := slices.IndexFunc(headers, func(h gatewayv1.HTTPHeaderMatch) bool { return h.Name == "Cookie" })
	if i < 0 {
		t.Fatal("no match of header Cookie")
	}
	pattern := regexp.MustCompile(headers[i].Value)
	for value, chosen := range map[string]bool{
		"canary=a.b": true, "x=1; canary=a.b": true, "canary=a.b; y=2": true, "x=1;canary=a.b;y=2": true,
		"canary=aXb": false, "xcanary=a.b": false, "canary=a.bc": false, "x=canary=a.b": false,
	} {
		want(t, value, pattern.MatchString(value), chosen)
	}
}

// TestTheOrderOfMatchedValuesMakesNoDifference checks that the order of an unordered list does not
// count as a difference (row 14 of the known failures).
func TestTheOrderOfMatchedValuesMakesNoDifference(t *testing.T) {
	w := newWorld(t, testTraffic(group("1-x", 1, "b 1.1.0 canary 0", "a 1.0.0 active 100"), true, 0))
	w.policy.Spec.Domains[0].CanaryMatches = beta()
	w.ready["a"], w.ready["b"] = 1, 1
	w.settle()
	writes := w.writes
	slices.Reverse(w.policy.Spec.Domains[0].CanaryMatches[0].Headers)
	w.settle()
	want(t, "writes", w.writes, writes)
}

// TestRouteWithFieldsOfTheServerIsConfirmed checks that a route is confirmed although the API
// server adds fields to its rules after each write (row 15 of the known failures).
func TestRouteWithFieldsOfTheServerIsConfirmed(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.ready["a"] = 1
	w.settle()
	want := onlyRoute(t, w)
	have := want.DeepCopy()
	have.Spec.Rules[0].Timeouts = &gatewayv1.HTTPRouteTimeouts{Request: new(gatewayv1.Duration("30s"))}
	if !gatewayapi.Same(have, want) {
		t.Error("a default for timeouts changes the route")
	}
	have.Spec.Rules[0].Matches[0].Headers = []gatewayv1.HTTPHeaderMatch{{Name: "never", Value: "sent"}}
	if gatewayapi.Same(have, want) {
		t.Error("a route with other matches is treated as the route of the policy")
	}
}
