package release

import (
	"testing"
	"time"
)

// TestDrainAfterSharedRoute covers the loss of all statuses while a preview is draining. The route of the newest domains still refers
// to the preview's release. The policy knows only another group, and reports the reference for that group. The drain begins when the
// route no longer refers to the release.
func TestDrainAfterSharedRoute(t *testing.T) {
	t.Parallel()
	const drain = time.Minute
	o := Observed{
		Spec:    Spec{Replicas: 2, MinimumAvailable: 1, Deadline: 10 * time.Minute, Drain: drain},
		Config:  "c1",
		Objects: []Object{{Release: "pr", Slug: "pr-9", Name: "feature", Level: preview, Version: "pr-9-a", Config: "c1", Stamp: 2, Created: t0, Replicas: 2, Available: 2}},
		State: State{Sequence: 4, Groups: []Group{{
			Slug: "pr-9", Name: "feature", Level: preview, Phase: Expired, TrafficRevision: 4, TrafficTime: t0,
			Releases: []Row{{Release: "pr", Name: "feature", Version: "pr-9-a", Config: "c1", Status: Deprecated, Promoted: 1, Since: t0, Reason: MaxAge, Zero: &Zero{Revision: 4, Time: t0}}},
		}}},
	}
	names := func(releases ...string) []Policy {
		return []Policy{{Name: "web", Groups: []Report{{Slug: "1-x", References: releases}}}}
	}
	gone := func(at time.Duration) bool {
		p := Plan(o, t0.Add(at))
		o.State = p.State
		return len(p.Retire) > 0
	}
	o.Policies = names("pr")
	if gone(0) || gone(10*drain) {
		t.Fatal("the release loses its pods while a route refers to it")
	}
	o.Policies = names()
	if gone(10*drain) || gone(11*drain-time.Second) {
		t.Error("the release loses its pods before the drain delay")
	}
	if !gone(11 * drain) {
		t.Error("the release has pods after the drain")
	}
}
