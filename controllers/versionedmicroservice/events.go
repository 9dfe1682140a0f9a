package versionedmicroservice

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/status"
)

// The functions below construct all events of releases.

func availableEvent(ready string) status.Event {
	return status.NormalEvent(reasonAvailable, "Run", fmt.Sprintf("%s replicas are available", ready))
}

func unavailableEvent(ready string) status.Event {
	return status.WarningEvent("Unavailable", "Run", fmt.Sprintf("only %s replicas are available", ready))
}

func failureEvent(failure, message string) status.Event {
	return status.WarningEvent(failure, "Run", message)
}

func templateRestoredEvent(deployment string) status.Event {
	return status.WarningEvent("TemplateRestored", "Restore",
		fmt.Sprintf("Deployment %q was edited, and its pod template was restored: edit spec.template of the Microservice instead", deployment))
}

func hookNotCallableEvent(h v1alpha1.HookStatus) status.Event {
	return status.WarningEvent("HookNotCallable", "Call", hookNote(h))
}

func hookFailedEvent(h v1alpha1.HookStatus) status.Event {
	return status.WarningEvent("HookFailed", "Call", hookNote(h))
}

func rollbackRequestedEvent(h v1alpha1.HookStatus) status.Event {
	return status.WarningEvent("RollbackRequested", "Call", hookNote(h))
}

func hookAgreedEvent(h v1alpha1.HookStatus) status.Event {
	return status.NormalEvent("HookAgreed", "Call", hookNote(h))
}

func hookNote(h v1alpha1.HookStatus) string {
	return fmt.Sprintf("%s hook %q: %s", h.Type, h.Name, h.Message)
}

func analysisPassedEvent(a *v1alpha1.ReleaseAnalysis) status.Event {
	return status.NormalEvent("AnalysisPassed", "Measure", analysisNote(a))
}

func analysisFailedEvent(a *v1alpha1.ReleaseAnalysis) status.Event {
	return status.WarningEvent("AnalysisFailed", "Measure", analysisNote(a))
}

func analysisInconclusiveEvent(a *v1alpha1.ReleaseAnalysis) status.Event {
	return status.WarningEvent("AnalysisInconclusive", "Measure", analysisNote(a))
}

func analysisNote(a *v1alpha1.ReleaseAnalysis) string {
	if a.Step == 0 {
		return a.Message
	}
	return fmt.Sprintf("step %d: %s", a.Step, a.Message)
}

// recordEvents records the events for a transition after the status was written.
func recordEvents(events status.Recorder, release *v1alpha1.VersionedMicroservice, before, now v1alpha1.VersionedMicroserviceStatus) {
	was, is := meta.IsStatusConditionTrue(before.Conditions, v1alpha1.ConditionAvailable), meta.IsStatusConditionTrue(now.Conditions, v1alpha1.ConditionAvailable)
	switch {
	case is && !was:
		if before.Failure != "" || wasActive(before) {
			events.Record(release, availableEvent(now.Ready))
		}
	case now.Failure != "" && now.Failure != before.Failure:
		events.Record(release, failureEvent(now.Failure, now.Message))
	case was && !is && release.Spec.Replicas > 0 && before.ObservedGeneration == now.ObservedGeneration:
		events.Record(release, unavailableEvent(now.Ready))
	}
	events.Record(release, hookEvents(before.Hooks, now.Hooks)...)
	events.Record(release, analysisEvents(before.Analysis, now.Analysis)...)
}

// wasActive reports whether a release was active. An event records that a release is available again only if
// the release was active or had a failure. Events of the Microservice record the successful start of a new
// release.
func wasActive(s v1alpha1.VersionedMicroserviceStatus) bool {
	return s.Release == v1alpha1.ReleaseActive
}

// hookEvents returns the events for hook decisions, and for hooks that cannot be called.
func hookEvents(before, now []v1alpha1.HookStatus) []status.Event {
	var events []status.Event
	for _, h := range now {
		if slices.ContainsFunc(before, func(old v1alpha1.HookStatus) bool {
			return old.Name == h.Name && old.ID == h.ID && old.Phase == h.Phase && hook.Uncallable(old) == hook.Uncallable(h)
		}) {
			continue
		}
		switch {
		case h.Phase == v1alpha1.HookWaiting && hook.Uncallable(h):
			events = append(events, hookNotCallableEvent(h))
		case h.Phase == v1alpha1.HookFailed:
			events = append(events, hookFailedEvent(h))
		case h.Phase == v1alpha1.HookOpen && h.Type == v1alpha1.HookRollback:
			events = append(events, rollbackRequestedEvent(h))
		case h.Phase == v1alpha1.HookOpen:
			events = append(events, hookAgreedEvent(h))
		}
	}
	return events
}

// analysisEvents returns the events for a new result of the analysis.
func analysisEvents(before, now *v1alpha1.ReleaseAnalysis) []status.Event {
	if now == nil || before != nil && before.Run == now.Run && before.Step == now.Step && before.Phase == now.Phase {
		return nil
	}
	switch now.Phase {
	case v1alpha1.AnalysisFailed:
		return []status.Event{analysisFailedEvent(now)}
	case v1alpha1.AnalysisInconclusive:
		return []status.Event{analysisInconclusiveEvent(now)}
	case v1alpha1.AnalysisPassed:
		return []status.Event{analysisPassedEvent(now)}
	}
	return nil
}
