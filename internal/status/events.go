package status

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
)

// maxNote is the API server's limit for an event's note, minus one.
const maxNote = 1023

// Recorder records events on transitions only. The zero Recorder records nothing. To record an event only once, a controller
// calls a Recorder after Patch with AtResourceVersion has written the transition: if Patch returns a conflict, the controller
// records nothing.
//
// Recorders of events.k8s.io combine an event with an earlier event into a series if both have the same type, action, reason
// and related object, and are about the same resourceVersion of the same object. In that case, the note of the later event is
// lost, and the series is written again minutes later. To record several events for one resourceVersion of an object, use
// different values of Related or action.
type Recorder struct {
	// Events is a manager's recorder.
	Events events.EventRecorder
	// Related is another object that the events concern, or nil.
	Related runtime.Object
}

// About returns a Recorder whose events also concern another object.
func (r Recorder) About(related runtime.Object) Recorder {
	r.Related = related
	return r
}

// Normal records an expected transition. action is the CamelCase word for what was done.
func (r Recorder) Normal(obj runtime.Object, reason, action, note string) {
	r.emit(obj, corev1.EventTypeNormal, reason, action, note)
}

// Warning records a transition that a user should check.
func (r Recorder) Warning(obj runtime.Object, reason, action, note string) {
	r.emit(obj, corev1.EventTypeWarning, reason, action, note)
}

// TransitionRule defines which transitions of a condition are recorded as events.
type TransitionRule struct {
	// Kind is the type of the condition.
	Kind string
	// Good is the status that is recorded as a Normal event. All other statuses are recorded as
	// Warning events.
	Good metav1.ConditionStatus
	// Worry omits the first event of a condition whose first status is Good.
	Worry bool
	// Passing contains reasons for temporary problems: a status other than Good with such a reason ends without intervention. A
	// condition that starts with such a reason is not recorded, and neither is a change from such a reason to Good. A change
	// from Good to such a reason is recorded.
	Passing []string
}

// isReported reports whether the change of a condition from earlier (which may be nil) to present
// is recorded as an event.
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

// Transitions records an event with the current reason and message for each condition whose status or reason
// differs between before and now, unless its rule in reported omits the event. A condition that is absent or was
// removed causes no event. If several events have the same type and reason, only the first event is recorded.
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
