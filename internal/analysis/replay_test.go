package analysis

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestTimes checks that the rounds of a past period are the same as the rounds of a rollout in that period.
func TestTimes(t *testing.T) {
	t.Parallel()
	spec := specOf(func(s *v1alpha1.CanaryAnalysis) { s.Interval = "90s" })
	begin := start.Add(2 * time.Second)
	got := Times(spec, begin, start.Add(6*time.Minute))
	var want []time.Time
	point := Point{Run: 1, Step: 1, Since: begin}
	status := Begin(nil, spec, point)
	for !status.NextTime.After(start.Add(6 * time.Minute)) {
		at := status.NextTime.Time
		want = append(want, at)
		status = Fold(status, spec, point, roundOf(at, "PP"))
	}
	if diff := cmp.Diff(want, got); diff != "" || len(got) < 3 {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := Times(spec, begin, begin.Add(time.Minute)); len(got) > 0 {
		t.Errorf("rounds in less than an interval: %v", got)
	}
}

// TestReplay checks that the phases are the same as those from Fold, and that another rollout begins after a failure.
func TestReplay(t *testing.T) {
	t.Parallel()
	const (
		running, passed, failed = v1alpha1.AnalysisRunning, v1alpha1.AnalysisPassed, v1alpha1.AnalysisFailed
		waits, inconclusive     = v1alpha1.AnalysisNoTraffic, v1alpha1.AnalysisInconclusive
	)
	one := int32(1)
	for name, test := range map[string]struct {
		rounds string
		change func(*v1alpha1.CanaryAnalysis)
		want   []v1alpha1.AnalysisPhase
	}{
		"none":                      {"", nil, nil},
		"passed":                    {"PP PP PP", nil, []v1alpha1.AnalysisPhase{running, passed, passed}},
		"failed, again":             {"PP FP PP PP PF", nil, []v1alpha1.AnalysisPhase{running, failed, running, passed, failed}},
		"a tolerated failure":       {"FP PP PP FP", func(s *v1alpha1.CanaryAnalysis) { s.FailureLimit = &one }, []v1alpha1.AnalysisPhase{running, running, passed, failed}},
		"no traffic":                {"NN PP", nil, []v1alpha1.AnalysisPhase{waits, running}},
		"inconclusive":              {"PI PP", nil, []v1alpha1.AnalysisPhase{inconclusive, inconclusive}},
		"dry runs only":             {"PPF PPF", nil, []v1alpha1.AnalysisPhase{running, passed}},
		"errors, then inconclusive": {"E E E E E", nil, []v1alpha1.AnalysisPhase{running, running, running, running, inconclusive}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			spec := specOf(test.change)
			times := Times(spec, start, start.Add(time.Hour))
			var rounds []Round
			for i, letters := range strings.Fields(test.rounds) {
				rounds = append(rounds, roundOf(times[i], letters))
			}
			var got []v1alpha1.AnalysisPhase
			for i, d := range Replay(spec, start, rounds) {
				got = append(got, d.Phase)
				if !d.At.Equal(rounds[i].At) || d.Message == "" && d.Phase != passed {
					t.Errorf("round %d: %+v", i, d)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

// TestRequests checks that Requests reads, from the counters of the source, how many requests a release received.
func TestRequests(t *testing.T) {
	t.Parallel()
	asked := make(chan string, 10)
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked <- r.FormValue("query")
		w.Header().Set("Content-Type", "application/json")
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%s,"42"]}]}}`, r.FormValue("time"))
	})
	m, _ := measurerOf(t, address, nil)
	n, err := m.Requests(t.Context(), &v1alpha1.CanaryAnalysis{Source: v1alpha1.SourceApplication}, Target{Namespace: "shop", Release: "shop-1"}, 5*time.Minute, time.Now())
	if query := <-asked; err != nil || n != 42 || !strings.Contains(query, `http_requests_total{namespace="shop",hlnr_io_release="shop-1"}`) || !strings.Contains(query, "[5m]") {
		t.Errorf("%g, %v, query %s", n, err, query)
	}
	if _, err := m.Requests(t.Context(), &v1alpha1.CanaryAnalysis{Source: v1alpha1.SourceTraefik}, Target{Namespace: "shop", Release: "shop-1"}, 5*time.Minute, time.Now()); err == nil || !strings.Contains(err.Error(), "has no Service") {
		t.Errorf("a release without Service: %v", err)
	}
}
