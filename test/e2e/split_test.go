//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// TestSplit checks that a canary's share of 10,000 requests, with an unchanged configuration, equals its weight
// to within 1 percentage point. At a weight of 30, it sends requests in the same way as the Gateway API's own
// weight test.
func TestSplit(t *testing.T) {
	const requests, tolerance = 10_000, 1.0
	weights := []int32{1, 5, 10, 30, 50, 99}
	s := newService(t, "split")
	for _, w := range weights {
		s.ms.Spec.UpdateStrategy.Canary = appendStep(s.ms.Spec.UpdateStrategy.Canary, asking(fmt.Sprintf("at-%d", w), w))
	}
	s.start("1.0.0")
	answers(t, s.host())
	s.push("1.1.0")
	for _, w := range weights {
		s.weight("1.1.0", w)
		served(t, s, w)
		before := s.routes()
		if w == 30 {
			s.conforms(map[string]float64{"1.0.0": 0.7, "1.1.0": 0.3})
		}
		l, err := harness.StartLoad(t.Context(), harness.LoadConfig{Gateway: env.Gateway, Host: s.host(), Rate: 300, Count: requests})
		if err != nil {
			t.Fatal(err)
		}
		report := l.Wait()
		got := report.Total.Split().Fraction("1.1.0") * 100
		t.Logf("weight %d%%, clients saw %.2f%% of %d requests, %d failed", w, got, report.Total.Answered, report.Total.Failed)
		if math.Abs(got-float64(w)) > tolerance || report.Total.Failed > 0 || report.Total.Answered != requests {
			t.Errorf("at %d%%: %.2f%% of %d responses, %d failed: %v", w, got, report.Total.Answered, report.Total.Failed, report.Failures)
		}
		for i, route := range s.routes() {
			if route.Generation != before[i].Generation {
				t.Errorf("at %d%% route %s was written during the sample", w, route.Name)
			}
		}
		s.decide("1.1.0", v1alpha1.DecisionContinue, fmt.Sprintf("at-%d", w))
	}
	s.active("1.1.0")
}

func appendStep(c *v1alpha1.CanaryStrategy, step v1alpha1.CanaryStep) *v1alpha1.CanaryStrategy {
	if c == nil {
		c = &v1alpha1.CanaryStrategy{}
	}
	c.Steps = append(c.Steps, step)
	return c
}

// served waits until the gateway serves a weight that it has accepted. The gateway reads its configuration at
// most once per throttle interval, and this test measures shares, not times.
func served(t *testing.T, s *service, weight int32) {
	t.Helper()
	wait(t, fmt.Sprintf("the gateway to serve %d%%", weight), func(ctx context.Context) (bool, string, error) {
		l, err := harness.StartLoad(ctx, harness.LoadConfig{Gateway: env.Gateway, Host: s.host(), Rate: 500, Count: 200})
		if err != nil {
			return false, "", harness.Permanent(err)
		}
		got := l.Wait().Total.Split().Fraction("1.1.0") * 100
		return math.Abs(got-float64(weight)) < 3, fmt.Sprintf("%.1f%%", got), nil
	})
}

// routes returns the routes of the service.
func (s *service) routes() []gatewayv1.HTTPRoute {
	s.t.Helper()
	var list gatewayv1.HTTPRouteList
	if err := env.Client.List(s.t.Context(), &list, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	if len(list.Items) == 0 {
		s.t.Fatal("there is no HTTPRoute")
	}
	return list.Items
}

// conforms checks the same properties of a route as the HTTPRouteWeight test in the Gateway API's conformance
// tests. Each parent has accepted the route with resolved references. Of 500 requests, sent ten at a time
// after a random pause or with a random header, each backend gets its share to within 5 percentage points, and
// other backends get no requests. There are ten attempts.
func (s *service) conforms(want map[string]float64) {
	s.t.Helper()
	const requests, together, tolerance, tries = 500, 10, 0.05, 10
	for _, route := range s.routes() {
		for _, parent := range route.Status.Parents {
			for _, condition := range []string{string(gatewayv1.RouteConditionAccepted), string(gatewayv1.RouteConditionResolvedRefs)} {
				if c := meta.FindStatusCondition(parent.Conditions, condition); c == nil || c.Status != "True" || c.ObservedGeneration != route.Generation {
					s.t.Errorf("condition %s of route %s at generation %d: %+v", condition, route.Name, route.Generation, c)
				}
			}
		}
	}
	for try := 1; ; try++ {
		var mu sync.Mutex
		seen := map[string]int{}
		asking, ctx := errgroup.WithContext(s.t.Context())
		asking.SetLimit(together)
		for range requests {
			asking.Go(func() error {
				version, err := askWithEntropy(ctx, s.host())
				mu.Lock()
				defer mu.Unlock()
				seen[version]++
				return err
			})
		}
		if err := asking.Wait(); err != nil {
			s.t.Fatalf("request %s: %v", s.host(), err)
		}
		failure := ""
		for version, share := range want {
			if got := float64(seen[version]) / requests; math.Abs(got-share) > tolerance {
				failure = fmt.Sprintf("%s got %.1f%%, want %.0f%%", version, got*100, share*100)
			}
		}
		if len(seen) != len(want) {
			failure = fmt.Sprintf("%d versions answered, want %d", len(seen), len(want))
		}
		s.t.Logf("check of the Gateway API's test, attempt %d: %v of %d %s", try, seen, requests, failure)
		if failure == "" {
			return
		}
		if try == tries {
			s.t.Fatal(failure)
		}
	}
}

// askWithEntropy sends a request after a pause of up to a second, or with a random header, or both.
func askWithEntropy(ctx context.Context, host string) (version string, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/", nil)
	if err != nil {
		return "", err
	}
	kind := rand.IntN(3)
	if kind != 0 {
		req.Header.Set("X-Entropy", fmt.Sprint(rand.IntN(10_000)))
	}
	if kind != 1 {
		time.Sleep(rand.N(time.Second))
	}
	res, err := web().Do(req)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	if _, err := io.Copy(io.Discard, res.Body); err != nil {
		return "", err
	}
	if res.StatusCode != http.StatusOK {
		return "", fmt.Errorf("response status %s", res.Status)
	}
	return res.Header.Get("X-Version"), nil
}
