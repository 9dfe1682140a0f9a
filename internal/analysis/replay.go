package analysis

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/outbound"
)

// Decided is a round with the decision that an analysis makes about it.
type Decided struct {
	Round
	// Result is the result of the round, which is the worst result of its metrics.
	Result v1alpha1.MeasurementResult
	// Phase is the phase of the analysis after the round. Message contains the cause.
	Phase   v1alpha1.AnalysisPhase
	Message string
}

// Times returns the times of all rounds, up to end, in a step that begins at start.
func Times(spec *v1alpha1.CanaryAnalysis, start, end time.Time) (all []time.Time) {
	status := &v1alpha1.ReleaseAnalysis{Since: metav1.NewMicroTime(start)}
	for at := next(status, spec); !at.After(end); at = next(status, spec) {
		all = append(all, at)
		last := metav1.NewMicroTime(at)
		status.LastTime = &last
	}
	return all
}

// Replay returns the decisions of an analysis about rounds in a step that begins at start. The rounds must be in chronological order. The Failed
// phase ends a rollout, so the next round is the first round of another rollout.
func Replay(spec *v1alpha1.CanaryAnalysis, start time.Time, rounds []Round) []Decided {
	point := Point{Run: 1, Step: 1, Since: start}
	status := Begin(nil, spec, point)
	all := make([]Decided, 0, len(rounds))
	for i, round := range rounds {
		if status.Phase == v1alpha1.AnalysisFailed {
			point = Point{Run: point.Run + 1, Step: 1, Since: rounds[i-1].At}
			status = Begin(nil, spec, point)
		}
		status = Fold(status, spec, point, round)
		result, _ := summarize(spec, round)
		all = append(all, Decided{Round: round, Result: result, Phase: status.Phase, Message: status.Message})
	}
	return all
}

// Measure sends the queries of a round and waits for the responses, but no longer than the interval of the analysis.
func (m *Measurer) Measure(ctx context.Context, request Request) Round {
	ctx, cancel := context.WithTimeout(ctx, intervalOf(&request.Spec))
	defer cancel()
	return m.measure(ctx, request.clone())
}

// Requests returns how many requests a release handled in the window that ends at the given time, according to the
// counters of the analysis source. It returns 0 if the provider has no counter for the release.
func (m *Measurer) Requests(ctx context.Context, spec *v1alpha1.CanaryAnalysis, target Target, window time.Duration, at time.Time) (float64, error) {
	name := spec.Source
	if name == "" {
		name = v1alpha1.SourceTraefik
	}
	s, ok := sources[name]
	if !ok {
		return 0, errorf(BadQuery, "analysis.source: %q is unknown", name)
	}
	rise, failure := s.rise(s.requests, target, window)
	if failure != nil {
		return 0, failure
	}
	own := v1alpha1.CanaryAnalysis{Provider: spec.Provider}
	metric := &v1alpha1.AnalysisMetric{Name: "requests", Prometheus: &v1alpha1.PrometheusMetric{}} // The query is set below.
	q, failure := question(&own, metric, target, at, m.config.PrometheusAddress)
	if failure != nil {
		return 0, failure
	}
	q.text = "sum(" + rise + ")"
	a := m.pool.do(ctx, q, spec.Provider.Timeout.Std(outbound.DefaultTimeout), func(ctx context.Context) answer { return m.sender.send(ctx, q) })
	if a.err != nil {
		return 0, a.err
	}
	return a.value, nil
}
