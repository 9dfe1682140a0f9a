//go:build e2e

package e2e

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// mostDeletion is the maximum time for the deletion of a namespace, including the shutdown of its pods.
const mostDeletion = 30 * time.Second

// TestUninstall removes the manager, and checks that running releases keep serving. Namespaces with a canary in
// progress are deleted in time, whether or not the manager is installed.
func TestUninstall(t *testing.T) {
	s := newService(t, "uninstall").steps(pausing(20, 10*time.Minute))
	s.start("1.0.0")
	l := s.load(50, false)

	t.Run("namespace deleted mid-canary", func(t *testing.T) {
		other := newService(t, "deleted").steps(pausing(20, 10*time.Minute))
		other.start("1.0.0")
		other.push("1.1.0")
		other.weight("1.1.0", 20)
		other.deleted()
	})

	s.push("1.1.0")
	s.weight("1.1.0", 20)
	t.Run("manager deleted mid-canary", func(t *testing.T) {
		l.Mark("manager deleted")
		withoutManager(t)
		s.in(t).serves(l, 10*time.Second)
		verdict(t, l)
		s.in(t).deleted()
	})
}

// TestManagerAway removes the manager for longer than the progress deadline while a release is starting. The
// release does not fail, and becomes active when the manager is running again.
func TestManagerAway(t *testing.T) {
	const deadline = 15 * time.Second
	s := newService(t, "away").steps(pausing(20, 3*time.Second))
	s.ms.Spec.UpdateStrategy.ProgressDeadlineSeconds = int32(deadline / time.Second)
	s.start("1.0.0")
	l := s.load(50, false)
	s.push("1.1.0", "START_DELAY", "5s")
	s.status("1.1.0", v1alpha1.ReleasePending)
	t.Run("away", func(t *testing.T) {
		withoutManager(t)
		s.in(t).serves(l, 2*deadline)
	})
	s.active("1.1.0")
	s.sees(l, "1.1.0")
	verdict(t, l)
}

// deleted deletes the namespace, and fails the test if that takes too long.
func (s *service) deleted() {
	s.t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.namespace}}
	began := time.Now()
	if err := env.Client.Delete(s.t.Context(), ns); err != nil {
		s.t.Fatal(err)
	}
	within(s.t, mostDeletion, "namespace "+s.namespace+" to be deleted", func(ctx context.Context) (bool, string, error) {
		done, _, err := gone(ctx, ns)
		text := string(ns.Status.Phase)
		for _, c := range ns.Status.Conditions {
			if c.Status == corev1.ConditionTrue {
				text += "; " + c.Message
			}
		}
		return done, text, err
	})
	s.t.Logf("namespace deleted after %s", time.Since(began).Round(100*time.Millisecond))
}

// withoutManager deletes the manager as "kubectl delete -k config/manager" does, and restores it after the test.
func withoutManager(t *testing.T) {
	t.Helper()
	key := client.ObjectKey{Namespace: managerNamespace, Name: managerName}
	var manager appsv1.Deployment
	if err := env.Client.Get(t.Context(), key, &manager); err != nil {
		t.Fatal(err)
	}
	var services corev1.ServiceList
	if err := env.Client.List(t.Context(), &services, client.InNamespace(managerNamespace), client.MatchingLabels{"app.kubernetes.io/component": "manager"}); err != nil {
		t.Fatal(err)
	}
	before := []client.Object{&manager}
	for i := range services.Items {
		before = append(before, &services.Items[i])
	}
	t.Cleanup(func() {
		for _, o := range before {
			fresh(o)
			if err := env.Client.Create(context.Background(), o); err != nil {
				t.Errorf("restore %s: %v", o.GetName(), err)
			}
		}
	})
	kubectl(t, "", "delete", "-k", filepath.Join(env.root, "config", "manager"))
	wait(t, "the manager's pods to be deleted", func(ctx context.Context) (bool, string, error) {
		var pods corev1.PodList
		err := env.Client.List(ctx, &pods, client.InNamespace(managerNamespace), client.MatchingLabels{"app.kubernetes.io/component": "manager"})
		return len(pods.Items) == 0, "", err
	})
}

// fresh removes the fields that the API server set, so that an object that was read can be created again.
func fresh(o client.Object) {
	o.SetResourceVersion("")
	o.SetUID("")
	o.SetGeneration(0)
	o.SetManagedFields(nil)
	if s, ok := o.(*corev1.Service); ok {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
	}
}
