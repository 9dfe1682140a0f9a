package view

import (
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// GroupState is the state of a release group, without what only people read: its sentence and the services' other
// parts are not made.
type GroupState struct {
	// Microservice and Group are those of the input, to read only.
	Microservice *v1alpha1.Microservice
	Group        *v1alpha1.ReleaseGroup
	// Preview reports whether the group is a pull request.
	Preview bool
	// State of the group.
	State State
	// Rollout is the release whose rollout is in progress; nil: none.
	Rollout *v1alpha1.Release
	// Step from 1 of Steps of that rollout; 0 before the first one.
	Step, Steps int32
}

// GroupStates gives the states of all groups, in the order of the input. It is a part of what [New] gives, for readers
// that want the states of many services often.
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
