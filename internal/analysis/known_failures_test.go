package analysis

import (
	"context"
	"encoding/pem"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/test/await"
)

// TestConnectionsDoNotPileUp checks row 56 of the known failures: connections are reused or closed after any response
// from a provider, even if the connections use the user's certificate authority.
func TestConnectionsDoNotPileUp(t *testing.T) {
	t.Parallel()
	const questions, most = 60, 8
	for name, test := range map[string]struct {
		answer    http.HandlerFunc
		authority bool
	}{
		"good":              {answers(200, vector("1")), false},
		"error with a body": {answers(500, `{"status":"error","errorType":"internal","error":"x"}`), false},
		"too many":          {answers(429, "later"), false},
		"not allowed":       {answers(401, "who?"), false},
		"not JSON":          {answers(200, "<html>"), false},
		"too large":         {answers(200, vector("1")+string(make([]byte, outbound.DefaultMaxBody))), false},
		"own authority":     {answers(200, vector("1")), true},
	} {
		for _, kind := range []provider{providerPrometheus, providerWeb} {
			t.Run(fmt.Sprintf("%s %s", kind, name), func(t *testing.T) {
				t.Parallel()
				var open atomic.Int32
				server := httptest.NewUnstartedServer(test.answer)
				server.Config.ConnState = func(_ net.Conn, s http.ConnState) {
					switch s {
					case http.StateNew:
						open.Add(1)
					case http.StateClosed, http.StateHijacked:
						open.Add(-1)
					}
				}
				q := query{provider: kind, address: "", text: "body", at: start.UnixNano(), namespace: "shop"}
				store := secrets{}
				if test.authority {
					server.StartTLS()
					q.authority = "ca"
					store["shop/ca"] = map[string][]byte{"ca.crt": pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})}
				} else {
					server.Start()
				}
				t.Cleanup(server.Close)
				q.address = server.URL
				s := openSender(t, store)
				for range questions {
					s.send(t.Context(), q)
				}
				await.Nil(t, func(context.Context) error { // The server detects the close a little later.
					if n := open.Load(); n > most {
						return fmt.Errorf("%d connections are open after %d queries", n, questions)
					}
					return nil
				})
			})
		}
	}
}

// TestSeriesDoNotGrow checks row 56: the number of series does not grow with releases, queries or addresses.
func TestSeriesDoNotGrow(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	policy, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	requeued := make(chan types.NamespacedName, 100)
	m, err := New(Config{Outbound: policy, Registerer: registry, Requeue: func(k types.NamespacedName) { requeued <- k }, QueriesPerSecond: 1000})
	if err != nil {
		t.Fatal(err)
	}
	series := func() (n int) {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			n += len(f.Metric)
		}
		return n
	}
	now := 0
	for i := range 30 {
		address := serve(t, answers(200, vector("1")))
		spec := specOf(func(s *v1alpha1.CanaryAnalysis) {
			s.Provider.Prometheus = &v1alpha1.PrometheusProvider{Address: address}
			s.Metrics = []v1alpha1.AnalysisMetric{{Name: fmt.Sprint("m", i), Prometheus: &v1alpha1.PrometheusMetric{Query: fmt.Sprintf("up%d", i)}}}
		})
		key := types.NamespacedName{Namespace: fmt.Sprint("n", i), Name: fmt.Sprint("r", i)}
		m.Ask(key, Request{At: time.Now().Truncate(time.Second), Spec: *spec, Canary: Target{Namespace: key.Namespace, Release: key.Name}})
		await.Receive(t, "a round", requeued)
		if i == 0 {
			now = series()
		}
	}
	if later := series(); now == 0 || later != now {
		t.Errorf("%d series after one release, %d after thirty", now, later)
	}
}

// TestUnitsOfSources checks row 51: built-in latencies are in seconds, regardless of the unit of a source, and success rates are in percent.
func TestUnitsOfSources(t *testing.T) {
	t.Parallel()
	target := Target{Namespace: "shop", Microservice: "cart", Group: "1-x", Release: "cart-1-2-0", Version: "1.2.0", Services: []string{"web"}}
	perSecond := map[string]string{"_milliseconds_bucket": " / 1000 ", "_seconds_bucket": " / 1 ", "_duration_ms_bucket": " / 1000 "}
	for name, s := range sources {
		spec := specOf(func(a *v1alpha1.CanaryAnalysis) { a.Source = name })
		rate, err := builtin(spec, &v1alpha1.AnalysisMetric{SuccessRate: &v1alpha1.SuccessRateMetric{}}, target, intervalOf(spec))
		if err != nil || !strings.HasPrefix(rate, "100 * (") {
			t.Errorf("%s: the success rate is not a percentage: %s %v", name, rate, err)
		}
		if s.buckets == "" {
			continue
		}
		latency, err := builtin(spec, &v1alpha1.AnalysisMetric{Latency: &v1alpha1.LatencyMetric{Quantile: v1alpha1.LatencyP95}}, target, intervalOf(spec))
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
		known := false
		for suffix, divided := range perSecond {
			if strings.HasSuffix(s.buckets, suffix) {
				if known = true; !strings.Contains(latency, divided) {
					t.Errorf("%s: the query uses %s, but does not contain%s: %s", name, s.buckets, divided, latency)
				}
			}
		}
		if !known {
			t.Errorf("%s: the unit of %s is not known to this test", name, s.buckets)
		}
	}
}
