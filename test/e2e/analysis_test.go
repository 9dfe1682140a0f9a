//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// analysisFailed is the reason for the status of a release whose rollout ended because of its analysis.
const analysisFailed = "AnalysisFailed"

// round is the interval of the analyses, which is the shortest allowed interval.
const round = 10 * time.Second

// measured adds an analysis with the cluster's Prometheus to the canaries of the service. The analysis measures the
// success rate and the 95th percentile of the latency every ten seconds.
func (s *service) measured(source v1alpha1.MetricsSource, count int32, noTraffic v1alpha1.NoTrafficPolicy) *service {
	s.ms.Spec.UpdateStrategy.Canary.Analysis = &v1alpha1.CanaryAnalysis{
		Interval: v1alpha1.DurationOf(round), Count: count, Source: source, NoTraffic: noTraffic,
		Provider: v1alpha1.AnalysisProvider{Prometheus: &v1alpha1.PrometheusProvider{Address: env.PrometheusInternal}, Timeout: "5s"},
		Metrics: []v1alpha1.AnalysisMetric{
			{Name: "success-rate", SuccessRate: &v1alpha1.SuccessRateMetric{}, ThresholdRange: v1alpha1.ValueRange{Min: new(99.0)}},
			{Name: "p95", Latency: &v1alpha1.LatencyMetric{Quantile: v1alpha1.LatencyP95}, ThresholdRange: v1alpha1.ValueRange{Max: new(0.25)}},
		},
	}
	if s.ms.Spec.Template.Annotations == nil {
		s.ms.Spec.Template.Annotations = map[string]string{}
	}
	s.ms.Spec.Template.Annotations["prometheus.io/scrape"] = "true"
	return s
}

// versioned returns the release object of a version.
func (s *service) versioned(ctx context.Context, version string) (*v1alpha1.VersionedMicroservice, error) {
	vsvc := &v1alpha1.VersionedMicroservice{}
	err := env.Client.Get(ctx, client.ObjectKey{Namespace: s.namespace, Name: s.release(version).VersionedMicroservice}, vsvc)
	return vsvc, err
}

// analysis waits until the analysis of a version is in the given phase.
func (s *service) analysis(version string, want v1alpha1.AnalysisPhase) *v1alpha1.ReleaseAnalysis {
	s.t.Helper()
	s.until(version+" to be created", func(ms *v1alpha1.Microservice) (bool, string) { return row(ms, version) != nil, "" })
	var got *v1alpha1.ReleaseAnalysis
	wait(s.t, fmt.Sprintf("the analysis of %s to be %s", version, want), func(ctx context.Context) (bool, string, error) {
		vsvc, err := s.versioned(ctx, version)
		if err != nil || vsvc.Status.Analysis == nil {
			return false, "not measured yet", err
		}
		got = vsvc.Status.Analysis
		return got.Phase == want, fmt.Sprintf("%s: %s", got.Phase, got.Message), nil
	})
	return got
}

// weights waits until a version has the given status, and returns the weights that it had until
// then.
func (s *service) weights(version string, want v1alpha1.ReleaseStatus) (weights []int32, last v1alpha1.Release) {
	s.t.Helper()
	s.until(fmt.Sprintf("%s to be %s", version, want), func(ms *v1alpha1.Microservice) (bool, string) {
		r := row(ms, version)
		if r == nil {
			return false, "not observed yet"
		}
		if r.Weight > 0 && (len(weights) == 0 || weights[len(weights)-1] != r.Weight) {
			weights = append(weights, r.Weight)
		}
		last = *r
		return r.Status == want, fmt.Sprintf("%s (%s) at %d%%", r.Status, r.Reason, r.Weight)
	})
	return weights, last
}

// measurements returns the measurements of a version, by metric, oldest first.
func (s *service) measurements(version string) map[string][]v1alpha1.Measurement {
	s.t.Helper()
	vsvc, err := s.versioned(s.t.Context(), version)
	if err != nil {
		s.t.Fatal(err)
	}
	if vsvc.Status.Analysis == nil {
		s.t.Fatalf("nothing was measured for %s", version)
	}
	all := map[string][]v1alpha1.Measurement{}
	for _, m := range vsvc.Status.Analysis.Metrics {
		for _, one := range slices.Backward(m.Measurements) {
			all[m.Name] = append(all[m.Name], one)
		}
		s.t.Logf("%s of %s: %s", m.Name, version, values(all[m.Name]))
	}
	return all
}

func values(all []v1alpha1.Measurement) string {
	var text []string
	for _, m := range all {
		text = append(text, strings.TrimSpace(m.Value+" "+string(m.Result)))
	}
	return strings.Join(text, ", ")
}

// TestAnalysis uses a real Prometheus to measure a good canary, a canary with 5 percent errors, and a slow
// canary. It does so both with the counters of the gateway and with the counters of the application. At 50
// requests per second, the canary's own errors are the only failures that clients see.
func TestAnalysis(t *testing.T) {
	for _, source := range []v1alpha1.MetricsSource{v1alpha1.SourceTraefik, v1alpha1.SourceApplication} {
		t.Run(string(source), func(t *testing.T) {
			t.Parallel()
			// With 30% of 50 requests per second, a round has 150 requests. At an error rate of 5%, the
			// probability of a round with fewer than two errors is 0.4%, and there are two rounds.
			s := newService(t, "analysis-"+strings.ToLower(string(source))).
				steps(v1alpha1.CanaryStep{Weight: 30}, v1alpha1.CanaryStep{Weight: 60}).
				measured(source, 2, v1alpha1.NoTrafficWait)
			s.start("1.0.0")
			l := s.load(50, false)

			l.Mark("good")
			s.push("1.1.0")
			weights, _ := s.weights("1.1.0", v1alpha1.ReleaseActive)
			if !slices.Equal(weights, []int32{30, 60, 100}) {
				t.Errorf("the good canary had the weights %v", weights)
			}
			for name, all := range s.measurements("1.1.0") {
				if passed := slices.DeleteFunc(slices.Clone(all), func(m v1alpha1.Measurement) bool { return m.Result != v1alpha1.MeasurementPassed }); len(passed) < 4 {
					t.Errorf("%s passed %d rounds, want two in each of two steps: %s", name, len(passed), values(all))
				}
			}

			bad := []struct{ version, variable, value, metric string }{
				{"1.2.0", "ERROR_RATE", "0.05", "success-rate"},
				{"1.3.0", "LATENCY", "400ms", "p95"},
			}
			for _, b := range bad {
				l.Mark(b.version + " " + b.variable)
				s.push(b.version, b.variable, b.value)
				weights, last := s.weights(b.version, v1alpha1.ReleaseError)
				if !slices.Equal(weights, []int32{30}) || last.Reason != analysisFailed {
					t.Errorf("%s had the weights %v and ended with %s", b.version, weights, last.Reason)
				}
				for name, all := range s.measurements(b.version) {
					if failed := all[len(all)-1].Result == v1alpha1.MeasurementFailed; failed != (name == b.metric) {
						t.Errorf("%s of %s: %s", name, b.version, values(all))
					}
				}
				s.sees(l, "1.1.0")
				s.active("1.1.0")
			}

			report := l.Stop()
			own := report.Total.Versions["1.2.0"].Failed
			t.Logf("%d of %d requests failed, %d of them by the canary's own errors", report.Total.Failed, report.Total.Sent, own)
			if own == 0 || report.Total.Failed != own {
				t.Errorf("%d of %d requests failed, %d of them by the canary's own errors: %v", report.Total.Failed, report.Total.Sent, own, report.Failures)
			}
		})
	}
}

// TestAnalysisNoTraffic releases versions that get no requests, with each value of noTraffic.
func TestAnalysisNoTraffic(t *testing.T) {
	silent := func(t *testing.T, name string, source v1alpha1.MetricsSource, policy v1alpha1.NoTrafficPolicy) *service {
		t.Parallel()
		s := newService(t, "silent-"+name).steps(v1alpha1.CanaryStep{Name: "half", Weight: 50}).measured(source, 1, policy)
		return s.start("1.0.0")
	}
	t.Run("Fail", func(t *testing.T) {
		s := silent(t, "fail", v1alpha1.SourceTraefik, v1alpha1.NoTrafficFail)
		s.push("1.1.0")
		if _, last := s.weights("1.1.0", v1alpha1.ReleaseError); last.Reason != analysisFailed {
			t.Errorf("1.1.0 ended with %s", last.Reason)
		}
		s.active("1.0.0")
	})
	t.Run("Ignore", func(t *testing.T) {
		s := silent(t, "ignore", v1alpha1.SourceTraefik, v1alpha1.NoTrafficIgnore)
		s.push("1.1.0")
		s.active("1.1.0")
		for name, all := range s.measurements("1.1.0") {
			if slices.ContainsFunc(all, func(m v1alpha1.Measurement) bool { return m.Result == v1alpha1.MeasurementPassed }) {
				t.Errorf("%s passed without a request: %s", name, values(all))
			}
		}
	})
	t.Run("Wait until there are requests", func(t *testing.T) {
		s := silent(t, "wait", v1alpha1.SourceTraefik, v1alpha1.NoTrafficWait)
		s.push("1.1.0")
		s.holds("1.1.0")
		l := s.load(30, false)
		s.active("1.1.0")
		verdict(t, l)
	})
	t.Run("Wait until a user continues or aborts the rollout", func(t *testing.T) {
		s := silent(t, "person", v1alpha1.SourceTraefik, v1alpha1.NoTrafficWait)
		s.push("1.1.0")
		s.holds("1.1.0")
		s.decide("1.1.0", v1alpha1.DecisionContinue, "half")
		s.active("1.1.0")
		s.push("1.2.0")
		s.holds("1.2.0")
		s.decide("1.2.0", v1alpha1.DecisionDeprecate, "")
		s.status("1.2.0", v1alpha1.ReleaseError)
		s.active("1.1.0")
	})
	t.Run("an application without measurements never passes", func(t *testing.T) {
		s := silent(t, "mute", v1alpha1.SourceApplication, v1alpha1.NoTrafficWait)
		l := s.load(30, false)
		s.push("1.1.0", "NO_METRICS", "true")
		s.holds("1.1.0")
		s.decide("1.1.0", v1alpha1.DecisionDeprecate, "")
		s.sees(l, "1.0.0")
		verdict(t, l)
	})
}

// holds waits until a canary is waiting for traffic, and checks that it is still waiting three rounds
// later.
func (s *service) holds(version string) {
	s.t.Helper()
	first := s.analysis(version, v1alpha1.AnalysisNoTraffic)
	wait(s.t, "three more rounds", func(ctx context.Context) (bool, string, error) {
		vsvc, err := s.versioned(ctx, version)
		if err != nil {
			return false, "", err
		}
		a := vsvc.Status.Analysis
		if a == nil || a.Phase != v1alpha1.AnalysisNoTraffic || vsvc.Status.Release != v1alpha1.ReleaseCanary {
			return false, "", harness.Permanent(fmt.Errorf("%s is %s with %+v", version, vsvc.Status.Release, a))
		}
		return a.LastTime.Sub(first.LastTime.Time) >= 3*round-time.Second, a.LastTime.String(), nil
	})
}

// TestAnalysisSurvivesRestarts kills the manager, the API server, and the gateway in the middle of measured
// steps. The good canary becomes active and the bad canary ends in error, just as without restarts.
func TestAnalysisSurvivesRestarts(t *testing.T) {
	s := newService(t, "restarts").
		steps(v1alpha1.CanaryStep{Weight: 30}, v1alpha1.CanaryStep{Weight: 50}, v1alpha1.CanaryStep{Weight: 70}).
		measured(v1alpha1.SourceTraefik, 2, v1alpha1.NoTrafficWait)
	s.start("1.0.0")
	l := s.load(50, false)
	k := &killer{random: rand.New(rand.NewPCG(1, 1)), wanted: 1}
	kill := func() {
		t.Helper()
		if err := k.kill(t.Context()); err != nil {
			t.Fatal(err)
		}
	}

	s.push("1.1.0")
	s.weight("1.1.0", 30)
	s.rounds("1.1.0", 1)
	kill()
	s.weight("1.1.0", 50)
	s.rounds("1.1.0", 1)
	localcluster(t, "kill", "kube-apiserver")
	s.serves(l, 2*time.Second)
	localcluster(t, "restart", "kube-apiserver")
	s.weight("1.1.0", 70)
	before := l.Report().Total.Failed
	localcluster(t, "gateway-restart")
	stable(t, l, 3*time.Second)
	lost := l.Report().Total.Failed - before
	t.Logf("while the gateway was restarted: %d requests failed (counted separately)", lost)
	s.active("1.1.0")
	s.measurements("1.1.0")

	s.push("1.2.0", "ERROR_RATE", "0.2")
	s.weight("1.2.0", 30)
	kill()
	weights, last := s.weights("1.2.0", v1alpha1.ReleaseError)
	if slices.Max(append(weights, 0)) > 30 || last.Reason != analysisFailed {
		t.Errorf("the bad canary had the weights %v and ended with %s", weights, last.Reason)
	}
	s.measurements("1.2.0")
	s.sees(l, "1.1.0")
	report := l.Stop()
	if own := report.Total.Versions["1.2.0"].Failed; own == 0 || report.Total.Failed != own+lost {
		t.Errorf("%d of %d requests failed, %d by the bad canary and %d while the gateway was not running: %v", report.Total.Failed, report.Total.Sent, own, lost, report.Failures)
	}
}

// rounds waits until the given number of rounds of the current step have passed.
func (s *service) rounds(version string, want int32) {
	s.t.Helper()
	wait(s.t, fmt.Sprintf("%d rounds of %s", want, version), func(ctx context.Context) (bool, string, error) {
		vsvc, err := s.versioned(ctx, version)
		if err != nil || vsvc.Status.Analysis == nil {
			return false, "not measured yet", err
		}
		a := vsvc.Status.Analysis
		return a.Rounds >= want, fmt.Sprintf("%d rounds in step %d, %s", a.Rounds, a.Step, a.Phase), nil
	})
}
