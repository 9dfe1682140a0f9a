package versionedmicroservice

import (
	"cmp"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// rolloutState is the state of one release as recorded in its Microservice's status. The release's own status
// contains copies of some of these fields for users.
type rolloutState struct {
	release  v1alpha1.ReleaseStatus
	reason   string
	promoted bool
	step     string
	decision *v1alpha1.HandledDecision
	// attempt, run, and generation identify the rollout for analyses and hooks.
	attempt    int32
	run        *v1alpha1.Rollout
	generation int64
	// approval reports whether the step is waiting for approval.
	approval bool
	// pause is the duration of the step's pause; 0 if there is none.
	pause time.Duration
	// end is the time from which the hooks for the end of the preview are called for this release; nil if they
	// are not called for it.
	end *metav1.MicroTime
}

// continues reports whether the release is in a rollout that continues without approval.
func (m rolloutState) continues() bool { return m.run != nil && !m.approval }

// passes reports whether the release is in a step that ends soon: the step is not waiting at a gate or for approval, it has no pause
// longer than rolloutWait, and the rollout is not interrupted.
func (m rolloutState) passes() bool {
	return m.continues() && m.run.Step > 0 && m.run.Gate == "" && !m.run.Interrupted && m.pause <= rolloutWait
}

// rolloutStateOf returns the state of the named release, or the zero state if the
// Microservice does not list it.
func rolloutStateOf(ms *v1alpha1.Microservice, name string) rolloutState {
	if ms == nil {
		return rolloutState{}
	}
	for i := range ms.Status.ReleaseGroups {
		group := &ms.Status.ReleaseGroups[i]
		for j := range group.Releases {
			if row := &group.Releases[j]; row.VersionedMicroservice == name {
				m := rolloutState{
					release: row.Status, reason: row.Reason, promoted: row.Promoted > 0, step: stepText(ms, group, name), decision: row.Decision.DeepCopy(),
					attempt: row.Attempt,
				}
				if group.End != nil && group.End.Release == name {
					m.end, m.generation = &group.End.Time, ms.Generation
				}
				if group.Rollout != nil && group.Rollout.Release == name {
					m.run, m.generation = group.Rollout, ms.Generation
					m.approval = needsApproval(ms, group.Rollout)
					m.pause = pauseOf(ms, group.Rollout)
				}
				return m
			}
		}
	}
	return rolloutState{}
}

// needsApproval reports whether the current step of a rollout is waiting for approval.
func needsApproval(ms *v1alpha1.Microservice, run *v1alpha1.Rollout) bool {
	c := ms.Spec.UpdateStrategy.Canary
	return c != nil && run.Step > 0 && int(run.Step) <= len(c.Steps) && c.Steps[run.Step-1].Approval != nil && run.Continued < run.Step
}

// pauseOf returns the duration of the pause in the current step of a rollout.
func pauseOf(ms *v1alpha1.Microservice, run *v1alpha1.Rollout) time.Duration {
	c := ms.Spec.UpdateStrategy.Canary
	if c == nil || run.Step < 1 || int(run.Step) > len(c.Steps) || c.Steps[run.Step-1].Pause == nil {
		return 0
	}
	return c.Steps[run.Step-1].Pause.Duration.Std(0)
}

// stepText describes the current step of a release's rollout, for example "2/3 Paused", or names the gate
// before the first step. It returns "" if there is neither.
func stepText(ms *v1alpha1.Microservice, group *v1alpha1.ReleaseGroup, name string) string {
	run := group.Rollout
	if run == nil || run.Release != name || ms.Spec.UpdateStrategy.Canary == nil {
		return ""
	}
	if run.Step < 1 {
		return string(run.Gate)
	}
	steps := ms.Spec.UpdateStrategy.Canary.Steps
	if int(run.Step) > len(steps) {
		return ""
	}
	step := steps[run.Step-1]
	word := "Programming"
	switch {
	case run.Interrupted:
		word = "Interrupted"
	case run.Gate != "":
		word = string(run.Gate)
	case needsApproval(ms, run):
		word = "Approval"
		if step.Name != "" {
			word += " " + step.Name
		}
	case step.Pause != nil:
		word = "Paused"
	case run.WaitingSince != nil && measures(ms.Spec.UpdateStrategy.Canary):
		word = "Analysis"
	}
	return fmt.Sprintf("%d/%d %s", run.Step, len(steps), word)
}

func (m rolloutState) equal(other rolloutState) bool {
	return m.release == other.release && m.reason == other.reason && m.promoted == other.promoted && m.step == other.step &&
		m.attempt == other.attempt && m.generation == other.generation &&
		equality.Semantic.DeepEqual(m.decision, other.decision) && equality.Semantic.DeepEqual(m.run, other.run) && equality.Semantic.DeepEqual(m.end, other.end)
}

// into copies the state to a status. If the Microservice records no value for status.release or
// status.lastHandledDecision, the field keeps its previous value.
func (m rolloutState) into(s *v1alpha1.VersionedMicroserviceStatus) {
	s.Step = m.step
	s.Release = cmp.Or(m.release, s.Release)
	if m.decision != nil {
		s.LastHandledDecision = m.decision
	}
}
