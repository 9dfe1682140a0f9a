//go:build e2e && linux

package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// queue is a stream of jobs, for tests.
type queue struct{ *harness.Queue }

func startQueue(t *testing.T) queue {
	t.Helper()
	q, err := env.StartQueue(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := q.Stop(); err != nil {
			t.Error(err)
		}
	})
	return queue{q}
}

// number returns the result of a query to the queue, and fails the test if the query fails.
func (q queue) number(t *testing.T, n int, err error) int {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func (q queue) done(t *testing.T) int {
	t.Helper()
	n, err := q.Done(t.Context())
	return q.number(t, n, err)
}

func (q queue) doneBy(t *testing.T, version string) int {
	t.Helper()
	n, err := q.DoneBy(t.Context(), version)
	return q.number(t, n, err)
}

// worker makes the service a worker that takes jobs from a queue and has no NetworkPolicy.
func (s *service) worker(q queue, replicas int32) *service {
	s.ms.Spec.Availability.Replicas = replicas
	c := &s.ms.Spec.Template.Spec.Containers[0]
	c.Env = append(c.Env,
		corev1.EnvVar{Name: "QUEUE", Value: q.URL}, corev1.EnvVar{Name: "JOB_DURATION", Value: "100ms"}, corev1.EnvVar{Name: "SHUTDOWN_DELAY", Value: "0s"},
		corev1.EnvVar{Name: "POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}},
	)
	return s
}

// available waits until versions have the given numbers of available pods. The arguments are pairs of a version, which
// begins with "1.", and a number.
func (s *service) available(when string, want ...any) {
	s.t.Helper()
	wait(s.t, fmt.Sprintf("the pods %s: %v", when, want), func(ctx context.Context) (bool, string, error) {
		var all appsv1.DeploymentList
		if err := env.Client.List(ctx, &all, client.InNamespace(s.namespace)); err != nil {
			return false, "", err
		}
		var got []any
		for i := 0; i < len(want); i += 2 {
			n := int32(0)
			for _, d := range all.Items {
				if d.Name == s.release(want[i].(string)).VersionedMicroservice {
					n = d.Status.AvailableReplicas
				}
			}
			got = append(got, want[i], int(n))
		}
		return slices.Equal(got, want), fmt.Sprint(got), nil
	})
}

// TestWorkers uses a queue of 10,000 jobs, whose workers have no NetworkPolicy. A canary gets one of ten
// pods. A canary that fails its jobs is rolled back because of its analysis, and the next canary replaces the
// previous version. An autoscaler scales the Microservice as a whole. No job is lost.
func TestWorkers(t *testing.T) {
	const jobs = 10_000
	q := startQueue(t)
	s := newService(t, "workers").steps(pausing(10, 30*time.Second), v1alpha1.CanaryStep{Weight: 50}).worker(q, 10)
	s.measured("", 2, v1alpha1.NoTrafficWait)
	failed := `sum(rate(jobs_total{namespace="{{.Namespace}}",hlnr_io_release="{{.Release}}",result="failed"}[{{.Interval}}]))`
	every := `sum(rate(jobs_total{namespace="{{.Namespace}}",hlnr_io_release="{{.Release}}"}[{{.Interval}}]))`
	s.ms.Spec.UpdateStrategy.Canary.Analysis.Metrics = []v1alpha1.AnalysisMetric{{
		Name: "failed-jobs", Prometheus: &v1alpha1.PrometheusMetric{Query: failed + " / (" + every + " > 0)"}, ThresholdRange: v1alpha1.ValueRange{Max: new(0.01)},
	}}
	s.push("1.0.0")
	s.create(s.images, s.ms)
	s.status("1.0.0", v1alpha1.ReleaseActive)
	s.available("of the first release", "1.0.0", 10)

	if err := q.Add(t.Context(), jobs); err != nil {
		t.Fatal(err)
	}
	t.Run("a canary that fails its jobs is rolled back", func(t *testing.T) {
		s := s.in(t)
		s.push("1.1.0", "ERROR_RATE", "1")
		s.status("1.1.0", v1alpha1.ReleaseCanary)
		s.available("in the first step", "1.0.0", 9, "1.1.0", 1)
		if row := s.status("1.1.0", v1alpha1.ReleaseError); row.Reason != analysisFailed {
			t.Errorf("1.1.0 ended with reason %s", row.Reason)
		}
		s.available("after the rollback", "1.0.0", 10, "1.1.0", 0)
		if n := q.doneBy(t, "1.1.0"); n != 0 {
			t.Errorf("1.1.0 completed %d jobs, although all of its jobs must fail", n)
		}
		if left := jobs - q.done(t); left < 500 {
			t.Errorf("only %d jobs remained when the rollback ended, want at least 500", left)
		}
	})

	t.Run("a canary gets the share of jobs that its weight defines, and is promoted", func(t *testing.T) {
		s := s.in(t)
		s.push("1.2.0")
		s.status("1.2.0", v1alpha1.ReleaseCanary)
		s.available("in the first step", "1.0.0", 9, "1.2.0", 1)
		before := [2]int{q.doneBy(t, "1.0.0"), q.doneBy(t, "1.2.0")}
		time.Sleep(10 * time.Second)
		old, canary := q.doneBy(t, "1.0.0")-before[0], q.doneBy(t, "1.2.0")-before[1]
		t.Logf("in 10 s, 1.0.0 completed %d jobs and 1.2.0 %d", old, canary)
		if total := old + canary; total > 0 && (canary*100 < total*5 || canary*100 > total*15) {
			t.Errorf("the canary with one pod of ten completed %d of %d jobs", canary, total)
		}
		s.status("1.2.0", v1alpha1.ReleaseActive)
		s.available("after the promotion", "1.0.0", 0, "1.2.0", 10)
		var ms v1alpha1.Microservice
		if err := env.Client.Get(t.Context(), s.key(), &ms); err != nil {
			t.Fatal(err)
		}
		if c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionTrafficDegraded); c != nil {
			t.Errorf("a worker has condition %+v", c)
		}
	})

	t.Run("no job is lost", func(t *testing.T) {
		within(t, 5*time.Minute, "all jobs to be done", func(context.Context) (bool, string, error) {
			n := q.done(t)
			return n == jobs, fmt.Sprintf("%d are done", n), nil
		})
		if n, err := q.Taken(t.Context()); err != nil || n > 0 {
			t.Errorf("%d jobs were taken but not completed, %v", n, err)
		}
		t.Logf("%d jobs completed: 1.0.0 completed %d and 1.2.0 %d", q.done(t), q.doneBy(t, "1.0.0"), q.doneBy(t, "1.2.0"))
	})

	t.Run("an autoscaler scales the Microservice", func(t *testing.T) {
		s := s.in(t)
		scale := &autoscalingv1.Scale{}
		if err := env.Client.SubResource("scale").Get(t.Context(), s.ms, scale); err != nil {
			t.Fatal(err)
		}
		if scale.Status.Replicas != 10 || scale.Status.Selector != "hlnr.io/group=release,hlnr.io/microservice=app" {
			t.Errorf("the scale is %+v", scale.Status)
		}
		scale.Spec.Replicas = 4
		if err := env.Client.SubResource("scale").Update(t.Context(), s.ms, client.WithSubResourceBody(scale)); err != nil {
			t.Fatal(err)
		}
		s.available("after it was scaled", "1.2.0", 4)
	})
}
