package versionedmicroservice

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/hook"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/test/await"
)

// receiver answers hook calls with the status codes that a test sets, and records the calls.
type receiver struct {
	*httptest.Server
	key string

	mu     sync.Mutex
	answer map[string]int // by name of the hook; 409 if not set
	calls  []hook.Body
	faults []string
}

func receive(t *testing.T, key string) *receiver {
	t.Helper()
	r := &receiver{key: key, answer: map[string]int{}}
	r.Server = httptest.NewServer(r)
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	raw, err := io.ReadAll(req.Body)
	var body hook.Body
	if err == nil {
		err = json.Unmarshal(raw, &body)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if err != nil {
		r.faults = append(r.faults, err.Error())
	}
	if want := hook.Sign([]byte(r.key), req.Header.Get(hook.HeaderTimestamp), raw); req.Header.Get(hook.HeaderSignature) != want {
		r.faults = append(r.faults, body.Name+": a wrong signature")
	}
	r.calls = append(r.calls, body)
	code := r.answer[body.Name]
	if code == 0 {
		code = http.StatusConflict
	}
	w.WriteHeader(code)
}

func (r *receiver) say(name string, code int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.answer[name] = code
}

// of returns the calls of a hook.
func (r *receiver) of(name string) []hook.Body {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.calls), func(b hook.Body) bool { return b.Name != name })
}

// signed returns a hook that calls the receiver with a signature. Hooks that are called repeatedly have a short
// interval.
func (r *receiver) signed(t v1alpha1.HookType) v1alpha1.Hook {
	h := v1alpha1.Hook{
		Name: strings.ToLower(string(t)), Type: t, URL: r.URL, Timeout: "1m",
		SecretRef: &v1alpha1.Reference{Name: "key"}, Metadata: map[string]v1alpha1.HookMetadataValue{"team": "checkout"},
	}
	switch t {
	case v1alpha1.HookConfirmRollout, v1alpha1.HookConfirmTrafficIncrease, v1alpha1.HookConfirmPromotion, v1alpha1.HookRollback:
		h.Interval = "1s"
	}
	return h
}

// stage is a release with a Microservice whose rollout state the test writes.
type stage struct {
	t       *testing.T
	ms      *v1alpha1.Microservice
	release *v1alpha1.VersionedMicroservice
	// older is the group from which domains move to the release; nil if the release is not the first in its
	// group.
	older *v1alpha1.ReleaseGroup
}

func newStage(t *testing.T, canary *v1alpha1.CanaryStrategy) *stage {
	t.Helper()
	ns := namespace(t, nil)
	s := &stage{t: t, ms: &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "shop"}}, release: newRelease(ns, 1)}
	s.ms.Spec.ImagePolicyRef.Name = "shop"
	s.ms.Spec.Template.Spec.Containers = []corev1.Container{{Name: "shop", Image: "registry.example.com/shop:1.0.0"}}
	s.ms.Spec.UpdateStrategy.Canary = canary
	for _, obj := range []client.Object{
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "key"}, StringData: map[string]string{"key": "a key"}}, s.ms, s.release,
	} {
		if err := world.Create(t.Context(), obj); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

// route creates a NetworkPolicy of the Microservice, and its Services. services contains the release of each Service.
func (s *stage) route(policy string, services map[string]string) {
	s.t.Helper()
	objects := []client.Object{&v1alpha1.NetworkPolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.ms.Namespace, Name: policy},
		Spec: v1alpha1.NetworkPolicySpec{
			MicroserviceRef: &v1alpha1.Reference{Name: s.ms.Name},
			Ports:           []v1alpha1.NetworkPort{{Name: "http", Port: 80, TargetPort: new(intstr.FromInt32(8080)), Protocol: "HTTP"}},
		},
	}}
	for name, release := range services {
		objects = append(objects, &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{Namespace: s.ms.Namespace, Name: name, Labels: map[string]string{v1alpha1.LabelPolicy: policy, v1alpha1.LabelRelease: release}},
			Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
		})
	}
	for _, o := range objects {
		if err := world.Create(s.t.Context(), o); err != nil {
			s.t.Fatal(err)
		}
	}
}

// write writes a rollout state: the release's row, and its rollout.
func (s *stage) write(row v1alpha1.Release, run *v1alpha1.Rollout) {
	s.t.Helper()
	row.VersionedMicroservice, row.SemVer = s.release.Name, s.release.Spec.SemVer
	if row.LastTransitionTime.IsZero() {
		row.LastTransitionTime = metav1.NowMicro()
	}
	if run != nil {
		run.Release, run.StartedTime = s.release.Name, metav1.NowMicro()
	}
	eventually(s.t, func() string {
		fetch(s.t, s.ms)
		s.ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{
			Name: "1.x", Slug: "1-x", Level: v1alpha1.LevelRelease, Phase: v1alpha1.GroupLive, Active: "0.9.0", Rollout: run, Releases: []v1alpha1.Release{row},
		}}
		if row.Status == v1alpha1.ReleaseActive {
			s.ms.Status.ReleaseGroups[0].Active = row.SemVer.Version
		}
		if s.older != nil {
			s.ms.Status.ReleaseGroups[0].Name, s.ms.Status.ReleaseGroups[0].Slug, s.ms.Status.ReleaseGroups[0].Active = "2.x", "2-x", ""
			s.ms.Status.ReleaseGroups = append(s.ms.Status.ReleaseGroups, *s.older)
		}
		if err := world.Status().Update(s.t.Context(), s.ms); err != nil {
			return err.Error()
		}
		return ""
	})
}

// hook waits until a hook has the given phase in the release's status.
func (s *stage) hook(name string, want v1alpha1.HookPhase) v1alpha1.HookStatus {
	s.t.Helper()
	var got v1alpha1.HookStatus
	eventually(s.t, func() string {
		fetch(s.t, s.release)
		for _, h := range s.release.Status.Hooks {
			if h.Name == name {
				if got = h; h.Phase == want {
					return ""
				}
			}
		}
		return fmt.Sprintf("hook %s is %+v, want %s", name, got, want)
	})
	return got
}

func (s *stage) called(r *receiver, name string, n int) {
	s.t.Helper()
	eventually(s.t, func() string {
		if got := len(r.of(name)); got < n {
			return fmt.Sprintf("%s was called %d times, want %d", name, got, n)
		}
		return ""
	})
}

// TestHooksOfARelease tests a release's rollout with gates, a check, and messages on an API server.
func TestHooksOfARelease(t *testing.T) {
	t.Parallel()
	r := receive(t, "a key")
	s := newStage(t, &v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Name: "tenth", Weight: 10}, {Name: "half", Weight: 50}},
		Hooks: []v1alpha1.Hook{
			r.signed(v1alpha1.HookConfirmRollout), r.signed(v1alpha1.HookPreRollout), r.signed(v1alpha1.HookConfirmTrafficIncrease),
			r.signed(v1alpha1.HookRollback), r.signed(v1alpha1.HookPostRollout), r.signed(v1alpha1.HookEvent),
		},
	})
	r.say("event", 204)
	pending := v1alpha1.Release{Status: v1alpha1.ReleasePending, Reason: "Started", LastTransitionTime: metav1.NowMicro()}
	at := metav1.NowMicro()
	s.write(pending, &v1alpha1.Rollout{Sequence: 5, Gate: v1alpha1.GateConfirmRollout, GateTime: &at})
	s.called(r, "confirmrollout", 2)
	closed := s.hook("confirmrollout", v1alpha1.HookWaiting)
	if closed.Run != 5 || closed.Step != 0 || !closed.Since.Time.Equal(at.Truncate(time.Microsecond)) {
		t.Errorf("the gate's status %+v does not contain the rollout, step, and gate time", closed)
	}
	s.hook("rollback", v1alpha1.HookWaiting)
	s.hook("event", v1alpha1.HookDelivered)
	if fetch(t, s.release); s.release.Status.Step != "ConfirmRollout" || s.release.Status.Release != v1alpha1.ReleasePending {
		t.Errorf("the release has status %s, step %q", s.release.Status.Release, s.release.Status.Step)
	}

	t.Log("the same rejection of a gate causes no write")
	calls := 0
	eventually(t, func() string { // the last write after the answer might come later
		written := len(world.writes.in(s.release.Namespace))
		calls = len(r.of("confirmrollout"))
		s.called(r, "confirmrollout", calls+2)
		if now := world.writes.in(s.release.Namespace); len(now) > written {
			return fmt.Sprintf("writes: %v", now[written:])
		}
		return ""
	})

	t.Log("it opens, and its hook is no longer called")
	r.say("confirmrollout", 200)
	open := s.hook("confirmrollout", v1alpha1.HookOpen)
	if open.ID != closed.ID || open.Message != "HTTP 200" || open.Attempts < 3 {
		t.Errorf("the open gate: %+v", open)
	}
	calls = len(r.of("confirmrollout"))

	t.Log("a failed check is final")
	at2 := metav1.NowMicro()
	s.write(pending, &v1alpha1.Rollout{Sequence: 5, Gate: v1alpha1.GatePreRollout, GateTime: &at2})
	s.hook("prerollout", v1alpha1.HookFailed)
	s.called(r, "rollback", len(r.of("rollback"))+2) // time passes
	if n := len(r.of("prerollout")); n != 1 {
		t.Errorf("a failed check was called %d times", n)
	}
	if n := len(r.of("confirmrollout")); n != calls {
		t.Errorf("an open gate was called %d more times", n-calls)
	}

	t.Log("the end is reported once, and no other hook is called")
	failed := v1alpha1.Release{Status: v1alpha1.ReleaseError, Reason: "HookFailed", LastTransitionTime: metav1.NowMicro()}
	r.say("postrollout", 200)
	s.write(failed, nil)
	s.hook("postrollout", v1alpha1.HookDelivered)
	eventually(t, func() string {
		events := r.of("event")
		if last := events[len(events)-1]; last.Phase != v1alpha1.ReleaseError {
			return fmt.Sprintf("the last event is %+v", last)
		}
		return ""
	})
	s.hook("event", v1alpha1.HookDelivered)
	if diff := cmp.Diff([]hook.Body{{
		APIVersion: hook.APIVersion, Type: v1alpha1.HookPostRollout, Name: "postrollout", Namespace: s.ms.Namespace, Microservice: "shop", Group: "1-x",
		Release: releaseName, Services: []string{}, Version: "1.0.0", PreviousVersion: "0.9.0", Phase: v1alpha1.ReleaseError, Reason: "HookFailed", Passed: []string{"confirmrollout"},
		Metadata: map[string]v1alpha1.HookMetadataValue{"team": "checkout"},
	}}, r.of("postrollout"), cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".ID" || p.Last().String() == ".Time" }, cmp.Ignore())); diff != "" {
		t.Errorf("the end was reported as follows (-want +got):\n%s", diff)
	}
	calls = len(r.of("rollback"))
	pass(t, s.release, 3)
	if n := len(r.of("rollback")); n > calls+1 { // one call might have been in progress
		t.Errorf("hooks of a completed rollout were called %d more times", n-calls)
	}
	if len(r.faults) > 0 {
		t.Errorf("the receiver reports invalid calls: %q", r.faults)
	}
}

// TestHooksAfterARestart checks that another manager continues from the status: it repeats unanswered calls
// with the same ID, and does not repeat answered calls.
func TestHooksAfterARestart(t *testing.T) {
	t.Parallel()
	r := receive(t, "a key")
	s := newStage(t, &v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Weight: 10}},
		Hooks: []v1alpha1.Hook{r.signed(v1alpha1.HookConfirmPromotion), r.signed(v1alpha1.HookPreRollout), r.signed(v1alpha1.HookEvent)},
	})
	r.say("event", 200)
	at := metav1.NowMicro()
	s.write(v1alpha1.Release{Status: v1alpha1.ReleaseCanary, Weight: 10}, &v1alpha1.Rollout{Sequence: 5, Step: 1, Gate: v1alpha1.GateConfirmPromotion, GateTime: &at})
	s.hook("event", v1alpha1.HookDelivered)
	s.called(r, "confirmpromotion", 1)
	s.hook("confirmpromotion", v1alpha1.HookWaiting)

	// The next manager has the same cache, and empty pools.
	asks, err := newPools(world.manager, Options{Outbound: world.loopback, Metrics: noMetrics{}})
	if err != nil {
		t.Fatal(err)
	}
	requeued := make(chan struct{}, 100)
	asks.hooks.Start(t.Context(), func(client.ObjectKey) { requeued <- struct{}{} })
	next := func() {
		t.Helper()
		o, err := (&reconciler{client: world.manager.GetClient(), journal: &status.Journal{}, checks: asks, clock: clock.RealClock{}}).observe(t.Context(), client.ObjectKeyFromObject(s.release))
		if err != nil {
			t.Fatal(err)
		}
		runChecks(asks, o, time.Now())
	}
	events := len(r.of("event"))
	cached(t, s.release)
	next()
	<-requeued
	next()
	if n := len(r.of("event")); n != events {
		t.Errorf("delivered hooks were called %d more times", n-events)
	}
	ids := map[string]bool{}
	for _, call := range r.of("confirmpromotion") {
		ids[call.ID] = true
	}
	if len(ids) != 1 {
		t.Errorf("one call has the IDs %v", ids)
	}
	if n := len(asks.hooks.Outcomes(client.ObjectKeyFromObject(s.release))); n != 1 {
		t.Errorf("the next manager has made %d calls, want only the unanswered call", n)
	}
}

// TestCallsOfADeletedReleaseAreCanceled checks that calls in progress are canceled when their release is deleted.
func TestCallsOfADeletedReleaseAreCanceled(t *testing.T) {
	t.Parallel()
	came, gone := make(chan struct{}, 10), make(chan struct{}, 10)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, req *http.Request) {
		_, _ = io.Copy(io.Discard, req.Body)
		came <- struct{}{}
		<-req.Context().Done()
		gone <- struct{}{}
	}))
	t.Cleanup(server.Close)
	s := newStage(t, &v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Weight: 10}},
		Hooks: []v1alpha1.Hook{{Name: "notified", Type: v1alpha1.HookEvent, URL: server.URL, Timeout: "1m"}},
	})
	s.write(v1alpha1.Release{Status: v1alpha1.ReleaseCanary, Weight: 10}, &v1alpha1.Rollout{Sequence: 5, Step: 1})
	<-came
	if err := world.Delete(context.WithoutCancel(t.Context()), s.release); err != nil {
		t.Fatal(err)
	}
	await.Receive(t, "the end of the call", gone)
}

// TestHookWithoutItsSecret checks that the cause that prevents a hook call is reported, and can be fixed without a restart.
func TestHookWithoutItsSecret(t *testing.T) {
	t.Parallel()
	r := receive(t, "a key")
	gate := r.signed(v1alpha1.HookConfirmPromotion)
	gate.SecretRef.Name = "missing"
	s := newStage(t, &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}, Hooks: []v1alpha1.Hook{gate}})
	r.say(gate.Name, 200)
	at := metav1.NowMicro()
	s.write(v1alpha1.Release{Status: v1alpha1.ReleaseCanary, Weight: 10}, &v1alpha1.Rollout{Sequence: 5, Step: 1, Gate: v1alpha1.GateConfirmPromotion, GateTime: &at})
	eventually(t, func() string {
		if h := s.hook(gate.Name, v1alpha1.HookWaiting); !strings.Contains(h.Message, `hooks[].secretRef: Secret "missing" not found in this namespace: create it`) {
			return h.Message
		}
		return ""
	})
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.ms.Namespace, Name: "missing"}, StringData: map[string]string{"key": "a key"}}
	if err := world.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.hook(gate.Name, v1alpha1.HookOpen)
	if len(r.faults) > 0 {
		t.Errorf("the receiver reports invalid calls: %q", r.faults)
	}
}

// TestHookThatCannotBeCalled checks that a hook that the manager must not call is reported, and that the
// corrected hook is called immediately, regardless of its interval.
func TestHookThatCannotBeCalled(t *testing.T) {
	t.Parallel()
	r := receive(t, "a key")
	back := r.signed(v1alpha1.HookRollback)
	back.URL, back.Interval = "http://169.254.169.254/latest", "1h"
	s := newStage(t, &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 10}}, Hooks: []v1alpha1.Hook{back}})
	s.write(v1alpha1.Release{Status: v1alpha1.ReleaseCanary, Weight: 10}, &v1alpha1.Rollout{Sequence: 5, Step: 1})
	eventually(t, func() string {
		if h := s.hook(back.Name, v1alpha1.HookWaiting); !hook.Uncallable(h) {
			return h.Message
		}
		return ""
	})
	fetch(t, s.ms)
	s.ms.Spec.UpdateStrategy.Canary.Hooks[0].URL = r.URL
	if err := world.Update(t.Context(), s.ms); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() string {
		if h := s.hook(back.Name, v1alpha1.HookWaiting); h.Message != "HTTP 409" {
			return h.Message
		}
		return ""
	})
}

// TestAnalysisOfARelease checks that a failing canary is measured with a server that simulates Prometheus,
// and that the status contains the result and the measurements.
func TestAnalysisOfARelease(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var queries []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_ = req.ParseForm()
		mu.Lock()
		queries = append(queries, req.Form.Get("query"))
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%d,"7"]}]}}`, time.Now().Unix())
	}))
	t.Cleanup(server.Close)
	five := 5.0
	s := newStage(t, &v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Weight: 10}, {Weight: 50}},
		Analysis: &v1alpha1.CanaryAnalysis{
			Interval: "1m", // On a busy machine, the result must be recorded before the next round begins.
			Provider: v1alpha1.AnalysisProvider{Prometheus: &v1alpha1.PrometheusProvider{Address: server.URL}},
			Metrics: []v1alpha1.AnalysisMetric{{
				Name: "errors", Prometheus: &v1alpha1.PrometheusMetric{Query: `errors{release="{{.Release}}",service=~"{{.Service}}"}`}, ThresholdRange: v1alpha1.ValueRange{Max: &five},
			}},
		},
	})
	s.route("internal", map[string]string{"inside": releaseName, "of-another": "other"})
	s.route("public", map[string]string{"outside": releaseName})
	since := metav1.NewMicroTime(time.Now().Add(-59 * time.Second).Truncate(time.Microsecond))
	s.write(v1alpha1.Release{Status: v1alpha1.ReleaseCanary, Weight: 10}, &v1alpha1.Rollout{Sequence: 5, Step: 1, WaitingSince: &since})
	eventually(t, func() string {
		fetch(t, s.release)
		if a := s.release.Status.Analysis; a == nil || a.Phase != v1alpha1.AnalysisFailed {
			return fmt.Sprintf("analysis %+v", a)
		}
		return ""
	})
	a := s.release.Status.Analysis
	if a.Run != 5 || a.Step != 1 || !a.Since.Time.Equal(since.Time) || a.Failures != 1 || len(a.Metrics) != 1 || a.Metrics[0].Measurements[0].Value != "7" {
		t.Errorf("the result is %+v", a)
	}
	if a.LastTime.Time.Before(since.Add(time.Minute)) {
		t.Errorf("the first round is at %s, less than an interval after %s", a.LastTime, since)
	}
	if s.release.Status.Step != "1/2 Analysis" {
		t.Errorf("step %q", s.release.Status.Step)
	}
	mu.Lock()
	defer mu.Unlock()
	if want := `errors{release="` + releaseName + `",service=~"inside|outside"}`; len(queries) != 1 || queries[0] != want {
		t.Errorf("queried %q, want %q once", queries, want)
	}
}

// TestAnalysisFromAnOlderGroup checks that, if domains move from an older group to a new group, the new
// group's first release is measured like any canary, and compared with the active release of the older group.
func TestAnalysisFromAnOlderGroup(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	asked := map[string]bool{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		_ = req.ParseForm()
		query, value := req.Form.Get("query"), "9"
		if strings.Contains(query, `"old/1-x/inside-old"`) {
			value = "2"
		}
		mu.Lock()
		asked[query] = true
		mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[%d,"%s"]}]}}`, time.Now().Unix(), value)
	}))
	t.Cleanup(server.Close)
	five := 5.0
	s := newStage(t, &v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Weight: 10}, {Weight: 50}},
		Analysis: &v1alpha1.CanaryAnalysis{
			Interval: "10s",
			Provider: v1alpha1.AnalysisProvider{Prometheus: &v1alpha1.PrometheusProvider{Address: server.URL}},
			Metrics: []v1alpha1.AnalysisMetric{{
				Name: "errors", Prometheus: &v1alpha1.PrometheusMetric{Query: `errors{of="{{.Release}}/{{.Group}}/{{.Service}}"}`},
				ThresholdRange: v1alpha1.ValueRange{Max: &five}, Baseline: v1alpha1.BaselineDifference,
			}},
		},
	})
	s.older = &v1alpha1.ReleaseGroup{Name: "1.x", Slug: "1-x", Level: v1alpha1.LevelRelease, Phase: v1alpha1.GroupLive, Active: "0.9.0", Releases: []v1alpha1.Release{{
		VersionedMicroservice: "old", SemVer: v1alpha1.SemVer{Version: "0.9.0"}, Status: v1alpha1.ReleaseActive, Weight: 100, LastTransitionTime: metav1.NowMicro(),
	}}}
	s.route("internal", map[string]string{"inside": releaseName, "inside-old": "old"})
	since := metav1.NewMicroTime(time.Now().Add(-9 * time.Second).Truncate(time.Microsecond))
	s.write(v1alpha1.Release{Status: v1alpha1.ReleaseCanary, Weight: 10}, &v1alpha1.Rollout{Sequence: 5, Step: 1, WaitingSince: &since, From: "1-x"})
	eventually(t, func() string {
		fetch(t, s.release)
		if a := s.release.Status.Analysis; a == nil || a.Phase != v1alpha1.AnalysisFailed {
			return fmt.Sprintf("analysis %+v", a)
		}
		return ""
	})
	mu.Lock()
	defer mu.Unlock()
	for _, query := range []string{`errors{of="` + releaseName + `/2-x/inside"}`, `errors{of="old/1-x/inside-old"}`} {
		if !asked[query] {
			t.Errorf("%q was not queried, got %v", query, asked)
		}
	}
}

// noMetrics registers nothing, because the metrics of the manager under test are already registered.
type noMetrics struct{ prometheus.Registerer }

func (noMetrics) Register(prometheus.Collector) error  { return nil }
func (noMetrics) MustRegister(...prometheus.Collector) {}

// TestHooksOfTheEndOfAPreview checks that the hooks for the end of a preview are called once, when none of
// the group's pods remain.
func TestHooksOfTheEndOfAPreview(t *testing.T) {
	t.Parallel()
	r := receive(t, "a key")
	s := newStage(t, &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{{Weight: 50}}, Hooks: []v1alpha1.Hook{r.signed(v1alpha1.HookPostPreview)}})
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: s.ms.Namespace, Name: "other", Finalizers: []string{"test.example.com/ends-slowly"},
			Labels: map[string]string{v1alpha1.LabelMicroservice: "shop", v1alpha1.LabelGroup: "1-x", v1alpha1.LabelRelease: "shop-0-9-0"},
		},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "shop", Image: "registry.example.com/shop:0.9.0"}}},
	}
	if err := world.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	cached(t, pod.DeepCopy()) // The manager knows about the pod before the end of the preview.
	r.say("postpreview", http.StatusOK)
	since := metav1.NewMicroTime(time.Now().Truncate(time.Microsecond))
	s.write(v1alpha1.Release{Status: v1alpha1.ReleaseDeprecated, Reason: "Closed"}, nil)
	eventually(t, func() string {
		fetch(t, s.ms)
		g := &s.ms.Status.ReleaseGroups[0]
		g.Phase, g.Active, g.End = v1alpha1.GroupClosing, "", &v1alpha1.PreviewEnd{Release: s.release.Name, Time: since}
		if err := world.Status().Update(t.Context(), s.ms); err != nil {
			return err.Error()
		}
		return ""
	})
	if err := world.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	cached(t, s.ms)
	pass(t, s.release, 2)
	if n := len(r.of("postpreview")); n > 0 {
		t.Errorf("the hook was called %d times while a pod was terminating", n)
	}
	change(t, pod, func(p *corev1.Pod) { p.Finalizers = nil })
	if got := s.hook("postpreview", v1alpha1.HookDelivered); got.Since == nil || !got.Since.Time.Equal(since.Time) {
		t.Errorf("the status of the hook is %+v, want a status since %s", got, since)
	}
	steady(t, s.release)
	if n := len(r.of("postpreview")); n != 1 {
		t.Errorf("the hook was called %d times, want once", n)
	}
}
