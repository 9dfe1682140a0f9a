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

// APIVersion is the version of the JSON form of messages.
const APIVersion = "notifications.hlnr.io/v1"

// Severity is the severity of a message.
type Severity string

// The severities of messages.
const (
	Info    Severity = "info"
	Success Severity = "success"
	Warning Severity = "warning"
	Failure Severity = "error"
)

// Message is a message about a release. Later versions only add fields.
type Message struct {
	// APIVersion is the constant APIVersion.
	APIVersion string `json:"apiVersion"`
	// ID identifies the message. Retries have the same ID.
	ID string `json:"id"`
	// Thread is the same for all messages about one rollout of a release.
	Thread string `json:"thread"`
	// Event is the reported event, Severity is its severity, and Time is the time of the transition.
	Event    v1alpha1.NotificationEvent `json:"event"`
	Severity Severity                   `json:"severity"`
	Time     time.Time                  `json:"time"`
	// Title is the text of the message, on one line.
	Title string `json:"title"`
	// Brief is Title without the cause, the user and the note, which some readers of a repository are not allowed to see.
	Brief string `json:"-"`
	// Policy and Receiver identify the receiver of the message.
	Policy   string `json:"policy"`
	Receiver string `json:"receiver"`
	// Namespace, Microservice, Group and Release identify the release that the message is about.
	Namespace    string `json:"namespace"`
	Microservice string `json:"microservice"`
	Group        string `json:"group"`
	Release      string `json:"release"`
	// Version is the version of the release. PreviousVersion is the version that the release replaces or replaced, or the version
	// that replaced the release.
	Version         string `json:"version"`
	PreviousVersion string `json:"previousVersion"`
	// PullRequest is the number of the pull request of a preview. 0 means that the release is not a preview.
	PullRequest int64 `json:"pullRequest"`
	// Step is the current step, counted from 1, and Steps is the number of steps. Step is 0 if the release is
	// not in a step.
	Step  int32 `json:"step"`
	Steps int32 `json:"steps"`
	// Weight is the weight of the release in percent.
	Weight int32 `json:"weight"`
	// Reason is one word and Cause is a sentence. They describe the cause of a wait or a failure.
	Reason string `json:"reason"`
	Cause  string `json:"cause"`
	// By is the user who made the decision on which the state of the release is based, for example to abort its rollout, and Note
	// is the reason that the user gave. Both are empty if there is no such decision.
	By   string `json:"by"`
	Note string `json:"note"`
	// Image is the image of the release with its digest, and Commit is the commit from which the image was built. Each of them is
	// empty if it is not known.
	Image  string `json:"image"`
	Commit string `json:"commit"`
	// Command is the command that the user most likely needs next.
	Command string `json:"command"`
	// URL is the address of the release on the board, or of the Microservice if the release no longer exists. It is empty if the
	// policy does not set boardURL.
	URL string `json:"url"`
}

// About contains the input for a message.
type About struct {
	// Policy and Receiver identify the receiver. The credentials of the receiver are not needed.
	Policy   *v1alpha1.NotificationPolicy
	Receiver *v1alpha1.NotificationReceiver
	// Delivery identifies the release.
	Delivery v1alpha1.NotificationDelivery
	// State is the state of the release. It is nil if the release no longer exists.
	State *view.ReleaseState
	Fact  Fact
	ID    string
}

// NewMessage returns the message about a fact.
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

// previousOf returns the version that a release replaces or replaced, or the version that replaced the release. It
// returns an empty string if there is no such version.
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

// title returns the title of a message, which is one line.
func (m *Message) title(wait string) string {
	text := m.Microservice + " " + status.Short(m.Version)
	cause, at := "", ""
	if m.Cause != "" && wait != string(view.WordPaused) {
		cause = ": " + m.Cause
	}
	if m.Step > 0 && m.Steps > 0 {
		at = fmt.Sprintf(" at %d%% (step %d of %d)", m.Weight, m.Step, m.Steps)
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
		text += " was superseded"
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

// decided returns the end of a title, with the user who made the decision and the reason that the user gave.
func (m *Message) decided() (text string) {
	if m.By != "" {
		text = " by " + m.By
	}
	if m.Note != "" {
		text += fmt.Sprintf(": %q", m.Note)
	}
	return text
}

// waitText describes why a rollout is waiting.
func waitText(word string) string {
	switch view.Word(word) {
	case view.WordApproval:
		return "waits for approval"
	case view.WordInconclusive:
		return "waits for a decision because its analysis is inconclusive"
	case view.WordNoTraffic:
		return "waits for requests or work to measure"
	case view.WordTogetherHeld:
		return "waits for a decision because the version failed in another Microservice"
	case view.WordPaused:
		return "is paused"
	}
	return "waits for a decision"
}
