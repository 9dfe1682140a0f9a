//go:build e2e && linux

package e2e

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// shift is the time from the creation of a pod until its containers have stopped. The kubelet then reports
// the pod's last phase, Succeeded or Failed, and deletes the pod.
type shift struct {
	release, pod string
	from, to     time.Time // to is zero while the containers are running.
}

// shifts records the pods of a namespace from now on.
func (s *service) shifts() func() []shift {
	s.t.Helper()
	w, err := env.Client.Watch(s.t.Context(), &corev1.PodList{}, client.InNamespace(s.namespace))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(w.Stop)
	var mu sync.Mutex
	seen := map[string]*shift{}
	go func() {
		for e := range w.ResultChan() {
			pod, ok := e.Object.(*corev1.Pod)
			if !ok || pod.Labels[v1alpha1.LabelRelease] == "" {
				continue
			}
			mu.Lock()
			x := seen[pod.Name]
			if x == nil {
				x = &shift{release: pod.Labels[v1alpha1.LabelRelease], pod: pod.Name, from: time.Now()}
				seen[pod.Name] = x
			}
			ended := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed || e.Type == watch.Deleted
			if ended && x.to.IsZero() {
				x.to = time.Now()
			}
			mu.Unlock()
		}
	}()
	return func() (all []shift) {
		mu.Lock()
		defer mu.Unlock()
		for _, x := range seen {
			all = append(all, *x)
		}
		slices.SortFunc(all, func(a, b shift) int { return a.from.Compare(b.from) })
		return all
	}
}

// alone fails the test for each pair of pods that belong to different releases and existed at the same time. It
// also logs the time without pods between two releases.
func alone(t *testing.T, all []shift) {
	t.Helper()
	for i, a := range all {
		for _, b := range all[i+1:] {
			if a.release != b.release && (a.to.IsZero() || b.from.Before(a.to)) {
				t.Errorf("the containers of pod %s ran from %s to %s, and pod %s of another release was created at %s", a.pod, a.from.Format(time.StampMilli), a.to.Format(time.StampMilli), b.pod, b.from.Format(time.StampMilli))
			}
		}
	}
	var lines []string
	for i, a := range all {
		if i > 0 && a.release != all[i-1].release {
			lines = append(lines, fmt.Sprintf("%s ended %s before %s was created", all[i-1].pod, a.from.Sub(all[i-1].to).Round(time.Millisecond), a.pod))
		}
	}
	t.Logf("%d pods, %d replacements: %s", len(all), len(lines), strings.Join(lines, "; "))
}

// TestExclusiveWorkers uses a worker whose versions must not run at the same time, and whose pods need three
// seconds to terminate. The active version is replaced with the next version. A version that never becomes ready
// is replaced with the previous version. A canary is aborted during its step. A user rolls back to the first
// version. Then versions are replaced while the manager is killed. Pods of two releases never run at the same
// time.
func TestExclusiveWorkers(t *testing.T) {
	q := startQueue(t)
	s := newService(t, "exclusive").worker(q, 2)
	s.ms.Spec.Availability.Exclusive = true
	s.ms.Spec.UpdateStrategy.ProgressDeadlineSeconds = 30
	for i, v := range s.ms.Spec.Template.Spec.Containers[0].Env {
		if v.Name == "SHUTDOWN_DELAY" {
			s.ms.Spec.Template.Spec.Containers[0].Env[i].Value = "3s"
		}
	}
	all := s.shifts()
	s.push("1.0.0")
	s.create(s.images, s.ms)
	s.status("1.0.0", v1alpha1.ReleaseActive)
	s.available("of the first release", "1.0.0", 2)

	t.Run("the next version starts when the pods of the active version have terminated", func(t *testing.T) {
		s := s.in(t)
		s.push("1.1.0")
		s.until("the pods of 1.0.0 to terminate", func(ms *v1alpha1.Microservice) (bool, string) {
			return readyReason(ms) == "ActiveStopped", readyReason(ms)
		})
		s.status("1.1.0", v1alpha1.ReleaseActive)
		s.available("after the promotion", "1.0.0", 0, "1.1.0", 2)
		alone(t, all())
	})

	t.Run("a version that does not become ready is replaced by the active version", func(t *testing.T) {
		s := s.in(t)
		s.push("1.2.0", "FAIL_READINESS", "true")
		s.status("1.2.0", v1alpha1.ReleaseError)
		s.available("after the failure", "1.1.0", 2, "1.2.0", 0)
		alone(t, all())
	})

	t.Run("a canary that is aborted during its step is replaced by the active version", func(t *testing.T) {
		s := s.in(t)
		change(s.t, s.ms, func(ms *v1alpha1.Microservice) {
			ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{pausing(100, time.Hour)}}
		})
		s.push("1.3.0")
		s.status("1.3.0", v1alpha1.ReleaseCanary)
		s.available("in the step", "1.1.0", 0, "1.3.0", 2)
		s.until("Ready to be True during the step", func(ms *v1alpha1.Microservice) (bool, string) { return readyReason(ms) == "Succeeded", readyReason(ms) })
		s.decide("1.3.0", v1alpha1.DecisionDeprecate, "")
		s.status("1.3.0", v1alpha1.ReleaseError)
		s.available("after the decision", "1.1.0", 2, "1.3.0", 0)
		alone(t, all())
	})

	t.Run("a user returns to a previous version", func(t *testing.T) {
		s := s.in(t)
		s.pin("1.0.0")
		s.status("1.0.0", v1alpha1.ReleaseActive)
		s.available("after the rollback", "1.0.0", 2, "1.1.0", 0)
		alone(t, all())
	})

	t.Run("the manager is killed during replacements", func(t *testing.T) {
		s := s.in(t)
		seed := uint64(time.Now().UnixNano())
		random := rand.New(rand.NewPCG(seed, 0))
		k := &killer{random: random}
		for i := range 6 {
			version := []string{"1.1.0", "1.0.0"}[i%2]
			s.pin(version)
			time.Sleep(time.Duration(random.IntN(4000)) * time.Millisecond)
			if err := k.kill(t.Context()); err != nil {
				t.Fatal(err)
			}
			s.status(version, v1alpha1.ReleaseActive)
			s.available("after a kill", version, 2)
		}
		t.Logf("seed %d: the manager was killed %d times", seed, k.count())
		alone(t, all())
	})
}

// readyReason returns the reason of the Ready condition.
func readyReason(ms *v1alpha1.Microservice) string {
	for _, c := range ms.Status.Conditions {
		if c.Type == v1alpha1.ConditionReady {
			return c.Reason
		}
	}
	return ""
}
