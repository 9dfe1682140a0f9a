package analysis

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// The recorded history: a scrape every 15 seconds, ten of them, the last one at
// history. A canary's analysis looks at the last minute.
var history = time.Date(2020, 1, 31, 12, 0, 0, 0, time.UTC)

const (
	scrapes = 10
	every   = 15 * time.Second
)

// startPrometheus runs a real Prometheus on a loopback address over samples in
// OpenMetrics, and gives its address.
func startPrometheus(t *testing.T, samples []byte) string {
	t.Helper()
	server, err := exec.LookPath("prometheus")
	var tool string
	if err == nil {
		tool, err = exec.LookPath("promtool")
	}
	if err != nil {
		t.Fatalf("find Prometheus: %v: the built-in queries are tested on a real one: make test installs it; by hand: apt-get install prometheus", err)
	}
	dir := t.TempDir()
	input, config, data := filepath.Join(dir, "samples.om"), filepath.Join(dir, "prometheus.yml"), filepath.Join(dir, "data")
	for file, content := range map[string][]byte{input: samples, config: []byte("scrape_configs: []\n")} {
		if err := os.WriteFile(file, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.CommandContext(t.Context(), tool, "tsdb", "create-blocks-from", "openmetrics", input, data).CombinedOutput(); err != nil {
		t.Fatalf("fill the store: %v\n%s", err, out)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := listener.Addr().String()
	_ = listener.Close() // for Prometheus to take
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	process := exec.CommandContext(ctx, server, "--config.file="+config, "--storage.tsdb.path="+data, "--storage.tsdb.retention.time=100y",
		"--web.listen-address="+address, "--log.level=warn")
	process.Stdout, process.Stderr = &log, &log
	if err := process.Start(); err != nil {
		t.Fatalf("start Prometheus: %v", err)
	}
	t.Cleanup(func() {
		cancel() // kills this process
		_ = process.Wait()
	})
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		response, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			_ = response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return "http://" + address
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("Prometheus was not ready within a minute: %v\n%s", err, log.String())
		}
	}
}

// recorded is the history of an exposition: its counters rose evenly from 0 to
// what it shows; gauges of Kubernetes stood still.
func recorded(t *testing.T, file string) string {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for line := range strings.SplitSeq(string(raw), "\n") {
		at := strings.LastIndex(line, " ")
		if strings.HasPrefix(line, "#") || at < 0 {
			continue
		}
		last, err := strconv.ParseFloat(line[at+1:], 64)
		if err != nil {
			t.Fatalf("%s: %q: %v", file, line, err)
		}
		for i := range scrapes {
			v := last * float64(i) / (scrapes - 1)
			if strings.HasPrefix(line, "kube_") {
				v = last
			}
			sample(&out, line[:at], i, v)
		}
	}
	return out.String()
}

// sample writes the value of a series at a scrape.
func sample(out *strings.Builder, series string, scrape int, v float64) {
	at := history.Add(time.Duration(scrape-scrapes+1) * every)
	fmt.Fprintf(out, "%s %v %d\n", series, v, at.Unix())
}

// TestRealPrometheus: the built-in queries over recorded expositions, free
// queries, and the answers that must not pass, on a real Prometheus.
func TestRealPrometheus(t *testing.T) {
	var om strings.Builder
	for _, file := range []string{"traefik.prom", "application.prom", "istio.prom", "ingress-nginx.prom", "envoy-gateway.prom"} {
		om.WriteString(recorded(t, file))
	}
	app := func(release, code string) string {
		return fmt.Sprintf(`http_requests_total{namespace="shop",hlnr_io_release=%q,code=%q}`, release, code)
	}
	for i := range scrapes { // histories that no exposition shows
		sample(&om, app("born", "200"), i, 1000+float64(i*100))
		if i >= scrapes-2 {
			sample(&om, app("born", "500"), i, 100) // a burst before its first scrape
		}
		sample(&om, app("idle", "200"), i, 5000)
		sample(&om, app("idle", "500"), i, 5000)
		sample(&om, app("restarted", "200"), i, []float64{9000, 9100, 9200, 9300, 9400, 9500, 50, 100, 200, 300}[i])
		sample(&om, app("restarted", "500"), i, 0)
		sample(&om, app("broken", "500"), i, float64(i*10))
	}
	om.WriteString("# EOF\n")
	address := startPrometheus(t, []byte(om.String()))
	m, err := New(Config{PrometheusAddress: address})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.stop)
	ask := func(t *testing.T, source v1alpha1.MetricsSource, metric v1alpha1.AnalysisMetric, release string) answer {
		t.Helper()
		target := Target{Namespace: "shop", Microservice: "cart", Group: "1-x", Release: release, Version: "2.0.0", Services: []string{release}}
		spec := v1alpha1.CanaryAnalysis{Interval: "1m", Source: source}
		return m.ask(t.Context(), Request{At: history, Spec: spec}, &metric, target)
	}
	near := func(t *testing.T, want, got answer) {
		t.Helper()
		if got.err != nil || got.noTraffic != want.noTraffic || got.atLeast != want.atLeast || math.Abs(got.value-want.value) > 1e-9 {
			t.Errorf("%+v, %v, want %+v", got, got.err, want)
		}
	}
	rate := v1alpha1.AnalysisMetric{Name: "rate", SuccessRate: &v1alpha1.SuccessRateMetric{}}
	latency := func(q v1alpha1.LatencyQuantile) v1alpha1.AnalysisMetric {
		return v1alpha1.AnalysisMetric{Name: "latency", Latency: &v1alpha1.LatencyMetric{Quantile: q}}
	}

	for _, source := range []v1alpha1.MetricsSource{v1alpha1.SourceTraefik, v1alpha1.SourceApplication, v1alpha1.SourceIstio, v1alpha1.SourceIngressNGINX, v1alpha1.SourceEnvoyGateway} {
		t.Run(string(source), func(t *testing.T) {
			near(t, answer{value: 95}, ask(t, source, rate, "cart-2"))
			near(t, answer{value: 99.9}, ask(t, source, rate, "cart-1"))
			near(t, answer{noTraffic: true}, ask(t, source, rate, "cart-9"))
			if source == v1alpha1.SourceEnvoyGateway {
				near(t, answer{value: 0}, ask(t, source, rate, "cart-3")) // by an IPv6 address
				return
			}
			near(t, answer{value: 0.1}, ask(t, source, latency(v1alpha1.LatencyP50), "cart-2"))
			near(t, answer{value: 0.8625}, ask(t, source, latency(v1alpha1.LatencyP95), "cart-2"))
			near(t, answer{value: 3.1}, ask(t, source, latency(v1alpha1.LatencyP99), "cart-2"))
			near(t, answer{value: 5, atLeast: true}, ask(t, source, latency(v1alpha1.LatencyP50), "cart-3"))
			near(t, answer{noTraffic: true}, ask(t, source, latency(v1alpha1.LatencyP50), "cart-9"))
		})
	}

	t.Run("counters", func(t *testing.T) {
		const source = v1alpha1.SourceApplication
		near(t, answer{value: 80}, ask(t, source, rate, "born"))           // 100 of 500: increase() alone sees none of them
		near(t, answer{noTraffic: true}, ask(t, source, rate, "idle"))     // what stands still is no request
		near(t, answer{value: 100}, ask(t, source, rate, "restarted"))     // a restart is no traffic, nor is it negative
		near(t, answer{value: 0}, ask(t, source, rate, "broken"))          // nothing but errors
		near(t, answer{noTraffic: true}, ask(t, source, rate, "cart-2-0")) // a pod is no release
	})

	t.Run("queries", func(t *testing.T) {
		for name, test := range map[string]struct {
			query string
			want  answered
		}{
			"one number":       {`sum(increase(http_requests_total{hlnr_io_release="{{.Release}}",namespace="{{.Namespace}}",code=~"2.."}[{{.Interval}}])) > bool 0`, answered{value: 1}},
			"a scalar":         {`scalar(vector(3))`, answered{value: 3}},
			"by Services":      {`count(traefik_service_requests_total{service=~"{{.Namespace}}-({{.Service}})-http-.+@kubernetesgateway"})`, answered{value: 3}},
			"nothing":          {`http_requests_total{hlnr_io_release="nobody"}`, answered{noTraffic: true}},
			"several":          {`http_requests_total{hlnr_io_release="{{.Release}}"}`, answered{reason: SeveralSeries}},
			"a range":          {`http_requests_total[{{.Interval}}]`, answered{reason: WrongType}},
			"a string":         {`"99"`, answered{reason: BadAnswer}},
			"0 / 0":            {`vector(0) / vector(0)`, answered{reason: NotANumber}},
			"1 / 0":            {`vector(1) / vector(0)`, answered{reason: Infinite}},
			"no PromQL":        {`sum(`, answered{reason: BadQuery}},
			"many to many":     {`http_requests_total * on (namespace) http_requests_total`, answered{reason: BadQuery}},
			"a later time":     {`http_requests_total{hlnr_io_release="idle",code="200"} @ 1893456000`, answered{noTraffic: true}},
			"another's labels": {`sum(http_requests_total{namespace="shop",hlnr_io_release="x\"} or vector(1) #"})`, answered{noTraffic: true}},
		} {
			t.Run(name, func(t *testing.T) {
				got := ask(t, "", v1alpha1.AnalysisMetric{Name: "a", Prometheus: &v1alpha1.PrometheusMetric{Query: test.query}}, "cart-2")
				check(t, test.want, got)
			})
		}
	})
}
