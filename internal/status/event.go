package status

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Event is an event about an object. For events with their own text, the events.go file of a controller contains constructors.
// Events whose text comes from a note of package release or from a condition are recorded with Normal and Warning.
type Event struct {
	// Type is Normal or Warning.
	Type string
	// Reason and Action are CamelCase words. Reason is why the event happened, and Action is what was done.
	Reason, Action string
	// Note is the text for users.
	Note string
}

// NormalEvent returns an event of type Normal.
func NormalEvent(reason, action, note string) Event {
	return Event{Type: corev1.EventTypeNormal, Reason: reason, Action: action, Note: note}
}

// WarningEvent returns an event of type Warning.
func WarningEvent(reason, action, note string) Event {
	return Event{Type: corev1.EventTypeWarning, Reason: reason, Action: action, Note: note}
}

// Record records events about an object.
func (r Recorder) Record(obj runtime.Object, events ...Event) {
	for _, e := range events {
		r.emit(obj, e.Type, e.Reason, e.Action, e.Note)
	}
}
