package freeze

import (
	"context"
	"errors"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	clocktesting "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/freeze"
	"github.com/heighliner/heighliner/internal/status"
)

// TestInvalidSelector checks that a freeze with an invalid selector selects nothing, and that its status does
// not report that the freeze applies.
func TestInvalidSelector(t *testing.T) {
	t.Parallel()
	for operator, active := range map[metav1.LabelSelectorOperator]bool{metav1.LabelSelectorOpExists: true, metav1.LabelSelectorOpNotIn: false} {
		f := &v1alpha1.Freeze{}
		f.Spec.FreezeRules = v1alpha1.FreezeRules{
			Reason: "fair", Indefinite: true,
			Selector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: operator}}},
		}
		setStatus(&observed{object: f, freeze: freeze.Namespaced(f), status: &f.Status}, time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))
		if f.Status.Active != active {
			t.Errorf("%s: active %t, want %t: %+v", operator, f.Status.Active, active, f.Status.Conditions)
		}
	}
}

// TestEndOfAFreeze checks that the event at the end of a freeze counts the Microservices that were frozen, even if the change that ends the freeze
// selects others.
func TestEndOfAFreeze(t *testing.T) {
	t.Parallel()
	for frozen, want := range map[int32]string{
		1: "Normal FreezeEnded 1 Microservice is no longer frozen",
		2: "Normal FreezeEnded 2 Microservices are no longer frozen",
	} {
		recorder := events.NewFakeRecorder(1)
		f := &v1alpha1.Freeze{}
		r := &reconciler{events: status.Recorder{Events: recorder}}
		r.recordState(&observed{object: f, status: &f.Status}, &v1alpha1.FreezeStatus{Active: true, Services: frozen})
		select {
		case got := <-recorder.Events:
			if got != want {
				t.Errorf("event %q, want %q", got, want)
			}
		default:
			t.Errorf("no event, want %q", want)
		}
	}
}

// TestDeletedFreeze checks that a freeze that is deleted before its status is written causes no error.
func TestDeletedFreeze(t *testing.T) {
	t.Parallel()
	scheme := runtime.NewScheme()
	if err := errors.Join(v1alpha1.AddToScheme(scheme), corev1.AddToScheme(scheme)); err != nil {
		t.Fatal(err)
	}
	f := &v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "fair"}, Spec: v1alpha1.FreezeSpec{FreezeRules: v1alpha1.FreezeRules{Reason: "fair", Indefinite: true}}}
	writes := 0
	c := interceptor.NewClient(fake.NewClientBuilder().WithScheme(scheme).WithObjects(f).WithStatusSubresource(f).Build(), interceptor.Funcs{
		SubResourcePatch: func(context.Context, client.Client, string, client.Object, client.Patch, ...client.SubResourcePatchOption) error {
			writes++
			return apierrors.NewNotFound(v1alpha1.GroupVersion.WithResource("freezes").GroupResource(), f.Name)
		},
	})
	r := &reconciler{Client: c, clock: clocktesting.NewFakePassiveClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))}
	result, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKeyFromObject(f)})
	if err != nil || !result.IsZero() || writes != 1 {
		t.Errorf("result %+v, error %v, %d writes", result, err, writes)
	}
}
