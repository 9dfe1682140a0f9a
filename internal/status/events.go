package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// maxNote is the server's bound on an event's note, less one.
const maxNote = 1023

// Recorder emits events on transitions only. The zero Recorder emits nothing.
//
// Recorders of events.k8s.io fold an event into a series when type, action, reason,
// the object at its version, and the related object are those of an earlier one: its
// note is lost, and the series is written once more minutes later. Whoever reports
// several things at one version of an object distinguishes them by Related or action.
type Recorder struct {
	// Events is a manager's recorder.
	Events events.EventRecorder
	// Related is another object that the events are about, or nil.
	Related runtime.Object
}

// About returns a Recorder whose events are about another object as well.
func (r Recorder) About(related runtime.Object) Recorder {
	r.Related = related
	return r
}

// Normal reports a transition that is as it should be. action is the CamelCase
// word for what was done.
func (r Recorder) Normal(obj runtime.Object, reason, action, note string) {
	r.emit(obj, corev1.EventTypeNormal, reason, action, note)
}

// Warning records a transition that a user should check.
func (r Recorder) Warning(obj runtime.Object, reason, action, note string) {
	r.emit(obj, corev1.EventTypeWarning, reason, action, note)
}

// TransitionRule is a condition whose transitions are recorded as events.
type TransitionRule struct {
	// Kind is the type of the condition.
	Kind string
	// Good is the status that makes a Normal event; others make a Warning.
	Good metav1.ConditionStatus
	// Worry leaves out the first event of a condition that is good from the start.
	Worry bool
	// Passing are reasons of another status than Good which time alone changes. One that comes
	// first, or goes, is not recorded; one that a good condition turns to is.
	Passing []string
}

// isTold reports whether a condition that changed from earlier, which may be nil, to present
// makes an event.
func (t TransitionRule) isReported(earlier, present *metav1.Condition) bool {
	passes := func(c *metav1.Condition) bool {
		return c != nil && c.Status != t.Good && slices.Contains(t.Passing, c.Reason)
	}
	switch {
	case present == nil:
		return false
	case earlier == nil:
		return !passes(present) && !(t.Worry && present.Status == t.Good)
	case earlier.Status == present.Status && earlier.Reason == present.Reason:
		return false
	case present.Status == t.Good:
		return !passes(earlier)
	}
	return earlier.Status == t.Good || !passes(present)
}

// Transitions emits an event, of the current reason and message, for each condition
// that changed its status or reason between before and now. A condition that was and
// is absent makes none, and so does one that goes. Of several that changed for one
// reason, the first is recorded.
func (r Recorder) Transitions(obj runtime.Object, before, now []metav1.Condition, action string, reported ...TransitionRule) {
	type key struct{ kind, reason string }
	emitted := map[key]bool{}
	for _, t := range reported {
		present, earlier := meta.FindStatusCondition(now, t.Kind), meta.FindStatusCondition(before, t.Kind)
		if !t.isReported(earlier, present) {
			continue
		}
		kind := corev1.EventTypeWarning
		if present.Status == t.Good {
			kind = corev1.EventTypeNormal
		}
		if k := (key{kind, present.Reason}); !emitted[k] {
			emitted[k] = true
			r.emit(obj, kind, present.Reason, action, present.Message)
		}
	}
}

func (r Recorder) emit(obj runtime.Object, kind, reason, action, note string) {
	if r.Events == nil {
		return
	}
	r.Events.Eventf(obj, r.Related, kind, reason, action, "%s", LineOf(note, maxNote))
}
