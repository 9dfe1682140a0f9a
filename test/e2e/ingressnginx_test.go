//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"testing"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// byAnnotations returns a provider with Ingresses that have the annotations of ingress-nginx. The local
// cluster's gateway, Traefik, reads these annotations as ingress-nginx documents them. How ingress-nginx itself
// reloads is not tested here.
func byAnnotations() *v1alpha1.NetworkProvider {
	return &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "nginx", AnnotationPrefix: "nginx.ingress.kubernetes.io"}}
}

// TestAnnotationsSplit checks that the share of the requests that a canary gets equals its canary-weight to
// within 1 percentage point. It then rolls a canary back, and rolls back to the retained release. No request
// fails.
func TestAnnotationsSplit(t *testing.T) {
	const requests, tolerance = 5_000, 1.0
	weights := []int32{1, 10, 50, 99}
	s := newService(t, "nginx-split")
	s.network.Spec.Provider = byAnnotations()
	for _, w := range weights {
		s.ms.Spec.UpdateStrategy.Canary = appendStep(s.ms.Spec.UpdateStrategy.Canary, asking(fmt.Sprintf("at-%d", w), w))
	}
	s.start("1.0.0")
	l := s.load(30, true)
	s.push("1.1.0")
	for _, w := range weights {
		l.Mark(fmt.Sprintf("%d%%", w))
		s.weight("1.1.0", w)
		served(t, s, w)
		s.ingresses(2)
		sample, err := harness.StartLoad(t.Context(), harness.LoadConfig{Gateway: env.Gateway, Host: s.host(), Rate: 300, Count: requests})
		if err != nil {
			t.Fatal(err)
		}
		report := sample.Wait()
		got := report.Total.Split().Fraction("1.1.0") * 100
		t.Logf("weight %d%%, clients saw %.2f%% of %d requests, %d failed", w, got, report.Total.Answered, report.Total.Failed)
		if math.Abs(got-float64(w)) > tolerance || report.Total.Failed > 0 || report.Total.Answered != requests {
			t.Errorf("at %d%%: %.2f%% of %d responses, %d failed: %v", w, got, report.Total.Answered, report.Total.Failed, report.Failures)
		}
		s.decide("1.1.0", v1alpha1.DecisionContinue, fmt.Sprintf("at-%d", w))
	}
	l.Mark("1.1.0 active")
	s.active("1.1.0")
	s.sees(l, "1.1.0")
	s.ingresses(1)

	l.Mark("canary 1.2.0 rolled back")
	s.push("1.2.0")
	for _, w := range weights[:3] {
		s.weight("1.2.0", w)
		if w != weights[2] {
			s.decide("1.2.0", v1alpha1.DecisionContinue, fmt.Sprintf("at-%d", w))
		}
	}
	s.decide("1.2.0", v1alpha1.DecisionDeprecate, "")
	s.status("1.2.0", v1alpha1.ReleaseError)
	s.confirmed()
	s.sees(l, "1.1.0")
	s.ingresses(1)

	l.Mark("back to 1.0.0")
	began := time.Now()
	s.pin("1.0.0")
	s.sees(l, "1.0.0")
	t.Logf("clients see only the retained release %s after the pin", time.Since(began).Round(100*time.Millisecond))
	s.active("1.0.0")
	s.serves(l, 8*time.Second) // Wait until the drain of 1.1.0 has ended.
	verdict(t, l)
}

// TestAnnotationsMatch routes only the requests with a header, or with the cookie value "always", to a canary.
func TestAnnotationsMatch(t *testing.T) {
	s := newService(t, "nginx-match").steps(v1alpha1.CanaryStep{Name: "testers", Match: true, Approval: &v1alpha1.CanaryApproval{}})
	s.network.Spec.Provider = byAnnotations()
	s.network.Spec.Domains[0].CanaryMatches = []v1alpha1.CanaryMatch{
		{Headers: []v1alpha1.MatchValue{{Name: "X-Tester", Value: "yes"}}},
		{Cookie: &v1alpha1.MatchCookie{Name: "tester", Value: "always"}},
	}
	s.start("1.0.0")
	others := s.load(30, false)
	with := func(name, value string) *harness.Load {
		l, err := harness.StartLoad(context.Background(), harness.LoadConfig{
			Gateway: env.Gateway, Host: s.host(), Rate: 20, Duration: time.Hour, Header: http.Header{name: {value}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Stop() })
		return l
	}
	byHeader, byCookie, wrongValue := with("X-Tester", "yes"), with("Cookie", "basket=7; tester=always"), with("X-Tester", "no")

	s.push("1.1.0")
	s.until("1.1.0 to get the matching requests", func(ms *v1alpha1.Microservice) (bool, string) {
		r := row(ms, "1.1.0")
		if r == nil {
			return false, "not observed yet"
		}
		return r.Status == v1alpha1.ReleaseCanary && r.Match, string(r.Status)
	})
	s.confirmed()
	s.sees(byHeader, "1.1.0")
	s.sees(byCookie, "1.1.0")
	others.Mark("only testers")
	wrongValue.Mark("only testers")
	s.serves(others, 3*time.Second)
	for _, l := range []*harness.Load{others, wrongValue} {
		if f := l.Split("only testers").Fraction("1.0.0"); f != 1 {
			t.Errorf("%.1f%% of the other requests went to 1.0.0", f*100)
		}
	}
	s.decide("1.1.0", v1alpha1.DecisionContinue, "testers")
	s.active("1.1.0")
	s.sees(others, "1.1.0")
	verdict(t, others, byHeader, byCookie, wrongValue)
}

// TestAnnotationsSwitch moves a service from the Gateway to Ingresses with the annotations of ingress-nginx
// and back, each time in the middle of a canary, whose share must not change. No request fails.
func TestAnnotationsSwitch(t *testing.T) {
	s := newService(t, "nginx-switch").steps(pausing(10, 3*time.Second), asking("half", 50))
	s.network.Spec.DrainDelay = v1alpha1.DurationOf(switchDrain)
	domains := s.network.Spec.Domains
	s.start("1.0.0")
	l := s.load(50, true)

	l.Mark("canary 1.1.0")
	s.push("1.1.0")
	s.weight("1.1.0", 50)
	l.Mark("from the Gateway to Ingresses")
	s.goes(byAnnotations(), domains)
	s.drained()
	s.hasRoutes(0, 2)
	s.halved(l, "1.1.0")
	l.Mark("promotion of 1.1.0")
	s.decide("1.1.0", v1alpha1.DecisionContinue, "half")
	s.active("1.1.0")
	s.sees(l, "1.1.0")

	l.Mark("canary 1.2.0")
	s.push("1.2.0")
	s.weight("1.2.0", 50)
	l.Mark("from Ingresses to the Gateway")
	s.goes(gateway("public", "infra"), domains)
	s.drained()
	s.hasRoutes(1, 0)
	s.halved(l, "1.2.0")
	l.Mark("1.2.0 rolled back")
	s.decide("1.2.0", v1alpha1.DecisionDeprecate, "")
	s.status("1.2.0", v1alpha1.ReleaseError)
	s.confirmed()
	s.sees(l, "1.1.0")
	s.serves(l, 8*time.Second)
	verdict(t, l)
}

// halved waits until a version gets approximately half of the requests.
func (s *service) halved(l *harness.Load, version string) {
	s.t.Helper()
	wait(s.t, "half of the requests to go to "+version, func(context.Context) (bool, string, error) {
		f := l.Recent(2*time.Second).Split().Fraction(version) * 100
		return math.Abs(f-50) < 5, fmt.Sprintf("%.1f%%", f), nil
	})
}

// ingresses waits until the service's policy has the given number of Ingresses, each with an address from the class that
// serves it.
func (s *service) ingresses(want int) {
	s.t.Helper()
	wait(s.t, fmt.Sprintf("%d Ingresses with an address", want), func(ctx context.Context) (bool, string, error) {
		var list networkingv1.IngressList
		if err := env.Client.List(ctx, &list, client.InNamespace(s.namespace), client.MatchingLabels{v1alpha1.LabelPolicy: s.app}); err != nil {
			return false, "", err
		}
		served := 0
		for _, i := range list.Items {
			if len(i.Status.LoadBalancer.Ingress) > 0 {
				served++
			}
		}
		return len(list.Items) == want && served == want, fmt.Sprintf("%d Ingresses, %d with an address", len(list.Items), served), nil
	})
}
