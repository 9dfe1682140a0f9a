package measure

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/text"
)

// Report contains the decision that an analysis would have made. Its JSON fields are an interface for scripts.
type Report struct {
	APIVersion   string `json:"apiVersion"`
	Kind         string `json:"kind"`
	Namespace    string `json:"namespace"`
	Microservice string `json:"microservice"`
	// Release is the name of the measured release, and Version is its version.
	Release string `json:"release"`
	Version string `json:"version"`
	// Since and Time are the start and the end of the measured period.
	Since metav1.Time `json:"since"`
	Time  metav1.Time `json:"time"`
	// Phase is the phase of the analysis after the last round. Failures is the number of simulated rollouts that would have failed.
	Phase    string `json:"phase"`
	Failures int    `json:"failures"`
	// Counts contains the number of rounds for each result: Passed, Failed, Inconclusive, NoTraffic, Error.
	Counts map[string]int `json:"counts"`
	// Omitted contains the names of metrics whose past values cannot be queried.
	Omitted []string `json:"omitted,omitempty"`
	Rounds  []Round  `json:"rounds"`
}

// Round is one round of measurements.
type Round struct {
	Time metav1.Time `json:"time"`
	// Result is the result of the round, and Phase is the phase of the analysis after the round.
	Result  string        `json:"result"`
	Phase   string        `json:"phase"`
	Message string        `json:"message,omitempty"`
	Metrics []view.Metric `json:"metrics"`
}

func newReport(spec *v1alpha1.CanaryAnalysis, decided []analysis.Decided) *Report {
	r := &Report{APIVersion: view.APIVersion, Kind: "AnalysisTest", Counts: map[string]int{}, Rounds: []Round{}}
	for _, d := range decided {
		round := Round{Time: metav1.Time{Time: d.At.UTC()}, Result: string(d.Result), Phase: string(d.Phase), Message: d.Message}
		for _, m := range d.Measurements {
			status := v1alpha1.MetricStatus{Name: m.Metric, Result: m.Result, Measurements: []v1alpha1.Measurement{{Value: m.Value, Result: m.Result, Message: m.Message}}}
			for i := range spec.Metrics {
				status.DryRun = status.DryRun || spec.Metrics[i].Name == m.Metric && spec.Metrics[i].DryRun
			}
			round.Metrics = append(round.Metrics, view.NewMetric(status, spec))
		}
		r.Rounds = append(r.Rounds, round)
		r.Counts[round.Result]++
		if d.Phase == v1alpha1.AnalysisFailed {
			r.Failures++
		}
		r.Phase = round.Phase
	}
	return r
}

// exit returns an error with the exit code for the decision, or nil if the canary would have continued.
func (r *Report) exit() error {
	switch all := len(r.Rounds); {
	case r.Failures > 0:
		return cli.No(nil)
	case r.Counts[string(v1alpha1.MeasurementError)] == all:
		return cli.Failed(errors.New("no round could be measured: check the provider, or use --prometheus to name a Prometheus server that this machine can reach"))
	case r.Phase == string(v1alpha1.AnalysisInconclusive):
		return cli.Waits(nil)
	case r.Counts[string(v1alpha1.MeasurementNoTraffic)] == all:
		return cli.No(nil)
	}
	return nil
}

// span is a sequence of consecutive rounds with the same result.
type span struct {
	first, last Round
	n           int
}

// spans joins consecutive rounds that have the same result, unless the analysis failed in one of them. If wide is true,
// each round is a separate span.
func (r *Report) spans(wide bool) (all []span) {
	for _, round := range r.Rounds {
		if i := len(all) - 1; !wide && i >= 0 && all[i].last.Result == round.Result && all[i].last.Phase != string(v1alpha1.AnalysisFailed) && round.Phase != string(v1alpha1.AnalysisFailed) {
			all[i].last, all[i].n = round, all[i].n+1
			continue
		}
		all = append(all, span{round, round, 1})
	}
	return all
}

// summary returns the decision in one line.
func (r *Report) summary() string {
	passed, all := r.Counts[string(v1alpha1.MeasurementPassed)], len(r.Rounds)
	text := fmt.Sprintf("%s %s: ", r.Microservice, r.Version)
	switch {
	case r.Failures == 1:
		text += "the canary would have failed"
	case r.Failures > 1:
		text += fmt.Sprintf("the canary would have failed %d times", r.Failures)
	case r.Counts[string(v1alpha1.MeasurementError)] == all:
		text += "no round could be measured"
	case r.Phase == string(v1alpha1.AnalysisInconclusive):
		text += "the canary would have waited for a user"
	case r.Counts[string(v1alpha1.MeasurementNoTraffic)] == all:
		text += "there was no traffic to measure"
	default:
		text += "the canary would have continued"
	}
	return text + fmt.Sprintf(": %d of %d rounds passed", passed, all)
}

func (r *Report) write(out io.Writer, wide bool, now time.Time) error {
	var b strings.Builder
	b.WriteString(text.Clean(r.summary()) + "\n")
	clock := func(t metav1.Time) string {
		if at := t.In(now.Location()); !wide && now.Sub(at) < 12*time.Hour {
			return at.Format(time.TimeOnly)
		}
		return t.In(now.Location()).Format("2006-01-02 15:04:05")
	}
	for _, s := range r.spans(wide) {
		when := clock(s.first.Time)
		if s.n > 1 {
			when += " to " + clock(s.last.Time) + fmt.Sprintf(", %d rounds", s.n)
		}
		var metrics []string
		for _, m := range s.last.Metrics {
			measured := m.String()
			if m.DryRun {
				measured += " (dry run)"
			}
			metrics = append(metrics, text.Clean(measured))
		}
		fmt.Fprintf(&b, "  %s: %s: %s\n", when, strings.ToLower(s.last.Result), strings.Join(metrics, ", "))
		if s.last.Phase == string(v1alpha1.AnalysisFailed) {
			fmt.Fprintf(&b, "    failed: %s\n", text.Clean(s.last.Message))
		}
	}
	if len(r.Omitted) > 0 {
		fmt.Fprintf(&b, "  omitted because they have no history: %s\n", text.Clean(strings.Join(r.Omitted, ", ")))
	}
	if _, err := io.WriteString(out, b.String()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}
