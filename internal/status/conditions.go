// Package status is the one status contract of all controllers: conditions as
// kstatus reads them, one status write per reconcile and none without a
// difference, errors classified once, events on transitions.
//
//	conditions.go  conditions and their messages
//	errors.go      classes of errors
//	event.go       events that a controller constructs
//	events.go      events on transitions
//	journal.go     the last status write of each object
//	patch.go       the status write
//	difference.go  merge patches of a status alone
//	backoff.go     times between tries
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

// MaxMessage is the greatest length of a message in bytes.
const MaxMessage = 512

// ReasonSucceeded stands on a condition that has nothing else to say.
const ReasonSucceeded = "Succeeded"

// Line makes text one line of at most MaxMessage bytes: every run of white space
// becomes a blank, control characters and broken UTF-8 go, what is cut ends in "…".
func Line(text string) string { return LineOf(text, MaxMessage) }

// commit is a whole commit in hexadecimal, by SHA-1 or SHA-256.
var commit = regexp.MustCompile(`^([0-9a-f]{40}|[0-9a-f]{64})$`)

// Short makes a version fit for a column: of a commit the first seven digits, any other
// as it is.
func Short(version string) string {
	if commit.MatchString(version) {
		return version[:7]
	}
	return version
}

// LineOf is Line with a bound of its own, of at least 4 bytes.
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

// Set puts a condition into conds; its lastTransitionTime changes only with status.
// The message is bounded by Line. Conditions are sorted by type, so that equal conditions are
// always stored in the same order. Set reports whether anything changed.
func Set(conds *[]metav1.Condition, generation int64, kind string, value metav1.ConditionStatus, reason, message string) bool {
	changed := meta.SetStatusCondition(conds, metav1.Condition{
		Type: kind, Status: value, ObservedGeneration: generation, Reason: reason, Message: Line(message),
	})
	sortByType(*conds)
	return changed
}

// Remove takes the condition of that type out, and says whether it was there.
func Remove(conds *[]metav1.Condition, kind string) bool {
	return meta.RemoveStatusCondition(conds, kind)
}

// True makes metav1.ConditionTrue of true and ConditionFalse of false.
func True(value bool) metav1.ConditionStatus {
	if value {
		return metav1.ConditionTrue
	}
	return metav1.ConditionFalse
}

// Ready sets Ready to True and takes Reconciling and Stalled away: the object is
// as its current generation wants it.
func Ready(conds *[]metav1.Condition, generation int64, reason, message string) {
	Set(conds, generation, v1alpha1.ConditionReady, metav1.ConditionTrue, reason, message)
	Remove(conds, v1alpha1.ConditionReconciling)
	Remove(conds, v1alpha1.ConditionStalled)
}

// Reconciling sets Ready to False because work is under way, and Reconciling to
// True.
func Reconciling(conds *[]metav1.Condition, generation int64, reason, message string) {
	Set(conds, generation, v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	Set(conds, generation, v1alpha1.ConditionReconciling, metav1.ConditionTrue, reason, message)
	Remove(conds, v1alpha1.ConditionStalled)
}

// Stalled sets Ready to False because a user must change the specification or a referent, and
// Stalled to True.
func Stalled(conds *[]metav1.Condition, generation int64, reason, message string) {
	Set(conds, generation, v1alpha1.ConditionReady, metav1.ConditionFalse, reason, message)
	Set(conds, generation, v1alpha1.ConditionStalled, metav1.ConditionTrue, reason, message)
	Remove(conds, v1alpha1.ConditionReconciling)
}

func sortByType(conds []metav1.Condition) {
	slices.SortFunc(conds, func(a, b metav1.Condition) int { return strings.Compare(a.Type, b.Type) })
}
