// Package forecast predicts the decisions of the planner. It reads the facts about a Microservice, and simulates the
// plans that follow from these facts. The simulation assumes that pods become available immediately, routes are
// programmed immediately, measurements pass, and hooks and users approve. Only pauses, windows, freezes and drains take time. The times of a
// forecast are therefore the earliest possible times.
//
//	forecast.go  reads the facts
//	play.go      the simulation, as pure functions
package forecast

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice"
	"github.com/heighliner/heighliner/internal/freeze"
	"github.com/heighliner/heighliner/internal/release"
)

// object is a release in the planner's representation.
type object = release.Object

// Facts are the facts about one Microservice from which the planner makes its plan.
type Facts struct {
	release.Observed
	// Problem is the reason why no new release would start, or nil.
	Problem error

	objects []object
	// windows are the windows of the steps, in the order of the steps. An entry is nil if the step has no window.
	windows []*v1alpha1.DeployWindow
	// freezes contains all freezes. If there are any, the simulation derives Spec.Freeze from them at each point in time.
	freezes freeze.Calendar
	// decided is the ID of the decision that [Facts.Decide] added, or empty.
	decided string
}

// Read reads the facts about a Microservice. The given object can differ from the stored object.
func Read(ctx context.Context, c client.WithWatch, ms *v1alpha1.Microservice, now time.Time) (*Facts, error) {
	observed, freezes, problem, err := microservice.Facts(ctx, c, ms, now)
	if err != nil {
		return nil, err
	}
	f := newFacts(observed, problem)
	f.windows, f.freezes = windowsOf(ms), freezes
	return f, nil
}

func newFacts(observed release.Observed, problem error) *Facts {
	return &Facts{Observed: observed, Problem: problem, objects: slices.Clone(observed.Objects)}
}

// windowsOf returns the window of each step of a Microservice.
func windowsOf(ms *v1alpha1.Microservice) (out []*v1alpha1.DeployWindow) {
	if c := ms.Spec.UpdateStrategy.Canary; c != nil {
		for _, st := range c.Steps {
			out = append(out, st.Window)
		}
	}
	return out
}

// Decide adds a decision about a release to the facts.
func (f *Facts) Decide(name string, d release.Decision) {
	f.decided = d.ID
	for i := range f.objects {
		if f.objects[i].Release == name {
			f.objects[i].Decision = &d
		}
	}
}
