package traffic

import (
	"slices"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestFirstStatusIsDelayed checks that the status of a new policy is not written while it would only
// report progress, so that the first status of a policy that is applied together with its
// Microservice shows the result.
func TestFirstStatusIsDelayed(t *testing.T) {
	group := func(revision int64, references ...string) []v1alpha1.GroupTraffic {
		return []v1alpha1.GroupTraffic{{Slug: "1-x", Revision: revision, References: references}}
	}
	conditions := func(kinds ...string) (list []metav1.Condition) {
		for _, kind := range kinds {
			list = append(list, metav1.Condition{Type: kind, Status: metav1.ConditionTrue})
		}
		return list
	}
	type status = v1alpha1.NetworkPolicyStatus
	for name, test := range map[string]struct {
		age         time.Duration
		before, now status
		want        time.Duration
	}{
		"nothing yet":                         {3 * time.Second, status{}, status{Conditions: conditions("Reconciling")}, 7 * time.Second},
		"an object is written":                {3 * time.Second, status{}, status{Groups: group(0, "a"), Conditions: conditions("Reconciling")}, 7 * time.Second},
		"confirmed":                           {3 * time.Second, status{}, status{Groups: group(4, "a"), Conditions: conditions("Reconciling")}, 0},
		"a user must act":                     {3 * time.Second, status{}, status{Conditions: conditions("Stalled")}, 0},
		"ready":                               {3 * time.Second, status{}, status{Conditions: conditions("Ready")}, 0},
		"the previous status is not empty":    {3 * time.Second, status{Provider: "gateway"}, status{Conditions: conditions("Reconciling")}, 0},
		"no result after ten seconds":         {10 * time.Second, status{}, status{Conditions: conditions("Reconciling")}, 0},
		"the server's clock is ahead":         {-time.Minute, status{}, status{Conditions: conditions("Reconciling")}, 0},
		"the policy adopts a Service":         {3 * time.Second, status{}, status{Conditions: conditions("Reconciling"), Adopted: &v1alpha1.AdoptedService{}}, 0},
		"the policy has a user-managed route": {3 * time.Second, status{}, status{Conditions: conditions("Reconciling"), Routes: []v1alpha1.RouteStatus{{Kind: "HTTPRoute", Name: "web"}}}, 0},
		"the policy switches providers":       {3 * time.Second, status{}, status{Conditions: conditions("Reconciling"), ProviderSwitch: &v1alpha1.ProviderSwitch{}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			f := w.facts()
			f.Policy.Status, f.Policy.CreationTimestamp = test.before, metav1.NewTime(f.Now.Add(-test.age))
			f.Microservice.Status.ObservedGeneration = 1
			want(t, "remaining delay", Silent(f, test.now), test.want)
		})
	}
}

// TestFirstStatusAfterTheLastProgress checks that the first status is delayed for ten seconds after
// the last progress of the Microservice, but for at most 50 seconds after the policy was created.
// Progress takes a while, especially if many services are created at the same time.
func TestFirstStatusAfterTheLastProgress(t *testing.T) {
	for name, test := range map[string]struct{ age, progress, want time.Duration }{
		"ten seconds after the last progress":    {12 * time.Second, 3 * time.Second, 7 * time.Second},
		"ten seconds have passed":                {12 * time.Second, 10 * time.Second, 0},
		"progress before the policy was created": {4 * time.Second, time.Hour, 6 * time.Second},
		"at most 50 seconds":                     {48 * time.Second, time.Second, 2 * time.Second},
		"after 50 seconds":                       {50 * time.Second, time.Second, 0},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, group("1-x", 1, "a 1.0.0 pending 0"))
			f := w.facts()
			f.Policy.Status, f.Policy.CreationTimestamp = v1alpha1.NetworkPolicyStatus{}, metav1.NewTime(f.Now.Add(-test.age))
			f.Microservice.Status.ReleaseGroups[0].TrafficTime = new(metav1.NewMicroTime(f.Now.Add(-test.progress)))
			want(t, "remaining delay", Silent(f, v1alpha1.NetworkPolicyStatus{}), test.want)
		})
	}
}

// TestFirstStatusBeforeTheFirstRollout checks that the first status is delayed for up to 50 seconds while the Microservice
// exists but has no status, because its first rollout waits to start.
func TestFirstStatusBeforeTheFirstRollout(t *testing.T) {
	w := newWorld(t)
	f := w.facts()
	f.Policy.Status, f.Policy.CreationTimestamp = v1alpha1.NetworkPolicyStatus{}, metav1.NewTime(f.Now.Add(-40*time.Second))
	f.Microservice.Status = v1alpha1.MicroserviceStatus{}
	want(t, "delay without a status of the Microservice", Silent(f, v1alpha1.NetworkPolicyStatus{}), 15*time.Second)
	f.Policy.CreationTimestamp = metav1.NewTime(f.Now.Add(-50 * time.Second))
	want(t, "until the Microservice reports that it waits", Silent(f, v1alpha1.NetworkPolicyStatus{}) > 0, true)
	f.Policy.CreationTimestamp = metav1.NewTime(f.Now.Add(-55 * time.Second))
	want(t, "delay if the Microservice reports nothing", Silent(f, v1alpha1.NetworkPolicyStatus{}), 0)
	f.Policy.CreationTimestamp = metav1.NewTime(f.Now.Add(-5 * time.Minute))
	f.Microservice.Status.ObservedGeneration = 1
	f.Microservice.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionReady, Status: metav1.ConditionFalse, Reason: v1alpha1.ReasonStartDelayed}}
	want(t, "delay while the rollout waits for its turn", Silent(f, v1alpha1.NetworkPolicyStatus{}), maxSilence)
	g := group("1-x", 1, "a 1.0.0 pending 0")
	g.Rollout = &v1alpha1.Rollout{Release: "a", StartedTime: metav1.NewMicroTime(f.Now.Add(-3 * time.Second))}
	f.Microservice.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{g}
	want(t, "delay after the start of the rollout", Silent(f, v1alpha1.NetworkPolicyStatus{}), 7*time.Second)
	g.Rollout.StartedTime = metav1.NewMicroTime(f.Now.Add(time.Hour))
	want(t, "delay if the clock of another manager was ahead", Silent(f, v1alpha1.NetworkPolicyStatus{}), 0)
	f.Microservice = nil
	want(t, "delay without a Microservice", Silent(f, v1alpha1.NetworkPolicyStatus{}), 0)
}

// TestServicesOfTheOnlyGroup checks that, if versions are not grouped, only the policy's own
// Service follows the active release until there is another group, and that the Service of the
// group stays when the other group no longer exists.
func TestServicesOfTheOnlyGroup(t *testing.T) {
	names := func(w *world) (following []string) {
		for name, s := range w.services {
			if !OfRelease(s) {
				following = append(following, name)
			}
		}
		slices.Sort(following)
		return following
	}
	all := func(revision int64, rows ...string) v1alpha1.ReleaseGroup {
		g := group("release", revision, rows...)
		g.Name = "release"
		return g
	}
	w := newWorld(t, all(1, "a 1.0.0 active 100"))
	w.ready = map[string]int{"a": 1, "b": 1, "p": 1}
	w.settle()
	want(t, "the only group", slices.Equal(names(w), []string{"shop"}), true)
	want(t, "active", w.groupTraffic("release").Active, "a")
	want(t, "confirmed", w.groupTraffic("release").Revision, 1)

	w.rollout(all(2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.settle()
	want(t, "active after an upgrade", w.groupTraffic("release").Active, "b")
	want(t, "confirmed after an upgrade", w.groupTraffic("release").Revision, 2)
	want(t, "selected", w.services["shop"].Spec.Selector[v1alpha1.LabelRelease], "b")

	w.rollout(all(2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"), group("2-x", 3, "p 2.0.0 active 100"))
	w.settle()
	want(t, "two groups", slices.Equal(names(w), []string{"shop", "shop-2-x", "shop-release"}), true)

	w.rollout(all(2, "b 1.1.0 active 100", "a 1.0.0 deprecated 0"))
	w.settle()
	want(t, "existing objects stay", slices.Contains(names(w), "shop-release"), true)
	want(t, "follows the releases", w.groupTraffic("release").Active, "b")
}
