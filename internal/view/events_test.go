package view

import (
	"strings"
	"testing"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestEventsInOrder checks that events with the same time are in the order in which they were written.
func TestEventsInOrder(t *testing.T) {
	t.Parallel()
	at := time.Date(2030, 1, 1, 12, 0, 0, 0, time.UTC)
	event := func(reason, version string, time time.Time) eventsv1.Event {
		e := eventsv1.Event{Reason: reason, EventTime: metav1.NewMicroTime(time)}
		e.Namespace, e.ResourceVersion = "shop", version
		e.Regarding.APIVersion, e.Regarding.Kind, e.Regarding.Name = v1alpha1.GroupVersion.String(), "Microservice", "shop"
		return e
	}
	v := NewEvents(Input{}, []eventsv1.Event{event("Promoted", "101", at), event("Removed", "7", at.Add(time.Second)), event("Step", "99", at), event("Started", "98", at)}, "shop", "", at)
	var got []string
	for _, e := range v.Events {
		got = append(got, e.Reason)
	}
	if want := "Started Step Promoted Removed"; strings.Join(got, " ") != want {
		t.Errorf("the events are %q, want %s", got, want)
	}
}

// TestRetryable checks that a retry of a failed release is offered only if the retry could start
// that release.
func TestRetryable(t *testing.T) {
	t.Parallel()
	row := func(version string, status v1alpha1.ReleaseStatus) v1alpha1.Release {
		return v1alpha1.Release{VersionedMicroservice: "shop-" + version, SemVer: v1alpha1.SemVer{Version: version}, Status: status}
	}
	failed, old := row("1.2.0", v1alpha1.ReleaseError), row("1.1.0", v1alpha1.ReleaseActive)
	for name, c := range map[string]struct {
		releases []v1alpha1.Release
		target   v1alpha1.GroupTarget
		want     bool
	}{
		"above the active one":         {[]v1alpha1.Release{failed, old}, v1alpha1.GroupTarget{Release: "shop-1.1.0", Reason: "Held"}, true},
		"nothing is active":            {[]v1alpha1.Release{failed}, v1alpha1.GroupTarget{}, true},
		"pinned to another release":    {[]v1alpha1.Release{failed, old}, v1alpha1.GroupTarget{Release: "shop-1.1.0", Reason: "Pinned"}, false},
		"pinned to the failed release": {[]v1alpha1.Release{row("1.3.0", v1alpha1.ReleaseActive), failed}, v1alpha1.GroupTarget{Release: "shop-1.2.0", Reason: "Pinned"}, true},
		"below the active one":         {[]v1alpha1.Release{row("1.3.0", v1alpha1.ReleaseActive), failed, old}, v1alpha1.GroupTarget{Release: "shop-1.3.0"}, false},
		"below a canary":               {[]v1alpha1.Release{row("1.3.0", v1alpha1.ReleaseCanary), failed, old}, v1alpha1.GroupTarget{Release: "shop-1.3.0"}, false},
	} {
		if got := Retryable(&v1alpha1.Microservice{}, nil, &v1alpha1.ReleaseGroup{Releases: c.releases, Target: c.target}, &failed); got != c.want {
			t.Errorf("%s: %t", name, got)
		}
	}
}
