package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// analysisFailed is the reason in the status of a release that was rolled back because its analysis failed.
const analysisFailed = "AnalysisFailed"

// end describes how a canary ended. It becomes one line of the table that is printed at the end of the demo.
type end struct {
	version, about string
	weights        []int32
	status         v1alpha1.ReleaseStatus
	reason         string
	after          time.Duration
	measured       string
}

func writeEnds(out io.Writer, ends []end) error {
	if len(ends) == 0 {
		return nil
	}
	table := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "\nCANARY\tIS\tWEIGHTS\tENDED\tREASON\tAFTER\tLAST MEASURED")
	for _, e := range ends {
		fmt.Fprintf(table, "%s\t%s\t%v\t%s\t%s\t%s\t%s\n", e.version, e.about, e.weights, e.status, e.reason, e.after.Round(100*time.Millisecond), e.measured)
	}
	return table.Flush()
}

func (s *story) good(ctx context.Context) error {
	e, err := s.judged(ctx, "1.1.0", "good", nil, v1alpha1.ReleaseActive)
	if err != nil {
		return err
	}
	s.note("1.1.0 was measured in each step, and is active", slices.Equal(e.weights, []int32{30, 60, 100}), fmt.Sprintf("weights %v, after %s", e.weights, e.after.Round(100*time.Millisecond)))
	return s.show(ctx)
}

func (s *story) failing(ctx context.Context) error {
	return s.rolledBack(ctx, "1.2.0", "5% errors", map[string]string{"ERROR_RATE": "0.05"}, "success-rate")
}

func (s *story) slow(ctx context.Context) error {
	return s.rolledBack(ctx, "1.3.0", "slow", map[string]string{"LATENCY": "400ms"}, "p95")
}

// rolledBack pushes a version that fails a metric, and waits until this version is rolled back in its
// first step.
func (s *story) rolledBack(ctx context.Context, version, about string, env map[string]string, metric string) error {
	before := s.active1x(ctx)
	e, err := s.judged(ctx, version, about, env, v1alpha1.ReleaseError)
	if err != nil {
		return err
	}
	failed := failedMetrics(e.analysis)
	s.note(version+" was rolled back before its second step, because of "+metric,
		slices.Equal(e.weights, []int32{30}) && e.reason == analysisFailed && slices.Equal(failed, []string{metric}),
		fmt.Sprintf("%s, weights %v, after %s", e.reason, e.weights, e.after.Round(100*time.Millisecond)))
	if err := s.moved(ctx, "1-x", before); err != nil {
		return err
	}
	s.note("clients see "+before+" only", true, "")
	return nil
}

// testers is a patch that sets a single step. This step is for requests with a header that no client sends.
const testers = `{"spec":{"updateStrategy":{"canary":{"steps":[{"name":"testers","weight":0,"match":true}]}}}}`

func (s *story) silentContinued(ctx context.Context) error {
	if err := s.run(ctx, "patch", "msvc", service, "-n", namespace, "--type=merge", "-p", testers); err != nil {
		return err
	}
	return s.decided(ctx, "1.4.0", v1alpha1.ReleaseActive, "continue", "--step", "testers", "--reason", "only testers see it")
}

func (s *story) silentAborted(ctx context.Context) error {
	return s.decided(ctx, "1.5.0", v1alpha1.ReleaseError, "deprecate", "--reason", "no one sees it")
}

// decided pushes a version that gets no requests, waits until the analysis of this version is
// waiting for traffic, and records a decision as a user would.
func (s *story) decided(ctx context.Context, version string, status v1alpha1.ReleaseStatus, verb string, flags ...string) error {
	began := time.Now()
	if err := s.push(ctx, version, nil); err != nil {
		return err
	}
	s.mark(version + " waits")
	err := s.until(ctx, version+" to wait for traffic", func(ms *v1alpha1.Microservice) (bool, string) {
		r := release(ms, "1-x", version)
		if r == nil {
			return false, "not observed yet"
		}
		analysis, err := s.analysis(ctx, r.VersionedMicroservice)
		if err != nil || analysis == nil {
			return false, fmt.Sprintf("%s, not measured yet", r.Status)
		}
		return analysis.Phase == v1alpha1.AnalysisNoTraffic && r.Status == v1alpha1.ReleaseCanary, fmt.Sprintf("%s, %s", r.Status, analysis.Phase)
	})
	if err != nil {
		return err
	}
	s.note(version+" waits, because it gets no requests", true, "after "+since(began))
	if err := s.run(ctx, "get", "msvc,vsvc", "-n", namespace); err != nil {
		return err
	}
	if _, _, err := s.ask(ctx, "why", service, version); err != nil {
		return err
	}
	if err := s.act(ctx, append([]string{verb, service, version}, flags...)...); err != nil {
		return err
	}
	e, err := s.ended(ctx, version, status)
	if err != nil {
		return err
	}
	e.about, e.after = "silent", time.Since(began)
	s.close(e)
	s.note(fmt.Sprintf("%s ended with status %s because of a user's decision", version, status), true, "")
	return nil
}

func (s *story) silentFailed(ctx context.Context) error {
	if err := s.run(ctx, "patch", "msvc", service, "-n", namespace, "--type=merge", "-p",
		`{"spec":{"updateStrategy":{"canary":{"analysis":{"noTraffic":"Fail"}}}}}`); err != nil {
		return err
	}
	e, err := s.judged(ctx, "1.6.0", "silent", nil, v1alpha1.ReleaseError)
	if err != nil {
		return err
	}
	s.note("1.6.0 was rolled back, because it got no requests", e.reason == analysisFailed, e.reason)
	return s.show(ctx)
}

// judgement describes how a canary ended, and contains all measurements of the canary.
type judgement struct {
	end
	analysis *v1alpha1.ReleaseAnalysis
}

// judged pushes a version, and waits until its rollout has ended.
func (s *story) judged(ctx context.Context, version, about string, env map[string]string, status v1alpha1.ReleaseStatus) (judgement, error) {
	began := time.Now()
	s.mark(version)
	if err := s.push(ctx, version, env); err != nil {
		return judgement{}, err
	}
	e, err := s.ended(ctx, version, status)
	e.about, e.after = about, time.Since(began)
	if err == nil {
		s.close(e)
	}
	return e, err
}

// ended waits until the rollout of a version has ended with the given status. The result contains the
// weights that the version got.
func (s *story) ended(ctx context.Context, version string, status v1alpha1.ReleaseStatus) (judgement, error) {
	e := judgement{end: end{version: version, status: status}}
	var name string
	err := s.until(ctx, fmt.Sprintf("%s to be %s", version, status), func(ms *v1alpha1.Microservice) (bool, string) {
		r := release(ms, "1-x", version)
		if r == nil {
			return false, "not observed yet"
		}
		name, e.reason = r.VersionedMicroservice, r.Reason
		if r.Weight > 0 && (len(e.weights) == 0 || e.weights[len(e.weights)-1] != r.Weight) {
			e.weights = append(e.weights, r.Weight)
			s.say("   %s gets %d%%", version, r.Weight)
		}
		return r.Status == status && (status != v1alpha1.ReleaseActive || r.Available), fmt.Sprintf("%s at %d%%", r.Status, r.Weight)
	})
	if err != nil {
		return e, err
	}
	e.analysis, err = s.analysis(ctx, name)
	return e, err
}

// analysis returns a release's analysis, or nil if nothing was measured.
func (s *story) analysis(ctx context.Context, name string) (*v1alpha1.ReleaseAnalysis, error) {
	var vsvc v1alpha1.VersionedMicroservice
	err := s.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &vsvc)
	return vsvc.Status.Analysis, err
}

// close shows a rollout's measurements, and adds the rollout to the table.
func (s *story) close(e judgement) {
	if e.analysis != nil {
		var last []string
		for _, m := range e.analysis.Metrics {
			var values []string
			for _, v := range slices.Backward(m.Measurements) {
				values = append(values, strings.TrimSpace(v.Value+" "+string(v.Result)))
			}
			s.say("   measured %s: %s", m.Name, strings.Join(values, ", "))
			if len(m.Measurements) > 0 {
				last = append(last, m.Name+" "+values[len(values)-1])
			}
		}
		e.measured = strings.Join(last, "; ")
	}
	s.ends = append(s.ends, e.end)
}

// failedMetrics returns the names of the metrics whose last value failed.
func failedMetrics(a *v1alpha1.ReleaseAnalysis) []string {
	var names []string
	if a != nil {
		for _, m := range a.Metrics {
			if m.Result == v1alpha1.MeasurementFailed {
				names = append(names, m.Name)
			}
		}
	}
	return names
}

// active1x returns the active version of group 1.x. The result is empty if this version is unknown.
func (s *story) active1x(ctx context.Context) string {
	var ms v1alpha1.Microservice
	if err := s.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: service}, &ms); err != nil {
		return ""
	}
	if g := group(&ms, "1-x"); g != nil {
		return g.Active
	}
	return ""
}

// onlyCanariesFailed checks that the responses to all failed requests came from the canary that returns
// errors.
func (s *story) onlyCanariesFailed(reports []harness.Report) check {
	const culprit = "1.2.0"
	requests, lost, own := 0, 0, 0
	for _, r := range reports {
		requests += r.Total.Sent
		lost += r.Total.Failed
		own += r.Total.Versions[culprit].Failed
	}
	return check{"no request failed, except because of errors from " + culprit, requests > 0 && own > 0 && lost == own,
		fmt.Sprintf("%d of %d failed, %d of them because of these errors", lost, requests, own)}
}
