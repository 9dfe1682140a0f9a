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
	// Since is the start of the wait during which the canary is measured. Samples cover only traffic after this time. If Since is zero,
	// they may cover earlier traffic.
	Since time.Time
	// Spec is the analysis of the Microservice.
	Spec v1alpha1.CanaryAnalysis
	// Canary is the release that is measured.
	Canary Target
	// Active is the release to which metrics with a baseline compare the canary. It is nil if there is no such release, or if the weight of the
	// release is 0.
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
	// Namespace is the namespace of the release.
	Namespace string
	// Microservice is the name of the Microservice.
	Microservice string
	// Group is the slug of the group of the release.
	Group string
	// Release is the name of the VersionedMicroservice, and the value of the hlnr.io/release label of the pods.
	Release string
	// Version is the version of the release.
	Version string
	// Services are the names of the Services of the release, one for each NetworkPolicy.
	Services []string
}

// Round is the result of one round.
type Round struct {
	// At is the time of the measurements.
	At time.Time
	// Measurements contains one measurement for each metric, in the order of the specification.
	Measurements []Measurement
	// HookFailures are messages of rollout hooks that failed in this round. Each of them makes the round fail. The caller adds them.
	HookFailures []string
	// HookErrors are messages about rollout hooks that did not respond. They make the result of the round Error, unless the round fails or
	// is inconclusive for another reason. The caller adds them.
	HookErrors []string
}

// Failed reports whether a metric that is not in dry-run mode is outside of its ranges. If so, the round fails regardless of the responses of
// hooks.
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
	// Result is the result of the comparison with the ranges.
	Result v1alpha1.MeasurementResult
	// Value is the value that was compared, as text; empty if there was no value.
	Value string
	// Message explains why there is no value, or how the value was computed.
	Message string
	// Baseline reports whether the release without traffic is the active release, and not the canary. If so, the missing traffic
	// does not count against the canary.
	Baseline bool
}

// Point identifies the wait during which the canary is measured. A new point starts a new analysis. Counters of the rollout are
// kept across its steps.
type Point struct {
	// Run is the sequence number of the rollout state at which the rollout started.
	Run int64
	// Step is the number of the step, starting from 1.
	Step int32
	// Since is the start of the wait: the time at which the weight of the step was confirmed, or at which the release became available again after an
	// interruption.
	Since time.Time
}
