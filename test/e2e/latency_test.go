//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestLatencies measures the time from the push of a tag until the first pod of its version, and from when canary
// pods are ready until their first response through the gateway.
func TestLatencies(t *testing.T) {
	const (
		samples   = 8
		maxCreate = interval + 2*time.Second
		maxServe  = 5 * time.Second
	)
	s := newService(t, "latencies").steps(v1alpha1.CanaryStep{Weight: 50})
	s.start("1.0.0")
	l := s.load(100, false)
	var created, served []time.Duration
	for i := range samples {
		version := fmt.Sprintf("1.%d.0", i+1)
		l.Mark(version)
		seen := watchPods(t, s)
		// Each sample starts at a different time within the polling interval.
		time.Sleep(interval * time.Duration(i) / samples)
		pushed := time.Now()
		s.push(version)
		podsAt, readyAt := seen(version)
		created = append(created, podsAt.Sub(pushed))
		var answered time.Time
		wait(t, version+" to answer", func(context.Context) (bool, string, error) {
			answered = time.Now()
			return l.Split(version).Fraction(version) > 0, "", nil
		})
		served = append(served, max(0, answered.Sub(readyAt)))
		s.active(version)
	}
	t.Logf("from push to first pod: %s (bound %s)", durations(created), maxCreate)
	t.Logf("from ready canary pods to the first response at the gateway: %s (bound %s)", durations(served), maxServe)
	if m := slices.Max(created); m > maxCreate {
		t.Errorf("a pod was created %s after the push, more than %s", m, maxCreate)
	}
	if m := slices.Max(served); m > maxServe {
		t.Errorf("a canary served %s after its pods were ready, more than %s", m, maxServe)
	}
	verdict(t, l)
}

// watchPods watches the pods in the namespace. The returned function waits for a version's pods, and returns
// the time at which the first pod was created and the time at which as many pods were ready as the service
// has replicas.
func watchPods(t *testing.T, s *service) func(version string) (created, ready time.Time) {
	t.Helper()
	w, err := env.Client.Watch(t.Context(), &corev1.PodList{}, client.InNamespace(s.namespace))
	if err != nil {
		t.Fatal(err)
	}
	return func(version string) (created, ready time.Time) {
		t.Helper()
		defer w.Stop()
		limit := time.After(patience)
		readyPods := map[string]bool{}
		for {
			select {
			case e := <-w.ResultChan():
				pod, ok := e.Object.(*corev1.Pod)
				if !ok || pod.Annotations[v1alpha1.AnnotationVersion] != version {
					continue
				}
				if created.IsZero() {
					created = time.Now()
				}
				if podReady(pod) {
					readyPods[pod.Name] = true
				}
				if len(readyPods) >= int(s.ms.Spec.Availability.Replicas) {
					return created, time.Now()
				}
			case <-limit:
				t.Fatalf("pods of %s were not ready in time", version)
			}
		}
	}
}

// durations formats samples: the median, the maximum, and all samples.
func durations(all []time.Duration) string {
	sorted := slices.Sorted(slices.Values(all))
	var text []string
	for _, d := range all {
		text = append(text, d.Round(10*time.Millisecond).String())
	}
	return fmt.Sprintf("median %s, longest %s, of %v", sorted[len(sorted)/2].Round(10*time.Millisecond), sorted[len(sorted)-1].Round(10*time.Millisecond), text)
}
