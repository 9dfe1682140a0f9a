package view

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Word identifies a state for programs.
type Word string

// The states.
const (
	// WordActive means that a release serves traffic. WordUnavailable means that a release is active, but has too few
	// available pods or no programmed route.
	WordActive      Word = "Active"
	WordUnavailable Word = "Unavailable"
	// WordPinned means that a release serves traffic because of a pin.
	WordPinned Word = "Pinned"
	// WordRetained means that a release was active and is retained for a rollback.
	WordRetained Word = "Retained"
	// WordDraining means that a release or a group is being removed.
	WordDraining Word = "Draining"
	// WordSuperseded means that a newer version replaced a rollout in progress.
	WordSuperseded Word = "Superseded"

	// States of a rollout in progress.
	WordStarting     Word = "Starting"
	WordProgressing  Word = "Progressing"
	WordPause        Word = "Pause"
	WordApproval     Word = "Approval"
	WordAnalysis     Word = "Analysis"
	WordInconclusive Word = "Inconclusive"
	WordNoTraffic    Word = "NoTraffic"
	WordProgramming  Word = "Programming"
	WordInterrupted  Word = "Interrupted"
	WordBlocked      Word = "Blocked"
	WordRetryTime    Word = "RetryTime"
	WordGate         Word = "Gate"
	WordTogether     Word = "Together"
	WordTogetherHeld Word = "TogetherHeld"
	WordWindow       Word = "Window"
	WordPaused       Word = "Paused"
	WordFrozen       Word = "Frozen"

	// Results of a rollout.
	WordRolledBack Word = "RolledBack"
	WordFailed     Word = "Failed"
	WordAborted    Word = "Aborted"

	// WordProblem means that a condition of the service shows a problem of the service itself.
	WordProblem Word = "Problem"
	// WordEmpty means that there is no active release and no rollout in progress.
	WordEmpty Word = "Empty"

	// States of previews.
	WordForkApproval Word = "ForkApproval"
	WordNoSlot       Word = "NoSlot"
	WordExpired      Word = "Expired"
)

// State describes what a service, group or release is doing or waiting for, when this began and
// when it ends, and what the user can do.
type State struct {
	Word  Word  `json:"word"`
	Class Class `json:"class"`
	// Version is the version that the state is about, if that differs from the version of the object.
	Version string `json:"version,omitempty"`
	// Release is the name of the release that the state is about. It is set only if several releases of the service have the version. It is not part of
	// the JSON form.
	Release string `json:"-"`
	// Reason is the API reason on which the state is based.
	Reason string `json:"reason,omitempty"`
	// Detail is the cause of a wait or failure.
	Detail string `json:"detail,omitempty"`
	// Step is the current step, counted from 1, and Steps is the number of steps. They are 0 if there is no current step. Weight is the weight in
	// percent, or nil if there is no current step.
	Step   int32  `json:"step,omitempty"`
	Steps  int32  `json:"steps,omitempty"`
	Weight *int32 `json:"weight,omitempty"`
	// Since is when the state began, or nil if that is not known. Until is the latest time at which the state ends, or nil if that is not known or there is
	// no limit.
	Since *metav1.Time `json:"since,omitempty"`
	Until *metav1.Time `json:"until,omitempty"`
	// Outage reports whether an exclusive group has no serving pod because the pods of its active release were stopped for another release.
	Outage bool `json:"outage,omitempty"`
	// By is the user who set the pin or aborted the rollout, and Note is the reason that the user gave.
	By   string `json:"by,omitempty"`
	Note string `json:"note,omitempty"`
	// Sentence describes the state for users, at the time of the view.
	Sentence string `json:"sentence"`
	// Next are the commands for the actions that the user can take, the most likely command first.
	Next []Action `json:"next,omitempty"`
}

// Action is an action that a user can take.
type Action struct {
	// Verb is the verb of the command. Buttons also use it.
	Verb string `json:"verb"`
	// Command is the command to copy.
	Command string `json:"command"`
	// Target is the version or the name of the release to which the action applies. It is empty if the action
	// applies to the service.
	Target string `json:"target,omitempty"`
	// Group is the group in the command. It is empty if the command needs no group.
	Group string `json:"group,omitempty"`
}

// sentence returns a sentence that describes a state at a given time, in the time zone of the user.
func (s State) sentence(now time.Time) string {
	text := s.what(now)
	if s.By != "" {
		text += " by " + s.By
	}
	if s.Detail != "" && !s.includesDetail() {
		text += ": " + s.Detail
	}
	if s.Note != "" {
		text += fmt.Sprintf(": %q", s.Note)
	}
	if s.Word == WordPinned && s.Detail != "" { // The note belongs to the pin, not to the detail.
		text += "; " + s.Detail
	}
	if s.Outage {
		text += "; no pod serves traffic"
	}
	return text
}

// includesDetail reports whether sentence must not add the detail directly after the user: the result of the what method
// already includes the detail, the detail follows the note (WordPinned), or users do not see it (WordForkApproval).
func (s State) includesDetail() bool {
	switch s.Word {
	case WordPinned, WordProgramming, WordTogether, WordProblem, WordEmpty, WordForkApproval, WordWindow, WordGate, WordExpired, WordBlocked, WordFrozen:
		return true
	}
	return false
}

// what returns the sentence without the parts that the sentence method adds: the user, the note, the outage and, for some
// states, the detail.
func (s State) what(now time.Time) string {
	switch s.Word {
	case WordActive:
		return "active" + s.age(" ", now)
	case WordUnavailable:
		return "active" + s.age(" ", now) + ", not available"
	case WordPinned:
		return "pinned to " + s.Version + s.until(" until ", now)
	case WordRetained:
		return "retained" + s.age(" ", now)
	case WordDraining:
		return "draining" + s.age(" for ", now)
	case WordSuperseded, WordRolledBack, WordAborted, WordFailed:
		return s.ended(now)
	case WordForkApproval, WordNoSlot, WordExpired:
		return s.ofPreview(now)
	case WordProblem, WordEmpty:
		return cmp.Or(s.Detail, s.Reason, string(s.Word))
	}
	return s.waits(now)
}

// ended returns a sentence that describes a rollout that has ended.
func (s State) ended(now time.Time) string {
	text := map[Word]string{WordSuperseded: "superseded", WordRolledBack: "rolled back", WordAborted: "aborted", WordFailed: "failed"}[s.Word]
	if s.Since != nil {
		text += " " + Age(now.Sub(s.Since.Time)) + " ago"
	}
	return text
}

// waits returns a sentence that describes a rollout in progress.
func (s State) waits(now time.Time) string {
	switch s.Word {
	case WordStarting:
		return "starting" + s.age(" for ", now)
	case WordProgressing:
		return s.StepText() + "proceeds"
	case WordPause:
		return s.StepText() + "pause" + s.ends(now)
	case WordApproval:
		return "waits for approval" + s.since(now)
	case WordAnalysis:
		return "waits for analysis"
	case WordInconclusive:
		return "waits for a decision" + s.since(now) + "; its analysis is inconclusive"
	case WordNoTraffic:
		return "waits for requests or work to measure" + s.since(now)
	case WordProgramming:
		return "waits for " + s.Detail + s.age(", ", now)
	case WordInterrupted:
		return s.StepText() + "interrupted"
	case WordBlocked:
		return "waits for " + s.Detail + s.age(", ", now)
	case WordRetryTime:
		return "waits until " + s.until("", now) + " before the next attempt"
	case WordGate:
		return "waits for " + s.Detail + s.since(now)
	case WordTogether:
		return "waits for " + s.Detail + " (rolled out together)"
	case WordTogetherHeld:
		return "waits for a decision because the version failed in another Microservice"
	case WordWindow:
		return "waits for the window " + s.Detail + s.opens(now)
	case WordPaused:
		return "paused"
	case WordFrozen:
		if strings.HasPrefix(s.Detail, "frozen ") {
			return "waits, " + s.Detail
		}
		return s.Detail
	}
	return strings.ToLower(string(s.Word))
}

// ofPreview returns a sentence that describes a pull request without a release.
func (s State) ofPreview(now time.Time) string {
	switch s.Word {
	case WordForkApproval:
		return "waits for approval (fork)"
	case WordNoSlot:
		return "waits for a preview slot" + s.since(now)
	}
	return "expired: " + s.Detail
}

// StepText returns the start of sentences about a step, such as "step 2 of 4 (50%), ", or an empty string if there is
// no current step.
func (s State) StepText() string {
	if s.Step == 0 {
		return ""
	}
	text := fmt.Sprintf("step %d of %d", s.Step, s.Steps)
	if s.Weight != nil {
		text += fmt.Sprintf(" (%d%%)", *s.Weight)
	}
	return text + ", "
}

// age returns a separator and how long the state has lasted. It returns an empty string if this duration is not known.
func (s State) age(before string, now time.Time) string {
	if s.Since == nil {
		return ""
	}
	return before + Age(now.Sub(s.Since.Time))
}

// since returns when the state began, as in " since 14:02".
func (s State) since(now time.Time) string {
	if s.Since == nil {
		return ""
	}
	return " since " + Clock(s.Since.Time, now)
}

// until returns a prefix and the time at which the state ends. It returns an empty string if this time is not known.
func (s State) until(before string, now time.Time) string {
	if s.Until == nil {
		return ""
	}
	return before + Clock(s.Until.Time, now)
}

// ends returns when a pause ends.
func (s State) ends(now time.Time) string {
	switch {
	case s.Until == nil:
		return ""
	case !s.Until.After(now):
		return " ends now"
	}
	return " ends in " + Age(s.Until.Sub(now))
}

// opens returns when a window opens.
func (s State) opens(now time.Time) string {
	if s.Until == nil || !s.Until.After(now) {
		return ""
	}
	return ", opens in " + Age(s.Until.Sub(now))
}
