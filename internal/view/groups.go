package view

import (
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// GroupState is the state of a release group. Unlike in a Service, State.Sentence is empty.
type GroupState struct {
	// Microservice and Group are parts of the input. Do not change them.
	Microservice *v1alpha1.Microservice
	Group        *v1alpha1.ReleaseGroup
	// Preview reports whether the group belongs to a pull request.
	Preview bool
	// State is the state of the group.
	State State
	// Rollout is the release whose rollout is in progress, or nil.
	Rollout *v1alpha1.Release
	// Step is the current step of that rollout, counted from 1, and Steps is the number of steps. Step is 0 before the first step.
	Step, Steps int32
}

// GroupStates returns the states of all groups, in the order of the input. It costs less than [New]. Use it for
// frequent reads of many services.
func GroupStates(in Input, now time.Time) []GroupState {
	x := newIndex(in, now)
	out := make([]GroupState, 0, len(in.Microservices))
	for i := range in.Microservices {
		s := x.service(&in.Microservices[i])
		for j := range s.ms.Status.ReleaseGroups {
			g := &s.ms.Status.ReleaseGroups[j]
			r := s.rollout(g)
			state := GroupState{Microservice: s.ms, Group: g, Preview: isPreview(g), State: s.groupState(g, r)}
			if r != nil {
				state.Rollout, state.Step, state.Steps = r.row, r.step, int32(len(r.steps))
			}
			out = append(out, state)
		}
	}
	return out
}

// ReleaseState is the state of a release. Unlike in a Service, State.Sentence is empty.
type ReleaseState struct {
	// Microservice, Group and Row are parts of the input. Do not change them.
	Microservice *v1alpha1.Microservice
	Group        *v1alpha1.ReleaseGroup
	Row          *v1alpha1.Release
	// Object is the object of the release. It is nil if the object does not exist or was not read.
	Object *v1alpha1.VersionedMicroservice
	// Preview reports whether the release belongs to a pull request.
	Preview bool
	// Rollout reports whether a rollout of the release is in progress. Sequence is its sequence number.
	Rollout  bool
	Sequence int64
	// Step is the current step of that rollout, counted from 1, and Steps is the number of steps. Step is 0 before the first step.
	Step, Steps int32
	// State is the state of the release. The commands in Next include the namespace.
	State State
}

// ReleaseStates returns the states of all releases of the Microservices for which chosen returns true, in the order of the input.
func ReleaseStates(in Input, now time.Time, chosen func(*v1alpha1.Microservice) bool) (out []ReleaseState) {
	x := newIndex(in, now)
	for i := range in.Microservices {
		if !chosen(&in.Microservices[i]) {
			continue
		}
		s := x.service(&in.Microservices[i])
		for j := range s.ms.Status.ReleaseGroups {
			g := &s.ms.Status.ReleaseGroups[j]
			r := s.rollout(g)
			for k := range g.Releases {
				row := &g.Releases[k]
				state := ReleaseState{Microservice: s.ms, Group: g, Row: row, Object: s.release(row.VersionedMicroservice), Preview: isPreview(g), State: s.releaseState(g, row, r)}
				if r != nil && r.row == row {
					state.Rollout, state.Sequence, state.Step, state.Steps = true, r.sequence, r.step, int32(len(r.steps))
				}
				out = append(out, state)
			}
		}
	}
	return out
}
