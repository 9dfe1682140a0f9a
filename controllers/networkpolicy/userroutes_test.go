package networkpolicy

import (
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers"
	"github.com/heighliner/heighliner/controllers/networkpolicy/resources"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

func TestReverts(t *testing.T) {
	var s reverts
	now := time.Unix(0, 0)
	for i, wait := range []time.Duration{0, 0, 0, time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute} {
		want(t, fmt.Sprintf("wait before write %d", i), s.wait("web", "a", now), wait)
		want(t, "new content", s.wait("web", "b", now), 0)
		want(t, "another route", s.wait("api", "a", now), 0)
		now = now.Add(wait)
		s.note("web", "a", now)
	}
	now = now.Add(forgetAfter + time.Second)
	want(t, "after a long time without a write", s.wait("web", "a", now), 0)
	s.note("api", "a", now)
	want(t, "remembered routes", len(s.of), 1)
}

// TestDrainAfterAcceptance checks that the Services of a deleted policy remain for restoreDrain after the
// parents of a restored route have accepted it, even if they accept it late.
func TestDrainAfterAcceptance(t *testing.T) {
	now := time.Unix(0, 0)
	r := &Reconciler{Now: func() time.Time { return now }}
	policy := &v1alpha1.NetworkPolicy{}
	policy.Name, policy.Namespace, policy.Spec.DeletionPolicy = "shop", "shop", v1alpha1.DeletionRestore
	policy.Spec.Provider = &v1alpha1.NetworkProvider{RouteRef: &v1alpha1.RouteReference{Kind: "HTTPRoute", Name: "web"}}
	parent := map[string]any{"name": "public"}
	route := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "gateway.networking.k8s.io/v1", "kind": "HTTPRoute", "metadata": map[string]any{"name": "web", "namespace": "shop", "generation": int64(2)},
		"spec": map[string]any{"parentRefs": []any{parent}},
	}}
	f := &traffic.Observed{Policy: policy, Live: map[string]*providers.Live{"HTTPRoute/web": {User: true, Objects: []resources.Object{route}}}}
	wait := func(what string, wanted time.Duration) {
		t.Helper()
		got, err := r.restoreUserRoutes(t.Context(), f, false)
		if err != nil {
			t.Fatal(err)
		}
		if got == 0 {
			got = r.drainLeft(f)
		}
		want(t, what, got, wanted)
	}
	r.restored.note(client.ObjectKeyFromObject(policy), now)
	now = now.Add(time.Minute)
	wait("before the acceptance", podInterval)
	now = now.Add(time.Minute)
	wait("before the acceptance, later", podInterval)
	now = now.Add(podInterval)
	accept := func(kind string) any {
		return map[string]any{"type": kind, "status": "True", "reason": kind, "observedGeneration": int64(2), "message": "", "lastTransitionTime": "2026-01-02T03:04:05Z"}
	}
	route.Object["status"] = map[string]any{"parents": []any{map[string]any{"parentRef": parent, "controllerName": "example.com/gateway", "conditions": []any{accept("Accepted"), accept("ResolvedRefs")}}}}
	wait("at the acceptance", restoreDrain)
	now = now.Add(restoreDrain - time.Second)
	wait("a moment later", time.Second)
	now = now.Add(time.Second)
	wait("after the drain", 0)
}
