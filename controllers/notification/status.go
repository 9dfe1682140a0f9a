package notification

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// failureInterval is the minimum time before a receiver's failure in the status is replaced with another failure.
const failureInterval = 10 * time.Minute

// reportFailure records in the status whether and why a receiver is failing. It replaces a failure with another
// failure at most once per failureInterval.
func reportFailure(s *v1alpha1.ReceiverStatus, state receiverState, now time.Time) (changed bool) {
	switch {
	case state.failure == "" && state.succeeded && s.Failure != "":
		s.Failure, s.FailureTime = "", nil
		return true
	case state.failure == "" || s.Failure == state.failure:
		return false
	case s.Failure != "" && s.FailureTime != nil && now.Sub(s.FailureTime.Time) < failureInterval:
		return false
	}
	at := metav1.NewMicroTime(now)
	s.Failure, s.FailureTime = state.failure, &at
	return true
}

// total sets the total number of pending messages, and the time of the last delivery to any receiver.
func (p *plan) total() {
	p.status.Pending = 0
	for i := range p.status.Receivers {
		s := &p.status.Receivers[i]
		p.status.Pending += s.Pending
		if at := s.LastDeliveryTime; at != nil && (p.status.LastDeliveryTime == nil || at.After(p.status.LastDeliveryTime.Time)) {
			p.status.LastDeliveryTime = &metav1.Time{Time: at.Truncate(time.Second)}
		}
	}
}

// keepPending keeps the previous numbers of pending messages. It is called only if nothing else about the receivers
// and deliveries in the status differs, because changes to these numbers alone must not cause a write.
func (p *plan) keepPending(old *v1alpha1.NotificationPolicyStatus) {
	for i := range p.status.Receivers {
		s := &p.status.Receivers[i]
		if j := slices.IndexFunc(old.Receivers, func(o v1alpha1.ReceiverStatus) bool { return o.Name == s.Name }); j >= 0 {
			s.Pending = old.Receivers[j].Pending
		}
	}
}

// setConditions sets the conditions. full reports whether messages are waiting because status.deliveries
// is full.
func setConditions(p *plan, o *observed, full bool) {
	conditions, generation := &p.status.Conditions, o.policy.Generation
	if o.wrong != "" {
		status.Stalled(conditions, generation, o.reason, o.wrong+"; nothing is sent")
		return
	}
	if o.policy.Spec.Suspend {
		status.Ready(conditions, generation, reasonSuspended, "nothing is sent until spec.suspend is removed")
		return
	}
	for _, s := range p.status.Receivers {
		if s.Failure != "" {
			next := "delivery is retried"
			if s.Pending == 0 {
				next = "the message was dropped, and the next message is sent as usual"
			}
			status.Set(conditions, generation, v1alpha1.ConditionReady, metav1.ConditionFalse, reasonDeliveryFailing, fmt.Sprintf("receiver %q: %s; %s", s.Name, s.Failure, next))
			status.Remove(conditions, v1alpha1.ConditionStalled)
			return
		}
	}
	if full {
		status.Set(conditions, generation, v1alpha1.ConditionReady, metav1.ConditionFalse, reasonTooManyDeliveries, fmt.Sprintf("status.deliveries is full (%d entries): further releases are reported when earlier rollouts end; divide the services among several policies", maxDeliveries))
		status.Remove(conditions, v1alpha1.ConditionStalled)
		return
	}
	status.Ready(conditions, generation, status.ReasonSucceeded, countReceivers(len(p.status.Receivers)))
}

// countReceivers returns a number of receivers as text.
func countReceivers(n int) string {
	if n == 1 {
		return "1 receiver"
	}
	return fmt.Sprintf("%d receivers", n)
}
