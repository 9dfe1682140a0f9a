package versionedmicroservice

import (
	"cmp"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"

	hlnr "github.com/heighliner/heighliner/apis/v1alpha1"
)

// mirror is what a release repeats from its Microservice's ledger, for the reader.
type mirror struct {
	release  hlnr.ReleaseStatus
	reason   string
	promoted bool
	step     string
	decision *hlnr.HandledDecision
	// attempt, run and the generation of its settings are what measuring and hooks go
	// by, besides.
	attempt    int32
	run        *hlnr.ReleaseRun
	generation int64
}

// mirrorOf reads the row of the release of that name; the zero mirror where there
// is none.
func mirrorOf(ms *hlnr.Microservice, name string) mirror {
	if ms == nil {
		return mirror{}
	}
	for i := range ms.Status.ReleaseGroups {
		group := &ms.Status.ReleaseGroups[i]
		for j := range group.Releases {
			if row := &group.Releases[j]; row.VersionedMicroservice == name {
				m := mirror{
					release: row.Status, reason: row.Reason, promoted: row.Promoted > 0, step: stepOf(ms, group, name), decision: row.Decision.DeepCopy(),
					attempt: row.Attempt,
				}
				if group.Run != nil && group.Run.Release == name {
					m.run, m.generation = group.Run, ms.Generation
				}
				return m
			}
		}
	}
	return mirror{}
}

// stepOf words the step of a run, as in "2/3 Paused", or the gate before it; empty
// outside of the steps.
func stepOf(ms *hlnr.Microservice, group *hlnr.ReleaseGroup, name string) string {
	run := group.Run
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
	case step.Approval != nil && run.Continued < run.Step:
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

// changedRows names the releases whose mirror differs between two states of a
// Microservice; before may be nil.
func changedRows(before, now *hlnr.Microservice) []string {
	var names []string
	for i := range now.Status.ReleaseGroups {
		for j := range now.Status.ReleaseGroups[i].Releases {
			name := now.Status.ReleaseGroups[i].Releases[j].VersionedMicroservice
			if before == nil || !mirrorOf(before, name).equal(mirrorOf(now, name)) {
				names = append(names, name)
			}
		}
	}
	return names
}

func (m mirror) equal(other mirror) bool {
	return m.release == other.release && m.reason == other.reason && m.promoted == other.promoted && m.step == other.step &&
		m.attempt == other.attempt && m.generation == other.generation &&
		equality.Semantic.DeepEqual(m.decision, other.decision) && equality.Semantic.DeepEqual(m.run, other.run)
}

// into writes the mirror into a status. What the ledger does not say (any more)
// stays as it was said last.
func (m mirror) into(s *hlnr.VersionedMicroserviceStatus) {
	s.Step = m.step
	s.Release = cmp.Or(m.release, s.Release)
	if m.decision != nil {
		s.LastHandledDecision = m.decision
	}
}
