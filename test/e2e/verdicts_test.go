//go:build e2e && linux

package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// scores is an endpoint in the cluster's network that returns JSON: {"score": N} for a version with a score,
// and {} for other versions. It responds with 500 while it is broken, and with 401 to requests without its
// token.
type scores struct {
	url, token string

	mu     sync.Mutex
	scores map[string]float64
	broken bool
}

func startScores(t *testing.T, token string) *scores {
	t.Helper()
	e := &scores{token: token, scores: map[string]float64{}}
	e.url = serveInside(t, e) + "/score?version={{.Version}}"
	return e
}

func (e *scores) give(version string, score float64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.scores[version] = score
}

func (e *scores) fail(broken bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.broken = broken
}

func (e *scores) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	e.mu.Lock()
	score, ok := e.scores[req.URL.Query().Get("version")]
	broken := e.broken
	e.mu.Unlock()
	switch {
	case req.Header.Get("Authorization") != "Bearer "+e.token:
		http.Error(w, "a token is needed", http.StatusUnauthorized)
	case broken:
		http.Error(w, "no score today", http.StatusInternalServerError)
	case !ok:
		fmt.Fprintln(w, "{}")
	default:
		fmt.Fprintf(w, "{\"score\": %g}\n", score)
	}
}

// TestAnalysisBaseline compares the canary with the active release. An equally slow canary passes, although
// an absolute limit, which is only in dry-run mode, would have rolled it back. A slower canary does not
// pass.
func TestAnalysisBaseline(t *testing.T) {
	t.Parallel()
	s := newService(t, "baseline").steps(v1alpha1.CanaryStep{Weight: 50}).measured(v1alpha1.SourceTraefik, 2, v1alpha1.NoTrafficWait)
	p95 := &v1alpha1.LatencyMetric{Quantile: v1alpha1.LatencyP95}
	s.ms.Spec.UpdateStrategy.Canary.Analysis.Metrics = []v1alpha1.AnalysisMetric{
		{Name: "compared", Latency: p95, Baseline: v1alpha1.BaselineRatio, MinimumRequests: 20, ThresholdRange: v1alpha1.ValueRange{Max: new(1.5)}},
		{Name: "absolute", Latency: p95, DryRun: true, ThresholdRange: v1alpha1.ValueRange{Max: new(0.1)}},
	}
	s.push("1.0.0", "LATENCY", "200ms")
	s.create(s.images, s.ms, s.network)
	s.active("1.0.0")
	l := s.load(30, false)

	l.Mark("as slow")
	s.push("1.1.0", "LATENCY", "200ms")
	s.active("1.1.0")
	all := s.measurements("1.1.0")
	results(t, all["compared"], v1alpha1.MeasurementPassed, 2)
	results(t, all["absolute"], v1alpha1.MeasurementFailed, 2)

	l.Mark("slower")
	s.push("1.2.0", "LATENCY", "900ms")
	weights, last := s.weights("1.2.0", v1alpha1.ReleaseError)
	if !slices.Equal(weights, []int32{50}) || last.Reason != analysisFailed {
		t.Errorf("the slower canary had the weights %v and ended with %s", weights, last.Reason)
	}
	results(t, s.measurements("1.2.0")["compared"], v1alpha1.MeasurementFailed, 1)
	s.sees(l, "1.1.0")
	verdict(t, l)
}

// results checks that at least the given number of measurements have the given result, and that all others have the result
// NoTraffic.
func results(t *testing.T, all []v1alpha1.Measurement, want v1alpha1.MeasurementResult, least int) {
	t.Helper()
	n := 0
	for _, m := range all {
		switch m.Result {
		case want:
			n++
		case v1alpha1.MeasurementNoTraffic:
		default:
			t.Errorf("measured %s, want %s", values(all), want)
			return
		}
	}
	if n < least {
		t.Errorf("measured %s, want %d times %s", values(all), least, want)
	}
}

// TestAnalysisWeb measures with an endpoint that returns JSON. If a value is neither good nor bad, the canary waits for
// a user. An error is neither a pass nor a failure. No credential is visible.
func TestAnalysisWeb(t *testing.T) {
	t.Parallel()
	e := startScores(t, "a token that no one else has")
	s := newService(t, "web").steps(v1alpha1.CanaryStep{Name: "half", Weight: 50}).measured(v1alpha1.SourceTraefik, 1, v1alpha1.NoTrafficWait)
	s.create(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "score"}, Data: map[string][]byte{"token": []byte(e.token)}})
	s.ms.Spec.UpdateStrategy.Canary.Analysis.Metrics = []v1alpha1.AnalysisMetric{{
		Name:              "score",
		Web:               &v1alpha1.WebMetric{URL: e.url, Value: "has(body.score) ? body.score : null", SecretRef: &v1alpha1.Reference{Name: "score"}},
		ThresholdRange:    v1alpha1.ValueRange{Min: new(80.0)},
		InconclusiveRange: &v1alpha1.ValueRange{Min: new(50.0)},
	}}
	s.start("1.0.0")
	l := s.load(20, false)

	l.Mark("good")
	e.give("1.1.0", 90)
	s.push("1.1.0")
	s.active("1.1.0")
	s.scored("1.1.0", v1alpha1.MeasurementPassed, 90)

	l.Mark("neither good nor bad")
	e.give("1.2.0", 60)
	s.push("1.2.0")
	s.analysis("1.2.0", v1alpha1.AnalysisInconclusive)
	s.until("AnalysisInconclusive to be reported", func(ms *v1alpha1.Microservice) (bool, string) {
		c := meta.FindStatusCondition(ms.Status.Conditions, v1alpha1.ConditionAnalysisInconclusive)
		return c != nil && c.Status == metav1.ConditionTrue && strings.Contains(c.Message, "1.2.0"), fmt.Sprintf("%+v", c)
	})
	s.serves(l, 2*round)
	if r := s.release("1.2.0"); r.Status != v1alpha1.ReleaseCanary || r.Weight != 50 {
		t.Errorf("without a decision, 1.2.0 is %s at %d%%", r.Status, r.Weight)
	}
	s.decide("1.2.0", v1alpha1.DecisionContinue, "half")
	s.active("1.2.0")
	s.scored("1.2.0", v1alpha1.MeasurementInconclusive, 60)

	l.Mark("bad")
	e.give("1.3.0", 20)
	s.push("1.3.0")
	if weights, last := s.weights("1.3.0", v1alpha1.ReleaseError); !slices.Equal(weights, []int32{50}) || last.Reason != analysisFailed {
		t.Errorf("the bad canary had the weights %v and ended with %s", weights, last.Reason)
	}
	s.scored("1.3.0", v1alpha1.MeasurementFailed, 20)

	l.Mark("not yet scored")
	s.push("1.4.0")
	s.holds("1.4.0")
	e.give("1.4.0", 80)
	s.active("1.4.0")

	l.Mark("broken")
	e.fail(true)
	e.give("1.5.0", 100)
	s.push("1.5.0")
	a := s.analysis("1.5.0", v1alpha1.AnalysisInconclusive)
	if a.Errors < 5 || a.Failures > 0 || a.Rounds > 0 {
		t.Errorf("with error responses: %+v", a)
	}
	for _, m := range s.measurements("1.5.0")["score"] {
		if m.Result != v1alpha1.MeasurementError || m.Message == "" {
			t.Errorf("with error responses: %+v", m)
		}
	}
	e.fail(false)
	s.active("1.5.0")

	verdict(t, l)
	vsvc, err := s.versioned(t.Context(), "1.5.0")
	if err != nil {
		t.Fatal(err)
	}
	if text, err := json.Marshal(vsvc); err != nil || strings.Contains(string(text), e.token) {
		t.Errorf("the release contains the token: %v", err)
	}
}

// scored checks that all measurements of a version have the given result and value.
func (s *service) scored(version string, want v1alpha1.MeasurementResult, score float64) {
	s.t.Helper()
	all := s.measurements(version)["score"]
	for _, m := range all {
		if value, err := strconv.ParseFloat(m.Value, 64); err != nil || value != score || m.Result != want {
			s.t.Errorf("measured %s, want %g %s: %v", values(all), score, want, err)
			return
		}
	}
	if len(all) == 0 {
		s.t.Errorf("nothing was measured for %s", version)
	}
}
