package analysis

import (
	"slices"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// Request describes one round.
type Request struct {
	// At is the time of all measurements of the round, as returned by [Due].
	At time.Time
	// Since is when the wait began that is measured. Samples do not cover traffic from before; zero: they may.
	Since time.Time
	// Spec is the analysis of the Microservice.
	Spec v1alpha1.CanaryAnalysis
	// Canary is the release that is measured.
	Canary Target
	// Active is the release that metrics with a baseline are compared with; nil if there is
	// none, or its weight is 0.
	Active *Target
}

// clone returns a copy that shares no memory with r.
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

// Target is a release to measure. All fields are used in queries.
type Target struct {
	// Namespace of the release.
	Namespace string
	// Microservice is the name of the Microservice.
	Microservice string
	// Group is the slug of the release's group.
	Group string
	// Release is the name of the VersionedMicroservice, and of the pods' label
	// hlnr.io/release.
	Release string
	// Version of the release.
	Version string
	// Services are the names of the release's own Services, one for each
	// NetworkPolicy.
	Services []string
}

// Round is the result of one round.
type Round struct {
	// At is the time of the measurements.
	At time.Time
	// Measurements of the metrics, in the order of the specification.
	Measurements []Measurement
	// HookFailures are messages of rollout hooks that failed in this round; each makes the
	// round fail. The caller adds them.
	HookFailures []string
	// HookErrors are messages about rollout hooks that did not respond: the round could not
	// be measured, unless something else made it fail. The caller adds them.
	HookErrors []string
}

// Failed reports whether a metric that is not a dry run is outside of its ranges: the round fails whatever hooks answer.
func (r Round) Failed(spec *v1alpha1.CanaryAnalysis) bool {
	return spec != nil && slices.ContainsFunc(r.Measurements, func(m Measurement) bool {
		i := slices.IndexFunc(spec.Metrics, func(x v1alpha1.AnalysisMetric) bool { return x.Name == m.Metric })
		return m.Result == v1alpha1.MeasurementFailed && i >= 0 && !spec.Metrics[i].DryRun
	})
}

// Measurement is the result of one metric in a round.
type Measurement struct {
	// Metric is the name of the metric.
	Metric string
	// Result of the comparison with the ranges.
	Result v1alpha1.MeasurementResult
	// Value that was compared, as text; empty if there was none.
	Value string
	// Message explains why there is no value, or how it was computed.
	Message string
	// Baseline reports that it is the active release that has no traffic; the canary is not
	// blamed for that.
	Baseline bool
}

// Point identifies the wait that is measured. A new point starts a new analysis; what
// counts for a rollout is kept across its steps.
type Point struct {
	// Run is the sequence of the rollout state at which the rollout started.
	Run int64
	// Step, counted from 1.
	Step int32
	// Since is the start of the wait: the time at which the step's weight was
	// confirmed, or at which the release came back after an interruption.
	Since time.Time
}
