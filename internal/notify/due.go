package notify

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// maxWaits is the maximum number of waits that are recorded for a step.
const maxWaits = 8

// defaultEvents are the events that are reported to a receiver that lists no events.
var defaultEvents = []v1alpha1.NotificationEvent{
	v1alpha1.NotifyStarted, v1alpha1.NotifyWaiting, v1alpha1.NotifyPromoted, v1alpha1.NotifyRestored, v1alpha1.NotifyRolledBack,
	v1alpha1.NotifyFailed, v1alpha1.NotifyAborted, v1alpha1.NotifySuperseded, v1alpha1.NotifyRemoved,
}

// Wants reports whether a receiver is notified of an event.
func Wants(r *v1alpha1.NotificationReceiver, e v1alpha1.NotificationEvent) bool {
	if len(r.Events) == 0 {
		return slices.Contains(defaultEvents, e)
	}
	return slices.Contains(r.Events, e)
}

// Due returns the newest fact about a release that a receiver wants and that has not been reported to the receiver yet, or nil if
// there is no such fact. known is the latest report to the receiver about the release, or nil if there is none. If known is nil,
// rollouts that ended before the time in since are not reported. A receiver that wants promotions is notified of a replacement if
// the release was replaced before its promotion was reported.
func Due(r *v1alpha1.NotificationReceiver, known *v1alpha1.NotificationDelivery, facts []Fact, since time.Time) *Fact {
	if f := canceled(known, facts); f != nil {
		facts = []Fact{*f}
	}
	for i := len(facts) - 1; i >= 0; i-- {
		if f := &facts[i]; (Wants(r, f.Event) || completes(r, known, f)) && isNew(known, f, since) {
			return f
		}
	}
	return nil
}

// canceled returns the fact that shows the end of a retained release's canceled rollout, if that rollout was reported. Otherwise, it returns nil. The
// release is in the same state as before the rollout, so no other fact shows the end of the rollout.
func canceled(known *v1alpha1.NotificationDelivery, facts []Fact) *Fact {
	if len(facts) == 0 || known == nil || Ended(known.Event) {
		return nil
	}
	if f := facts[len(facts)-1]; f.Event != v1alpha1.NotifyDeprecated || f.Time.After(known.Time.Time) {
		return nil
	}
	return &Fact{Event: v1alpha1.NotifySuperseded, Time: known.Time.Time}
}

// completes reports whether a fact is the only one that still shows the outcome of a reported rollout.
func completes(r *v1alpha1.NotificationReceiver, known *v1alpha1.NotificationDelivery, f *Fact) bool {
	return f.Event == v1alpha1.NotifyDeprecated && known != nil && !Ended(known.Event) && Wants(r, v1alpha1.NotifyPromoted)
}

// isNew reports whether a fact has not been reported to a receiver yet.
func isNew(known *v1alpha1.NotificationDelivery, f *Fact, since time.Time) bool {
	switch {
	case Ended(f.Event) && known == nil:
		return f.Time.After(since)
	case Ended(f.Event):
		return !Ended(known.Event) || f.Time.Truncate(time.Microsecond).After(known.Time.Time)
	case known == nil, known.Run != f.Run:
		return true
	case Ended(known.Event), f.Event == v1alpha1.NotifyStarted:
		return false
	}
	return f.Step > known.Step || f.Event == v1alpha1.NotifyWaiting && f.Step == known.Step && !slices.Contains(known.Waits, f.Wait)
}

// RemovedFact returns the fact for a reported release that no longer exists. superseded reports whether it was removed because
// another release superseded it.
func RemovedFact(known *v1alpha1.NotificationDelivery, superseded bool) Fact {
	if superseded {
		return Fact{Event: v1alpha1.NotifySuperseded, Time: known.Time.Time}
	}
	return Fact{Event: v1alpha1.NotifyRemoved, Time: known.Time.Time}
}

// Edits returns the ID of the message that a fact updates, or an empty string if the fact needs a new message.
func Edits(known *v1alpha1.NotificationDelivery, f *Fact) string {
	if known == nil || Ended(known.Event) || !Ended(f.Event) && f.Run != known.Run {
		return ""
	}
	return known.Message
}

// Advance returns the updated record after a fact was reported to a receiver. message is the ID that the receiver
// assigned to the message, or an empty string if the message cannot be edited.
func Advance(known *v1alpha1.NotificationDelivery, of v1alpha1.NotificationDelivery, f *Fact, id, message string) v1alpha1.NotificationDelivery {
	of.Event, of.Time, of.ID, of.Message = f.Event, metav1.NewMicroTime(f.Time.Truncate(time.Microsecond)), id, message
	if known != nil {
		of.Run, of.Step, of.Waits = known.Run, known.Step, known.Waits
	}
	if Ended(f.Event) {
		return of
	}
	if of.Run != f.Run || of.Step != f.Step || known == nil {
		of.Waits = nil
	}
	of.Run, of.Step = f.Run, f.Step
	if f.Wait != "" && !slices.Contains(of.Waits, f.Wait) && len(of.Waits) < maxWaits {
		of.Waits = append(slices.Clone(of.Waits), f.Wait)
	}
	return of
}

// ID identifies a message. It depends only on recorded data, so another manager computes the same ID.
func ID(policy types.UID, receiver string, service types.UID, release string, f *Fact) string {
	stamp := ""
	if Ended(f.Event) {
		stamp = strconv.FormatInt(f.Time.UnixMicro(), 10)
	}
	return hash(string(policy), receiver, string(service), release, string(f.Event), strconv.FormatInt(f.Run, 10), strconv.Itoa(int(f.Step)), f.Wait, stamp)
}

// hash returns a hash of strings.
func hash(texts ...string) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q", texts))
	return hex.EncodeToString(sum[:16])
}
