//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// TestFaultsMidCanary kills the API server, the gateway, and all canary pods, each in the middle of a step.
// Every canary is promoted. Requests fail only while the gateway is not running, and until the weight of the
// killed pods is withheld.
func TestFaultsMidCanary(t *testing.T) {
	s := newService(t, "faults").steps(pausing(20, 10*time.Second), pausing(50, 5*time.Second))
	s.start("1.0.0")
	l := s.load(50, false)
	failed := func() int { return l.Report().Total.Failed }

	t.Run("API server killed", func(t *testing.T) {
		s := s.in(t)
		l.Mark("API server killed")
		s.push("1.1.0")
		s.weight("1.1.0", 20)
		localcluster(t, "kill", "kube-apiserver")
		s.serves(l, 5*time.Second)
		localcluster(t, "restart", "kube-apiserver")
		s.active("1.1.0")
		if n := failed(); n > 0 {
			t.Errorf("%d requests failed: %v", n, l.Report().Failures)
		}
	})

	t.Run("gateway restarted", func(t *testing.T) {
		s := s.in(t)
		s.push("1.2.0")
		s.weight("1.2.0", 20)
		before := failed()
		l.Mark("gateway not running")
		began := time.Now()
		localcluster(t, "gateway-restart")
		away := time.Since(began)
		stable(t, l, 3*time.Second)
		lost := failed() - before
		l.Mark("gateway running again")
		t.Logf("while the gateway was restarted, for %s: %d requests failed (counted separately)", away.Round(10*time.Millisecond), lost)
		s.active("1.2.0")
		if n := failed() - before - lost; n > 0 {
			t.Errorf("%d requests failed after the gateway was running again", n)
		}
	})

	t.Run("all canary pods killed", func(t *testing.T) {
		s := s.in(t)
		l.Mark("before the pods are killed")
		s.push("1.3.0")
		s.weight("1.3.0", 20)
		pods, err := s.pods(t.Context(), "1.3.0")
		if err != nil || len(pods) == 0 {
			t.Fatalf("find pods of the canary: %d, %v", len(pods), err)
		}
		before := failed()
		l.Mark("pods killed")
		killed := time.Now()
		for i := range pods {
			kill(t, &pods[i])
		}
		last := stable(t, l, 3*time.Second)
		lost := failed() - before
		l.Mark("withheld")
		t.Logf("%d requests failed until the weight of the killed pods was withheld, the last of these requests %s after the kill", lost, max(0, last.Sub(killed)).Round(10*time.Millisecond))
		if d := last.Sub(killed); d > soon {
			t.Errorf("requests failed for %s", d)
		}
		s.active("1.3.0")
		s.sees(l, "1.3.0")
		if n := failed() - before - lost; n > 0 {
			t.Errorf("%d requests failed after the weight of the killed pods was withheld: %v", n, l.Report().Failures)
		}
	})
	report := l.Stop()
	var table strings.Builder
	if err := harness.WriteTable(&table, report); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
}

// TestCanaryPodsKilled kills the processes of all canary pods at each weight. The routes soon send no more
// traffic to the canary. Requests fail only until then, and these failures are counted separately. Each
// process is killed twice. After the first kill, the kubelet restarts the process immediately, and may report
// its pod as ready without interruption. After the second kill, the kubelet restarts the process after a
// back-off of ten seconds.
func TestCanaryPodsKilled(t *testing.T) {
	s := newService(t, "podskilled").steps(asking("there", 1))
	s.ms.Spec.UpdateStrategy.ProgressDeadlineSeconds = 120 // On a busy node, the kubelet takes more than ten seconds for each restart.
	s.start("1.0.0")
	l := s.load(100, false)
	for i, w := range []int32{1, 10, 50, 99} {
		version := fmt.Sprintf("1.%d.0", i+1)
		phase := fmt.Sprintf("at %d%%", w)
		change(t, s.ms, func(ms *v1alpha1.Microservice) { ms.Spec.UpdateStrategy.Canary.Steps[0].Weight = w })
		l.Mark(phase)
		s.push(version)
		s.weight(version, w)
		s.serves(l, 2*time.Second)
		pods := s.restarted(version, 0)
		l.Mark(phase + ", pods first killed")
		for i := range pods {
			kill(t, &pods[i])
		}
		pods = s.restarted(version, 1)
		s.weight(version, w)
		stable(t, l, 2*time.Second)
		written := s.watchWeight()
		before := l.Report().Total.Failed
		l.Mark(phase + ", pods killed")
		killed := time.Now()
		for i := range pods {
			kill(t, &pods[i])
		}
		zero := written(version, func(weight int32) bool { return weight == 0 }).Sub(killed)
		stable(t, l, 3*time.Second)
		lost := l.Report().Total.Failed - before
		l.Mark(phase + ", withheld")
		t.Logf("at %d%%: weight 0 after %s; %d requests failed (100 per second are sent)", w, zero.Round(10*time.Millisecond), lost)
		if zero > soon {
			t.Errorf("at %d%% the weight was 0 after %s, more than %s", w, zero, soon)
		}
		s.weight(version, w)
		s.decide(version, v1alpha1.DecisionContinue, "there")
		s.active(version)
		s.sees(l, version)
	}
	report := l.Stop()
	var table strings.Builder
	if err := harness.WriteTable(&table, report); err != nil {
		t.Fatal(err)
	}
	t.Logf("\n%s", table.String())
	for _, p := range report.Phases {
		if p.Failed > 0 && !strings.HasSuffix(p.Name, "killed") {
			t.Errorf("%d requests failed in the phase %q", p.Failed, p.Name)
		}
	}
}

// restarted waits until the containers of all of a version's pods have been restarted the given number of
// times and are ready.
func (s *service) restarted(version string, times int32) (pods []corev1.Pod) {
	s.t.Helper()
	wait(s.t, fmt.Sprintf("the pods of %s to be restarted %d times", version, times), func(ctx context.Context) (bool, string, error) {
		var err error
		if pods, err = s.pods(ctx, version); err != nil {
			return false, "", err
		}
		seen := ""
		for _, p := range pods {
			for _, c := range p.Status.ContainerStatuses {
				if c.RestartCount != times || !c.Ready {
					seen = fmt.Sprintf("container %s of pod %s: %d restarts, ready: %t", c.Name, p.Name, c.RestartCount, c.Ready)
				}
			}
		}
		return len(pods) > 0 && seen == "", seen, nil
	})
	return pods
}

// stable waits until no request has failed for the given time, and returns the time of the last failure.
func stable(t *testing.T, l *harness.Load, d time.Duration) (last time.Time) {
	t.Helper()
	failed, since := l.Report().Total.Failed, time.Now()
	wait(t, fmt.Sprintf("%s without a failed request", d), func(context.Context) (bool, string, error) {
		now := l.Report().Total
		if now.Failed != failed {
			failed, since, last = now.Failed, time.Now(), time.Now()
		}
		return time.Since(since) >= d, fmt.Sprintf("%d failed", failed), nil
	})
	return last
}

// awaitEarlier waits until all requests that were sent before the current phase have ended, so that none of them fails because of
// what the current phase does.
func awaitEarlier(t *testing.T, l *harness.Load) {
	t.Helper()
	wait(t, "requests of earlier phases to end", func(context.Context) (bool, string, error) {
		phases, open := l.Report().Phases, 0
		for _, p := range phases[:len(phases)-1] {
			open += p.Sent - p.Answered - p.Failed
		}
		return open == 0, fmt.Sprintf("%d in progress", open), nil
	})
}

// kill kills the processes of a pod with SIGKILL, by process ID.
func kill(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	for _, c := range pod.Status.ContainerStatuses {
		pid, err := pidOf(t.Context(), strings.TrimPrefix(c.ContainerID, "containerd://"))
		if err != nil {
			t.Fatal(err)
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
			t.Fatalf("kill process %d: %v", pid, err)
		}
	}
}

// in returns the service for a subtest.
func (s *service) in(t *testing.T) *service {
	other := *s
	other.t = t
	return &other
}

// TestDeletedByHand deletes objects that Heighliner created, one kind after the other. It checks that each object
// is recreated, and that the active version serves again.
func TestDeletedByHand(t *testing.T) {
	s := newService(t, "byhand")
	s.start("1.0.0")
	s.push("1.1.0")
	s.active("1.1.0")
	l := s.load(30, false)
	mine := client.InNamespace(s.namespace)

	for _, kind := range []struct {
		name string
		list client.ObjectList
		// pick returns the objects to delete.
		pick func(client.ObjectList) []client.Object
	}{
		{"VersionedMicroservice of the active release", &v1alpha1.VersionedMicroserviceList{}, func(l client.ObjectList) (all []client.Object) {
			for i, o := range l.(*v1alpha1.VersionedMicroserviceList).Items {
				if o.Spec.SemVer.Version == "1.1.0" {
					all = append(all, &l.(*v1alpha1.VersionedMicroserviceList).Items[i])
				}
			}
			return all
		}},
		{"Deployment", &appsv1.DeploymentList{}, func(l client.ObjectList) (all []client.Object) {
			for i := range l.(*appsv1.DeploymentList).Items {
				all = append(all, &l.(*appsv1.DeploymentList).Items[i])
			}
			return all
		}},
		{"Service", &corev1.ServiceList{}, func(l client.ObjectList) (all []client.Object) {
			for i := range l.(*corev1.ServiceList).Items {
				all = append(all, &l.(*corev1.ServiceList).Items[i])
			}
			return all
		}},
		{"HTTPRoute", &gatewayv1.HTTPRouteList{}, func(l client.ObjectList) (all []client.Object) {
			for i := range l.(*gatewayv1.HTTPRouteList).Items {
				all = append(all, &l.(*gatewayv1.HTTPRouteList).Items[i])
			}
			return all
		}},
	} {
		t.Run(kind.name, func(t *testing.T) {
			s := s.in(t)
			if err := env.Client.List(t.Context(), kind.list, mine); err != nil {
				t.Fatal(err)
			}
			deleted := kind.pick(kind.list)
			if len(deleted) == 0 {
				t.Fatalf("no %s exists", kind.name)
			}
			l.Mark(kind.name)
			before := l.Report().Total.Failed
			old := map[string]types.UID{}
			began := time.Now()
			for _, o := range deleted {
				old[o.GetName()] = o.GetUID()
				if err := env.Client.Delete(t.Context(), o, client.PropagationPolicy("Background")); err != nil {
					t.Fatal(err)
				}
			}
			for _, o := range deleted {
				wait(t, fmt.Sprintf("%s %s to be recreated", kind.name, o.GetName()), func(ctx context.Context) (bool, string, error) {
					err := env.Client.Get(ctx, client.ObjectKeyFromObject(o), o)
					return err == nil && o.GetUID() != old[o.GetName()] && o.GetDeletionTimestamp() == nil, "not yet", err
				})
			}
			again := time.Since(began)
			well := stable(t, l, 5*time.Second).Sub(began)
			s.active("1.1.0")
			s.sees(l, "1.1.0")
			t.Logf("%d deleted, all recreated after %s; %d requests failed (30 per second are sent), the last after %s",
				len(deleted), again.Round(10*time.Millisecond), l.Report().Total.Failed-before, max(0, well).Round(100*time.Millisecond))
		})
	}
}
