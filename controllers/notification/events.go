package notification

import (
	"fmt"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// The functions below construct all events of NotificationPolicies.

func droppedEvent(r result) status.Event {
	return status.WarningEvent("NotificationDropped", "Notify", fmt.Sprintf("message %q to receiver %q was dropped: %s", r.message.Title, r.delivery.Receiver, r.why))
}

// readyEvents returns the events for a change to the Ready condition. A policy that is Ready from the start
// gets no event.
func readyEvents(before, now []metav1.Condition) []status.Event {
	was, is := meta.FindStatusCondition(before, v1alpha1.ConditionReady), meta.FindStatusCondition(now, v1alpha1.ConditionReady)
	switch {
	case is == nil, was != nil && was.Status == is.Status && was.Reason == is.Reason, was == nil && is.Status == metav1.ConditionTrue:
		return nil
	case is.Status == metav1.ConditionTrue:
		return []status.Event{status.NormalEvent(is.Reason, "Notify", is.Message)}
	}
	return []status.Event{status.WarningEvent(is.Reason, "Notify", is.Message)}
}
