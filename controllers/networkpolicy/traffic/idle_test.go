package traffic

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// TestNoPreviews checks that a policy is ready if its Microservice has only previews, no pull
// request is open, and the Microservice itself is ready.
func TestNoPreviews(t *testing.T) {
	preview := func(phase v1alpha1.GroupPhase) v1alpha1.ReleaseGroup {
		g := group("feature-1", 1)
		g.Level, g.Phase = v1alpha1.LevelPreview, phase
		return g
	}
	for name, test := range map[string]struct {
		groups   []v1alpha1.ReleaseGroup
		ready    bool // ready reports whether the Microservice is ready.
		observed bool // observed reports whether the status of the Microservice is for the current generation.
		domain   string
		want     string
	}{
		"no group":                         {ready: true, observed: true, want: "True NoPreviews"},
		"a domain without a group":         {ready: true, observed: true, domain: "shop.example.com", want: "True NoPreviews"},
		"closing":                          {groups: []v1alpha1.ReleaseGroup{preview(v1alpha1.GroupClosing)}, ready: true, observed: true, want: "True NoPreviews"},
		"expired":                          {groups: []v1alpha1.ReleaseGroup{preview(v1alpha1.GroupExpired)}, ready: true, observed: true, want: "True NoPreviews"},
		"starting":                         {groups: []v1alpha1.ReleaseGroup{preview(v1alpha1.GroupLive)}, ready: true, observed: true, want: "False NoActiveRelease"},
		"no version yet":                   {observed: true, want: "False NoActiveRelease"},
		"status for an earlier generation": {ready: true, want: "False NoActiveRelease"},
		"versions disappeared":             {groups: []v1alpha1.ReleaseGroup{{Slug: "1-x", Phase: v1alpha1.GroupClosing}}, ready: true, observed: true, want: "False NoActiveRelease"},
		"an invalid domain":                {ready: true, observed: true, domain: "no host.example.com", want: "False InvalidDomain"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, test.groups...)
			if test.domain != "" {
				w.policy.Spec.Domains[0].Domain = test.domain
			}
			w.ms.Generation, w.ms.Status.ObservedGeneration = 2, 1
			if test.observed {
				w.ms.Status.ObservedGeneration = 2
			}
			if test.ready {
				status.Ready(&w.ms.Status.Conditions, w.ms.Status.ObservedGeneration, "Succeeded", "")
			}
			w.settle()
			want(t, "ready", w.condition("Ready"), test.want)
		})
	}
}

// TestPreviewsComeAndGo checks that a policy follows previews that start and end.
func TestPreviewsComeAndGo(t *testing.T) {
	w := newWorld(t)
	status.Ready(&w.ms.Status.Conditions, 0, "Succeeded", "")
	w.settle()
	want(t, "before", w.condition("Ready"), "True NoPreviews")
	g := group("feature-1", 1, "a abc active 100")
	g.Level = v1alpha1.LevelPreview
	w.ready["a"] = 1
	w.rollout(g)
	w.settle()
	want(t, "open", w.condition("Ready"), "True Programmed")
	g.Phase, g.Releases = v1alpha1.GroupClosing, nil
	w.rollout(g)
	w.settle()
	want(t, "closed", w.condition("Ready"), "True NoPreviews")
	want(t, "routes", len(w.routes), 0)
}
