package versionedmicroservice

import (
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// TestWaitToWrite checks that writing fields copied from the Microservice is delayed for a limited time, and
// that writing fields that a controller or a hook reads is not delayed.
func TestWaitToWrite(t *testing.T) {
	t.Parallel()
	type edit = func(o *observed, next *v1alpha1.VersionedMicroserviceStatus)
	canary := func(_ *observed, next *v1alpha1.VersionedMicroserviceStatus) { next.Release = v1alpha1.ReleaseCanary }
	running := func(o *observed, step int32) {
		o.microservice = inRollout(v1alpha1.Release{VersionedMicroservice: releaseName, Status: v1alpha1.ReleaseCanary}, &v1alpha1.Rollout{Release: releaseName, Step: step})
	}
	for name, test := range map[string]struct {
		edit edit
		want time.Duration
	}{
		"its copied status, when stable":      {canary, 2 * time.Second},
		"its copied status, during a rollout": {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) { canary(o, next); running(o, 1) }, 2 * time.Minute},
		"a step pauses for a minute":          {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) { canary(o, next); running(o, 2) }, 30 * time.Second},
		"a step waits for a user":             {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) { canary(o, next); running(o, 3) }, 2 * time.Second},
		"it failed":                           {func(_ *observed, next *v1alpha1.VersionedMicroserviceStatus) { next.Release = v1alpha1.ReleaseError }, 0},
		"the cause of a failure":              {func(_ *observed, next *v1alpha1.VersionedMicroserviceStatus) { next.Failure = "CrashLoopBackOff" }, 0},
		"its generation is observed":          {func(_ *observed, next *v1alpha1.VersionedMicroserviceStatus) { next.ObservedGeneration++ }, 0},
		"hooks wait for the reported status": {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) {
			canary(o, next)
			running(o, 1)
			o.microservice.Spec.UpdateStrategy.Canary.Hooks = []v1alpha1.Hook{{Name: "a", Type: v1alpha1.HookEvent}}
		}, 0},
		"its first status, while pods start": {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) {
			o.release.Status = v1alpha1.VersionedMicroserviceStatus{}
			*next = v1alpha1.VersionedMicroserviceStatus{ObservedGeneration: 1, Release: v1alpha1.ReleasePending}
		}, 2 * time.Second},
		"its first status, while pods start in a rollout": {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) {
			running(o, 1)
			o.release.Status = v1alpha1.VersionedMicroserviceStatus{}
			*next = v1alpha1.VersionedMicroserviceStatus{ObservedGeneration: 1, Release: v1alpha1.ReleasePending}
		}, 30 * time.Second},
		"it is replaced": {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) {
			o.microservice = inRollout(v1alpha1.Release{VersionedMicroservice: releaseName, Status: v1alpha1.ReleaseDeprecated}, nil)
			o.microservice.Spec.UpdateStrategy.DrainDelay = "15s"
			next.Release = v1alpha1.ReleaseDeprecated
		}, 45 * time.Second},
		"its pods are terminating": {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) {
			next.Release, next.Replicas = v1alpha1.ReleaseDeprecated, o.release.Spec.Replicas+1
			next.ObservedGeneration++
		}, 2 * time.Second},
		"a step has a gate": {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) {
			canary(o, next)
			running(o, 1)
			o.microservice.Status.ReleaseGroups[1].Rollout.Gate = v1alpha1.GateConfirmTrafficIncrease
		}, 30 * time.Second},
		"a step is interrupted": {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) {
			canary(o, next)
			running(o, 1)
			o.microservice.Status.ReleaseGroups[1].Rollout.Interrupted = true
		}, 30 * time.Second},
		"before the first step": {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) { canary(o, next); running(o, 0) }, 30 * time.Second},
		"the outcome of a decision": {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) {
			running(o, 1)
			next.Step, next.LastHandledDecision = "2/3 Programming", &v1alpha1.HandledDecision{ID: "a", Action: v1alpha1.DecisionContinue}
		}, 2 * time.Second},
		"a hook responds while the pods of the release are terminating": {func(o *observed, next *v1alpha1.VersionedMicroserviceStatus) {
			next.Release, next.Replicas = v1alpha1.ReleaseDeprecated, o.release.Spec.Replicas+1
			next.Hooks = []v1alpha1.HookStatus{{Name: "a", Type: v1alpha1.HookPostRollout, Phase: v1alpha1.HookDelivered}}
		}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			clock := testingclock.NewFakeClock(noon)
			r := &reconciler{clock: clock, journal: &status.Journal{Interval: statusInterval}}
			o := scene(2, 2)
			o.release.Status.ObservedGeneration, o.release.Status.Release = 1, v1alpha1.ReleaseActive
			next := *o.release.Status.DeepCopy()
			test.edit(o, &next)
			if got := r.waitToWrite(o, next); got != test.want {
				t.Fatalf("the write is delayed for %s, want %s", got, test.want)
			}
			clock.Step(test.want + time.Second)
			if got := r.waitToWrite(o, next); got != 0 {
				t.Errorf("the write is delayed for another %s", got)
			}
		})
	}
}
