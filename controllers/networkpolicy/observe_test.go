package networkpolicy

import (
	"context"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
)

// rolloutStates is a Client that returns one Microservice and counts the reads.
type rolloutStates struct {
	client.Client
	microservice *v1alpha1.Microservice
	asked        int
}

func (l *rolloutStates) Get(_ context.Context, _ client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	l.asked++
	if l.microservice == nil {
		return apierrors.NewNotFound(schema.GroupResource{Resource: "microservices"}, "shop")
	}
	l.microservice.DeepCopyInto(o.(*v1alpha1.Microservice))
	return nil
}

func TestStaleRolloutStateIsReadFromTheServer(t *testing.T) {
	w := newWorld(t, group("1-x", 1, "a 1.0.0 active 100"))
	w.Ready["a"] = 1
	w.Settle()
	old := w.Microservice
	w.Rollout(group("1-x", 2, "b 1.1.0 canary 10", "a 1.0.0 active 90"))
	w.Ready["b"] = 1
	w.Settle()
	for name, tc := range map[string]struct {
		cached *v1alpha1.Microservice
		asked  int
	}{
		"up to date": {w.Microservice, 0},
		"behind":     {old, 1},
	} {
		t.Run(name, func(t *testing.T) {
			live := &rolloutStates{microservice: w.Microservice}
			r := &Reconciler{Client: &rolloutStates{microservice: tc.cached}, Live: live}
			f := w.Observed()
			if err := r.readMicroservice(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			want(t, "reads from the API server", live.asked, tc.asked)
			want(t, "sequence", f.Microservice.Status.Sequence(), w.Microservice.Status.Sequence())
		})
	}
}

// TestReferentOfANamespaceThatIsNotWatched checks that a Gateway in a namespace that the manager does not watch is not read,
// because the cache would return an error. The policy reports the namespace instead.
func TestReferentOfANamespaceThatIsNotWatched(t *testing.T) {
	ref := providers.Reference{Kind: "Gateway", Namespace: "infra", Name: "public"}
	seen := []seenKind{{name: "Gateway"}}
	input := providers.Input{Unwatched: map[string]bool{}}
	r := &Reconciler{namespaces: []string{"shop"}} // The test has no client, so a read would panic.
	if err := r.readReferent(t.Context(), ref, &input, seen); err != nil {
		t.Fatal(err)
	}
	want(t, "not watched", input.Unwatched["infra"], true)
}

// TestServing checks that a terminating endpoint does not count as ready, even though it still
// processes open requests. A release that has only such endpoints counts as a release without
// endpoints.
func TestServing(t *testing.T) {
	yes, no := new(true), new(false)
	for name, tc := range map[string]struct {
		ready, serving, terminating *bool
		want                        bool
	}{
		"ready":                                    {yes, yes, no, true},
		"no conditions":                            {nil, nil, nil, true},
		"not ready":                                {no, no, no, false},
		"terminating but still serving":            {no, yes, yes, false},
		"terminating":                              {no, no, yes, false},
		"published although it is not ready":       {yes, no, no, false},
		"published although it is terminating":     {yes, yes, yes, false},
		"server without the terminating condition": {yes, nil, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			e := discoveryv1.Endpoint{Conditions: discoveryv1.EndpointConditions{Ready: tc.ready, Serving: tc.serving, Terminating: tc.terminating}}
			want(t, "serving", serving(e), tc.want)
		})
	}
}

// TestServerTargetPortByName checks that a named target port is resolved for the pods of each
// release, so that the next version can listen on another port.
func TestServerTargetPortByName(t *testing.T) {
	t.Parallel()
	p := newPlace(t)
	named := func(number int32) corev1.ContainerPort {
		return corev1.ContainerPort{Name: "http", ContainerPort: number}
	}
	p.microservice(group("1-x", 1, "b 1.1.0 canary 50", "a 1.0.0 active 50"))
	p.pod("a", named(8080))
	p.pod("b", named(9090))
	p.policy("shop", p.namespace+".named.example.com", func(h *v1alpha1.NetworkPolicy) {
		h.Spec.Ports[0].TargetPort = new(intstr.FromString("http"))
	})
	p.eventually("shop", "canary", confirmed("1-x", 1, "a", "b"))
	for release, number := range map[string]int32{"a": 8080, "b": 9090} {
		var list discoveryv1.EndpointSliceList
		service := resources.ReleaseServiceName("shop", "shop", release)
		if err := server.List(t.Context(), &list, client.InNamespace(p.namespace), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
			t.Fatal(err)
		}
		want(t, "slices of "+release, len(list.Items), 1)
		want(t, "port of "+release, *list.Items[0].Ports[0].Port, number)
	}
}
