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
