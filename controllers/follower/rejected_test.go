package follower

import (
	"context"
	"fmt"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/tools/events"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/event"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// TestRejectedWithOtherWords checks that a denial whose text differs each time, for example because it
// contains a request ID, is written to the CronJob and reported in an event only once.
func TestRejectedWithOtherWords(t *testing.T) {
	s := newManaged(t)
	s.apply(withProxy)
	if err := v1alpha1.AddToScheme(s.client.Scheme()); err != nil {
		t.Fatal(err)
	}
	recorder, n := events.NewFakeRecorder(100), 0
	refuses := interceptor.NewClient(s.client.(client.WithWatch), interceptor.Funcs{Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
		n++
		return apierrors.NewForbidden(schema.GroupResource{Group: "batch", Resource: "cronjobs"}, "report", fmt.Errorf("denied by policy, request %d", n))
	}})
	r := &reconciler{Client: refuses, live: refuses, events: status.Recorder{Events: recorder}, writer: apply.Writer{Client: refuses, Owner: FieldOwner}}
	passed := 0
	for range 20 {
		before := s.live()
		if _, err := r.Reconcile(t.Context(), ctrl.Request{NamespacedName: client.ObjectKey{Namespace: "shop", Name: "report"}}); err != nil {
			t.Fatal(err)
		}
		if edited().Update(event.UpdateEvent{ObjectOld: before, ObjectNew: s.live()}) {
			passed++ // the reconcile's write enqueues the CronJob immediately
		}
	}
	if passed > 1 || len(recorder.Events) > 1 {
		t.Errorf("the writes of %d of 20 reconciles enqueued the CronJob again; %d events were recorded", passed, len(recorder.Events))
	}
}
