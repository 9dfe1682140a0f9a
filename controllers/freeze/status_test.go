package freeze

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"

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
