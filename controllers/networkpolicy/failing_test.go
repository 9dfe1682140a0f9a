package networkpolicy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providertest"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/apply"
)

// hooked is a Writer whose writes of Services fail because an admission webhook is unavailable.
type hooked struct {
	// refuses reports whether the write of a Service fails.
	refuses func(name string) bool
	wrote   map[string]client.Object
	deleted []string
}

func (h *hooked) Apply(_ context.Context, _, desired client.Object) (apply.Outcome, error) {
	if _, service := desired.(*corev1.Service); service && h.refuses(desired.GetName()) {
		return "", fmt.Errorf("apply Service %q: %w", desired.GetName(), apierrors.NewInternalError(errors.New(`failed calling webhook "services.example.com": connection refused`)))
	}
	h.wrote[desired.GetName()] = desired
	return apply.Updated, nil
}

func (h *hooked) Delete(_ context.Context, _, o client.Object) error {
	h.deleted = append(h.deleted, o.GetName())
	return nil
}

// reconcileHooked runs one reconcile with a hooked Writer.
func reconcileHooked(ctx context.Context, w *world, refuses func(name string) bool) (*hooked, v1alpha1.NetworkPolicyStatus, error) {
	h := &hooked{refuses: refuses, wrote: map[string]client.Object{}}
	r := &Reconciler{Writer: h, Now: func() time.Time { return w.Now }}
	f := w.Observed()
	out := traffic.Plan(f)
	done, err := r.write(ctx, f, out)
	now, _ := traffic.Status(f, out, done)
	return h, now, err
}

// weightsIn returns the weights of an HTTPRoute, by version.
func weightsIn(w *world, o client.Object) string {
	route, ok := o.(*gatewayv1.HTTPRoute)
	if !ok {
		return ""
	}
	f := w.Observed()
	var parts []string
	for service, weight := range providertest.ReadRoute(route).Weights {
		parts = append(parts, fmt.Sprintf("%s=%d", providertest.VersionBehind(f, service), weight))
	}
	slices.Sort(parts)
	return strings.Join(parts, " ")
}

// TestFailedServiceDoesNotBlockRoutes checks that a failed canary with half of the traffic loses
// this traffic even though the Service of the next release cannot be created, because an admission
// webhook is unavailable.
func TestFailedServiceDoesNotBlockRoutes(t *testing.T) {
	w := newWorld(t, group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	w.Ready = map[string]int{"a": 1, "b": 1, "c": 1}
	w.Settle()
	route := onlyRoute(t, w).Name
	w.Rollout(group("1-x", 3, "c 1.1.1 pending 0", "b 1.1.0 error 0", "a 1.0.0 active 100"))
	missing := func(name string) bool { return w.Services[name] == nil }
	h, _, err := reconcileHooked(t.Context(), w, missing)
	want(t, "the reconcile is repeated", err != nil, true)
	want(t, "weights", weightsIn(w, h.wrote[route]), "1.0.0=100")
	want(t, "deleted", len(h.deleted), 0)

	w.Rollout(group("1-x", 4, "c 1.1.1 canary 10", "b 1.1.0 error 0", "a 1.0.0 active 90"))
	_, now, _ := reconcileHooked(t.Context(), w, missing)
	got := traffic.Find(now.Groups, "1-x")
	want(t, "confirmed without the canary", got.Revision, 2)
	want(t, "message "+got.Message, strings.Contains(got.Message, "failed calling webhook"), true)
	want(t, "the canary is withheld", slices.Contains(got.Withheld, "c"), false)
	want(t, "references", cmp.Diff([]string{"a", "b"}, got.References), "")

	w.Settle()
	want(t, "split after the webhook is available again", providertest.SplitOf(w.Observed(), host, "gateway"), "1.0.0=90 1.1.1=10")
	want(t, "confirmed", w.GroupTraffic("1-x").Revision, 4)
}

// TestFailedServiceDoesNotBlockTheIngressOfACanary checks the same for Ingresses, where the canary loses its traffic when its Ingress is
// deleted.
func TestFailedServiceDoesNotBlockTheIngressOfACanary(t *testing.T) {
	w := newWorld(t, group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	w.Policy.Spec.Provider = &v1alpha1.NetworkProvider{Ingress: &v1alpha1.IngressProvider{ClassName: "nginx", AnnotationPrefix: "nginx.ingress.kubernetes.io"}}
	w.Ready = map[string]int{"a": 1, "b": 1, "c": 1}
	w.Settle()
	if len(w.Others) != 2 {
		t.Fatalf("there are %d Ingresses, want 2", len(w.Others))
	}
	w.Rollout(group("1-x", 3, "c 1.1.1 pending 0", "b 1.1.0 error 0", "a 1.0.0 active 100"))
	missing := func(name string) bool { return w.Services[name] == nil }
	h, _, err := reconcileHooked(t.Context(), w, missing)
	want(t, "the reconcile is repeated", err != nil, true)
	if len(h.deleted) != 1 || !strings.HasSuffix(h.deleted[0], "-canary") {
		t.Errorf("deleted: %q, want the Ingress of the canary", h.deleted)
	}
}

// TestServicesThatCannotBeChangedKeepNoCanaryInTheRoute checks that routes to Services whose ports
// cannot be changed keep their port, and get their new weights.
func TestServicesThatCannotBeChangedKeepNoCanaryInTheRoute(t *testing.T) {
	w := newWorld(t, group("1-x", 2, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	w.Ready = map[string]int{"a": 1, "b": 1}
	w.Settle()
	route := onlyRoute(t, w).Name
	w.Policy.Spec.Ports[0].Port = 8888
	w.Policy.Generation++
	w.Rollout(group("1-x", 3, "b 1.1.0 error 0", "a 1.0.0 active 100"))
	h, now, err := reconcileHooked(t.Context(), w, func(string) bool { return true })
	want(t, "the reconcile is repeated", err != nil, true)
	want(t, "weights", weightsIn(w, h.wrote[route]), "1.0.0=100")
	for _, rule := range h.wrote[route].(*gatewayv1.HTTPRoute).Spec.Rules {
		for _, b := range rule.BackendRefs {
			want(t, "port", *b.Port, 80)
		}
	}
	want(t, "confirmed", traffic.Find(now.Groups, "1-x").Revision, 2)
	want(t, "still referenced", slices.Contains(traffic.Find(now.Groups, "1-x").References, "b"), true)
}

// TestRouteWaitsOnlyForItsService checks that a route is not written while its Service is
// missing, and that other objects are written.
func TestRouteWaitsOnlyForItsService(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.Ready = map[string]int{"a": 1}
	w.Settle()
	gone := w.Observed().ReleaseService("a")
	w.Policy.Spec.Domains = append(w.Policy.Spec.Domains, v1alpha1.Domain{Domain: "new.example.com"})
	f := w.Observed()
	out := traffic.Plan(f)
	delete(f.Services, gone) // A user deleted the Service after it was read.
	h := &hooked{refuses: func(name string) bool { return name == gone }, wrote: map[string]client.Object{}}
	r := &Reconciler{Writer: h, Now: func() time.Time { return w.Now }}
	done, err := r.write(t.Context(), f, out)
	want(t, "the reconcile is repeated", err != nil, true)
	for _, route := range out.Routes {
		want(t, "route "+route.Name+" is written", h.wrote[route.Name] != nil, false)
		want(t, "the route reports the cause", done.Refused[traffic.AppliedRouteKey(route.Name)] != nil, true)
	}
	want(t, "the Service of the group is written", h.wrote["shop-1-x"] != nil, true)
}

// TestFailedReconcileKeepsTheRequeueTime checks that a failed reconcile keeps the time of the next
// read of the Service that the policy adopts, because this Service is not watched.
func TestFailedReconcileKeepsTheRequeueTime(t *testing.T) {
	f := newFleet(t, 1, ownHosts)
	_, key := f.key(&v1alpha1.NetworkPolicy{}, fleetNamespace, "shop-000")
	policy := f.objects[key].DeepCopyObject().(*v1alpha1.NetworkPolicy)
	adopting(v1alpha1.DeletionRestore)(policy)
	policy.Finalizers = []string{v1alpha1.FinalizerDeletionPolicy}
	f.put(policy)
	request := reconcile.Request{NamespacedName: client.ObjectKeyFromObject(policy)}
	f.enqueue(request)
	f.run()

	f.reconciler.Writer = &hooked{refuses: func(string) bool { return true }, wrote: map[string]client.Object{}}
	result, err := f.reconciler.Reconcile(t.Context(), request)
	want(t, "the reconcile fails", err != nil, true)
	want(t, "time until the next reconcile", result.RequeueAfter, pollInterval)
}

// refusing is a Writer that rejects Ingresses, like a webhook that finds the same host and path in
// another Ingress.
type refusing struct{ applied []string }

func (w *refusing) Apply(_ context.Context, _, o client.Object) (apply.Outcome, error) {
	w.applied = append(w.applied, o.GetName())
	if o.GetObjectKind().GroupVersionKind().Kind == "Ingress" {
		return "", apierrors.NewBadRequest("the path is taken")
	}
	return apply.Unchanged, nil
}

func (w *refusing) Delete(_ context.Context, _, _ client.Object) error { return nil }

// TestRefusedRouteHasNoCanary checks that the canary Ingress of a rejected route is not written,
// because it would apply to the Ingress that already has the host and path.
func TestRefusedRouteHasNoCanary(t *testing.T) {
	w := routedBy(t, byNginx)
	w.Others = map[string]resources.Object{}
	f := w.Observed()
	out := traffic.Plan(f)
	want(t, "objects of the route", len(out.Routes[0].Objects), 2)
	writer := &refusing{}
	r := &Reconciler{Writer: writer}
	done, err := r.write(t.Context(), f, out)
	if err != nil {
		t.Fatal(err)
	}
	want(t, "reason for the rejection", done.Refused[traffic.AppliedRouteKey(out.Routes[0].Name)].Reason, "Invalid")
	want(t, "the route write was attempted", slices.Contains(writer.applied, out.Routes[0].Name), true)
	want(t, "the canary write was attempted", slices.Contains(writer.applied, out.Routes[0].Name+"-canary"), false)
}
