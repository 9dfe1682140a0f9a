package versionedmicroservice

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/status"
)

// Condition reasons, in addition to the values of status.failure.
const (
	reasonAvailable    = "Available"
	reasonStarting     = "Starting"
	reasonScaledToZero = "ScaledToZero"
	reasonFailed       = "Failed"
)

// newStatus returns the new status, and the time at which to reconcile again even without an event. The
// time is zero if only events require another reconcile. newStatus is pure.
func newStatus(o *observed, done applied, results checks, now time.Time) (v1alpha1.VersionedMicroserviceStatus, time.Time) {
	next := *o.release.Status.DeepCopy()
	state := rolloutStateOf(o.microservice, o.release.Name)
	state.into(&next)
	next.Analysis, next.Hooks, next.ActiveJobs = results.analysis, results.hooks, o.activeJobs()
	f := failureOf(o, done, state, now)
	if o.deploymentOutdated(done) {
		// The Deployment's status is for an older generation. Keep the previous status, whose
		// observedGeneration shows that it is outdated, instead of a mix of the previous status and the
		// new status. However, if the rollout failed because of pods that still show the failure, report it.
		if o.failedByPods(state) && f.message != "" {
			next.Failure, next.Message = f.reason, status.Line(f.message)
		}
		if next.TemplateHash != "" {
			next.TemplateHash = cmp.Or(done.template, next.TemplateHash)
		}
		return next, time.Time{}
	}
	if d := o.own(); d != nil {
		next.TemplateHash = cmp.Or(next.TemplateHash, o.template, d.Annotations[resources.AnnotationTemplate])
	}
	next.ObservedGeneration = o.release.Generation
	next.Selector = metav1.FormatLabelSelector(resources.Selector(o.release))
	if images := o.release.Spec.Images; len(images) > 0 {
		next.Image = images[0].Image
	}
	next.Failure, next.Message = f.reason, status.Line(f.message)
	setReplicas(o, state, &next)
	next.Ready = fmt.Sprintf("%d/%d", next.Available, max(o.release.Spec.Replicas, next.Replicas))
	setConditions(o, done, f, &next)
	return next, f.requeueAt
}

// deploymentOutdated reports whether the Deployment's status is for an older generation, because this
// reconcile wrote the Deployment or the Deployment controller has not observed it yet. If this reconcile
// failed to write the Deployment, the status counts as outdated only if the error is transient and the
// Deployment controller has not observed the latest generation.
func (o *observed) deploymentOutdated(done applied) bool {
	if o.predecessor != nil && done.deployment == nil {
		return false // The Deployment has no pods, and should not have pods yet.
	}
	if done.deployment == nil {
		return done.deploymentWritten || !o.deploymentObserved()
	}
	d := o.own()
	return done.deployment.Class == status.Transient && d != nil && d.Status.ObservedGeneration < d.Generation
}

// failureOf returns why the release is not available, or the zero failure if it is
// available or still starting.
func failureOf(o *observed, done applied, state rolloutState, now time.Time) failure {
	if o.predecessor != nil && done.deployment == nil {
		return o.predecessor.failure(now)
	}
	if o.missingReplicas() {
		if done.deployment != nil && done.deployment.Class == status.Terminal {
			return failure{reason: done.deployment.Reason, message: done.deployment.Error()}
		}
		f := diagnose(o, state, now)
		if done.deployment != nil && done.deployment.Reason == v1alpha1.FailureAdmissionUnavailable && f.reason == "" {
			f.reason, f.message = done.deployment.Reason, done.deployment.Error()
		}
		return f
	}
	if o.release.Spec.Replicas > 0 {
		return failure{}
	}
	// The pods that showed the failure no longer exist. They may have been deleted before the failure was
	// recorded. Continue to report the failure.
	old := o.release.Status
	switch state.release {
	case v1alpha1.ReleaseError:
		if o.failedByPods(state) && old.Message == "" {
			if f := diagnose(o, state, now); f.reason != "" {
				return f
			}
		}
		return failure{reason: cmp.Or(old.Failure, state.reason, reasonFailed), message: cmp.Or(old.Message, failureMessage(state, old))}
	case v1alpha1.ReleasePending, v1alpha1.ReleaseCanary:
		if o.accepted(done) {
			return failure{}
		}
		return failure{reason: old.Failure, message: old.Message}
	}
	return failure{}
}

// accepted reports whether the API server has accepted the Deployment since the status showed its rejection.
// Until the Deployment is accepted, the planner requests no replicas for an exclusive release. An older Deployment that exists but
// cannot be scaled does not count as accepted.
func (o *observed) accepted(done applied) bool {
	switch old := o.release.Status; old.Failure {
	case v1alpha1.FailureForbidden, v1alpha1.FailureInvalidTemplate, v1alpha1.FailureNameConflict:
		d, since := o.own(), meta.FindStatusCondition(old.Conditions, v1alpha1.ConditionStalled)
		again := since != nil && since.Status == metav1.ConditionTrue && d != nil && !d.CreationTimestamp.Before(&since.LastTransitionTime)
		return d != nil && done.deployment == nil && (old.TemplateHash == "" || again)
	}
	return false
}

// failureMessage explains a rollout failure that pods did not cause. It returns "" if the reason
// needs no explanation.
func failureMessage(state rolloutState, old v1alpha1.VersionedMicroserviceStatus) string {
	switch {
	case state.reason == "AnalysisFailed" && old.Analysis != nil && old.Analysis.Phase == v1alpha1.AnalysisFailed:
		return old.Analysis.Message
	case (state.reason == "Aborted" || state.reason == "TurnedDown") && state.decision != nil && state.decision.By != "":
		return fmt.Sprintf("%s requested the action %s", state.decision.By, state.decision.Action)
	}
	return ""
}

// setReplicas sets the replica counts. While replicas are starting, it reports no partial progress, because no
// decision depends on the progress and each change would require a write. The exception is the first replica of
// a previously active release: a rollback from an unavailable release moves traffic when this replica is
// available (protocol rule 27).
func setReplicas(o *observed, state rolloutState, next *v1alpha1.VersionedMicroserviceStatus) {
	old, want := o.release.Status, o.release.Spec.Replicas
	replicas, available := o.replicaCounts()
	same := old.ObservedGeneration == o.release.Generation && old.Failure == next.Failure
	first := state.promoted && old.Available == 0 && available > 0
	if same && available < want && available >= old.Available && !first {
		return
	}
	next.Replicas, next.Available = replicas, available
}

// setConditions sets Available, Progressing, and the summary conditions.
func setConditions(o *observed, done applied, f failure, next *v1alpha1.VersionedMicroserviceStatus) {
	want := o.release.Spec.Replicas
	set := func(kind string, value bool, reason, message string) {
		status.Set(&next.Conditions, o.release.Generation, kind, status.True(value), reason, message)
	}
	switch {
	case want == 0:
		set(v1alpha1.ConditionAvailable, false, reasonScaledToZero, "scaled to zero replicas")
		set(v1alpha1.ConditionProgressing, false, reasonScaledToZero, "scaled to zero replicas")
	case o.missingReplicas():
		reason, message := cmp.Or(f.reason, reasonStarting), cmp.Or(f.message, fmt.Sprintf("not all desired replicas are available (desired: %d)", want))
		if done.deployment != nil && f.reason == "" {
			reason, message = done.deployment.Reason, done.deployment.Error()
		}
		set(v1alpha1.ConditionAvailable, false, reason, message)
		set(v1alpha1.ConditionProgressing, f.reason == "", reason, message)
	default:
		set(v1alpha1.ConditionAvailable, true, reasonAvailable, fmt.Sprintf("%d of %d replicas are available", want, want))
		set(v1alpha1.ConditionProgressing, false, reasonAvailable, strings.Join(uncallableHooks(next.Hooks), ", "))
	}
	setReady(o, done, next)
}

// uncallableHooks describes the hooks that cannot be called and are being retried.
func uncallableHooks(hooks []v1alpha1.HookStatus) []string {
	var lines []string
	for _, h := range hooks {
		if h.Phase == v1alpha1.HookWaiting && hook.Uncallable(h) {
			lines = append(lines, fmt.Sprintf("%s hook %q %s", h.Type, h.Name, h.Message))
		}
	}
	return lines
}

// setReady sets the summary conditions that kstatus expects.
func setReady(o *observed, done applied, next *v1alpha1.VersionedMicroserviceStatus) {
	generation, conds := o.release.Generation, &next.Conditions
	available := meta.FindStatusCondition(*conds, v1alpha1.ConditionAvailable)
	for _, err := range done.errors() {
		if err != nil && err.Class == status.Terminal {
			status.Stalled(conds, generation, err.Reason, err.Error())
			return
		}
	}
	for _, err := range done.errors() {
		if err != nil {
			status.Reconciling(conds, generation, err.Reason, err.Error())
			return
		}
	}
	switch {
	case next.Release == v1alpha1.ReleaseError:
		reason := cmp.Or(next.Failure, rolloutStateOf(o.microservice, o.release.Name).reason, reasonFailed)
		status.Stalled(conds, generation, reason, cmp.Or(next.Message, fmt.Sprintf("the release failed (%s): set spec.decision.action to Retry and spec.decision.id to a new value to start it again", reason)))
	case available.Status == metav1.ConditionTrue, available.Reason == reasonScaledToZero:
		status.Ready(conds, generation, available.Reason, available.Message)
	default:
		status.Reconciling(conds, generation, available.Reason, available.Message)
	}
}

// repeats reports whether a change to the status that is not a transition affects fields that are copied from the Microservice
// only for display, or whether the status is the first status of a release whose pods are starting. No controller waits for such a status.
func repeats(before, now v1alpha1.VersionedMicroserviceStatus) bool {
	return before.Release != now.Release || before.Step != now.Step || onlyStarting(before, now)
}

// onlyStarting reports whether a status is the first status of a release and shows only that its pods are starting.
func onlyStarting(before, now v1alpha1.VersionedMicroserviceStatus) bool {
	return before.ObservedGeneration == 0 && now.Failure == "" && !slices.ContainsFunc(now.Conditions, func(c metav1.Condition) bool {
		return c.Type == v1alpha1.ConditionStalled || c.Type == v1alpha1.ConditionAvailable && c.Reason != reasonStarting
	})
}

// answered reports whether the result of a hook, the result of the analysis, or the number of running hook Jobs has changed.
func answered(before, now v1alpha1.VersionedMicroserviceStatus) bool {
	return !slices.EqualFunc(before.Hooks, now.Hooks, sameAnswer) || before.ActiveJobs != now.ActiveJobs || !equality.Semantic.DeepEqual(before.Analysis, now.Analysis)
}

// isTransition reports whether two statuses differ in more than messages, counts that no decision depends on,
// and fields copied from the Microservice. A release's failure and a retry are transitions.
func isTransition(before, now v1alpha1.VersionedMicroserviceStatus) bool {
	failed := (before.Release == v1alpha1.ReleaseError) != (now.Release == v1alpha1.ReleaseError)
	if onlyStarting(before, now) {
		return failed || answered(before, now)
	}
	if failed || before.ObservedGeneration != now.ObservedGeneration || before.Failure != now.Failure || answered(before, now) ||
		(before.Available == 0) != (now.Available == 0) || now.Available < before.Available {
		return true
	}
	if len(before.Conditions) != len(now.Conditions) {
		return true
	}
	for _, c := range now.Conditions {
		old := meta.FindStatusCondition(before.Conditions, c.Type)
		if old == nil || old.Status != c.Status || old.Reason != c.Reason {
			return true
		}
	}
	return false
}

// sameAnswer reports whether two results are for the same call of a hook, have the same phase, and were both
// recorded before, or both after, the first completed attempt. Other fields, such as the message, may differ.
func sameAnswer(a, b v1alpha1.HookStatus) bool {
	return a.Name == b.Name && a.Type == b.Type && a.ID == b.ID && a.Phase == b.Phase && (a.Attempts == 0) == (b.Attempts == 0)
}
