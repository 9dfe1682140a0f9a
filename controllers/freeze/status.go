package freeze

import (
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
)

// reasonInvalidSelector is the condition reason that reports an invalid selector.
const reasonInvalidSelector = "InvalidSelector"

// setStatus sets the status, which reports whether a freeze currently applies, and to how many Microservices.
// next is the time of the next change; zero if there is none. setStatus performs no I/O.
func setStatus(o *observed, now time.Time) (next time.Time) {
	s, state := o.status, o.freeze.State(now)
	s.ObservedGeneration = o.object.GetGeneration()
	s.Active, s.Reason, s.Services = state.Active, state.Reason, int32(o.services)
	s.From, s.Until = timeOf(state.From), timeOf(state.Until)
	if state.Over {
		s.Until = timeOf(o.freeze.End())
	}
	if err := o.freeze.Check(); err != nil {
		s.Active = false
		status.Stalled(&s.Conditions, s.ObservedGeneration, reasonInvalidSelector, err.Error()+": no Microservice is frozen; correct the selector")
		return state.Next()
	}
	message := "the freeze does not apply now"
	switch {
	case state.Active:
		message = "the freeze applies now"
	case state.Over:
		message = "the freeze has ended and can be deleted"
	}
	status.Ready(&s.Conditions, s.ObservedGeneration, status.ReasonSucceeded, message)
	return state.Next()
}

// timeOf converts a time to the type that is used in statuses. It returns nil for the zero time.
func timeOf(t time.Time) *metav1.Time {
	if t.IsZero() {
		return nil
	}
	return new(metav1.NewTime(t))
}

// began returns the text of the event that is recorded when a freeze begins.
func began(s *v1alpha1.FreezeStatus) string {
	end := "indefinitely"
	if s.Until != nil {
		end = "until " + s.Until.UTC().Format(time.RFC3339)
	}
	if s.Services == 1 {
		return fmt.Sprintf("1 Microservice is frozen %s: %s", end, s.Reason)
	}
	return fmt.Sprintf("%d Microservices are frozen %s: %s", s.Services, end, s.Reason)
}

// ended returns the message of the event at the end of a freeze.
func ended(s *v1alpha1.FreezeStatus) string {
	if s.Services == 1 {
		return "1 Microservice is no longer frozen"
	}
	return fmt.Sprintf("%d Microservices are no longer frozen", s.Services)
}
