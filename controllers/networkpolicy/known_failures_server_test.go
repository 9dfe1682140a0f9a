package networkpolicy

import (
	"context"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/test/await"
)

// TestServerDriftIsRepairedImmediately checks that a user's change to a route is reverted
// immediately, rather than at the next relist of the cache (row 45 of the known failures).
func TestServerDriftIsRepairedImmediately(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(stepOf(1, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	p.pod("a")
	p.pod("b")
	p.policy("shop", p.namespace+".drift.example.com")
	p.eventually("shop", "canary", confirmed("1-x", 1, "a", "b"))
	p.endpoints(resources.ReleaseServiceName("shop", "shop", "b"))
	p.quiet()
	written := p.route().DeepCopy().Spec
	for name, edit := range map[string]func(*gatewayv1.HTTPRoute){
		"weights":   func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].BackendRefs[0].Weight = new(int32(1000)) },
		"a backend": func(r *gatewayv1.HTTPRoute) { r.Spec.Rules[0].BackendRefs = r.Spec.Rules[0].BackendRefs[:1] },
		"a host":    func(r *gatewayv1.HTTPRoute) { r.Spec.Hostnames = []gatewayv1.Hostname{"stolen.example.com"} },
		"a rule": func(r *gatewayv1.HTTPRoute) {
			first := *r.Spec.Rules[0].DeepCopy()
			first.Matches[0].Path.Value = new("/stolen")
			r.Spec.Rules = append([]gatewayv1.HTTPRouteRule{first}, r.Spec.Rules...)
		},
	} {
		if err := retry.RetryOnConflict(retry.DefaultBackoff, func() error { // The gateway writes the status of the route.
			route := p.route()
			edit(route)
			return server.Update(t.Context(), route, client.FieldOwner("someone"))
		}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		await.Nil(t, func(context.Context) error {
			if now := p.route().Spec; mustJSON(now) != mustJSON(written) {
				return fmt.Errorf("%s: not restored: %s", name, cmp.Diff(written, now))
			}
			return nil
		})
	}
	p.quiet()
}

// TestServerKeepsObjectsOfOthers checks that an upgrade does not write to the routes of other
// owners, and does not remove what other owners or the API server added to a Service (rows 63, 64
// and 66).
func TestServerKeepsObjectsOfOthers(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	p.microservice(stepOf(1, "b 1.1.0 pending 0", "a 1.0.0 active 100"))
	p.pod("a")
	p.pod("b")
	p.policy("shop", p.namespace+".mine.example.com")
	p.eventually("shop", "first release", confirmed("1-x", 1, "a"))

	theirs := &gatewayv1.HTTPRoute{ObjectMeta: metav1.ObjectMeta{Name: "theirs", Labels: map[string]string{"app": "shop"}}}
	theirs.Spec.ParentRefs = []gatewayv1.ParentReference{{Name: "public", Namespace: new(gatewayv1.Namespace("infra"))}}
	theirs.Spec.Hostnames = []gatewayv1.Hostname{"theirs.example.com"}
	theirs.Spec.Rules = []gatewayv1.HTTPRouteRule{{
		Matches: []gatewayv1.HTTPRouteMatch{{Headers: []gatewayv1.HTTPHeaderMatch{{Name: "X-User", Value: "me"}}}},
		BackendRefs: []gatewayv1.HTTPBackendRef{{BackendRef: gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{
			Name: gatewayv1.ObjectName(resources.GroupServiceName("shop", "1-x")), Port: new(gatewayv1.PortNumber(80)),
		}}}},
	}}
	p.create(theirs)
	written := managersOf(theirs)

	var service corev1.Service
	p.get("shop", &service)
	service.Spec.Type = corev1.ServiceTypeNodePort
	service.Labels["team"], service.Annotations["example.com/note"] = "a", "mine"
	service.Finalizers = []string{"example.com/hold"}
	if err := server.Update(t.Context(), &service, client.FieldOwner("someone")); err != nil {
		t.Fatal(err)
	}
	node, ip := service.Spec.Ports[0].NodePort, service.Spec.ClusterIP
	if node == 0 {
		t.Fatal("the API server assigned no node port")
	}

	p.endpoints(resources.ReleaseServiceName("shop", "shop", "b"))
	p.rollout(stepOf(2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	p.eventually("shop", "canary", confirmed("1-x", 2, "a", "b"))
	p.rollout(stepOf(3, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	p.eventually("shop", "promotion", confirmed("1-x", 3, "b"))
	p.quiet()

	p.get("shop", &service)
	want(t, "selector", service.Spec.Selector[v1alpha1.LabelRelease], "b")
	want(t, "node port", service.Spec.Ports[0].NodePort, node)
	want(t, "type", service.Spec.Type, corev1.ServiceTypeNodePort)
	want(t, "address", service.Spec.ClusterIP, ip)
	want(t, "label", service.Labels["team"], "a")
	want(t, "annotation", service.Annotations["example.com/note"], "mine")
	want(t, "finalizers", len(service.Finalizers), 1)
	var route gatewayv1.HTTPRoute
	p.get("theirs", &route)
	if diff := cmp.Diff(written, managersOf(&route)); diff != "" {
		t.Errorf("a client other than the route's owner wrote to the route: %s", diff)
	}
	if diff := cmp.Diff(theirs.Spec, route.Spec); diff != "" {
		t.Errorf("the route of another owner changed: %s", diff)
	}
	service.Finalizers = nil
	if err := server.Update(t.Context(), &service); err != nil {
		t.Fatal(err)
	}
}

// managersOf returns the field managers of an object, except those of its status.
func managersOf(o client.Object) (names []string) {
	for _, m := range o.GetManagedFields() {
		if m.Subresource == "" {
			names = append(names, m.Manager+" "+string(m.Operation))
		}
	}
	return names
}

// TestServerRestoresAdoptedObjects checks that a Service that is adopted, moved by a promotion, and
// restored is the same as before, including node ports, and always routes to a ready pod (rows 24,
// 25 and 66).
func TestServerRestoresAdoptedObjects(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	before := webService()
	before.Annotations = map[string]string{"example.com/note": "mine"}
	before.Spec.Type, before.Spec.SessionAffinity = corev1.ServiceTypeNodePort, corev1.ServiceAffinityClientIP
	before.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	before.Spec.Ports = append(before.Spec.Ports, corev1.ServicePort{Name: "admin", Port: 9090, TargetPort: intstr.FromString("admin")})
	p.create(before)
	p.oldPod()
	p.microservice(stepOf(1, "b 1.1.0 pending 0", "a 1.0.0 active 100"))
	p.pod("a")
	p.pod("b")
	p.policy("shop", "{{.ReleaseGroupName}}.{{.Namespace}}.example.com", adopting(v1alpha1.DeletionRestore))
	p.eventually("shop", "adopted", has(v1alpha1.ConditionServiceAdopted, traffic.ReasonAdopted))
	p.rollout(stepOf(2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	p.eventually("shop", "promotion", confirmed("1-x", 2, "b"))

	var now corev1.Service
	p.get("web", &now)
	want(t, "selector while it is adopted", now.Spec.Selector[v1alpha1.LabelRelease], "b")
	now.Spec.Selector = before.Spec.Selector
	if diff := cmp.Diff(before.Spec, now.Spec); diff != "" {
		t.Errorf("adoption changes more than the selector: %s", diff)
	}
	p.remove("shop")
	p.gone(&v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	p.get("web", &now)
	for _, meta := range []*metav1.ObjectMeta{&before.ObjectMeta, &now.ObjectMeta} {
		meta.ResourceVersion, meta.ManagedFields, meta.Generation = "", nil, 0
	}
	if diff := cmp.Diff(before, &now); diff != "" {
		t.Errorf("the restored Service has changed: %s", diff)
	}
}

// TestServerDeletionEnds checks that the deletion of a policy with adopted objects completes, even
// if other objects are deleted first (row 69).
func TestServerDeletionEnds(t *testing.T) {
	for name, lose := range map[string]func(*place){
		"the Service is deleted": func(p *place) {
			if err := server.Delete(p.t.Context(), &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "web"}}); err != nil {
				p.t.Fatal(err)
			}
		},
		"the Microservice is deleted": func(p *place) {
			if err := server.Delete(p.t.Context(), &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "shop"}}); err != nil {
				p.t.Fatal(err)
			}
		},
		"the policy's own objects are deleted": func(p *place) {
			for _, o := range []client.Object{&corev1.Service{}, &gatewayv1.HTTPRoute{}} {
				if err := server.DeleteAllOf(p.t.Context(), o, client.InNamespace(p.namespace), client.HasLabels{v1alpha1.LabelMicroservice}); err != nil {
					p.t.Fatal(err)
				}
			}
		},
		"a user overwrites the annotations": func(p *place) {
			var s corev1.Service
			p.get("web", &s)
			for key := range s.Annotations {
				s.Annotations[key] = "invalid"
			}
			if err := server.Update(p.t.Context(), &s); err != nil {
				p.t.Fatal(err)
			}
		},
		"the namespace is being deleted without any previous pods": func(p *place) {
			p.noOldPods()
			if err := server.Delete(p.t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}); err != nil {
				p.t.Fatal(err)
			}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newPlace(t)
			p.create(webService())
			p.oldPod()
			p.microservice(stepOf(1, "a 1.0.0 active 100"))
			p.pod("a")
			p.policy("shop", "{{.ReleaseGroupName}}.{{.Namespace}}.example.com", adopting(v1alpha1.DeletionRestore))
			p.eventually("shop", "adopted", has(v1alpha1.ConditionServiceAdopted, traffic.ReasonAdopted))
			lose(p)
			if err := server.Delete(t.Context(), &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "shop"}}); client.IgnoreNotFound(err) != nil {
				t.Fatal(err)
			}
			p.gone(&v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
		})
	}
}

// noOldPods deletes the pods of the previous Deployment.
func (p *place) noOldPods() {
	p.t.Helper()
	if err := server.DeleteAllOf(p.t.Context(), &corev1.Pod{}, client.InNamespace(p.namespace), client.MatchingLabels(oldSelector), client.GracePeriodSeconds(0)); err != nil {
		p.t.Fatal(err)
	}
}
