//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// TestRouteRef routes two canaries with one rule of a user's HTTPRoute, while the user edits the other rule. One
// canary completes, and the other canary is aborted. The test then returns the rule to the user. No request to
// either rule fails.
func TestRouteRef(t *testing.T) {
	s := newService(t, "routeref").steps(asking("ten", 10), asking("half", 50), asking("all", 100))
	u := s.userOwned("0.9.0")
	u.twoRules()
	l, static := s.loadOn(u.host, 30, false), u.loadOnPath("/static/logo")
	s.network.Spec.Domains = nil
	s.network.Spec.Provider = &v1alpha1.NetworkProvider{RouteRef: &v1alpha1.RouteReference{Kind: "HTTPRoute", Name: u.route.Name, RuleNames: []string{"main"}}}
	s.network.Spec.DeletionPolicy = v1alpha1.DeletionRestore
	s.start("1.0.0")
	s.sees(l, "1.0.0")

	s.push("1.1.0")
	s.share(l, "1.1.0", 10)

	// In the middle of the rollout, the user changes the other rule, as with kubectl edit.
	filter := gatewayv1.HTTPRouteFilter{Type: gatewayv1.HTTPRouteFilterResponseHeaderModifier, ResponseHeaderModifier: &gatewayv1.HTTPHeaderFilter{
		Set: []gatewayv1.HTTPHeader{{Name: "X-Team", Value: "web"}},
	}}
	change(t, u.route, func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].Filters = []gatewayv1.HTTPRouteFilter{filter} })
	s.decide("1.1.0", v1alpha1.DecisionContinue, "ten")
	s.share(l, "1.1.0", 50)
	s.decide("1.1.0", v1alpha1.DecisionContinue, "half")
	s.share(l, "1.1.0", 100)
	s.decide("1.1.0", v1alpha1.DecisionContinue, "all")
	s.active("1.1.0")

	s.push("1.2.0")
	s.share(l, "1.2.0", 10)
	s.decide("1.2.0", v1alpha1.DecisionDeprecate, "")
	s.status("1.2.0", v1alpha1.ReleaseError)
	s.confirmed()
	s.sees(l, "1.1.0")

	if err := env.Client.Delete(t.Context(), s.network); err != nil {
		t.Fatal(err)
	}
	wait(t, "the policy to be deleted", func(ctx context.Context) (bool, string, error) { return gone(ctx, s.network) })
	s.sees(l, "0.9.0")
	s.serves(l, 5*time.Second)
	static.Mark("at the end")
	s.serves(static, time.Second)
	if f := static.Split("at the end").Fraction("0.9.0"); f != 1 {
		t.Errorf("%.1f%% of the requests to the other rule went to 0.9.0", f*100)
	}
	var route gatewayv1.HTTPRoute
	if err := env.Client.Get(t.Context(), client.ObjectKeyFromObject(u.route), &route); err != nil {
		t.Fatal(err)
	}
	want := u.rules()
	want[0].Filters = []gatewayv1.HTTPRouteFilter{filter}
	if diff := cmp.Diff(backends(want), backends(route.Spec.Rules)); diff != "" {
		t.Errorf("backendRefs at the end (-before +after):\n%s", diff)
	}
	if diff := cmp.Diff(want[0].Filters, route.Spec.Rules[0].Filters); diff != "" {
		t.Errorf("the user's changes (-changed +after):\n%s", diff)
	}
	if len(route.Annotations) > 0 {
		t.Errorf("annotations at the end: %v", route.Annotations)
	}
	verdict(t, l, static)
}

// rules returns the two rules of the user's route. Both route to the user's Service.
func (u *userOwned) rules() []gatewayv1.HTTPRouteRule {
	main := *u.route.Spec.Rules[len(u.route.Spec.Rules)-1].DeepCopy()
	port := gatewayv1.PortNumber(80)
	main.BackendRefs = []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{
		BackendObjectReference: gatewayv1.BackendObjectReference{Name: gatewayv1.ObjectName(u.service.Name), Port: &port},
	}}}
	main.Name, main.Matches = new(gatewayv1.SectionName("main")), nil
	static := *main.DeepCopy()
	static.Name = new(gatewayv1.SectionName("static"))
	static.Matches = []gatewayv1.HTTPRouteMatch{{Path: &gatewayv1.HTTPPathMatch{Type: new(gatewayv1.PathMatchPathPrefix), Value: new("/static")}}}
	return []gatewayv1.HTTPRouteRule{static, main}
}

// twoRules gives the user's route two rules.
func (u *userOwned) twoRules() {
	u.s.t.Helper()
	change(u.s.t, u.route, func(r *gatewayv1.HTTPRoute) { r.Spec.Rules = u.rules() })
}

// loadOnPath starts sending requests to a path of the user's route.
func (u *userOwned) loadOnPath(path string) *harness.Load {
	u.s.t.Helper()
	answers(u.s.t, u.host)
	l, err := harness.StartLoad(context.Background(), harness.LoadConfig{Gateway: env.Gateway, Host: u.host, Path: path, Rate: 10, Duration: time.Hour})
	if err != nil {
		u.s.t.Fatal(err)
	}
	u.s.t.Cleanup(func() { l.Stop() })
	return l
}

// backends returns the Services of rules, by rule name.
func backends(rules []gatewayv1.HTTPRouteRule) map[string][]string {
	out := map[string][]string{}
	for _, r := range rules {
		for _, b := range r.BackendRefs {
			out[string(*r.Name)] = append(out[string(*r.Name)], string(b.Name))
		}
	}
	return out
}

// share waits until a version has the given weight and clients see approximately this share.
func (s *service) share(l *harness.Load, version string, weight int32) {
	s.t.Helper()
	s.weight(version, weight)
	wait(s.t, fmt.Sprintf("clients to see %d%% of %s", weight, version), func(context.Context) (bool, string, error) {
		got := l.Recent(3*time.Second).Split().Fraction(version) * 100
		return math.Abs(got-float64(weight)) <= 5, fmt.Sprintf("%.0f%%", got), nil
	})
}
