package measure

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericiooptions"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/test/apiserver"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m, apiserver.Options{}, &env))
}

var now = time.Date(2026, 11, 25, 14, 0, 0, 0, time.UTC)

// metrics is a server that replaces Prometheus. It responds to instant queries as documented for the HTTP API of Prometheus.
type metrics struct {
	// value returns the value of a query at a given time, or false for an empty vector.
	value func(query string, at time.Time) (float64, bool)

	mu      sync.Mutex
	signed  []string // contains the received Authorization headers
	queries []string
}

func (m *metrics) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	query := r.FormValue("query")
	seconds, err := strconv.ParseFloat(r.FormValue("time"), 64)
	if r.URL.Path != "/api/v1/query" || query == "" || err != nil {
		http.Error(w, `{"status":"error","errorType":"bad_data","error":"invalid parameter"}`, http.StatusBadRequest)
		return
	}
	m.mu.Lock()
	m.queries = append(m.queries, query)
	if header := r.Header.Get("Authorization"); header != "" {
		m.signed = append(m.signed, header)
	}
	m.mu.Unlock()
	result := []any{}
	if v, ok := m.value(query, time.UnixMilli(int64(seconds*1000))); ok {
		result = append(result, map[string]any{"metric": map[string]string{}, "value": []any{seconds, strconv.FormatFloat(v, 'f', -1, 64)}})
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"status": "success", "data": map[string]any{"resultType": "vector", "result": result}})
}

// stage contains a service with an analysis and a Prometheus server. The active release is 1.0.0, and the canary is 1.1.0.
type stage struct {
	*testing.T
	namespace, address string
	*metrics
	microservice *v1alpha1.Microservice
}

func begin(t *testing.T, value func(query string, at time.Time) (float64, bool)) *stage {
	t.Helper()
	s := &stage{T: t, namespace: env.Namespace(t), metrics: &metrics{value: value}}
	server := httptest.NewServer(s.metrics)
	t.Cleanup(server.Close)
	s.address = server.URL
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.Template.Spec.Containers = []corev1.Container{{Name: "shop", Ports: []corev1.ContainerPort{{ContainerPort: 8080}}}}
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Name: "tenth", Weight: 10}},
		Analysis: &v1alpha1.CanaryAnalysis{
			Interval: "1m", Count: 2, Source: v1alpha1.SourceApplication,
			Provider: v1alpha1.AnalysisProvider{Prometheus: &v1alpha1.PrometheusProvider{Address: s.address}},
			Metrics:  []v1alpha1.AnalysisMetric{{Name: "success-rate", SuccessRate: &v1alpha1.SuccessRateMetric{}, ThresholdRange: v1alpha1.ValueRange{Min: ptr.To(99.0)}}},
		},
	}
	if err := env.Client.Create(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	row := func(version string, status v1alpha1.ReleaseStatus, weight int32) v1alpha1.Release {
		return v1alpha1.Release{VersionedMicroservice: "shop-" + strings.ReplaceAll(version, ".", "-"), SemVer: v1alpha1.SemVer{Name: "1.x", Version: version}, Status: status, Weight: weight, LastTransitionTime: metav1.NewMicroTime(now.Add(-time.Hour))}
	}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Name: "1.x", Slug: "1-x", Level: v1alpha1.LevelRelease, Phase: v1alpha1.GroupLive, Active: "1.0.0", Releases: []v1alpha1.Release{
		row("1.1.0", v1alpha1.ReleaseCanary, 10), row("1.0.0", v1alpha1.ReleaseActive, 90),
	}}}
	if err := env.Client.Status().Update(t.Context(), ms); err != nil {
		t.Fatal(err)
	}
	s.microservice = ms
	return s
}

func (s *stage) factory(out, errOut *bytes.Buffer) *cli.Factory {
	f := cli.New("hlnr", "test", genericiooptions.IOStreams{In: strings.NewReader(""), Out: out, ErrOut: errOut})
	f.Clock = clocktesting.NewFakeClock(now)
	return f
}

// call runs "hlnr analysis test".
func (s *stage) call(args ...string) (code cli.Code, stdout, stderr string) {
	s.Helper()
	var out, errOut bytes.Buffer
	code = cli.Run(s.Context(), s.factory(&out, &errOut), slices.Concat([]string{"analysis", "test"}, args, []string{"--kubeconfig", env.Kubeconfig(), "-n", s.namespace}), NewCommand)
	return code, out.String(), errOut.String()
}

func (s *stage) want(code cli.Code, text string, args ...string) string {
	s.Helper()
	got, stdout, stderr := s.call(args...)
	if got != code || !strings.Contains(stdout+stderr, text) {
		s.Errorf("analysis test %s: exit code %d, output %q, error %q; want %d and %q", strings.Join(args, " "), got, stdout, stderr, code, text)
	}
	return stdout
}

// badAt reports whether values at a given time are bad. They are bad from 13:20 to 13:22.
func badAt(at time.Time) bool {
	return at.After(now.Add(-40*time.Minute)) && !at.After(now.Add(-38*time.Minute))
}

func TestPast(t *testing.T) {
	t.Parallel()
	s := begin(t, func(_ string, at time.Time) (float64, bool) {
		if badAt(at) {
			return 90, true
		}
		return 99.9, true
	})
	s.want(cli.ExitYes, "shop 1.0.0: the canary would have continued: 1 of 1 rounds passed\n  14:00:00: passed: success-rate 99.9% ≥ 99%", "shop")
	s.want(cli.ExitYes, "30 of 30 rounds passed\n  13:31:00 to 14:00:00, 30 rounds: passed: success-rate 99.9%", "shop", "--since", "30m")
	out := s.want(cli.ExitNo, "shop 1.0.0: the canary would have failed 2 times: 58 of 60 rounds passed", "shop", "--since", "1h")
	for _, want := range []string{"13:21:00: failed: success-rate 90% < 99%", "failed rounds: 1, tolerated: 0", "13:01:00 to 13:20:00, 20 rounds: passed", "13:23:00 to 14:00:00, 38 rounds: passed"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if lines := strings.Count(s.want(cli.ExitNo, "2026-11-25 13:21:00", "shop", "--since", "1h", "-o", "wide"), "\n"); lines < 60 {
		t.Errorf("%d lines, want one line for each round", lines)
	}
	var report Report
	if err := json.Unmarshal([]byte(s.want(cli.ExitNo, "", "shop", "--since", "1h", "-o", "json")), &report); err != nil || report.Failures != 2 || len(report.Rounds) != 60 || report.Counts["Failed"] != 2 || report.Kind != "AnalysisTest" || report.Release != "shop-1-0-0" {
		t.Errorf("%v: %+v", err, report)
	}
	for _, q := range s.queries {
		if !strings.Contains(q, `hlnr_io_release="shop-1-0-0"`) {
			t.Fatalf("not about the active release: %s", q)
		}
	}
	s.want(cli.ExitUsage, "a shorter duration", "shop", "--since", "100h")
	s.want(cli.ExitUsage, "shorter than the interval, 1m", "shop", "--since", "10s")
	s.want(cli.ExitUsage, `there is no Microservice with the name "shpo" in namespace `+s.namespace+`; did you mean "shop"?`, "shpo")
	s.want(cli.ExitUsage, `there is no release of shop with the name "1.2.0"`, "shop", "--release", "1.2.0")
	s.want(cli.ExitUsage, "name a Microservice, or a manifest")
}

// TestAnswers checks the result and the exit code for measurements that neither pass nor fail.
func TestAnswers(t *testing.T) {
	t.Parallel()
	s := begin(t, func(string, time.Time) (float64, bool) { return 0, false })
	s.want(cli.ExitNo, "there was no traffic to measure: 0 of 1 rounds passed", "shop")
	s.want(cli.ExitFailed, "no round could be measured: 0 of 1 rounds passed", "shop", "--prometheus", "http://127.0.0.1:1")
	s.want(cli.ExitUsage, `--prometheus: "prometheus:9090" is not an HTTP or HTTPS URL`, "shop", "--prometheus", "prometheus:9090")
	inconclusive := begin(t, func(string, time.Time) (float64, bool) { return 98.5, true })
	inconclusive.microservice.Spec.UpdateStrategy.Canary.Analysis.Metrics[0].InconclusiveRange = &v1alpha1.ValueRange{Min: ptr.To(98.0)}
	if err := env.Client.Update(t.Context(), inconclusive.microservice); err != nil {
		t.Fatal(err)
	}
	inconclusive.want(cli.ExitWaits, "the canary would have waited for a user", "shop")
}

// TestManifest tests the analysis in a manifest against the releases in the cluster.
func TestManifest(t *testing.T) {
	t.Parallel()
	s := begin(t, func(query string, _ time.Time) (float64, bool) {
		if query == `mine{release="shop-1-1-0"}` {
			return 7, true
		}
		return 1, true
	})
	file := filepath.Join(t.TempDir(), "shop.yaml")
	manifest := fmt.Sprintf(`apiVersion: hlnr.io/v1alpha1
kind: Microservice
metadata: {name: shop}
spec:
  imagePolicyRef: {name: shop}
  template: {spec: {containers: [{name: shop, ports: [{containerPort: 8080}]}]}}
  updateStrategy:
    canary:
      steps: [{weight: 10}]
      analysis:
        interval: 1m
        provider: {prometheus: {address: %q}}
        metrics:
        - {name: mine, prometheus: {query: 'mine{release="{{.Release}}"}'}, thresholdRange: {max: 5}}
        - {name: web, web: {url: "http://127.0.0.1:1", value: body.x}, thresholdRange: {max: 5}}
`, s.address)
	if err := os.WriteFile(file, []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	s.want(cli.ExitYes, "shop 1.0.0: the canary would have continued: 10 of 10 rounds passed\n  13:51:00 to 14:00:00, 10 rounds: passed: mine 1 ≤ 5\n  omitted because they have no history: web", "-f", file, "--since", "10m")
	s.want(cli.ExitNo, "shop 1.1.0: the canary would have failed", "-f", file, "--release", "1.1.0", "--since", "10m")
	s.want(cli.ExitUsage, `there is no Microservice with the name "cart" in `+file, "cart", "-f", file)
	s.want(cli.ExitUsage, "no such file", "-f", file+"x")
}

// TestCredentials checks that credentials are sent only to the server for which they were created.
func TestCredentials(t *testing.T) {
	t.Parallel()
	s := begin(t, func(string, time.Time) (float64, bool) { return 100, true })
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "prometheus"}, Data: map[string][]byte{"token": []byte("t0ken")}}
	if err := env.Client.Create(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.microservice.Spec.UpdateStrategy.Canary.Analysis.Provider.Prometheus.SecretRef = &v1alpha1.Reference{Name: "prometheus"}
	if err := env.Client.Update(t.Context(), s.microservice); err != nil {
		t.Fatal(err)
	}
	s.want(cli.ExitYes, "the canary would have continued", "shop")
	if !slices.Equal(s.signed, []string{"Bearer t0ken"}) {
		t.Errorf("its own server got %q", s.signed)
	}
	other := begin(t, func(string, time.Time) (float64, bool) { return 100, true })
	s.want(cli.ExitYes, "the canary would have continued", "shop", "--prometheus", other.address)
	if len(other.signed) > 0 || len(other.queries) != 1 {
		t.Errorf("another server got %q and the queries %q", other.signed, other.queries)
	}
}

// TestObserve checks that shares are computed from request counters, and that they are unknown if the server, a
// counter or a permission is missing.
func TestObserve(t *testing.T) {
	t.Parallel()
	counted := map[string]float64{"shop-1-0-0": 902, "shop-1-1-0": 98}
	s := begin(t, func(query string, _ time.Time) (float64, bool) {
		for release, n := range counted {
			if strings.HasPrefix(query, "sum(") && strings.Contains(query, `hlnr_io_release="`+release+`"`) && strings.Contains(query, "[5m]") {
				return n, true
			}
		}
		return 0, false
	})
	observe := func(address string, change func(*v1alpha1.Microservice)) (map[types.NamespacedName]view.Observation, error) {
		t.Helper()
		var out, errOut bytes.Buffer
		f := s.factory(&out, &errOut)
		cmd := cli.NewRoot(f, NewCommand)
		if err := cmd.ParseFlags([]string{"--kubeconfig", env.Kubeconfig(), "-n", s.namespace}); err != nil {
			t.Fatal(err)
		}
		var list v1alpha1.MicroserviceList
		if err := env.Client.List(t.Context(), &list, client.InNamespace(s.namespace)); err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(&list.Items[0])
		}
		in := view.Input{Microservices: list.Items}
		err := Observe(t.Context(), f, &in, s.namespace, address)
		return in.Observed, err
	}
	want := func(name string, got map[types.NamespacedName]view.Observation, err error, canary float64) {
		t.Helper()
		o, ok := got[types.NamespacedName{Namespace: s.namespace, Name: "shop-1-1-0"}]
		if err != nil || ok != (canary > 0) || ok && (o.Percent < canary-0.01 || o.Percent > canary+0.01 || o.Window != 5*time.Minute) {
			t.Errorf("%s: %+v, %v; want %g%%", name, got, err, canary)
		}
	}
	// Queries to the address from the flag have a long timeout. Queries to the address from the analysis have a short
	// timeout, which a busy machine can exceed.
	got, err := observe(s.address, nil)
	want("with the flag", got, err, 9.8)
	got, err = observe(s.address, func(ms *v1alpha1.Microservice) { ms.Spec.UpdateStrategy.Canary.Analysis.Provider.Prometheus = nil })
	want("with the flag only", got, err, 9.8)
	got, err = observe("", func(ms *v1alpha1.Microservice) { ms.Spec.UpdateStrategy.Canary.Analysis = nil })
	want("without a server", got, err, 0)
	got, err = observe("", func(ms *v1alpha1.Microservice) {
		ms.Spec.UpdateStrategy.Canary.Analysis.Provider.Prometheus.SecretRef = &v1alpha1.Reference{Name: "prometheus"}
	})
	want("with a Secret that is not read", got, err, 0)
	got, err = observe("", func(ms *v1alpha1.Microservice) {
		ms.Spec.UpdateStrategy.Canary.Analysis.Provider.Prometheus.Address = "http://127.0.0.1:1"
	})
	want("by an unreachable server", got, err, 0)
	if _, err := observe("http://127.0.0.1:1", nil); err == nil {
		t.Error("the unreachable server that the flag specifies is not reported")
	}
	if _, err := observe("nonsense", nil); cli.CodeOf(err) != cli.ExitUsage {
		t.Errorf("a flag that is not a URL: %v", err)
	}
	counted = nil
	got, err = observe(s.address, nil)
	want("without counters", got, err, 0)
}

// TestHostileMeasurement checks that responses from a Prometheus server cannot control the
// terminal.
func TestHostileMeasurement(t *testing.T) {
	t.Parallel()
	r := &Report{Microservice: "shop", Version: "1.0.0", Counts: map[string]int{}, Omitted: []string{"a\x1b[2J"}, Rounds: []Round{{Result: "Failed", Phase: string(v1alpha1.AnalysisFailed), Message: "no\r\nhlnr: yes\u202e", Metrics: []view.Metric{{Name: "errors\u009b", Result: "Failed"}}}}}
	var out bytes.Buffer
	if err := r.write(&out, false, time.Unix(0, 0)); err != nil {
		t.Fatal(err)
	}
	if at := strings.IndexFunc(out.String(), func(r rune) bool {
		return unicode.IsControl(r) && r != '\n' || unicode.Is(unicode.Bidi_Control, r)
	}); at >= 0 || strings.Contains(out.String(), "\nhlnr:") {
		t.Errorf("%q", out.String())
	}
}
