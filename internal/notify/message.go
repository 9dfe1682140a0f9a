package notify

import (
	"cmp"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/internal/view"
)

// APIVersion of messages as JSON.
const APIVersion = "notifications.hlnr.io/v1"

// Severity of a message.
type Severity string

// The severities of messages.
const (
	Info    Severity = "info"
	Success Severity = "success"
	Warning Severity = "warning"
	Failure Severity = "error"
)

// Message about a release. Fields are only ever added.
type Message struct {
	// APIVersion is the constant of that name.
	APIVersion string `json:"apiVersion"`
	// ID identifies the message. Retries have the same ID.
	ID string `json:"id"`
	// Thread is the same for all messages about one rollout of a release.
	Thread string `json:"thread"`
	// Event that is reported, its Severity, and the Time of the transition.
	Event    v1alpha1.NotificationEvent `json:"event"`
	Severity Severity                   `json:"severity"`
	Time     time.Time                  `json:"time"`
	// Title is one line for users.
	Title string `json:"title"`
	// Brief is Title without cause, user and note, which not all readers of a repository may see.
	Brief string `json:"-"`
	// Policy and Receiver that the message is for.
	Policy   string `json:"policy"`
	Receiver string `json:"receiver"`
	// Namespace, Microservice, Group and Release that it is about.
	Namespace    string `json:"namespace"`
	Microservice string `json:"microservice"`
	Group        string `json:"group"`
	Release      string `json:"release"`
	// Version of the release, and the one that was active before, or is; "" for none.
	Version         string `json:"version"`
	PreviousVersion string `json:"previousVersion"`
	// PullRequest of a preview; 0 for none.
	PullRequest int64 `json:"pullRequest"`
	// Step from 1 of Steps; 0 outside of steps.
	Step  int32 `json:"step"`
	Steps int32 `json:"steps"`
	// Weight of the release in percent.
	Weight int32 `json:"weight"`
	// Reason is one word, and Cause a sentence: the cause of a wait or failure.
	Reason string `json:"reason"`
	Cause  string `json:"cause"`
	// By is the user who decided, and Note what they wrote.
	By   string `json:"by"`
	Note string `json:"note"`
	// Image of the release with its digest, and the Commit it was built from, as far as known.
	Image  string `json:"image"`
	Commit string `json:"commit"`
	// Command is the most likely next command of the user.
	Command string `json:"command"`
	// URL of the release on the board.
	URL string `json:"url"`
}

// About is the input of a message.
type About struct {
	// Policy and Receiver, whose credentials are not needed.
	Policy   *v1alpha1.NotificationPolicy
	Receiver *v1alpha1.NotificationReceiver
	// Delivery that names the release.
	Delivery v1alpha1.NotificationDelivery
	// State of the release; nil if it is gone.
	State *view.ReleaseState
	Fact  Fact
	ID    string
}

// NewMessage returns a message.
func NewMessage(a About) Message {
	d := a.Delivery
	m := Message{
		APIVersion: APIVersion, ID: a.ID, Event: a.Fact.Event, Severity: severityOf(a.Fact.Event), Time: a.Fact.Time.UTC(),
		Policy: a.Policy.Name, Receiver: a.Receiver.Name,
		Namespace: cmp.Or(d.Namespace, a.Policy.Namespace), Microservice: d.Microservice, Release: d.Release, Version: d.Version, Step: a.Fact.Step,
	}
	run := a.Fact.Run
	if Ended(a.Fact.Event) {
		run = d.Run
	}
	m.Thread = hash(string(a.Policy.UID), a.Receiver.Name, m.Namespace, m.Microservice, m.Release, fmt.Sprint(run))
	if a.State != nil {
		m.describe(*a.State)
	}
	if base := strings.TrimSuffix(a.Policy.Spec.BoardURL, "/"); base != "" {
		m.URL = base + "/services/" + url.PathEscape(m.Namespace) + "/" + url.PathEscape(m.Microservice)
		if a.State != nil {
			m.URL += "/releases/" + url.PathEscape(m.Release)
		}
	}
	m.Title = status.Line(m.title(a.Fact.Wait))
	brief := m
	brief.Cause, brief.By, brief.Note = "", "", ""
	m.Brief = status.Line(brief.title(a.Fact.Wait))
	return m
}

// describe adds the details of a release.
func (m *Message) describe(s view.ReleaseState) {
	row := s.Row
	m.Group, m.PullRequest, m.Steps, m.Weight = cmp.Or(s.Group.Name, s.Group.Slug), s.Group.PullRequest, s.Steps, row.Weight
	m.Reason, m.Cause = cmp.Or(s.State.Reason, row.Reason), status.Line(s.State.Detail)
	m.By, m.Note, m.PreviousVersion = status.Line(s.State.By), status.Line(s.State.Note), previousOf(s)
	if s.Object != nil {
		m.Commit = s.Object.Annotations[v1alpha1.AnnotationCommit]
		if len(s.Object.Spec.Images) > 0 {
			m.Image = s.Object.Spec.Images[0].Image
		}
	}
	if len(s.State.Next) > 0 && (m.Severity == Warning || m.Severity == Failure) {
		m.Command = s.State.Next[0].Command
	}
}

// previousOf returns the version that a release replaces or replaced, or by which it was replaced, or
// "".
func previousOf(s view.ReleaseState) string {
	for i := range s.Group.Releases {
		r := &s.Group.Releases[i]
		if r == s.Row || r.VersionedMicroservice == s.Row.VersionedMicroservice {
			continue
		}
		was := s.Row.Status == v1alpha1.ReleaseActive && r.Promoted > 0 && r.Promoted == s.Row.Promoted-1
		if was || s.Row.Status != v1alpha1.ReleaseActive && r.Status == v1alpha1.ReleaseActive {
			return r.SemVer.Version
		}
	}
	return ""
}

// severityOf returns the severity of an event.
func severityOf(e v1alpha1.NotificationEvent) Severity {
	switch e {
	case v1alpha1.NotifyPromoted:
		return Success
	case v1alpha1.NotifyWaiting, v1alpha1.NotifyRestored, v1alpha1.NotifyAborted:
		return Warning
	case v1alpha1.NotifyRolledBack, v1alpha1.NotifyFailed:
		return Failure
	}
	return Info
}

// title returns the one line of a message.
func (m *Message) title(wait string) string {
	text := m.Microservice + " " + status.Short(m.Version)
	cause, at := "", ""
	if m.Cause != "" && wait != string(view.WordPaused) {
		cause = ": " + m.Cause
	}
	if m.Step > 0 && m.Steps > 0 {
		at = fmt.Sprintf(" at %d %% (step %d of %d)", m.Weight, m.Step, m.Steps)
	}
	previous := status.Short(m.PreviousVersion)
	switch m.Event {
	case v1alpha1.NotifyStarted:
		text += " started"
		if previous != "" {
			text += ", " + previous + " is active"
		}
	case v1alpha1.NotifyStep:
		text += " is a canary" + at
	case v1alpha1.NotifyWaiting:
		text += " " + waitText(wait) + at + cause
	case v1alpha1.NotifyPromoted:
		text += " is active"
		if previous != "" {
			text += " and replaced " + previous
		}
	case v1alpha1.NotifyRestored:
		text += " is active again"
		if previous != "" {
			text += " and replaced " + previous
		}
	case v1alpha1.NotifyRolledBack:
		text += " was rolled back" + cause
	case v1alpha1.NotifyFailed:
		text += " failed" + cause
	case v1alpha1.NotifyAborted:
		text += " was aborted" + m.decided()
	case v1alpha1.NotifySuperseded:
		text += " was superseded by a newer release"
	case v1alpha1.NotifyRemoved:
		text += " was removed before its rollout ended"
	case v1alpha1.NotifyDeprecated:
		text += " was replaced"
		if previous != "" {
			text += " by " + previous
		}
	}
	return text
}

// decided returns by whom, and with which reason.
func (m *Message) decided() (text string) {
	if m.By != "" {
		text = " by " + m.By
	}
	if m.Note != "" {
		text += fmt.Sprintf(": %q", m.Note)
	}
	return text
}

// waitText describes what a rollout waits for.
func waitText(word string) string {
	switch view.Word(word) {
	case view.WordApproval:
		return "waits for approval"
	case view.WordInconclusive:
		return "waits for a decision, its analysis is inconclusive"
	case view.WordNoTraffic:
		return "waits for requests to measure"
	case view.WordTogetherHeld:
		return "waits for a decision, it failed elsewhere"
	case view.WordPaused:
		return "is paused"
	}
	return "waits for a decision"
}
