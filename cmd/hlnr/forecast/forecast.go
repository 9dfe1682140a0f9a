// Package forecast shows what the planner would do: it reads the facts about a Microservice, and plays the
// plans that follow from them in a world in which everything goes well. Pods are available immediately, routes
// are programmed immediately, hooks agree, measurements pass; only pauses, windows, drains and people take
// time. So the times are the shortest possible ones.
//
//	forecast.go  the facts
//	play.go      the simulation; pure
package forecast

import (
	"context"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/microservice"
	"github.com/heighliner/heighliner/internal/release"
)

// object is a release as the planner sees it.
type object = release.Object

// Facts about one Microservice.
type Facts struct {
	release.Observed
	// Problem is why nothing new would start, or nil.
	Problem error

	objects []object
	// decided is the id of the decision that was added; "" if none was.
	decided string
}

// Read reads the facts about the given Microservice, which may differ from the stored one.
func Read(ctx context.Context, c client.WithWatch, ms *v1alpha1.Microservice, now time.Time) (*Facts, error) {
	observed, problem, err := microservice.Facts(ctx, c, ms, now)
	if err != nil {
		return nil, err
	}
	return newFacts(observed, problem), nil
}

func newFacts(observed release.Observed, problem error) *Facts {
	return &Facts{Observed: observed, Problem: problem, objects: slices.Clone(observed.Objects)}
}

// Decide adds a decision about a release.
func (f *Facts) Decide(name string, d release.Decision) {
	f.decided = d.ID
	for i := range f.objects {
		if f.objects[i].Release == name {
			f.objects[i].Decision = &d
		}
	}
}
