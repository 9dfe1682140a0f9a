package status

import (
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
// note is lost, and the series is written once more minutes later. Whoever tells of
// several things at one version of an object tells them apart by Related or action.
type Recorder struct {
	// Events is a manager's recorder.
	Events events.EventRecorder
	// Related is another object that the events are about; nil: none.
	Related runtime.Object
}

// About is a Recorder whose events are about another object as well.
func (r Recorder) About(related runtime.Object) Recorder {
	r.Related = related
	return r
}

// Normal tells of a transition that is as it should be. action is the CamelCase
// word for what was done.
func (r Recorder) Normal(obj runtime.Object, reason, action, note string) {
	r.emit(obj, corev1.EventTypeNormal, reason, action, note)
}

// Warning tells of a transition that somebody should look at.
func (r Recorder) Warning(obj runtime.Object, reason, action, note string) {
	r.emit(obj, corev1.EventTypeWarning, reason, action, note)
}

// Transition emits an event, of the present reason and message, if the condition
// of that type changed its status or reason between before and now. good is the
// status that makes a Normal event; others make a Warning. A condition that was and
// is absent makes none, and so does one that goes.
func (r Recorder) Transition(obj runtime.Object, before, now []metav1.Condition, kind string, good metav1.ConditionStatus, action string) {
	present := meta.FindStatusCondition(now, kind)
	if present == nil {
		return
	}
	earlier := meta.FindStatusCondition(before, kind)
	if earlier != nil && earlier.Status == present.Status && earlier.Reason == present.Reason {
		return
	}
	if present.Status == good {
		r.Normal(obj, present.Reason, action, present.Message)
		return
	}
	r.Warning(obj, present.Reason, action, present.Message)
}

func (r Recorder) emit(obj runtime.Object, kind, reason, action, note string) {
	if r.Events == nil {
		return
	}
	r.Events.Eventf(obj, r.Related, kind, reason, action, "%s", LineOf(note, maxNote))
}
