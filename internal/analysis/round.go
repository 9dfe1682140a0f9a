package analysis

import (
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Request is everything that one round needs.
type Request struct {
	// At is the time that all measurements of the round speak of, as [Due] gives it.
	At time.Time
	// Spec is the analysis of the Microservice.
	Spec v1alpha1.CanaryAnalysis
	// Canary is the release that is measured.
	Canary Target
	// Active is the release that metrics with a baseline are compared with; nil where
	// there is none, or its weight is 0.
	Active *Target
}

// clone shares nothing with r.
func (r Request) clone() Request {
	r.Spec = *r.Spec.DeepCopy()
	r.Canary.Services = slices.Clone(r.Canary.Services)
	if r.Active != nil {
		active := *r.Active
		active.Services = slices.Clone(active.Services)
		r.Active = &active
	}
	return r
}

// Target is a release that is asked about. All fields end up in queries.
type Target struct {
	// Namespace of the release.
	Namespace string
	// Microservice is its name.
	Microservice string
	// Group is the slug of the release's group.
	Group string
	// Release is the name of the VersionedMicroservice, and of the pods' label
	// hlnr.io/release.
	Release string
	// Version that it runs.
	Version string
	// Services are the names of the release's own Services, one for each
	// NetworkPolicy.
	Services []string
}

// Round is what one round found.
type Round struct {
	// At is the time that it speaks of.
	At time.Time
	// Measurements of the metrics, in the order of the specification.
	Measurements []Measurement
	// HookFailures are messages of rollout hooks that said no at this round: each
	// makes it a failed one. The caller adds them.
	HookFailures []string
	// HookErrors are messages about rollout hooks that no one answered: the round could not
	// be measured, unless something else failed it. The caller adds them.
	HookErrors []string
}

// Measurement is what became of one metric in a round.
type Measurement struct {
	// Metric is its name.
	Metric string
	// Result of the comparison with the ranges.
	Result v1alpha1.MeasurementResult
	// Value that was compared, as text; empty where there was none.
	Value string
	// Message is why there is no value, or how it came about.
	Message string
	// Baseline reports that the traffic which is missing is the active release's: no
	// policy blames the canary for that.
	Baseline bool
}

// Point names the wait that is measured. Another point begins again; what counts
// for a run is kept over its steps.
type Point struct {
	// Run is the sequence of the rollout state at which the run started.
	Run int64
	// Step from 1.
	Step int32
	// Since is the start of the wait: the time at which the step's weight was
	// confirmed, or at which the release came back after an interruption.
	Since time.Time
}
