package networkpolicy

import (
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// TestReadyTimes checks that only a Service that was observed without ready endpoints gets the time at which it
// became ready, and that nothing is kept for Services that have been ready for a while.
func TestReadyTimes(t *testing.T) {
	var times readyTimes
	policy, start := client.ObjectKey{Namespace: "prod", Name: "shop"}, time.Now()
	note := func(after time.Duration, ready ...string) map[string]traffic.Endpoints {
		endpoints := map[string]traffic.Endpoints{}
		for _, name := range ready {
			endpoints[name] = traffic.Endpoints{Ready: []string{"pod"}}
		}
		times.note(policy, []string{"new", "old"}, endpoints, start.Add(after))
		return endpoints
	}
	since := func(when string, endpoints map[string]traffic.Endpoints, name string, want time.Duration) {
		t.Helper()
		switch got := endpoints[name].ReadySince; {
		case want < 0 && !got.IsZero():
			t.Errorf("%s: %s has been ready since %s, want no time", when, name, got.Sub(start))
		case want >= 0 && !got.Equal(start.Add(want)):
			t.Errorf("%s: %s has been ready since %s, want %s", when, name, got.Sub(start), want)
		}
	}
	first := note(0, "old")
	since("first observation", first, "old", -1)
	since("first observation", first, "new", -1)
	since("ready", note(time.Second, "old", "new"), "new", time.Second)
	since("still new", note(1500*time.Millisecond, "old", "new"), "new", time.Second)
	since("not new", note(2*time.Second, "old", "new"), "new", -1)
	if len(times.at) != 0 {
		t.Errorf("times of ready Services are kept: %v", times.at)
	}
	note(3*time.Second, "old")
	since("ready again", note(4*time.Second, "old", "new"), "new", 4*time.Second)
	since("the clock goes back", note(0, "old", "new"), "new", 4*time.Second)
	times.forget(policy)
	if len(times.at) != 0 {
		t.Errorf("times of a deleted policy are kept: %v", times.at)
	}
}
