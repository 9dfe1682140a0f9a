// Package status defines how all controllers write status. It contains conditions in the form that kstatus expects,
// the function that performs the only status write of a reconcile, classified errors, and events on transitions. The
// status write is skipped if the status has not changed.
//
//	conditions.go  conditions and their messages
//	errors.go      classes of errors
//	event.go       events that a controller constructs
//	events.go      events on transitions
//	journal.go     the last status write of each object
//	patch.go       the status write
//	difference.go  merge patches that contain only the status
//	backoff.go     times between retries
package status

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// MaxMessage is the maximum length of a message in bytes.
const MaxMessage = 512

// ReasonSucceeded is the reason for a condition after a successful reconcile, unless a more specific reason applies.
const ReasonSucceeded = "Succeeded"

// Line returns text as one line of at most MaxMessage bytes: white space becomes a single space,
// control characters and invalid UTF-8 are removed, and truncated text ends in "…".
func Line(text string) string { return LineOf(text, MaxMessage) }

// commit matches a full commit hash (SHA-1 or SHA-256) in hexadecimal.
var commit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Short returns a version in the short form for columns and messages. It shortens a commit to its first seven digits, and
// returns any other version unchanged.
func Short(version string) string {
	if commit.MatchString(version) {
		return version[:7]
	}
	return version
}

// LineOf is like Line, but with the given limit, which must be at least 4 bytes.
func LineOf(text string, limit int) string {
	clean := strings.Map(func(r rune) rune {
		if r == utf8.RuneError || (r < ' ' && r != '\t' && r != '\n' && r != '\r') || r == 0x7f {
			return -1
		}
		return r
	}, text)
	line := strings.Join(strings.Fields(clean), " ")
	if len(line) <= limit {
		return line
	}
	const more = "…"
	end := limit - len(more)
	for end > 0 && !utf8.RuneStart(line[end]) {
		end--
	}
	return line[:end] + more
}

// Set sets a condition in conds. The lastTransitionTime changes only if the status changes. The message
// is truncated by Line. Conditions are sorted by type, so that equal conditions are always stored
// in the same order. Set reports whether anything changed.
func Set(conds *[]metav1.Condition, generation int64, kind string, value metav1.ConditionStatus, reason, message string) bool {
	changed := meta.SetStatusCondition(conds, metav1.Condition{
		Type: kind, Status: value, ObservedGeneration: generation, Reason: reason, Message: Line(message),
	})
	sortByType(*conds)
	return changed
}

// Remove removes the condition of the given type, and reports whether it existed.
func Remove(conds *[]metav1.Condition, kind string) bool {
	if meta.FindStatusCondition(*conds, kind) == nil {
		return false // RemoveStatusCondition would allocate a copy.
	}
	return meta.RemoveStatusCondition(conds, kind)
}

// True returns metav1.ConditionTrue for true and metav1.ConditionFalse for false.
func True(value bool) metav1.ConditionStatus {
	if value {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// Ready reports that the current generation has been reconciled. It sets Ready to True, and removes Reconciling and
// Stalled.
func Ready(conds *[]metav1.Condition, generation int64, reason, message string) {
	Set(conds, generation, v1alpha1.ConditionReady, metav1.ConditionTrue, reason, message)
	Remove(conds, v1alpha1.ConditionReconciling)
	Remove(conds, v1alpha1.ConditionStalled)
}

// Reconciling reports that work is in progress. It sets Ready to False and Reconciling to True, and removes Stalled.
func Reconciling(conds *[]metav1.Condition, generation int64, reason, message string) {
	Set(conds, generation, v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	Set(conds, generation, v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
	Remove(conds, v1alpha1.ConditionStalled)
}

// Stalled reports that a user must change the specification, or an object to which the specification refers. It sets Ready
// to False and Stalled to True, and removes Reconciling.
func Stalled(conds *[]metav1.Condition, generation int64, reason, message string) {
	Set(conds, generation, v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	Set(conds, generation, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
	Remove(conds, v1alpha1.ConditionReconciling)
}

func sortByType(conds []metav1.Condition) {
	slices.SortFunc(conds, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}
