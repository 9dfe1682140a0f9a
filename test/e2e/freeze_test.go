//go:build e2e

package e2e

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestFreeze freezes a namespace for a minute and a half, under traffic, while a canary has a weight of 10%. The
// canary keeps its weight after the pause of its step, a newer version does not start, an abort rolls the canary
// back, and no request fails. When the freeze ends, the newest version starts automatically. A freeze that is
// deleted ends immediately.
func TestFreeze(t *testing.T) {
	s := newService(t, "freeze").steps(pausing(10, 5*time.Second), pausing(50, 2*time.Second))
	s.start("1.0.0")
	l := s.load(30, false)
	s.push("1.1.0")
	s.weight("1.1.0", 10)
	end := time.Now().Add(90 * time.Second).Truncate(time.Second)
	f := &v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: "fair", Annotations: map[string]string{v1alpha1.AnnotationDecidedBy: env.user},
	}}
	until := metav1.NewTime(end)
	f.Spec.FreezeRules = v1alpha1.FreezeRules{Reason: "trade fair", Until: &until}
	s.create(f)
	s.waits("1.1.0", 10, "Frozen", end.UTC().Format(time.RFC3339))
	s.decide("1.1.0", v1alpha1.DecisionDeprecate, "")
	s.status("1.1.0", v1alpha1.ReleaseError)

	s.push("1.2.0")
	var started time.Time
	s.until("1.2.0 to start", func(ms *v1alpha1.Microservice) (bool, string) {
		started = time.Now()
		return row(ms, "1.2.0") != nil, "it has no release"
	})
	if late := started.Sub(end); late < 0 || late > soon {
		t.Errorf("1.2.0 started %s after the end of the freeze", late)
	}
	s.active("1.2.0")

	f = &v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{
		Namespace: s.namespace, Name: "incident", Annotations: map[string]string{v1alpha1.AnnotationDecidedBy: env.user},
	}}
	f.Spec.FreezeRules = v1alpha1.FreezeRules{Reason: "incident", Indefinite: true}
	s.create(f)
	s.pin("1.0.0")
	s.active("1.0.0")
	s.pin("")
	if err := env.Client.Delete(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	s.active("1.2.0")
	s.sees(l, "1.2.0")
	verdict(t, l)
}
