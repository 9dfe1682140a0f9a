package web

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/test/await"
)

// TestWeights checks that the page of a service contains a picture of the observed weights, and describes it as text.
func TestWeights(t *testing.T) {
	t.Parallel()
	b := story(t, "second step")
	if page := b.get("/services/shop/shop"); strings.Contains(page, "Weights of") {
		t.Error("an empty picture")
	}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { b.record(ctx); close(ended) }()
	data, _ := b.store.Data()
	await.Until(t, "the first weights", func() bool { b.weights.mu.Lock(); defer b.weights.mu.Unlock(); return b.weights.all.Services() == 1 })
	o := data.Objects
	o.Microservices = []v1alpha1.Microservice{*o.Microservices[0].DeepCopy()}
	for i := range o.Microservices[0].Status.ReleaseGroups[0].Releases {
		r := &o.Microservices[0].Status.ReleaseGroups[0].Releases[i]
		r.Weight = map[v1alpha1.ReleaseStatus]int32{v1alpha1.ReleaseActive: 20, v1alpha1.ReleaseCanary: 80}[r.Status]
	}
	b.clock.Step(10 * time.Minute)
	b.store.Set(o)
	await.Until(t, "the second weights", func() bool { return len(b.weights.of("shop", "shop")) == 1 })
	b.clock.Step(10 * time.Minute)
	page := b.get("/services/shop/shop")
	for _, want := range []string{"Weights of group 1.x: 10:12 1.0.0 50%, 1.1.0 50%; 10:22 1.0.0 20%, 1.1.0 80%", "2 changes", `class="w1" x="300.0" y="12.0" width="300.0" height="48.0"`} {
		if !strings.Contains(page, want) {
			t.Errorf("no %q in %s", want, page)
		}
	}
	if found := faults(t, page); len(found) > 0 {
		t.Error(found)
	}
	var s view.Service
	b.json("/services/shop/shop", &s)
	if len(s.Weights) != 1 || len(s.Weights[0].Points) != 2 {
		t.Errorf("%+v", s.Weights)
	}
	stop()
	await.Receive(t, "the end", ended)
}

// TestDrawWeights checks that parts stay within the picture even if clocks differ and weights are above 100, and
// that colors repeat.
func TestDrawWeights(t *testing.T) {
	t.Parallel()
	now := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	g := view.GroupWeights{Group: "1.x"}
	for i, name := range []string{"a", "b", "c", "d", "e"} {
		g.Points = append(g.Points, view.WeightPoint{Time: metav1.Time{Time: now.Add(time.Duration(i) * time.Minute)}, Shares: []view.WeightShare{{Release: name, Version: name, Weight: 1000}}})
	}
	got := drawWeights(g, now.Add(2*time.Minute))
	want := []weightsPart{{0, "0.0", "0.0", "300.0", "60.0"}, {1, "300.0", "0.0", "300.0", "60.0"}, {2, "600.0", "0.0", "0.0", "60.0"}, {3, "600.0", "0.0", "0.0", "60.0"}, {0, "600.0", "0.0", "0.0", "60.0"}}
	if diff := cmp.Diff(want, got.Parts); diff != "" {
		t.Error(diff)
	}
}
