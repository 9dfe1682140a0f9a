package versionedmicroservice

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/types"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// podEvents serves events by the UID of their pod, and counts the requests.
type podEvents struct {
	client.Reader

	notes    map[string]string
	requests int
}

func (e *podEvents) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	e.requests++
	o := (&client.ListOptions{}).ApplyOptions(options)
	uid, _ := o.FieldSelector.RequiresExactMatch("regarding.uid")
	if note := e.notes[uid]; note != "" {
		list.(*eventsv1.EventList).Items = []eventsv1.Event{{Note: note, Regarding: corev1.ObjectReference{FieldPath: "spec.containers{shop}"}}}
	}
	return nil
}

// TestProbeAnswers checks that the answer comes from a pod that shows the failure, in each form in which the kubelet reports it, and that the events
// are not read in each reconcile.
func TestProbeAnswers(t *testing.T) {
	t.Parallel()
	const prefix = `container "shop" is running, but its readiness probe fails`
	pod := func(name string, ready bool) corev1.Pod {
		status := runs("shop", time.Hour)
		status.Ready = ready
		p := corev1.Pod{Status: corev1.PodStatus{Phase: corev1.PodRunning, ContainerStatuses: []corev1.ContainerStatus{status}}}
		p.Name, p.UID = name, types.UID(name)
		return p
	}
	for note, want := range map[string]string{
		"Readiness probe failed: refused":                                              prefix + ": refused",
		"(combined from similar events): Readiness probe failed: refused":              prefix + ": refused",
		"Readiness probe errored and resulted in unknown state: no port http":          prefix + ": no port http",
		"Readiness probe errored: no such file":                                        prefix + ": no such file",
		"Startup probe failed: not yet":                                                prefix,
		"Readiness probe warning: Probe terminated redirects, Response body: <a href>": prefix,
	} {
		t.Run(note, func(t *testing.T) {
			t.Parallel()
			o := &observed{release: newRelease("default", 13)}
			for i := range 12 {
				o.pods = append(o.pods, pod(fmt.Sprintf("ready-%d", i), true))
			}
			o.pods = append(o.pods, pod("failing", false))
			events := &podEvents{notes: map[string]string{"ready-0": "Readiness probe failed: an earlier failure", "failing": note}}
			clock := testclock.NewFakePassiveClock(noon)
			r := &reconciler{live: events, clock: clock}
			for reads := 1; reads <= 2; reads++ {
				for range 2 { // The second time, as in a new reconcile, it is too early.
					o.probeMessages, o.probesDue = nil, time.Time{}
					if f := diagnose(o, rolloutState{}, clock.Now()); lacksAnswer(o, f) {
						r.observeProbes(t.Context(), o, rolloutState{}, f, clock.Now())
					}
				}
				f := diagnose(o, rolloutState{}, clock.Now())
				if f.reason != v1alpha1.FailureReadinessFailing || f.message != want || events.requests != reads {
					t.Errorf("%s: %q after %d requests, want %q after %d", f.reason, f.message, events.requests, want, reads)
				}
				due := time.Time{}
				if want == prefix {
					due = clock.Now().Add(eventInterval)
				}
				if !o.probesDue.Equal(due) {
					t.Errorf("due at %s, want %s", o.probesDue, due)
				}
				clock.SetTime(clock.Now().Add(eventInterval))
			}
			o.probeMessages = nil
			o.release.Status.Failure, o.release.Status.Message = v1alpha1.FailureReadinessFailing, prefix+": refused"
			if f := diagnose(o, rolloutState{}, clock.Now()); lacksAnswer(o, f) {
				t.Error("the events are read again although the status contains an answer")
			}
		})
	}
}
