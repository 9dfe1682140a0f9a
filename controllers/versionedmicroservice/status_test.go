package versionedmicroservice

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/tools/events"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/status"
)

// scene returns a release with a Deployment that has the given numbers of desired and available replicas.
func scene(wanted, available int32) *observed {
	release := newRelease("default", wanted)
	release.UID, release.Generation = "release", 3
	d := resources.Deployment(release)
	d.Generation = 5
	d.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(release, v1alpha1.GroupVersion.WithKind("VersionedMicroservice"))}
	d.Status = appsv1.DeploymentStatus{ObservedGeneration: 5, Replicas: wanted, AvailableReplicas: available}
	hash, _ := apply.Hash(d.Spec.Template)
	resources.Annotate(d, resources.AnnotationTemplate, hash)
	return &observed{release: release, deployment: d}
}

func inRollout(row v1alpha1.Release, run *v1alpha1.Rollout) *v1alpha1.Microservice {
	row.VersionedMicroservice = releaseName
	ms := &v1alpha1.Microservice{}
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{
		{Weight: 10}, {Weight: 20, Pause: &v1alpha1.CanaryPause{Duration: "1m"}}, {Name: "check", Weight: 50, Approval: &v1alpha1.CanaryApproval{}}}}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Slug: "0-x"}, {Slug: "1-x", Rollout: run, Releases: []v1alpha1.Release{{VersionedMicroservice: "other"}, row}}}
	return ms
}

// autoscaled returns an edit that adds an autoscaler with the given minimum number of replicas to a release.
func autoscaled(least int32) func(*observed) {
	return func(o *observed) {
		o.release.Spec.Replicas = least
		o.release.Spec.Availability.Autoscaling = &v1alpha1.Autoscaling{MaxReplicas: 9}
	}
}

// rejected edits a release so that it is being rolled out and its Deployment was rejected at noon. The
// current Deployment was created the given duration after noon.
func rejected(o *observed, hash string, after time.Duration) {
	o.release.Status = v1alpha1.VersionedMicroserviceStatus{Failure: v1alpha1.FailureForbidden, Message: "denied by policy", TemplateHash: hash}
	o.release.Status.Conditions = []metav1.Condition{{Type: v1alpha1.ConditionStalled, Status: metav1.ConditionTrue, Reason: v1alpha1.FailureForbidden, LastTransitionTime: metav1.NewTime(noon)}}
	o.deployment.CreationTimestamp = metav1.NewTime(noon.Add(after))
	o.microservice = inRollout(v1alpha1.Release{Status: v1alpha1.ReleasePending, Reason: "Started"}, &v1alpha1.Rollout{Release: releaseName, Sequence: 7})
}

func TestReport(t *testing.T) {
	t.Parallel()
	with := func(o *observed, edit func(*observed)) *observed { edit(o); return o }
	old := func(o *observed, available int32) *observed {
		o.release.Status = v1alpha1.VersionedMicroserviceStatus{ObservedGeneration: 3, Replicas: available, Available: available}
		return o
	}
	sick := errors.New("sick")
	for name, test := range map[string]struct {
		seen *observed
		did  applied
		want string
	}{
		"all available":                 {seen: scene(2, 2), want: "3: 2/2 " + isAvailable},
		"more pods than desired":        {seen: scene(2, 3), want: "3: 2/2 " + isAvailable},
		"starting":                      {seen: scene(2, 1), want: "3: 1/2 " + isStarting},
		"autoscaled":                    {seen: with(scene(4, 4), autoscaled(2)), want: "3: 4/4 " + isAvailable},
		"autoscaled, starting":          {seen: with(scene(4, 3), autoscaled(2)), want: "3: 3/4 " + isAvailable},
		"autoscaled, too few":           {seen: with(scene(4, 1), autoscaled(2)), want: "3: 1/4 " + isStarting},
		"autoscaled, not scaled up yet": {seen: with(scene(1, 1), autoscaled(2)), want: "0:"},
		"foreign autoscaler": {
			seen: scene(2, 2), did: applied{autoscaler: status.Classify(&apply.ForeignError{})},
			want: "3: 2/2 Available=True/Available Progressing=False/Available Ready=False/NameConflict Stalled=True/NameConflict"},
		"scaling up":                 {seen: old(scene(3, 2), 1), want: "3: 1/3 " + isStarting},
		"scaling down":               {seen: old(scene(3, 1), 2), want: "3: 1/3 " + isStarting},
		"first pod of a new release": {seen: old(scene(2, 1), 0), want: "3: 0/2 " + isStarting},
		"first pod of a previously active release": {
			seen: with(old(scene(2, 1), 0), func(o *observed) {
				o.microservice = inRollout(v1alpha1.Release{Promoted: 1, Status: v1alpha1.ReleaseDeprecated}, nil)
			}),
			want: "3: deprecated 1/2 " + isStarting},
		"no replicas desired": {seen: scene(0, 0), want: "3: 0/0 " + isZero},
		"just written":        {seen: scene(2, 2), did: applied{deploymentWritten: true}, want: "0:"},
		"not observed":        {seen: with(scene(2, 2), func(o *observed) { o.deployment.Status.ObservedGeneration = 4 }), want: "0:"},
		"not scaled":          {seen: with(scene(2, 2), func(o *observed) { o.release.Spec.Replicas = 3 }), want: "0:"},
		"not scaled, canary release": {seen: with(scene(2, 2), func(o *observed) {
			o.release.Spec.Replicas = 3
			o.microservice = inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseCanary}, nil)
		}), want: "0: canary"},
		"foreign Deployment": {
			seen: with(scene(2, 2), func(o *observed) { o.deployment.OwnerReferences = nil }), did: applied{deployment: classify(&apply.ForeignError{})},
			want: strings.ReplaceAll("3: 0/2 Available=False/X Progressing=False/X Ready=False/X Stalled=True/X X", "X", "NameConflict")},
		"Deployment is being deleted": {
			seen: scene(2, 1), did: applied{deployment: classify(&apply.TerminatingError{})},
			want: strings.ReplaceAll("3: 1/2 Available=False/X Progressing=True/X Ready=False/X Reconciling=True/X", "X", "Terminating")},
		"not allowed to scale, but available": {
			seen: scene(2, 2), did: applied{deployment: status.NewTerminal("Forbidden", sick)},
			want: "3: 2/2 Available=True/Available Progressing=False/Available Ready=False/Forbidden Stalled=True/Forbidden"},
		"foreign budget": {
			seen: scene(2, 2), did: applied{budget: status.Classify(&apply.ForeignError{})},
			want: "3: 2/2 Available=True/Available Progressing=False/Available Ready=False/NameConflict Stalled=True/NameConflict"},
		"failed and deleted": {
			seen: with(scene(0, 0), func(o *observed) {
				o.release.Status.Failure = v1alpha1.FailureCrashLoopBackOff
				o.microservice = inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseError, Reason: "X"}, nil)
			}),
			want: "3: error 0/0 Available=False/ScaledToZero Progressing=False/ScaledToZero Ready=False/CrashLoopBackOff Stalled=True/CrashLoopBackOff CrashLoopBackOff"},
		"failed, and its pods still show the cause": {
			seen: with(scene(0, 0), func(o *observed) {
				o.release.Status = v1alpha1.VersionedMicroserviceStatus{ObservedGeneration: 2, Ready: "0/2"}
				o.microservice = inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseError, Reason: "ProgressDeadlineExceeded"}, nil)
				o.pods = []corev1.Pod{{Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{
					Name: "shop", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(noon)}}}}}}}
			}), did: applied{deploymentWritten: true},
			want: "2: error 0/2 ReadinessFailing"},
		"failed, and its pods were deleted": {
			seen: with(scene(0, 0), func(o *observed) {
				o.microservice = inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseError, Reason: "ProgressDeadlineExceeded"}, nil)
			}),
			want: strings.ReplaceAll("3: error 0/0 Available=False/ScaledToZero Progressing=False/ScaledToZero Ready=False/X Stalled=True/X X", "X", "ProgressDeadlineExceeded")},
		"rejected, and accepted later": {
			seen: with(scene(0, 0), func(o *observed) { rejected(o, "", time.Minute) }),
			want: "3: pending 0/0 " + isZero},
		"rejected, with a Deployment of another owner": {
			seen: with(scene(0, 0), func(o *observed) { rejected(o, "", time.Minute); o.deployment.OwnerReferences = nil }), did: applied{deployment: classify(&apply.ForeignError{})},
			want: "3: pending 0/0 Available=False/ScaledToZero Progressing=False/ScaledToZero Ready=False/NameConflict Stalled=True/NameConflict Forbidden"},
		"created again after it was rejected": {
			seen: with(scene(0, 0), func(o *observed) { rejected(o, "hash", time.Minute) }),
			want: "3: pending 0/0 " + isZero},
		"its scaling is rejected": {
			seen: with(scene(0, 0), func(o *observed) { rejected(o, "hash", -time.Minute) }),
			want: "3: pending 0/0 " + isZero + " Forbidden"},
		"deleted before its result was recorded": {
			seen: with(scene(0, 0), func(o *observed) {
				o.release.Status.Failure = v1alpha1.FailureCrashLoopBackOff
				o.microservice = inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseCanary}, nil)
			}),
			want: "3: canary 0/0 " + isZero + " CrashLoopBackOff"},
		"aborted": {
			seen: with(scene(0, 0), func(o *observed) {
				o.microservice = inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseError, Reason: "Aborted"}, nil)
			}),
			want: "3: error 0/0 Available=False/ScaledToZero Progressing=False/ScaledToZero Ready=False/Aborted Stalled=True/Aborted Aborted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before := test.seen.release.DeepCopy()
			got, _ := newStatus(test.seen, test.did, checks{}, noon)
			if diff := cmp.Diff(before, test.seen.release); diff != "" {
				t.Errorf("the release was changed:\n%s", diff)
			}
			parts := []string{fmt.Sprintf("%d:", got.ObservedGeneration), string(got.Release), got.Ready}
			for _, c := range got.Conditions {
				parts = append(parts, c.Type+"="+string(c.Status)+"/"+c.Reason)
			}
			parts = append(parts, got.Failure)
			if diff := cmp.Diff(test.want, strings.Join(strings.Fields(strings.Join(parts, " ")), " ")); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			test.seen.release.Status = got
			if again, _ := newStatus(test.seen, test.did, checks{}, noon); !cmp.Equal(got, again) || isTransition(got, again) {
				t.Errorf("the second report differs:\n%s", cmp.Diff(got, again))
			}
		})
	}
}

func TestMirror(t *testing.T) {
	t.Parallel()
	run := func(edit func(*v1alpha1.Rollout)) *v1alpha1.Rollout {
		r := &v1alpha1.Rollout{Release: releaseName}
		edit(r)
		return r
	}
	since := metav1.NewMicroTime(noon)
	for name, test := range map[string]struct {
		run  *v1alpha1.Rollout
		want string
	}{
		"no rollout":                 {nil, ""},
		"rollout of another release": {&v1alpha1.Rollout{Release: "other", Step: 1}, ""},
		"before the steps":           {run(func(*v1alpha1.Rollout) {}), ""},
		"after the last step":        {run(func(r *v1alpha1.Rollout) { r.Step = 4 }), ""},
		"only a weight":              {run(func(r *v1alpha1.Rollout) { r.Step = 1 }), "1/3 Programming"},
		"pause":                      {run(func(r *v1alpha1.Rollout) { r.Step = 2 }), "2/3 Paused"},
		"pause interrupted":          {run(func(r *v1alpha1.Rollout) { r.Step, r.Interrupted = 2, true }), "2/3 Interrupted"},
		"approval":                   {run(func(r *v1alpha1.Rollout) { r.Step = 3 }), "3/3 Approval check"},
		"approved":                   {run(func(r *v1alpha1.Rollout) { r.Step, r.Continued, r.WaitingSince = 3, 3, &since }), "3/3 Programming"},
		"measured":                   {run(func(r *v1alpha1.Rollout) { r.Step, r.Gate, r.WaitingSince = 1, "", &since }), "1/3 Analysis"},
		"gated":                      {run(func(r *v1alpha1.Rollout) { r.Step, r.Gate = 1, v1alpha1.GateConfirmTrafficIncrease }), "1/3 ConfirmTrafficIncrease"},
		"gated before":               {run(func(r *v1alpha1.Rollout) { r.Gate = v1alpha1.GateConfirmRollout }), "ConfirmRollout"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decision := &v1alpha1.HandledDecision{ID: "a"}
			ms := inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseCanary, Reason: "R", Promoted: 2, Attempt: 1, Decision: decision}, test.run)
			ms.Generation = 9
			if name == "measured" {
				ms.Spec.UpdateStrategy.Canary.Analysis = &v1alpha1.CanaryAnalysis{}
			}
			got := rolloutStateOf(ms, releaseName)
			want := rolloutState{release: v1alpha1.ReleaseCanary, reason: "R", promoted: true, step: test.want, decision: decision, attempt: 1}
			if test.run != nil && test.run.Release == releaseName {
				want.run, want.generation = test.run, 9
				want.approval = strings.Contains(test.want, "Approval")
				if test.run.Step == 2 {
					want.pause = time.Minute
				}
			}
			if diff := cmp.Diff(want, got, cmp.AllowUnexported(rolloutState{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := rolloutStateOf(nil, releaseName); got != (rolloutState{}) {
		t.Errorf("mirror without a Microservice: %+v", got)
	}
	before, now := inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseCanary}, nil), inRollout(v1alpha1.Release{Status: v1alpha1.ReleaseActive}, nil)
	if diff := cmp.Diff([]string{releaseName}, changedStates(before, now)); diff != "" {
		t.Errorf("changed rows (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"other", releaseName}, changedStates(nil, now)); diff != "" {
		t.Errorf("rows at the start (-want +got):\n%s", diff)
	}
	if rows := changedStates(now, now); rows != nil {
		t.Errorf("rows without a change: %v", rows)
	}
}

func budgetOf(o *observed, ours bool) *policyv1.PodDisruptionBudget {
	b := &policyv1.PodDisruptionBudget{}
	if ours {
		b.OwnerReferences = o.deployment.OwnerReferences
	}
	return b
}

// decides checks the plan for an observation.
func decides(t *testing.T, seen *observed, want string) {
	t.Helper()
	deployment := seen.deployment.DeepCopy()
	p := newPlan(seen, noon)
	var got []string
	for word, there := range map[string]bool{
		"create": p.create != nil, "amend": p.update != nil, "restore": p.restore, "budget": p.budget != nil, "retire": p.deleteBudget != nil,
		"autoscaler": p.autoscaler != nil, "unscale": p.deleteAutoscaler != nil,
	} {
		if there {
			got = append(got, word)
		}
	}
	slices.Sort(got) // The order of a map is random.
	if p.scale != nil {
		got = append(got, fmt.Sprintf("scale %d", *p.scale))
	}
	if diff := cmp.Diff(want, strings.Join(got, " ")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(deployment, seen.deployment); diff != "" {
		t.Errorf("the observed Deployment was changed:\n%s", diff)
	}
}

// TestDecide checks plans for complete Deployments, and for Deployments that are trimmed as in the
// cache.
func TestDecide(t *testing.T) {
	t.Parallel()
	with := func(o *observed, edit func(*observed)) *observed { edit(o); return o }
	one := intstr.FromInt32(1)
	for name, test := range map[string]struct {
		seen *observed
		want string
	}{
		"steady":         {scene(2, 2), ""},
		"no Deployment":  {with(scene(2, 0), func(o *observed) { o.deployment = nil }), "create"},
		"scaled":         {with(scene(2, 2), func(o *observed) { o.release.Spec.Replicas = 0 }), "scale 0"},
		"labels removed": {with(scene(2, 2), func(o *observed) { o.deployment.Labels = nil }), "amend"},
		"revived":        {with(scene(2, 2), func(o *observed) { o.release.Annotations[v1alpha1.AnnotationAttempt] = "9" }), "amend"},
		"edited":         {with(scene(2, 2), func(o *observed) { o.deployment.Spec.Template.Spec.HostNetwork = true }), "restore"},
		"edited, with the hash of the edit": {with(scene(2, 2), func(o *observed) {
			o.release.Status.TemplateHash = o.deployment.Annotations[resources.AnnotationTemplate]
			o.deployment.Spec.Template.Spec.HostNetwork = true
			hash, _ := apply.Hash(o.deployment.Spec.Template)
			resources.Annotate(o.deployment, resources.AnnotationTemplate, hash)
		}), "restore"},
		"the recorded hash": {with(scene(2, 2), func(o *observed) {
			o.release.Status.TemplateHash = o.deployment.Annotations[resources.AnnotationTemplate]
		}), ""},
		"the remembered hash": {with(scene(2, 2), func(o *observed) {
			o.template = o.deployment.Annotations[resources.AnnotationTemplate]
			delete(o.deployment.Annotations, resources.AnnotationTemplate)
		}), ""},
		"edited since its creation": {with(scene(2, 2), func(o *observed) {
			o.template = o.deployment.Annotations[resources.AnnotationTemplate]
			delete(o.deployment.Annotations, resources.AnnotationTemplate)
			o.deployment.Spec.Template.Spec.HostNetwork = true
		}), "restore"},
		"no recorded hash": {with(scene(2, 2), func(o *observed) {
			o.release.Status.TemplateHash = ""
			delete(o.deployment.Annotations, resources.AnnotationTemplate)
		}), "restore"},
		"edited and scaled": {with(scene(2, 2), func(o *observed) { o.deployment.Spec.Template.Spec.HostNetwork = true; o.release.Spec.Replicas = 1 }), "restore scale 1"},
		"foreign":           {with(scene(2, 2), func(o *observed) { o.deployment.OwnerReferences = nil; o.release.Spec.Replicas = 1 }), ""},
		"going": {with(scene(2, 2), func(o *observed) {
			o.deployment.DeletionTimestamp = &metav1.Time{Time: noon}
			o.release.Spec.Replicas = 1
		}), ""},
		"with a budget": {with(scene(2, 2), func(o *observed) {
			o.release.Spec.Availability.DisruptionBudget = &v1alpha1.DisruptionBudget{MaxUnavailable: &one}
		}), "budget"},
		"autoscaled":                                {with(scene(2, 2), autoscaled(2)), "autoscaler"},
		"scaled up by its autoscaler":               {with(scene(4, 4), autoscaled(2)), "autoscaler"},
		"minimum raised above the current replicas": {with(scene(4, 4), autoscaled(5)), "autoscaler scale 5"},
		"no pods, so no autoscaler": {with(scene(2, 2), func(o *observed) {
			autoscaled(0)(o)
			o.autoscaler = &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{OwnerReferences: o.deployment.OwnerReferences}}
		}), "unscale scale 0"},
		"a fixed number again": {with(scene(2, 2), func(o *observed) {
			o.autoscaler = &autoscalingv2.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{OwnerReferences: o.deployment.OwnerReferences}}
		}), "unscale"},
		"an autoscaler that belongs to a user": {with(scene(2, 2), func(o *observed) { o.autoscaler = &autoscalingv2.HorizontalPodAutoscaler{} }), ""},
		"old budget":                           {with(scene(2, 2), func(o *observed) { o.budget = budgetOf(o, true) }), "retire"},
		"foreign old budget":                   {with(scene(2, 2), func(o *observed) { o.budget = budgetOf(o, false) }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			decides(t, test.seen, test.want)
			if test.seen.deployment != nil {
				trimDeployment(test.seen.deployment)
				decides(t, test.seen, test.want)
			}
		})
	}
}

// TestHooksThatCannotBeCalled checks that a hook that cannot be called is reported once in an event, and in
// the Progressing condition.
func TestHooksThatCannotBeCalled(t *testing.T) {
	t.Parallel()
	const why = "cannot be called: refuse 169.254.169.254: it is the address of a metadata service"
	asked := v1alpha1.HookStatus{Name: "back", Type: v1alpha1.HookRollback, ID: "a", Phase: v1alpha1.HookWaiting}
	refused, answered := asked, asked
	refused.Attempts, refused.Message = 1, why
	answered.Attempts, answered.Message = 2, "HTTP 409"
	again := refused
	again.Attempts = 7
	reported := events.NewFakeRecorder(10)
	before := []v1alpha1.HookStatus{asked}
	for _, now := range []v1alpha1.HookStatus{refused, again, answered} {
		status.Recorder{Events: reported}.Record(scene(1, 1).release, hookEvents(before, []v1alpha1.HookStatus{now})...)
		before = []v1alpha1.HookStatus{now}
	}
	if len(reported.Events) != 1 {
		t.Fatalf("%d events, want one", len(reported.Events))
	}
	if got, want := <-reported.Events, `Warning HookNotCallable Rollback hook "back": `+why; got != want {
		t.Errorf("event %q, want %q", got, want)
	}
	next, _ := newStatus(scene(1, 1), applied{}, checks{hooks: []v1alpha1.HookStatus{refused}}, noon)
	if got, want := meta.FindStatusCondition(next.Conditions, v1alpha1.ConditionProgressing).Message, `Rollback hook "back" `+why; got != want {
		t.Errorf("Progressing = %q, want %q", got, want)
	}
}

// TestTransitionOfHooks checks that a different message for the same rejection is not a transition, so writing
// the message is delayed.
func TestTransitionOfHooks(t *testing.T) {
	t.Parallel()
	asked := v1alpha1.HookStatus{Name: "a", Type: v1alpha1.HookConfirmPromotion, ID: "a", Phase: v1alpha1.HookWaiting}
	no, other, open, next := asked, asked, asked, asked
	no.Attempts, no.Message = 1, "HTTP 409"
	other.Attempts, other.Message, other.Time = 2, "HTTP 503", &metav1.MicroTime{Time: noon}
	open.Attempts, open.Phase = 3, v1alpha1.HookOpen
	next.Attempts, next.ID = 1, "b"
	for name, test := range map[string]struct {
		before, now v1alpha1.HookStatus
		want        bool
	}{
		"the first response":  {asked, no, true},
		"another status code": {no, other, false},
		"an approval":         {other, open, true},
		"another call":        {no, next, true},
		"the same":            {no, no, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			before, now := v1alpha1.VersionedMicroserviceStatus{Hooks: []v1alpha1.HookStatus{test.before}}, v1alpha1.VersionedMicroserviceStatus{Hooks: []v1alpha1.HookStatus{test.now}}
			if got := isTransition(before, now); got != test.want {
				t.Errorf("transition %t, want %t", got, test.want)
			}
		})
	}
}

func TestVerdict(t *testing.T) {
	t.Parallel()
	turned := &v1alpha1.HandledDecision{Action: v1alpha1.DecisionDeprecate, By: "alice"}
	measured := &v1alpha1.ReleaseAnalysis{Phase: v1alpha1.AnalysisFailed, Message: "errors: 0.2 is above 0.01"}
	for name, test := range map[string]struct {
		row      rolloutState
		analysis *v1alpha1.ReleaseAnalysis
		want     string
	}{
		"aborted":                     {row: rolloutState{reason: "Aborted", decision: turned}, want: "alice requested the action Deprecate"},
		"aborted by an unknown user":  {row: rolloutState{reason: "Aborted", decision: &v1alpha1.HandledDecision{}}},
		"measured":                    {row: rolloutState{reason: "AnalysisFailed"}, analysis: measured, want: "errors: 0.2 is above 0.01"},
		"measured, but not the cause": {row: rolloutState{reason: "ProgressDeadlineExceeded"}, analysis: measured},
		"passed measurements":         {row: rolloutState{reason: "AnalysisFailed"}, analysis: &v1alpha1.ReleaseAnalysis{Phase: v1alpha1.AnalysisPassed, Message: "good"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.row.release = v1alpha1.ReleaseError
			o := scene(0, 0)
			o.release.Status.Analysis = test.analysis
			want := failure{reason: test.row.reason, message: test.want}
			if diff := cmp.Diff(want, failureOf(o, applied{}, test.row, noon), cmp.AllowUnexported(failure{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
