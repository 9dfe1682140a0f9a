//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/http"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestWeightLatency measures the time from the write of a weight to a route until the gateway serves the
// weight: with the gateway's default throttle of 2 s, with the local cluster's throttle of 100 ms, and
// without a throttle. For a canary, it measures the time from the write of the first weight until the
// first response. For the promotion that immediately follows, it measures the time from the write of weight 0 for the
// previous release until the last response of that release.
func TestWeightLatency(t *testing.T) {
	const (
		samples = 6
		slack   = time.Second
	)
	t.Cleanup(func() { // The context of the test is already canceled.
		if out, err := exec.Command(filepath.Join(env.root, "bin", "localcluster"), "gateway-restart", "--gateway-throttle", "100ms").CombinedOutput(); err != nil {
			t.Errorf("restore the gateway's throttle: %v\n%s", err, out)
		}
	})
	for _, throttle := range []time.Duration{0, 100 * time.Millisecond, 2 * time.Second} {
		t.Run("throttle "+throttle.String(), func(t *testing.T) {
			localcluster(t, "gateway-restart", "--gateway-throttle", throttle.String())
			s := newService(t, "weightlatency").steps(asking("half", 50))
			s.start("1.0.0")
			answers(t, s.host())
			var alone, next []time.Duration
			previous := "1.0.0"
			for i := range samples {
				version := fmt.Sprintf("1.%d.0", i+1)
				written := s.watchWeight()
				first := firstAnswer(t, s.host(), version)
				s.push(version)
				at := written(version, func(weight int32) bool { return weight > 0 })
				alone = append(alone, max(0, first().Sub(at)))
				written = s.watchWeight()
				last := lastAnswer(t, s.host(), previous)
				s.decide(version, v1alpha1.DecisionContinue, "half")
				at = written(previous, func(weight int32) bool { return weight == 0 })
				next = append(next, max(0, last().Sub(at)))
				s.active(version)
				previous = version
			}
			t.Logf("from weight written to weight served, with a throttle of %s: a single weight %s; a weight immediately after another weight %s", throttle, durations(alone), durations(next))
			if m := slices.Max(append(alone, next...)); m > throttle+slack {
				t.Errorf("a weight was served %s after it was written, more than the throttle and %s", m, slack)
			}
		})
	}
}

// firstAnswer sends a request to a host every 5 ms. The returned function waits for a version's first response,
// and returns the time of this response.
func firstAnswer(t *testing.T, host, version string) func() time.Time {
	t.Helper()
	first := make(chan time.Time, 1)
	go askOften(t.Context(), host, func(at time.Time, answered string) bool {
		if answered == version {
			first <- at
		}
		return answered == version
	})
	return awaitTime(t, "the first response of "+version, first)
}

// lastAnswer sends requests in the same way. The returned function waits until a version has not answered for four seconds,
// which is longer than any throttle, and returns the time of its last response.
func lastAnswer(t *testing.T, host, version string) func() time.Time {
	t.Helper()
	last := make(chan time.Time, 1)
	seen := time.Now()
	go askOften(t.Context(), host, func(at time.Time, answered string) bool {
		if answered == version {
			seen = at
			return false
		}
		if time.Since(seen) < 4*time.Second {
			return false
		}
		last <- seen
		return true
	})
	return awaitTime(t, "the last response of "+version, last)
}

func awaitTime(t *testing.T, what string, at <-chan time.Time) func() time.Time {
	return func() time.Time {
		t.Helper()
		select {
		case got := <-at:
			return got
		case <-time.After(patience):
			t.Fatalf("no %s in time", what)
			return time.Time{}
		}
	}
}

// askOften sends a request to a host every 5 ms until enough returns true.
func askOften(ctx context.Context, host string, enough func(at time.Time, version string) bool) {
	every := time.NewTicker(5 * time.Millisecond)
	defer every.Stop()
	for {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+host+"/", nil)
		if err != nil {
			return
		}
		if res, err := web().Do(req); err == nil {
			res.Body.Close()
			if enough(time.Now(), res.Header.Get("X-Version")) {
				return
			}
		}
		select {
		case <-every.C:
		case <-ctx.Done():
			return
		}
	}
}

// watchWeight watches the service's routes. The returned function waits until a version's weight meets a
// condition in all routes, and returns the time at which it does.
func (s *service) watchWeight() func(version string, wanted func(int32) bool) time.Time {
	s.t.Helper()
	w, err := env.Client.Watch(s.t.Context(), &gatewayv1.HTTPRouteList{}, client.InNamespace(s.namespace))
	if err != nil {
		s.t.Fatal(err)
	}
	return func(version string, wanted func(int32) bool) time.Time {
		s.t.Helper()
		defer w.Stop()
		limit := time.After(patience)
		for {
			select {
			case e, open := <-w.ResultChan():
				seen := time.Now()
				if !open {
					s.t.Fatalf("the watch of routes ended before the weight of %s met the condition", version)
				}
				route, ok := e.Object.(*gatewayv1.HTTPRoute)
				if !ok {
					continue
				}
				if wanted(s.weightIn(route, version)) {
					return seen
				}
			case <-limit:
				s.t.Fatalf("the weight of %s was not written in time", version)
			}
		}
	}
}

// weightIn returns the weight of a version's Service in a route, or 0 if the Service is not in the route.
func (s *service) weightIn(route *gatewayv1.HTTPRoute, version string) int32 {
	s.t.Helper()
	release := s.nameOf(version)
	if release == "" {
		return 0
	}
	var services corev1.ServiceList
	if err := env.Client.List(s.t.Context(), &services, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	var total int32
	for _, rule := range route.Spec.Rules {
		for _, backend := range rule.BackendRefs {
			for _, each := range services.Items {
				if each.Name == string(backend.Name) && each.Spec.Selector[v1alpha1.LabelRelease] == release && backend.Weight != nil {
					total += *backend.Weight
				}
			}
		}
	}
	return total
}

// nameOf returns the name of a version's release. It returns "" if the release does not exist yet.
func (s *service) nameOf(version string) string {
	var ms v1alpha1.Microservice
	if err := env.Client.Get(s.t.Context(), s.key(), &ms); err != nil {
		return ""
	}
	if r := row(&ms, version); r != nil {
		return r.VersionedMicroservice
	}
	return ""
}
