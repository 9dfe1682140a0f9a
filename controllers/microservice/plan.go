package microservice

import (
	"slices"
	"time"

	"github.com/heighliner/heighliner/internal/release"
)

// plan contains the writes for one Microservice.
type plan struct {
	release.Result
	// adoption is the progress of the takeover from a Deployment; nil if there is no takeover, or if it is complete.
	adoption *adoption
}

// newPlan computes the plan of a reconcile. It is pure.
func newPlan(o *observed, now time.Time) plan {
	p := plan{Result: release.Plan(o.facts, now)}
	if o.adopting {
		p.adoption = adopt(o, now)
	}
	return p
}

func planned(plan release.Result, name string) bool {
	return slices.ContainsFunc(plan.Ensure, func(e release.Ensure) bool { return e.Release == name }) ||
		slices.ContainsFunc(plan.Retire, func(x release.Retire) bool { return x.Release == name })
}
