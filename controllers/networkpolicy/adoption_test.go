package networkpolicy

import (
	"context"
	"errors"
	"maps"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/test/await"
)

var oldSelector = map[string]string{"app": "web"}

// webService returns the Service that a policy adopts.
func webService() *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"team": "shop"}},
		Spec:       corev1.ServiceSpec{Selector: oldSelector, Ports: []corev1.ServicePort{{Name: "http", Port: 8080}}},
	}
}

func adopting(deletion v1alpha1.DeletionPolicy) func(*v1alpha1.NetworkPolicy) {
	return func(p *v1alpha1.NetworkPolicy) {
		p.Spec.AdoptFrom = &v1alpha1.AdoptService{ServiceName: "web"}
		p.Spec.DeletionPolicy = deletion
	}
}

// oldPod returns a ready pod of the previous Deployment.
func (p *place) oldPod() *corev1.Pod {
	p.t.Helper()
	pod := p.pod("none")
	pod.Labels = maps.Clone(oldSelector)
	if err := server.Update(p.t.Context(), pod); err != nil {
		p.t.Fatal(err)
	}
	return pod
}

func (p *place) selector() map[string]string {
	p.t.Helper()
	var s corev1.Service
	p.get("web", &s)
	return s.Spec.Selector
}

func (p *place) remove(name string) {
	p.t.Helper()
	if err := server.Delete(p.t.Context(), &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: name}}); err != nil {
		p.t.Fatal(err)
	}
}

func TestServerAdoptsAndRestoresAService(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create(webService())
	p.oldPod()
	p.oldPod()
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.policy("shop", "{{.ReleaseGroupName}}.adopt.example.com", adopting(v1alpha1.DeletionRestore))

	p.eventually("shop", "one pod is not enough to replace two", has(v1alpha1.ConditionServiceAdopted, traffic.ReasonAdoptionWaits))
	want(t, "selector before the adoption", p.selector()["app"], "web")

	p.pod("a")
	status := p.eventually("shop", "adopted", has(v1alpha1.ConditionServiceAdopted, traffic.ReasonAdopted)).Status
	want(t, "release", status.Adopted.Release, "a")
	want(t, "selector", p.selector()[v1alpha1.LabelRelease], "a")
	want(t, "previous selector", p.selector()["app"], "")
	var s corev1.Service
	p.get("web", &s)
	want(t, "the user's label", s.Labels["team"], "shop")
	want(t, "owners", len(s.OwnerReferences), 0)
	want(t, "port", s.Spec.Ports[0].Port, 8080)
	p.eventually("shop", "confirmed", confirmed("1-x", 1, "a"))
	p.eventually("shop", "programmed", has("Ready", "Programmed"))
	p.quiet()

	// The Service follows a promotion, and the previous release is referenced until the Service has
	// moved.
	p.pod("b")
	p.rollout(group("1-x", 2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	p.eventually("shop", "confirmed", confirmed("1-x", 2, "b"))
	want(t, "selector after the promotion", p.selector()[v1alpha1.LabelRelease], "b")

	p.remove("shop")
	p.gone(&v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	p.get("web", &s)
	want(t, "selector at the end", s.Spec.Selector["app"], "web")
	want(t, "policy label at the end", s.Labels[v1alpha1.LabelPolicy], "")
	want(t, "annotations at the end", len(s.Annotations), 0)
}

func TestServerKeepsAnAdoptedServiceServing(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create(webService())
	old := p.oldPod()
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.policy("shop", "{{.ReleaseGroupName}}.keep.example.com", adopting(v1alpha1.DeletionRestore))
	p.eventually("shop", "adopted", has(v1alpha1.ConditionServiceAdopted, traffic.ReasonAdopted))

	// There are no previous pods: the Service keeps routing to the release, which has endpoints.
	if err := server.Delete(t.Context(), old, client.GracePeriodSeconds(0)); err != nil {
		t.Fatal(err)
	}
	p.remove("shop")
	time.Sleep(3 * time.Second) // The test checks that nothing changes during this time.
	want(t, "selector while there are no previous pods", p.selector()[v1alpha1.LabelRelease], "a")

	late := &Reconciler{Client: indexed(), Live: server, Now: func() time.Time { return time.Now().Add(deletionDeadline + time.Minute) }}
	await.Nil(t, func(ctx context.Context) error { // The running controller also writes the policy: after a conflict, the test tries again.
		var policy v1alpha1.NetworkPolicy
		if err := server.Get(ctx, client.ObjectKey{Namespace: p.namespace, Name: "shop"}, &policy); err != nil {
			return client.IgnoreNotFound(err)
		}
		_, err := late.finalize(ctx, &policy)
		return errors.Join(errors.New("the policy still exists"), err)
	})
	p.gone(&v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	want(t, "selector after the deadline", p.selector()[v1alpha1.LabelRelease], "a")
}

func TestServerOrphansServingObjects(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	p.pod("a")
	p.policy("shop", "{{.ReleaseGroupName}}.orphan.example.com", func(p *v1alpha1.NetworkPolicy) { p.Spec.DeletionPolicy = v1alpha1.DeletionOrphan })
	p.eventually("shop", "programmed", confirmed("1-x", 1, "a"))
	p.remove("shop")
	p.gone(&v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	var services corev1.ServiceList
	var routes gatewayv1.HTTPRouteList
	for _, list := range []client.ObjectList{&services, &routes} {
		if err := server.List(t.Context(), list, client.InNamespace(p.namespace)); err != nil {
			t.Fatal(err)
		}
	}
	want(t, "Services", len(services.Items), 3)
	want(t, "routes", len(routes.Items), 1)
	want(t, "owners of the route", len(routes.Items[0].OwnerReferences), 0)
}

// TestServerOrphansTheActiveRelease checks that objects that are orphaned during a rollout route
// only to the active release, because no controller changes their weights afterwards.
func TestServerOrphansTheActiveRelease(t *testing.T) {
	t.Parallel()
	orphan := func(h *v1alpha1.NetworkPolicy) { h.Spec.DeletionPolicy = v1alpha1.DeletionOrphan }
	for name, tc := range map[string]struct {
		make    func(*place)
		carries func(*place) string
	}{
		"domain": {
			func(p *place) { p.policy("shop", p.namespace+".orphan.example.com", orphan) },
			func(p *place) string { return p.shares() },
		},
		"domain of the canary": {
			func(p *place) {
				p.policy("shop", p.namespace+".next.example.com", orphan, func(h *v1alpha1.NetworkPolicy) {
					h.Spec.Domains[0].Release = &v1alpha1.DomainRelease{Status: v1alpha1.DomainCanary}
				})
			},
			func(p *place) string { return p.shares() },
		},
		"rule of a user-managed route": {
			func(p *place) {
				p.gatewayHere()
				p.create(p.webRoute())
				p.borrows("shop", v1alpha1.DeletionOrphan, "main")
			},
			func(p *place) string { return refs(p.readWeb(), "main") },
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
			p.pod("a")
			p.pod("b")
			tc.make(p)
			p.eventually("shop", "programmed", confirmed("1-x", 1, "a"))
			p.rollout(group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
			p.eventually("shop", "canary", confirmed("1-x", 2, "a", "b"))
			p.remove("shop")
			p.gone(&v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
			want(t, "remaining weights", tc.carries(p), "shop/a=100")
		})
	}
}

// shares returns the weights of the only HTTPRoute, in the format of refs.
func (p *place) shares() string {
	p.t.Helper()
	var list gatewayv1.HTTPRouteList
	if err := server.List(p.t.Context(), &list, client.InNamespace(p.namespace)); err != nil {
		p.t.Fatal(err)
	}
	want(p.t, "routes", len(list.Items), 1)
	u, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[0])
	if err != nil {
		p.t.Fatal(err)
	}
	rules := u["spec"].(map[string]any)["rules"].([]any)
	rules[0].(map[string]any)["name"] = "only"
	return refs(&unstructured.Unstructured{Object: u}, "only")
}

func TestServerRefusesToAdopt(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		change func(*corev1.Service)
		reason string
	}{
		"no selector": {func(s *corev1.Service) { s.Spec.Selector = nil }, traffic.ReasonAdoptedUnsuitable},
		"external name": {func(s *corev1.Service) {
			s.Spec.Type, s.Spec.ExternalName = corev1.ServiceTypeExternalName, "example.com"
		}, traffic.ReasonAdoptedUnsuitable},
		"Service of another policy": {func(s *corev1.Service) { s.Labels[v1alpha1.LabelPolicy] = "other" }, traffic.ReasonAdoptedUnsuitable},
		"Service with another name": {func(s *corev1.Service) { s.Name = "api" }, traffic.ReasonAdoptedMissing},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			s := webService()
			tc.change(s)
			p.create(s)
			p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
			p.pod("a")
			p.policy("shop", "{{.ReleaseGroupName}}.{{.Namespace}}.example.com", adopting(v1alpha1.DeletionOrphan))
			p.eventually("shop", "condition", has(v1alpha1.ConditionServiceAdopted, tc.reason))
			p.eventually("shop", "other objects are written", confirmed("1-x", 1, "a"))
			refs := v1alpha1.ConditionResolvedRefs
			if tc.reason == traffic.ReasonAdoptedMissing {
				refs = traffic.ReasonAdoptedMissing
			}
			p.eventually("shop", "references", has(v1alpha1.ConditionResolvedRefs, refs))
		})
	}
}

// TestServerAdoptsUnderTheSameLabels checks that pods of the first release do not count as pods of
// the previous Deployment, even if they have the labels in the Service's selector.
func TestServerAdoptsUnderTheSameLabels(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create(webService())
	p.oldPod()
	p.oldPod()
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	for range 2 {
		pod := p.pod("a")
		pod.Labels["app"] = "web"
		if err := server.Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	p.policy("shop", "{{.ReleaseGroupName}}.same.example.com", adopting(v1alpha1.DeletionRestore))
	p.eventually("shop", "adopted", has(v1alpha1.ConditionServiceAdopted, traffic.ReasonAdopted))
}

// TestServerRestoresToAsManyPods checks that a Service with four ready pods is not restored when
// only one previous pod is ready.
func TestServerRestoresToAsManyPods(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.create(webService())
	previous := []*corev1.Pod{p.oldPod()}
	p.microservice(group("1-x", 1, "a 1.0.0 active 100"))
	for range 4 {
		p.pod("a")
	}
	p.policy("shop", "{{.ReleaseGroupName}}.many.example.com", adopting(v1alpha1.DeletionRestore))
	p.eventually("shop", "adopted", has(v1alpha1.ConditionServiceAdopted, traffic.ReasonAdopted))
	ready := func(pod *corev1.Pod, status corev1.ConditionStatus) {
		t.Helper()
		pod.Status.Conditions[0].Status = status
		if err := server.Status().Update(t.Context(), pod); err != nil {
			t.Fatal(err)
		}
	}
	for range 3 {
		pod := p.oldPod()
		ready(pod, corev1.ConditionFalse)
		previous = append(previous, pod)
	}
	p.readyEndpoints("web", 4) // The controller compares the previous pods with the ready endpoints.
	p.quiet()
	p.remove("shop")
	time.Sleep(3 * time.Second) // The test checks that nothing changes during this time.
	want(t, "selector with one of four previous pods", p.selector()[v1alpha1.LabelRelease], "a")
	for _, pod := range previous[1:] {
		ready(pod, corev1.ConditionTrue)
	}
	p.gone(&v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	want(t, "selector with four previous pods", p.selector()["app"], "web")
}
