package microservice

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// selectors records the selectors of list requests, and returns empty lists.
type selectors struct {
	client.Reader
	asked []string
}

func (s *selectors) List(_ context.Context, _ client.ObjectList, options ...client.ListOption) error {
	var o client.ListOptions
	o.ApplyOptions(options)
	s.asked = append(s.asked, o.Namespace+" "+o.FieldSelector.String())
	return nil
}

// TestFirstListIsOfOneMicroservice checks that reconciles before the first write of a rollout state, which
// read releases from the API server, list only the releases of one Microservice. The cost of listing the
// whole namespace each time would grow quadratically.
func TestFirstListIsOfOneMicroservice(t *testing.T) {
	t.Parallel()
	live := &selectors{}
	r := &Reconciler{live: live}
	o := &observed{ms: &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web"}}}
	if err := r.observeObjects(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	same(t, "lists", live.asked, []string{"shop spec.microserviceName=web"})
}

// TestHandledDecisionIsNotRead checks that a decision is not read again after it was handled, even if the rollout state no longer
// contains it.
func TestHandledDecisionIsNotRead(t *testing.T) {
	t.Parallel()
	o := &observed{ms: &v1alpha1.Microservice{}}
	c := &v1alpha1.VersionedMicroservice{}
	c.Spec.Decision = &v1alpha1.Decision{Action: v1alpha1.DecisionAdopt, ID: "2"}
	if d := o.readObject(c).Decision; d == nil || d.ID != "2" {
		t.Errorf("a new decision is read as %v", d)
	}
	for id, want := range map[string]bool{"1": true, "2": false} {
		c.Status.LastHandledDecision = &v1alpha1.HandledDecision{ID: id}
		if d := o.readObject(c).Decision; (d != nil) != want {
			t.Errorf("after decision %s was handled, the decision is read as %v", id, d)
		}
	}
}
