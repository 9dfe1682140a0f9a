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

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/versionedmicroservice/resources"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/status"
)

// The reasons of conditions, besides the words of status.failure.
const (
	reasonAvailable    = "Available"
	reasonStarting     = "Starting"
	reasonScaledToZero = "ScaledToZero"
	reasonFailed       = "Failed"
)

// report is pure: the status that follows from what was observed and done, and when
// to look again without being woken (zero: never).
func report(o *observed, did outcome, said heard, now time.Time) (hlnr.VersionedMicroserviceStatus, time.Time) {
	next := *o.release.Status.DeepCopy()
	row := mirrorOf(o.microservice, o.release.Name)
	row.into(&next)
	next.Analysis, next.Hooks = said.analysis, said.hooks
	f := fault(o, did, row, now)
	if o.unspoken(did) {
		// The Deployment does not speak of this generation yet. A half-true report would
		// be believed; the old one says by its generation that it is old. What is known of
		// a release that has failed is said while there are pods that show it.
		if o.failed(row) && f.message != "" {
			next.Failure, next.Message = f.reason, status.Line(f.message)
		}
		if next.TemplateHash != "" {
			next.TemplateHash = cmp.Or(did.template, next.TemplateHash)
		}
		return next, time.Time{}
	}
	if d := o.own(); d != nil {
		next.TemplateHash = cmp.Or(next.TemplateHash, d.Annotations[resources.AnnotationTemplate])
	}
	next.ObservedGeneration = o.release.Generation
	next.Selector = metav1.FormatLabelSelector(resources.Selector(o.release))
	if images := o.release.Spec.Images; len(images) > 0 {
		next.Image = images[0].Image
	}
	next.Failure, next.Message = f.reason, status.Line(f.message)
	count(o, row, &next)
	next.Ready = fmt.Sprintf("%d/%d", next.Available, max(o.release.Spec.Replicas, next.Replicas))
	conditions(o, did, f, &next)
	return next, f.look
}

// unspoken says that the Deployment does not speak of this generation: it was written in
// this pass, or its controller has not seen it yet. One that cannot be written speaks for
// itself, as far as its controller has seen it.
func (o *observed) unspoken(did outcome) bool {
	if did.deployment == nil {
		return did.moved || !o.settled()
	}
	d := o.own()
	return did.deployment.Class == status.Transient && d != nil && d.Status.ObservedGeneration < d.Generation
}

// fault is why the release is not available; the zero failure when it is, or when
// only time is missing.
func fault(o *observed, did outcome, row mirror, now time.Time) failure {
	if o.short() {
		if did.deployment != nil && did.deployment.Class == status.Terminal {
			return failure{reason: did.deployment.Reason, message: did.deployment.Error()}
		}
		f := diagnose(o, row, now)
		if did.deployment != nil && did.deployment.Reason == hlnr.FailureAdmissionUnavailable && f.reason == "" {
			f.reason, f.message = did.deployment.Reason, did.deployment.Error()
		}
		return f
	}
	if o.release.Spec.Replicas > 0 {
		return failure{}
	}
	// The pods that showed it are gone; the reader still wants to know. They may go
	// before the word of it comes.
	old := o.release.Status
	switch row.release {
	case hlnr.ReleaseError:
		if o.failed(row) && old.Message == "" {
			if f := diagnose(o, row, now); f.reason != "" {
				return f
			}
		}
		return failure{reason: cmp.Or(old.Failure, row.reason, reasonFailed), message: cmp.Or(old.Message, verdict(row, old))}
	case hlnr.ReleasePending, hlnr.ReleaseCanary:
		return failure{reason: old.Failure, message: old.Message}
	}
	return failure{}
}

// verdict says why a release was given up whose pods are not to blame; empty: the
// reason says it all.
func verdict(row mirror, old hlnr.VersionedMicroserviceStatus) string {
	switch {
	case row.reason == "AnalysisFailed" && old.Analysis != nil && old.Analysis.Phase == hlnr.AnalysisFailed:
		return old.Analysis.Message
	case (row.reason == "Aborted" || row.reason == "TurnedDown") && row.decision != nil && row.decision.By != "":
		return fmt.Sprintf("%s decided %s", row.decision.By, row.decision.Action)
	}
	return ""
}

// count writes the replicas. On the way up nothing is counted below all of them:
// nobody decides by it, and it would cost a write each. Only the first replica of a
// release that was active before counts: with it a rollback from a dead release
// begins (protocol rule 27).
func count(o *observed, row mirror, next *hlnr.VersionedMicroserviceStatus) {
	old, want := o.release.Status, o.release.Spec.Replicas
	replicas, available := o.counted()
	same := old.ObservedGeneration == o.release.Generation && old.Failure == next.Failure
	first := row.promoted && old.Available == 0 && available > 0
	if same && available < want && available >= old.Available && !first {
		return
	}
	next.Replicas, next.Available = replicas, available
}

// conditions says whether the release is available, whether it is on its way there,
// and what both come to.
func conditions(o *observed, did outcome, f failure, next *hlnr.VersionedMicroserviceStatus) {
	want := o.release.Spec.Replicas
	set := func(kind string, value bool, reason, message string) {
		status.Set(&next.Conditions, o.release.Generation, kind, status.True(value), reason, message)
	}
	switch {
	case want == 0:
		set(hlnr.ConditionAvailable, false, reasonScaledToZero, "no replicas are wanted")
		set(hlnr.ConditionProgressing, false, reasonScaledToZero, "no replicas are wanted")
	case o.short():
		reason, message := cmp.Or(f.reason, reasonStarting), cmp.Or(f.message, fmt.Sprintf("fewer than %d replicas are available", want))
		if did.deployment != nil && f.reason == "" {
			reason, message = did.deployment.Reason, did.deployment.Error()
		}
		set(hlnr.ConditionAvailable, false, reason, message)
		set(hlnr.ConditionProgressing, f.reason == "", reason, message)
	default:
		set(hlnr.ConditionAvailable, true, reasonAvailable, fmt.Sprintf("%d of %d replicas are available", want, want))
		set(hlnr.ConditionProgressing, false, reasonAvailable, strings.Join(uncallable(next.Hooks), ", "))
	}
	ready(o, did, next)
}

// uncallable names the hooks that are asked again and again, and never called.
func uncallable(hooks []hlnr.HookStatus) []string {
	var lines []string
	for _, h := range hooks {
		if h.Phase == hlnr.HookWaiting && hook.Uncallable(h) {
			lines = append(lines, fmt.Sprintf("%s hook %q %s", h.Type, h.Name, h.Message))
		}
	}
	return lines
}

// ready sums the other conditions up, as kstatus reads them.
func ready(o *observed, did outcome, next *hlnr.VersionedMicroserviceStatus) {
	generation, conds := o.release.Generation, &next.Conditions
	available := meta.FindStatusCondition(*conds, hlnr.ConditionAvailable)
	for _, err := range did.errors() {
		if err != nil && err.Class == status.Terminal {
			status.Stalled(conds, generation, err.Reason, err.Error())
			return
		}
	}
	for _, err := range did.errors() {
		if err != nil {
			status.Reconciling(conds, generation, err.Reason, err.Error())
			return
		}
	}
	switch {
	case next.Release == hlnr.ReleaseError:
		reason := cmp.Or(next.Failure, mirrorOf(o.microservice, o.release.Name).reason, reasonFailed)
		status.Stalled(conds, generation, reason, cmp.Or(next.Message, fmt.Sprintf("the release failed (%s): decision Retry starts it again", reason)))
	case available.Status == metav1.ConditionTrue, available.Reason == reasonScaledToZero:
		status.Ready(conds, generation, available.Reason, available.Message)
	default:
		status.Reconciling(conds, generation, available.Reason, available.Message)
	}
}

// transition says that a status differs in what somebody decides or acts by, and
// not only in its words.
func transition(before, now hlnr.VersionedMicroserviceStatus) bool {
	if before.ObservedGeneration != now.ObservedGeneration || before.Release != now.Release || before.Failure != now.Failure ||
		before.Step != now.Step || !slices.EqualFunc(before.Hooks, now.Hooks, sameAnswer) || !equality.Semantic.DeepEqual(before.Analysis, now.Analysis) ||
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

// sameAnswer says that a hook's answer is worth the same as before, in whatever words.
func sameAnswer(a, b hlnr.HookStatus) bool {
	return a.Name == b.Name && a.Type == b.Type && a.ID == b.ID && a.Phase == b.Phase && (a.Attempts == 0) == (b.Attempts == 0)
}

// announce emits the events of a transition, after it was written.
func announce(events status.Recorder, release *hlnr.VersionedMicroservice, before, now hlnr.VersionedMicroserviceStatus) {
	was, is := meta.IsStatusConditionTrue(before.Conditions, hlnr.ConditionAvailable), meta.IsStatusConditionTrue(now.Conditions, hlnr.ConditionAvailable)
	switch {
	case is && !was:
		events.Normal(release, reasonAvailable, "Run", fmt.Sprintf("%s replicas are available", now.Ready))
	case now.Failure != "" && now.Failure != before.Failure:
		events.Warning(release, now.Failure, "Run", now.Message)
	case was && !is && release.Spec.Replicas > 0 && before.ObservedGeneration == now.ObservedGeneration:
		events.Warning(release, "Unavailable", "Run", fmt.Sprintf("only %s replicas are available", now.Ready))
	}
	announceHooks(events, release, before.Hooks, now.Hooks)
	announceAnalysis(events, release, before.Analysis, now.Analysis)
}

// announceHooks tells what hooks decided, and what could not be told to them.
func announceHooks(events status.Recorder, release *hlnr.VersionedMicroservice, before, now []hlnr.HookStatus) {
	for _, h := range now {
		if slices.ContainsFunc(before, func(old hlnr.HookStatus) bool {
			return old.Name == h.Name && old.ID == h.ID && old.Phase == h.Phase && hook.Uncallable(old) == hook.Uncallable(h)
		}) {
			continue
		}
		text := fmt.Sprintf("%s hook %q: %s", h.Type, h.Name, h.Message)
		switch {
		case h.Phase == hlnr.HookWaiting && hook.Uncallable(h):
			events.Warning(release, "HookNotCallable", "Call", text)
		case h.Phase == hlnr.HookFailed:
			events.Warning(release, "HookFailed", "Call", text)
		case h.Phase == hlnr.HookOpen && h.Type == hlnr.HookRollback:
			events.Warning(release, "RollbackRequested", "Call", text)
		case h.Phase == hlnr.HookOpen:
			events.Normal(release, "HookAgreed", "Call", text)
		}
	}
}

// announceAnalysis tells of a verdict, and of one that needs a person.
func announceAnalysis(events status.Recorder, release *hlnr.VersionedMicroservice, before, now *hlnr.ReleaseAnalysis) {
	if now == nil || before != nil && before.Run == now.Run && before.Step == now.Step && before.Phase == now.Phase {
		return
	}
	text := fmt.Sprintf("step %d: %s", now.Step, now.Message)
	switch now.Phase {
	case hlnr.AnalysisFailed:
		events.Warning(release, "AnalysisFailed", "Measure", text)
	case hlnr.AnalysisInconclusive:
		events.Warning(release, "AnalysisInconclusive", "Measure", text)
	case hlnr.AnalysisPassed:
		events.Normal(release, "AnalysisPassed", "Measure", text)
	}
}
