//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// TestNewerGroup moves a domain that routes to the newest group from 1.x to 2.x with the canary steps. One
// release is aborted, the next release becomes active, and 1.x has its own canary in the meantime. No request
// fails, neither on this domain nor on the domain of 1.x.
func TestNewerGroup(t *testing.T) {
	s := newService(t, "newer").steps(asking("some", 10), asking("half", 50))
	s.images.Spec.Versioning = v1alpha1.Versioning{GroupBy: v1alpha1.GroupByMajor}
	const shared, older, newer = "newer.localhost", "1-x.newer.localhost", "2-x.newer.localhost"
	s.network.Spec.Domains = append(s.network.Spec.Domains, v1alpha1.Domain{Domain: shared})
	s.push("1.0.0")
	s.create(s.images, s.ms, s.network)
	s.routesTo(shared, "1.0.0=100")
	s.routesTo(older, "1.0.0=100")
	everybody, others := s.loadOn(shared, 100, false), s.loadOn(older, 50, true)
	before := s.routeOf(older)

	s.push("2.0.0")
	s.routesTo(shared, "1.0.0=90 2.0.0=10")
	s.routesTo(newer, "2.0.0=100")
	s.splits(everybody, "10%", "2.0.0", 10)
	everybody.Mark("abort")
	s.decide("2.0.0", v1alpha1.DecisionDeprecate, "")
	s.status("2.0.0", v1alpha1.ReleaseError)
	s.routesTo(shared, "1.0.0=100")
	s.sees(everybody, "1.0.0")
	s.serves(everybody, 8*time.Second) // Wait until the drain of 2.0.0 has ended.

	s.push("2.0.1")
	s.routesTo(shared, "1.0.0=90 2.0.1=10")
	s.splits(everybody, "10% again", "2.0.1", 10)
	s.decide("2.0.1", v1alpha1.DecisionContinue, "some")
	s.routesTo(shared, "1.0.0=50 2.0.1=50")
	s.splits(everybody, "50%", "2.0.1", 50)

	// A release of the older group goes through the steps on the group's own domain. On the shared domain, it gets a
	// tenth of the group's share.
	s.push("1.1.0")
	s.routesTo(older, "1.0.0=90 1.1.0=10")
	s.routesTo(shared, "1.0.0=45 1.1.0=5 2.0.1=50")
	s.splits(everybody, "both", "1.1.0", 5)
	s.decide("1.1.0", v1alpha1.DecisionDeprecate, "")
	s.status("1.1.0", v1alpha1.ReleaseError)
	s.routesTo(shared, "1.0.0=50 2.0.1=50")
	s.routesTo(older, "1.0.0=100")

	everybody.Mark("promotion")
	s.decide("2.0.1", v1alpha1.DecisionContinue, "half")
	s.status("2.0.1", v1alpha1.ReleaseActive)
	s.routesTo(shared, "2.0.1=100")
	s.sees(everybody, "2.0.1")
	s.serves(everybody, 8*time.Second)
	s.sees(others, "1.0.0")
	if after := s.routeOf(older); after.UID != before.UID {
		t.Errorf("the route of 1.x was replaced: it is now %s, and was %s before", after.Name, before.Name)
	}
	verdict(t, everybody, others)
}

// routesTo waits until a domain is programmed to route to versions, such as "1.0.0=90 2.0.0=10", and each group is confirmed.
func (s *service) routesTo(host, want string) {
	s.t.Helper()
	wait(s.t, host+" to route to "+want, func(ctx context.Context) (bool, string, error) {
		var ms v1alpha1.Microservice
		var p v1alpha1.NetworkPolicy
		if err := env.Client.Get(ctx, s.key(), &ms); err != nil {
			return false, "", err
		}
		if err := env.Client.Get(ctx, s.key(), &p); err != nil {
			return false, "", err
		}
		for _, g := range ms.Status.ReleaseGroups {
			i := slices.IndexFunc(p.Status.Groups, func(r v1alpha1.GroupTraffic) bool { return r.Slug == g.Slug })
			if i < 0 || p.Status.Groups[i].Revision != g.TrafficRevision {
				return false, fmt.Sprintf("group %s is not confirmed: %+v", g.Slug, p.Status.Groups), nil
			}
		}
		for _, d := range p.Status.Domains {
			if d.Domain != host {
				continue
			}
			var parts []string
			for _, b := range d.Backends {
				parts = append(parts, fmt.Sprintf("%s=%d", b.Version, b.Weight))
			}
			slices.Sort(parts)
			got := strings.Join(parts, " ")
			return d.Programmed && got == want, fmt.Sprintf("%q %s %s", got, d.Reason, d.Message), nil
		}
		return false, "it does not exist", nil
	})
}

// splits waits until a version gets approximately its share of the requests, and then checks its share of 1,000
// requests to within 2 percentage points.
func (s *service) splits(l *harness.Load, phase, version string, percent float64) {
	s.t.Helper()
	away := func(split harness.Split) float64 { return math.Abs(split.Fraction(version)*100 - percent) }
	wait(s.t, fmt.Sprintf("clients to see %s in %.0f%% of their responses", version, percent), func(context.Context) (bool, string, error) {
		split := l.Recent(5 * time.Second).Split() // Longer than a busy gateway needs to apply a route.
		return away(split) <= 2, fmt.Sprint(split), nil
	})
	l.Mark(phase)
	s.serves(l, 10*time.Second)
	split := l.Split(phase)
	s.t.Logf("%s: %v", phase, split)
	if away(split) > 2 {
		s.t.Errorf("%s: %s has %v, want %.0f%%", phase, version, split, percent)
	}
}

// routeOf returns the HTTPRoute with the given host.
func (s *service) routeOf(host string) gatewayv1.HTTPRoute {
	s.t.Helper()
	var list gatewayv1.HTTPRouteList
	if err := env.Client.List(s.t.Context(), &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	i := slices.IndexFunc(list.Items, func(r gatewayv1.HTTPRoute) bool { return slices.Contains(r.Spec.Hostnames, gatewayv1.Hostname(host)) })
	if i < 0 {
		s.t.Fatalf("no route has the host %s", host)
	}
	return list.Items[i]
}
