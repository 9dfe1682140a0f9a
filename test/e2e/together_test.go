//go:build e2e

package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// TestTogether rolls out three services together. No service passes its first step, or becomes active, before
// all services have reached the same point. If a version fails in one service, a service that uses Hold
// waits, and a service that uses RollBack is rolled back. The next version becomes active in all services.
func TestTogether(t *testing.T) {
	app := newService(t, "together")
	cart, stock := app.sibling("cart"), app.sibling("stock")
	all := []*service{app, cart, stock}
	var loads []*harness.Load
	for _, s := range all {
		s.steps(v1alpha1.CanaryStep{Weight: 20}, v1alpha1.CanaryStep{Weight: 60})
		s.ms.Spec.Availability.Replicas = 1
		s.ms.Spec.UpdateStrategy.Canary.Together = &v1alpha1.TogetherStrategy{Name: "checkout", OnFailure: v1alpha1.TogetherHold}
	}
	cart.ms.Spec.UpdateStrategy.Canary.Together.OnFailure = v1alpha1.TogetherRollBack
	for _, s := range all {
		s.start("1.0.0")
		loads = append(loads, s.load(20, false))
	}

	t.Log("two services wait for the third")
	cart.push("1.1.0")
	stock.push("1.1.0")
	cart.waits("1.1.0", 20, "Together", "1.1.0 is waiting at 20% for Microservice app")
	stock.waits("1.1.0", 20, "Together", "1.1.0 is waiting at 20% for Microservice app")
	for _, l := range loads {
		l.Mark("waiting")
	}
	quiet(t, 5*interval)
	for i, want := range []bool{false, true, true} {
		if f := loads[i].Split("waiting").Fraction("1.1.0"); f > 0 != want || f > 0.4 {
			t.Errorf("%.1f%% of the requests of %s went to the canary", f*100, all[i].app)
		}
	}
	app.push("1.1.0")
	for _, s := range all {
		s.active("1.1.0")
	}

	t.Log("after a failure, one service waits and the other is rolled back")
	app.push("1.2.0", "FAIL_READINESS", "true")
	cart.push("1.2.0")
	stock.push("1.2.0")
	stock.waits("1.2.0", 20, "Together", "")
	app.status("1.2.0", v1alpha1.ReleaseError)
	if last := cart.status("1.2.0", v1alpha1.ReleaseError); last.Reason != "TogetherFailed" {
		t.Errorf("1.2.0 of cart ended with %s", last.Reason)
	}
	stock.until("the Blocked condition", func(ms *v1alpha1.Microservice) (bool, string) {
		return meta.IsStatusConditionTrue(ms.Status.Conditions, v1alpha1.ConditionBlocked), ""
	})
	cart.sees(loads[1], "1.1.0")
	quiet(t, 2*interval)
	if r := stock.release("1.2.0"); r.Status != v1alpha1.ReleaseCanary || r.Weight != 20 {
		t.Errorf("1.2.0 of stock is %s with %d%%", r.Status, r.Weight)
	}

	t.Log("the next version becomes active in all services")
	for _, s := range all {
		s.push("1.3.0")
	}
	for i, s := range all {
		s.active("1.3.0")
		s.sees(loads[i], "1.3.0")
	}
	verdict(t, loads...)
}
