// Package notify decides which transitions of releases are reported to receivers, builds the messages, and sends
// them. docs/explanation/notifications.md explains what is reported, how often, and why.
// The functions in the files that are marked as pure have no side effects.
//
//	facts.go        which transitions of a release can be reported now (pure)
//	due.go          which transition to report to a receiver next, and the record of reported transitions (pure); controllers/notification/send_and_retry.go retries messages
//	message.go      messages and their text (pure)
//	template.go     bodies from users' templates (pure)
//	cloudevents.go  CloudEvents that contain CDEvents (pure)
//	chat.go         the parts of messages for chats (pure)
//	slack.go        messages for Slack
//	teams.go        cards for Microsoft Teams (pure)
//	discord.go      messages for Discord
//	githubstatus.go commit statuses on GitHub
//	send.go         sends one message to one receiver over HTTP
//	errors.go       errors for messages that are not accepted
package notify

import (
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/view"
)

// Key identifies a release.
type Key struct{ Namespace, Release string }

// Fact is a transition that can be reported about a release now.
type Fact struct {
	// Event is the event of the release.
	Event v1alpha1.NotificationEvent
	// Run is the sequence number of the rollout in progress, and Step is its step, counted from 1. Step is 0 before the first
	// step. Both are 0 after the end of a rollout.
	Run  int64
	Step int32
	// Wait is the state in which the rollout is waiting for a user. It is empty if the rollout is not waiting
	// for a user.
	Wait string
	// Time is the time of the transition. During a rollout, this time may be approximate.
	Time time.Time
}

// Ended reports whether an event is about a release without a rollout in progress.
func Ended(e v1alpha1.NotificationEvent) bool {
	return e != v1alpha1.NotifyStarted && e != v1alpha1.NotifyStep && e != v1alpha1.NotifyWaiting
}

// KeyOf returns the key of a release.
func KeyOf(s view.ReleaseState) Key {
	return Key{s.Microservice.Namespace, s.Row.VersionedMicroservice}
}

// FactsOf returns the facts of a release. The last fact shows the current state of the release. FactsOf returns no facts
// if the release is new, or if not enough is known about its state.
func FactsOf(s view.ReleaseState) []Fact {
	if s.Rollout {
		return factsOfRollout(s)
	}
	event := endOf(s)
	if event == "" {
		return nil
	}
	return []Fact{{Event: event, Time: s.Row.LastTransitionTime.Time}}
}

// factsOfRollout returns the facts of a release with a rollout in progress.
func factsOfRollout(s view.ReleaseState) []Fact {
	started := s.Group.Rollout.StartedTime.Time
	facts := []Fact{{Event: v1alpha1.NotifyStarted, Run: s.Sequence, Time: started}}
	if s.Step > 0 {
		facts = append(facts, Fact{Event: v1alpha1.NotifyStep, Run: s.Sequence, Step: s.Step, Time: started})
	}
	if s.State.Class == view.Waiting {
		at := started
		if s.State.Since != nil {
			at = s.State.Since.Time
		}
		facts = append(facts, Fact{Event: v1alpha1.NotifyWaiting, Run: s.Sequence, Step: s.Step, Wait: string(s.State.Word), Time: at})
	}
	return facts
}

// endOf returns the event for a release that has no rollout in progress. It returns an empty string if there is no
// such event, or if the status of the release was recovered because the rollout state was lost.
func endOf(s view.ReleaseState) v1alpha1.NotificationEvent {
	row := s.Row
	reason := release.Reason(row.Reason)
	if reason == release.Rebuilt {
		return ""
	}
	switch row.Status {
	case v1alpha1.ReleaseActive:
		if slices.Contains([]release.Reason{release.Promoted, release.First, release.Adopted}, reason) {
			return v1alpha1.NotifyPromoted
		}
		return v1alpha1.NotifyRestored
	case v1alpha1.ReleaseError:
		switch s.State.Word {
		case view.WordAborted:
			return v1alpha1.NotifyAborted
		case view.WordRolledBack:
			return v1alpha1.NotifyRolledBack
		}
		return v1alpha1.NotifyFailed
	case v1alpha1.ReleaseDeprecated:
		switch {
		case row.Promoted > 0:
			return v1alpha1.NotifyDeprecated
		case reason == release.Superseded:
			return v1alpha1.NotifySuperseded
		}
		return v1alpha1.NotifyRemoved
	}
	return ""
}
