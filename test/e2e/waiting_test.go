//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestFullClusterWaitsForTheNewest installs a service on a node without free capacity. The registry contains several
// versions of the service. Only the newest version is started, even after several deadlines. It becomes active soon
// after capacity is available.
func TestFullClusterWaitsForTheNewest(t *testing.T) {
	s := waitingService(t, "full")
	var nodes corev1.NodeList
	if err := env.Client.List(t.Context(), &nodes); err != nil {
		t.Fatal(err)
	}
	if len(nodes.Items) != 1 {
		t.Fatalf("the cluster has %d nodes, want 1, because this test fills one node", len(nodes.Items))
	}
	// Two such pods do not fit on the node together, so the first pod blocks the release.
	large := *resource.NewMilliQuantity(nodes.Items[0].Status.Allocatable.Cpu().MilliValue()*6/10, resource.DecimalSI)
	s.ms.Spec.Availability.Replicas = 1
	s.ms.Spec.Template.Spec.Containers[0].Resources.Requests[corev1.ResourceCPU] = large
	filler := s.filler(large)
	s.installs()
	s.staysBlocked("Unschedulable")
	s.continues(func() {
		if err := env.Client.Delete(t.Context(), filler, client.PropagationPolicy(metav1.DeletePropagationForeground)); err != nil {
			t.Fatal(err)
		}
	})
}

// TestQuotaWaitsForTheNewest does the same with a ResourceQuota that admits no pod.
func TestQuotaWaitsForTheNewest(t *testing.T) {
	s := waitingService(t, "quota")
	quota := &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "pods"}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")},
	}}
	s.create(quota)
	wait(t, "the status of the quota to be set", func(ctx context.Context) (bool, string, error) {
		err := env.Client.Get(ctx, client.ObjectKeyFromObject(quota), quota)
		return len(quota.Status.Hard) > 0, "", err
	})
	s.installs()
	s.staysBlocked("QuotaExceeded")
	s.continues(func() {
		change(t, quota, func(q *corev1.ResourceQuota) { q.Spec.Hard[corev1.ResourcePods] = resource.MustParse("10") })
	})
}

// TestWebhookThatIsDownWaitsForTheNewest does the same with an admission webhook for pods that is not
// responding.
func TestWebhookThatIsDownWaitsForTheNewest(t *testing.T) {
	s := waitingService(t, "webhook")
	fail, none, all := admissionregistrationv1.Fail, admissionregistrationv1.SideEffectClassNone, admissionregistrationv1.NamespacedScope
	webhook := &admissionregistrationv1.ValidatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "e2e-webhook-down"}, Webhooks: []admissionregistrationv1.ValidatingWebhook{{
		Name: "pods.down.example.com", AdmissionReviewVersions: []string{"v1"}, SideEffects: &none, FailurePolicy: &fail,
		ClientConfig:      admissionregistrationv1.WebhookClientConfig{Service: &admissionregistrationv1.ServiceReference{Namespace: s.namespace, Name: "missing"}},
		NamespaceSelector: &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: s.namespace}},
		Rules: []admissionregistrationv1.RuleWithOperations{{
			Operations: []admissionregistrationv1.OperationType{admissionregistrationv1.Create},
			Rule:       admissionregistrationv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods"}, Scope: &all},
		}},
	}}}
	if err := client.IgnoreNotFound(env.Client.Delete(t.Context(), webhook)); err != nil {
		t.Fatal(err)
	}
	s.create(webhook)
	t.Cleanup(func() {
		if err := client.IgnoreNotFound(env.Client.Delete(context.Background(), webhook)); err != nil {
			t.Error(err)
		}
	})
	s.installs()
	s.staysBlocked("AdmissionUnavailable")
	s.continues(func() {
		if err := env.Client.Delete(t.Context(), webhook); err != nil {
			t.Fatal(err)
		}
	})
}

// waitingService returns a service with several versions in its registry, the newest of which must be
// installed.
func waitingService(t *testing.T, name string) *service {
	s := newService(t, name)
	s.ms.Spec.UpdateStrategy.ProgressDeadlineSeconds = 15
	for _, v := range []string{"6.14.0", "6.14.1", "6.15.0", "6.15.1", "7.0.0"} {
		s.push(v)
	}
	return s
}

// installs creates the objects of the service.
func (s *service) installs() {
	s.t.Helper()
	s.create(s.images, s.ms, s.network)
}

// filler creates another user's Deployment that uses some of the node's capacity.
func (s *service) filler(cpu resource.Quantity) *appsv1.Deployment {
	s.t.Helper()
	labels := map[string]string{"app": "filler"}
	pod := podSpec()
	pod.Containers[0].Image = env.RegistryInternal + "/" + s.repository + ":6.14.0"
	pod.Containers[0].Resources.Requests[corev1.ResourceCPU] = cpu
	d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "filler"}, Spec: appsv1.DeploymentSpec{
		Selector: &metav1.LabelSelector{MatchLabels: labels},
		Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: labels}, Spec: pod},
	}}
	s.create(d)
	wait(s.t, "the other pod to use the capacity", func(ctx context.Context) (bool, string, error) {
		err := env.Client.Get(ctx, client.ObjectKeyFromObject(d), d)
		return d.Status.ReadyReplicas == 1, "", err
	})
	return d
}

// staysBlocked checks that the newest version is blocked by the given cause for more than three
// deadlines, that a condition, an event, and a column report the cause, and that no other version is
// started.
func (s *service) staysBlocked(cause string) {
	s.t.Helper()
	s.until("7.0.0 to wait for "+cause, func(ms *v1alpha1.Microservice) (bool, string) {
		c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionBlocked)
		return c != nil && c.Status == metav1.ConditionTrue && strings.Contains(ms.Status.Summary.Canary, cause), fmt.Sprintf("column CANARY %q, condition %+v", ms.Status.Summary.Canary, c)
	})
	end := time.Now().Add(50 * time.Second)
	wait(s.t, "three deadlines to pass", func(ctx context.Context) (bool, string, error) {
		var ms v1alpha1.Microservice
		var releases v1alpha1.VersionedMicroserviceList
		if err := env.Client.Get(ctx, s.key(), &ms); err != nil {
			return false, "", err
		}
		if err := env.Client.List(ctx, &releases, client.InNamespace(s.namespace)); err != nil {
			return false, "", err
		}
		for _, r := range releases.Items {
			if r.Spec.SemVer.Version != "7.0.0" {
				s.t.Fatalf("%s was started, although 7.0.0 was only waiting for %s", r.Spec.SemVer.Version, cause)
			}
		}
		if r := row(&ms, "7.0.0"); r == nil || r.Status != v1alpha1.ReleasePending {
			s.t.Fatalf("7.0.0 does not wait: %+v", r)
		}
		return time.Now().After(end), "", nil
	})
	var events corev1.EventList
	if err := env.Client.List(s.t.Context(), &events, client.InNamespace(s.namespace)); err != nil {
		s.t.Fatal(err)
	}
	if !slices.ContainsFunc(events.Items, func(e corev1.Event) bool {
		return e.InvolvedObject.Kind == "Microservice" && e.Reason == "Blocked" && strings.Contains(e.Message, cause)
	}) {
		s.t.Errorf("no Blocked event of the Microservice reports %s", cause)
	}
}

// continues removes the cause, and checks that 7.0.0 soon becomes active.
func (s *service) continues(end func()) {
	s.t.Helper()
	end()
	began := time.Now()
	within(s.t, soon, "7.0.0 to be active", func(ctx context.Context) (bool, string, error) {
		var ms v1alpha1.Microservice
		if err := env.Client.Get(ctx, s.key(), &ms); err != nil {
			return false, "", err
		}
		r := row(&ms, "7.0.0")
		return r != nil && r.Status == v1alpha1.ReleaseActive && r.Available, ms.Status.Summary.Canary, nil
	})
	s.t.Logf("active %s after the cause was removed", time.Since(began).Round(100*time.Millisecond))
	s.confirmed()
	answers(s.t, s.host())
}
