package microservice

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestDecisionsAndFailuresAreUrgent checks that user decisions, and results that can cause a rollback of
// a release, have priority over all other changes.
func TestDecisionsAndFailuresAreUrgent(t *testing.T) {
	plain := func(edit func(*v1alpha1.VersionedMicroservice)) *v1alpha1.VersionedMicroservice {
		v := &v1alpha1.VersionedMicroservice{}
		if edit != nil {
			edit(v)
		}
		return v
	}
	failed := func(v *v1alpha1.VersionedMicroservice) { v.Status.Failure = v1alpha1.FailureUnschedulable }
	hook := func(t v1alpha1.HookType, phase v1alpha1.HookPhase) func(*v1alpha1.VersionedMicroservice) {
		return func(v *v1alpha1.VersionedMicroservice) {
			v.Status.Hooks = []v1alpha1.HookStatus{{Type: t, Phase: phase}}
		}
	}
	asked, answered := hook(v1alpha1.HookRollback, v1alpha1.HookWaiting), hook(v1alpha1.HookRollback, v1alpha1.HookOpen)
	for name, test := range map[string]struct {
		before, now func(*v1alpha1.VersionedMicroservice)
		want        bool
	}{
		"a decision": {nil, func(v *v1alpha1.VersionedMicroservice) {
			v.Spec.Decision = &v1alpha1.Decision{Action: v1alpha1.DecisionDeprecate, ID: "1"}
		}, true},
		"a failure": {nil, failed, true},
		"a failed analysis": {nil, func(v *v1alpha1.VersionedMicroservice) {
			v.Status.Analysis = &v1alpha1.ReleaseAnalysis{Phase: v1alpha1.AnalysisFailed}
		}, true},
		"a request for a rollback": {asked, answered, true},
		"a gate that rejected the promotion": {
			hook(v1alpha1.HookConfirmPromotion, v1alpha1.HookWaiting), hook(v1alpha1.HookConfirmPromotion, v1alpha1.HookFailed), true,
		},
		"the same request": {answered, answered, false},
		"a gate that opened": {
			hook(v1alpha1.HookConfirmPromotion, v1alpha1.HookWaiting), hook(v1alpha1.HookConfirmPromotion, v1alpha1.HookOpen), false,
		},
		"an event that was not delivered": {nil, hook(v1alpha1.HookEvent, v1alpha1.HookFailed), false},
		"still failed":                    {failed, failed, false},
		"available":                       {nil, func(v *v1alpha1.VersionedMicroservice) { v.Status.Available = 2 }, false},
		"another size":                    {nil, func(v *v1alpha1.VersionedMicroservice) { v.Spec.Replicas = 2 }, false},
		"no longer failing":               {failed, nil, false},
	} {
		if got := decidedOrFailed(plain(test.before), plain(test.now)); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// TestWithdrawalsAreUrgent checks that the withdrawal of a version that a user denies has priority over new versions.
func TestWithdrawalsAreUrgent(t *testing.T) {
	withdrawn := func(reasons ...v1alpha1.WithdrawReason) *v1alpha1.ImagePolicy {
		p := &v1alpha1.ImagePolicy{}
		for _, reason := range reasons {
			p.Status.Withdrawn = append(p.Status.Withdrawn, v1alpha1.Withdrawal{Group: "1-x", Version: "1.1.0", Reason: reason})
		}
		return p
	}
	offers := withdrawn(v1alpha1.WithdrawnDenied)
	offers.Status.Releases = []v1alpha1.OfferedRelease{{}}
	for name, test := range map[string]struct {
		before, now *v1alpha1.ImagePolicy
		want        bool
	}{
		"a denied version":             {withdrawn(), withdrawn(v1alpha1.WithdrawnDenied), true},
		"another denied version":       {withdrawn(v1alpha1.WithdrawnGone), withdrawn(v1alpha1.WithdrawnGone, v1alpha1.WithdrawnDenied), true},
		"a list without the version":   {withdrawn(), withdrawn(v1alpha1.WithdrawnExcluded), false},
		"an image that does not exist": {withdrawn(), withdrawn(v1alpha1.WithdrawnGone), false},
		"a closed pull request":        {withdrawn(), withdrawn(v1alpha1.WithdrawnClosed), false},
		"a new version":                {withdrawn(v1alpha1.WithdrawnDenied), offers, false},
		"admitted again":               {withdrawn(v1alpha1.WithdrawnDenied), withdrawn(), false},
	} {
		if got := withdrew(test.before, test.now); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// TestRolloutsAreResumed checks that, after a restart, the Microservices with a rollout come first, and those that a user edited
// while no manager observed this, for example to roll back a version. New Microservices do not come first.
func TestRolloutsAreResumed(t *testing.T) {
	ms := &v1alpha1.Microservice{Status: v1alpha1.MicroserviceStatus{ReleaseGroups: []v1alpha1.ReleaseGroup{{}, {}}}}
	ms.Generation = 1
	isNew := inProgress(ms)
	ms.Status.ObservedGeneration = 1
	stable := inProgress(ms)
	ms.Generation = 2
	edited := inProgress(ms)
	ms.Status.ObservedGeneration = 2
	ms.Status.ReleaseGroups[1].Rollout = &v1alpha1.Rollout{}
	if rolling := inProgress(ms); isNew || stable || !edited || !rolling {
		t.Errorf("in progress: new %t, stable %t, edited %t, with a rollout %t; want only the last two", isNew, stable, edited, rolling)
	}
}
