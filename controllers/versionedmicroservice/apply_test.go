package versionedmicroservice

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// serve returns a reconciler for a simulated server with objects. The interceptors can make the server reject
// writes, as if a webhook were unavailable.
func serve(t *testing.T, down interceptor.Funcs, objects ...client.Object) *reconciler {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{clientgoscheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	c := newFake(scheme).WithObjects(objects...).WithStatusSubresource(&v1alpha1.VersionedMicroservice{}).WithInterceptorFuncs(down).Build()
	return &reconciler{
		client: c, live: c, writer: apply.Writer{Client: c, Live: c, Owner: fieldOwner}, events: status.Recorder{Events: events.NewFakeRecorder(10)},
		journal: &status.Journal{}, checks: &answers{}, clock: testingclock.NewFakePassiveClock(noon),
	}
}

var errWebhookDown = apierrors.NewInternalError(errors.New(`failed calling webhook "x": connection refused`))

// TestStatusThoughAWriteIsRefused checks that a release reports the loss of all its pods even while its
// PodDisruptionBudget or autoscaler cannot be written because a webhook is unavailable, and that the write is
// retried with back-off.
func TestStatusThoughAWriteIsRefused(t *testing.T) {
	t.Parallel()
	refuse := func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		return errWebhookDown
	}
	one := intstr.FromInt32(1)
	for name, edit := range map[string]func(*observed){
		"write of a budget": func(o *observed) {
			o.release.Spec.Availability.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: &one}
		},
		"write of an autoscaler": autoscaled(2),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := scene(2, 0) // all pods were lost
			edit(o)
			o.release.Status = v1alpha1.VersionedMicroserviceStatus{
				ObservedGeneration: o.release.Generation, Available: 2, Replicas: 2,
				Conditions: []metav1.Condition{{Type: v1alpha1.ConditionAvailable, Status: metav1.ConditionTrue, Reason: reasonAvailable, ObservedGeneration: o.release.Generation}},
			}
			r := serve(t, interceptor.Funcs{Apply: refuse}, o.release, o.deployment)
			_, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o.release)})
			if !apierrors.IsInternalError(err) {
				t.Errorf("the write is not retried with back-off: %v", err)
			}
			var now v1alpha1.VersionedMicroservice
			if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(o.release), &now); err != nil {
				t.Fatal(err)
			}
			if now.Status.Available != 0 {
				t.Errorf("the release reports %d available pods, want 0", now.Status.Available)
			}
		})
	}
}

// TestDeploymentRefusedByAWebhookThatIsDown checks that a release reports a problem outside the release if its
// Deployment cannot be created because a webhook is unavailable.
func TestDeploymentRefusedByAWebhookThatIsDown(t *testing.T) {
	t.Parallel()
	o := scene(1, 0)
	r := serve(t, interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
		return errWebhookDown
	}}, o.release)
	if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(o.release)}); !apierrors.IsInternalError(err) {
		t.Errorf("the creation is not retried with back-off: %v", err)
	}
	var now v1alpha1.VersionedMicroservice
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(o.release), &now); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]any{v1alpha1.FailureAdmissionUnavailable, o.release.Generation}, []any{now.Status.Failure, now.Status.ObservedGeneration}); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestOutdatedDeploymentStatusIsNotReported checks that the outdated status of a Deployment that cannot be written is not
// reported.
func TestOutdatedDeploymentStatusIsNotReported(t *testing.T) {
	t.Parallel()
	down, edited := status.Classify(errWebhookDown), scene(2, 2)
	edited.deployment.Generation++
	for name, test := range map[string]struct {
		seen *observed
		did  applied
		want bool
	}{
		"settled":                            {scene(2, 2), applied{}, false},
		"written":                            {scene(2, 2), applied{deploymentWritten: true}, true},
		"not observed yet":                   {edited, applied{}, true},
		"refused":                            {scene(2, 2), applied{deployment: down}, false},
		"rejected, not observed yet":         {edited, applied{deployment: down}, true},
		"rejected, with another size":        {scene(2, 1), applied{deployment: down, deploymentWritten: true}, false},
		"rejected permanently, not observed": {edited, applied{deployment: status.NewTerminal("Invalid", errWebhookDown)}, false},
		"rejected, without a Deployment":     {&observed{release: scene(1, 0).release}, applied{deployment: down, deploymentWritten: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.seen.deploymentOutdated(test.did); got != test.want {
				t.Errorf("%t, want %t", got, test.want)
			}
		})
	}
}

// TestBudgetIsDeletedOnce checks that the deletion of a PodDisruptionBudget causes no conflict even though
// the budget's status is written for each pod, and that a lagging cache causes no second deletion.
func TestBudgetIsDeletedOnce(t *testing.T) {
	t.Parallel()
	o := scene(2, 2)
	o.budget = budgetOf(o, true)
	o.budget.Name, o.budget.Namespace, o.budget.UID = o.release.Name, o.release.Namespace, "budget"
	deletions := 0
	var cached *policyv1.PodDisruptionBudget
	r := serve(t, interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			deletions++
			return c.Delete(ctx, obj, opts...)
		},
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if budget, ok := obj.(*policyv1.PodDisruptionBudget); ok && cached != nil {
				cached.DeepCopyInto(budget)
				return nil
			}
			return c.Get(ctx, key, obj, opts...)
		},
	}, o.release, o.deployment, o.budget)
	r.writer.Deletions = &apply.Deletions{}
	key := client.ObjectKeyFromObject(o.budget)
	live := &policyv1.PodDisruptionBudget{}
	if err := r.client.Get(t.Context(), key, live); err != nil {
		t.Fatal(err)
	}
	cached = live.DeepCopy()
	live.Status.CurrentHealthy = 2 // the disruption controller
	if err := r.client.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		o.budget = cached
		if done := r.apply(t.Context(), o, newPlan(o, noon)); done.budget != nil {
			t.Errorf("delete the budget: %v", done.budget)
		}
	}
	if deletions != 1 {
		t.Errorf("%d deletions, want 1", deletions)
	}
}
