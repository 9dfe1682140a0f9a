package analysis

import (
	"context"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/test/await"
)

// clock is a clock that a test sets.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// measurerOf returns a Measurer that queries the Prometheus server at an address, and a channel that
// receives the key of the release at the end of each round.
func measurerOf(t *testing.T, address string, change func(*Config)) (*Measurer, chan types.NamespacedName) {
	t.Helper()
	requeued := make(chan types.NamespacedName, 1000)
	config := Config{PrometheusAddress: address, Requeue: func(key types.NamespacedName) { requeued <- key }, QueriesPerSecond: 1000}
	if change != nil {
		change(&config)
	}
	m, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.stop)
	return m, requeued
}

func requestOf(release string, metrics ...v1alpha1.AnalysisMetric) Request {
	return Request{
		At:     start,
		Spec:   v1alpha1.CanaryAnalysis{Interval: "1m", Metrics: metrics},
		Canary: Target{Namespace: "shop", Release: release},
	}
}

func queryMetric(name, query string) v1alpha1.AnalysisMetric {
	return v1alpha1.AnalysisMetric{Name: name, Prometheus: &v1alpha1.PrometheusMetric{Query: query}, ThresholdRange: v1alpha1.ValueRange{Min: ptr(1.0)}}
}

func keyOf(release string) types.NamespacedName {
	return types.NamespacedName{Namespace: "shop", Name: release}
}

func wait(t *testing.T, requeued <-chan types.NamespacedName) types.NamespacedName {
	t.Helper()
	return await.Receive(t, "the end of a round", requeued)
}

// TestAsk checks that a round starts without blocking, requeues once, and is
// available until another round is requested.
func TestAsk(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_ = r.ParseForm()
		answers(200, vector(map[string]string{"good": "2", "bad": "0"}[r.Form.Get("query")]))(w, r)
	})
	m, requeued := measurerOf(t, address, nil)
	request := requestOf("cart-1", queryMetric("a", "good"), queryMetric("b", "bad"))
	if _, done := m.Ask(keyOf("cart-1"), request); done {
		t.Fatal("the round is available before it has been requested")
	}
	if key := wait(t, requeued); key != keyOf("cart-1") {
		t.Fatalf("requeued for %s", key)
	}
	want := Round{At: start, Measurements: []Measurement{
		{Metric: "a", Result: "Passed", Value: "2"}, {Metric: "b", Result: "Failed", Value: "0", Message: "0 is below 1"},
	}}
	for range 2 { // A round is added again if its status could not be written.
		got, done := m.Ask(keyOf("cart-1"), request)
		if !done {
			t.Fatal("the round is no longer available")
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if n := asked.Load(); n != 2 {
		t.Errorf("%d queries, want 2", n)
	}

	later := request
	later.At = start.Add(time.Minute)
	if _, done := m.Ask(keyOf("cart-1"), later); done {
		t.Error("another round gets the results of the first")
	}
	wait(t, requeued)
	edited := later
	edited.Spec.Metrics = edited.Spec.Metrics[:1]
	if _, done := m.Ask(keyOf("cart-1"), edited); done {
		t.Error("an edited analysis gets the results from before the edit")
	}
	wait(t, requeued)
	m.Forget(keyOf("cart-1"))
	if len(m.rounds) != 0 {
		t.Error("a forgotten round is kept")
	}
}

// TestShared checks that identical queries for many releases are sent once.
func TestShared(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	release := make(chan struct{})
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		<-release
		answers(200, vector("1"))(w, r)
	})
	m, requeued := measurerOf(t, address, nil)
	const releases = 50
	for i := range releases {
		m.Ask(keyOf(fmt.Sprint("r", i)), requestOf(fmt.Sprint("r", i), queryMetric("a", "up")))
	}
	close(release)
	for range releases {
		wait(t, requeued)
	}
	late := requestOf("late", queryMetric("a", "up")) // for the same time, but after the response
	m.Ask(keyOf("late"), late)
	wait(t, requeued)
	if n := asked.Load(); n != 1 {
		t.Errorf("%d queries, want 1", n)
	}
	for i := range releases {
		name := fmt.Sprint("r", i)
		if got, done := m.Ask(keyOf(name), requestOf(name, queryMetric("a", "up"))); !done || got.Measurements[0].Result != v1alpha1.MeasurementPassed {
			t.Errorf("%s: %+v, %t", name, got, done)
		}
	}
}

// TestNotShared checks that queries that differ in namespace, provider or time are
// sent separately.
func TestNotShared(t *testing.T) {
	t.Parallel()
	spec := func(secret string) *v1alpha1.CanaryAnalysis {
		return &v1alpha1.CanaryAnalysis{Provider: v1alpha1.AnalysisProvider{Prometheus: &v1alpha1.PrometheusProvider{
			Address: "http://a", SecretRef: &v1alpha1.Reference{Name: secret},
		}}}
	}
	metric := queryMetric("a", "up")
	ask := func(spec *v1alpha1.CanaryAnalysis, metric v1alpha1.AnalysisMetric, namespace string, at time.Time) query {
		q, err := question(spec, &metric, Target{Namespace: namespace}, at, "http://operator")
		if err != nil {
			t.Fatal(err)
		}
		return q
	}
	first := ask(spec("s"), metric, "shop", start)
	for name, other := range map[string]query{
		"namespace": ask(spec("s"), metric, "other", start),
		"namespace of a query that needs no Secret": ask(&v1alpha1.CanaryAnalysis{}, metric, "other", start),
		"secret":  ask(spec("t"), metric, "shop", start),
		"time":    ask(spec("s"), metric, "shop", start.Add(time.Second)),
		"query":   ask(spec("s"), queryMetric("a", "down"), "shop", start),
		"address": ask(&v1alpha1.CanaryAnalysis{}, metric, "shop", start),
	} {
		if first == other {
			t.Errorf("the %s makes no difference", name)
		}
	}
	if first != ask(spec("s"), queryMetric("other name", "up"), "shop", start) {
		t.Error("the metric's name makes a difference")
	}
}

// TestBounded checks that one provider gets at most its share of concurrent queries, and at most half of that share from one namespace.
func TestBounded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ namespaces, want int64 }{
		"one namespace": {1, 2},
		"many":          {8, 4},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var now, most atomic.Int64
			handler := func(w http.ResponseWriter, r *http.Request) {
				n := now.Add(1)
				for {
					m := most.Load()
					if n <= m || most.CompareAndSwap(m, n) {
						break
					}
				}
				answers(200, vector("1"))(w, r)
				now.Add(-1)
			}
			m, requeued := measurerOf(t, serve(t, handler), func(c *Config) { c.Workers = 16 })
			const releases = 40
			for i := range int64(releases) {
				key := types.NamespacedName{Namespace: fmt.Sprint("n", i%test.namespaces), Name: fmt.Sprint("r", i)}
				request := requestOf(key.Name, queryMetric("a", `a{b="{{.Release}}"}`), queryMetric("b", `b{b="{{.Release}}"}`))
				request.Canary.Namespace = key.Namespace
				m.Ask(key, request)
			}
			for range releases {
				wait(t, requeued)
			}
			if got := most.Load(); got > test.want {
				t.Errorf("%d queries at a time to one provider, want at most %d of 16 workers", got, test.want)
			}
			if n := m.pool.slots.Taken(); n != 0 {
				t.Errorf("%d slots are still taken", n)
			}
		})
	}
}

// TestOneNamespaceDoesNotBlockOthers checks that a namespace with hanging providers, and with slow queries to the operator's Prometheus, does not delay the
// responses for other namespaces, even for the same queries.
func TestOneNamespaceDoesNotBlockOthers(t *testing.T) {
	t.Parallel()
	arrived := make(chan struct{}, 1000)
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // A server detects that a request was canceled only after the body has been read.
		arrived <- struct{}{}
		<-r.Context().Done()
	}
	operator := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if r.Form.Get("query") != "good" {
			hang(w, r)
			return
		}
		answers(200, vector("2"))(w, r)
	})
	policy, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	m, requeued := measurerOf(t, operator, func(c *Config) { c.Outbound = policy.WithResolver(loopback{}) })
	defer m.stop() // hanging requests must end before the servers close
	slow, err := url.Parse(serve(t, hang))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 40 {
		name := fmt.Sprint("evil", i)
		evil := requestOf(name, queryMetric("long", "long"+name), queryMetric("same", "good"))
		evil.Canary.Namespace, evil.Spec.Provider.Timeout = "evil", "1m"
		for _, host := range []string{"a.example", "B.Example.", name + ".example"} {
			evil.Spec.Metrics = append(evil.Spec.Metrics, v1alpha1.AnalysisMetric{
				Name: host, ThresholdRange: v1alpha1.ValueRange{Min: ptr(1.0)},
				Web: &v1alpha1.WebMetric{URL: fmt.Sprintf("http://%s:%s/%d", host, slow.Port(), i), Value: "body"},
			})
		}
		m.Ask(types.NamespacedName{Namespace: "evil", Name: name}, evil)
	}
	for range 8 { // the complete share of the namespace
		<-arrived
	}
	request := requestOf("cart-1", queryMetric("a", "good"))
	m.Ask(keyOf("cart-1"), request)
	if key := wait(t, requeued); key != keyOf("cart-1") {
		t.Fatalf("requeued for %s", key)
	}
	if got, _ := m.Ask(keyOf("cart-1"), request); got.Measurements[0].Result != v1alpha1.MeasurementPassed {
		t.Errorf("%+v", got.Measurements)
	}
	if got := m.pool.slots.Taken(); got > 8 {
		t.Errorf("%d of 32 slots are taken by one namespace, want at most 8", got)
	}
}

// loopback resolves all names to the loopback address.
type loopback struct{}

func (loopback) LookupNetIP(context.Context, string, string) ([]netip.Addr, error) {
	return []netip.Addr{netip.MustParseAddr("127.0.0.1")}, nil
}

// TestEndpoints checks that different spellings of a server's address result in the same endpoint, and that each user has
// a separate endpoint.
func TestEndpoints(t *testing.T) {
	t.Parallel()
	base := query{address: "http://metrics.example:9090/a", namespace: "shop"}
	for name, test := range map[string]struct {
		other query
		same  bool
	}{
		"path":              {query{address: "http://metrics.example:9090/b", namespace: "shop"}, true},
		"case":              {query{address: "http://METRICS.Example:9090/a", namespace: "shop"}, true},
		"dot":               {query{address: "http://metrics.example.:9090/a", namespace: "shop"}, true},
		"namespace":         {query{address: "http://metrics.example:9090/a", namespace: "other"}, true},
		"own certificates":  {query{address: "http://metrics.example:9090/a", namespace: "shop", authority: "ca"}, true},
		"port":              {query{address: "http://metrics.example:9091/a", namespace: "shop"}, false},
		"scheme":            {query{address: "https://metrics.example:9090/a", namespace: "shop"}, false},
		"user":              {query{address: "http://metrics.example:9090/a", namespace: "shop", secret: "s"}, false},
		"user elsewhere":    {query{address: "http://metrics.example:9090/a", namespace: "other", secret: "s"}, false},
		"another subdomain": {query{address: "http://a.metrics.example:9090/a", namespace: "shop"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if same := test.other.endpoint() == base.endpoint(); same != test.same {
				t.Errorf("%q and %q", test.other.endpoint(), base.endpoint())
			}
		})
	}
}

// TestThrottled checks that a provider that responds with "too many requests" gets no requests during the requested
// time, and that other providers still get requests.
func TestThrottled(t *testing.T) {
	t.Parallel()
	c := &clock{now: start}
	p := newPool(t.Context(), 4, 1000, c.Now)
	asked := map[string]int{}
	ask := func(address string, at int64, a answer) answer {
		return p.do(t.Context(), query{address: address, at: at}, await.Limit, func(context.Context) answer {
			asked[address]++
			return a
		})
	}
	tooMany := answer{err: &Error{Reason: Throttled, Message: "429", RetryAfter: time.Minute}}
	ask("http://a", 1, tooMany)
	if got := ask("http://a", 2, answer{value: 1}); got.err == nil || got.err.Reason != Throttled || got.err.RetryAfter != time.Minute {
		t.Errorf("%+v, want Throttled for a minute", got)
	}
	ask("http://b", 2, answer{value: 1})
	c.add(59 * time.Second)
	ask("http://a", 3, answer{value: 1})
	if diff := cmp.Diff(map[string]int{"http://a": 1, "http://b": 1}, asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
	c.add(2 * time.Second)
	if got := ask("http://a", 4, answer{value: 1}); got.err != nil || asked["http://a"] != 2 {
		t.Errorf("%+v after the requested pause", got)
	}
	for name, wait := range map[string]time.Duration{"http://short": 0, "http://long": 1000 * time.Hour} {
		ask(name, 1, answer{err: &Error{Reason: Throttled, Message: "429", RetryAfter: wait}})
	}
	c.add(defaultRetryAfter + time.Second)
	if got := ask("http://short", 2, answer{value: 1}); got.err != nil {
		t.Errorf("%v after the default wait", got.err)
	}
	c.add(maxRetryAfter)
	if got := ask("http://long", 2, answer{value: 1}); got.err != nil {
		t.Errorf("%v after the longest wait", got.err)
	}
}

// TestRetryAfterIsRead checks that the header of a real response pauses queries to
// the provider.
func TestRetryAfterIsRead(t *testing.T) {
	t.Parallel()
	for name, status := range map[string]int{"too many": 429, "unavailable": 503} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serve(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Retry-After", "120")
				w.WriteHeader(status)
			})
			for _, provider := range []provider{providerPrometheus, providerWeb} {
				got := openSender(t, nil).send(t.Context(), query{provider: provider, address: address, text: "body", at: start.UnixNano()})
				if got.err == nil || got.err.Reason != Throttled || got.err.RetryAfter != 2*time.Minute {
					t.Errorf("%s: %+v, want Throttled for two minutes", provider, got.err)
				}
			}
		})
	}
}

// TestPoolForgets checks that old responses and idle endpoints are dropped.
func TestPoolForgets(t *testing.T) {
	t.Parallel()
	c := &clock{now: start}
	p := newPool(t.Context(), 4, 1000, c.Now)
	for i := range 100 {
		p.do(t.Context(), query{address: fmt.Sprintf("http://host-%d", i)}, await.Limit, func(context.Context) answer { return answer{value: 1} })
	}
	c.add(keepEndpoints + time.Second)
	p.do(t.Context(), query{address: "http://last"}, await.Limit, func(context.Context) answer { return answer{value: 1} })
	if len(p.calls) != 1 || len(p.endpoints) != 1 {
		t.Errorf("%d responses and %d endpoints are kept, want 1 and 1", len(p.calls), len(p.endpoints))
	}
}

// TestSlowProvider checks that a hanging provider makes only its own round fail, and that this round ends in time.
func TestSlowProvider(t *testing.T) {
	t.Parallel()
	slow := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // A server detects that a request was canceled only after the body has been read.
		<-r.Context().Done()
	})
	fast := serve(t, answers(200, vector("1")))
	m, requeued := measurerOf(t, slow, nil)
	m.sender = openSender(t, nil)
	hanging := requestOf("slow", queryMetric("a", "up"))
	hanging.Spec.Provider = v1alpha1.AnalysisProvider{Timeout: "1s", Prometheus: &v1alpha1.PrometheusProvider{Address: slow}}
	working := requestOf("fast", queryMetric("a", "up"))
	working.Spec.Provider.Prometheus = &v1alpha1.PrometheusProvider{Address: fast}
	m.Ask(keyOf("slow"), hanging)
	m.Ask(keyOf("fast"), working)
	for range 2 {
		wait(t, requeued)
	}
	if got, _ := m.Ask(keyOf("slow"), hanging); got.Measurements[0].Result != v1alpha1.MeasurementError || !strings.HasPrefix(got.Measurements[0].Message, "Timeout: ") {
		t.Errorf("slow: %+v", got)
	}
	if got, _ := m.Ask(keyOf("fast"), working); got.Measurements[0].Result != v1alpha1.MeasurementPassed {
		t.Errorf("fast: %+v", got)
	}
}

// TestTimeoutOfAWholeInterval checks that a round counts although its queries end only when the next round is due, and that the next
// round then starts.
func TestTimeoutOfAWholeInterval(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_ = r.ParseForm() // A server detects that a request was canceled only after the body has been read.
		<-r.Context().Done()
	})
	m, requeued := measurerOf(t, address, nil)
	request := requestOf("cart-1", queryMetric("a", "up"))
	request.Spec.Interval, request.Spec.Provider.Timeout = "1s", "1s"
	later := request
	later.At = request.At.Add(time.Second)
	if _, done := m.Ask(keyOf("cart-1"), request); done {
		t.Fatal("the round is done before it starts")
	}
	if _, done := m.Ask(keyOf("cart-1"), later); done {
		t.Fatal("the round is done before its queries end")
	}
	wait(t, requeued)
	got, done := m.Ask(keyOf("cart-1"), later)
	if !done || !got.At.Equal(request.At) || got.Measurements[0].Result != v1alpha1.MeasurementError {
		t.Errorf("%+v, %t, want an error at %s", got, done, request.At)
	}
	if n := asked.Load(); n > 1 {
		t.Errorf("%d queries in one round", n)
	}
	if _, done := m.Ask(keyOf("cart-1"), later); done {
		t.Error("the round is returned twice for later rounds")
	}
	wait(t, requeued)
	if got, done := m.Ask(keyOf("cart-1"), later); !done || !got.At.Equal(later.At) {
		t.Errorf("%+v, %t, want the next round at %s", got, done, later.At)
	}
}

// TestReplaced checks that a newer round or Forget stops the round in progress, and that only the newer round requeues.
func TestReplaced(t *testing.T) {
	t.Parallel()
	arrived := make(chan string, 10)
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		arrived <- r.Form.Get("query")
		if r.Form.Get("query") == "slow" {
			<-r.Context().Done()
			return
		}
		answers(200, vector("1"))(w, r)
	})
	m, requeued := measurerOf(t, address, nil)
	m.Ask(keyOf("cart-1"), requestOf("cart-1", queryMetric("a", "slow")))
	<-arrived
	m.Ask(keyOf("cart-1"), requestOf("cart-1", queryMetric("a", "up")))
	wait(t, requeued)
	if got, done := m.Ask(keyOf("cart-1"), requestOf("cart-1", queryMetric("a", "up"))); !done || got.Measurements[0].Result != v1alpha1.MeasurementPassed {
		t.Errorf("%+v, %t", got, done)
	}
	select {
	case key := <-requeued:
		t.Errorf("requeued for %s by a round that was replaced", key)
	default:
	}
}

// TestBaselineIsAsked checks that the active release is measured with the same query,
// unless its weight is 0.
func TestBaselineIsAsked(t *testing.T) {
	t.Parallel()
	var asked atomic.Int64
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		_ = r.ParseForm()
		answers(200, vector(map[string]string{"cart-2": "3", "cart-1": "2"}[r.Form.Get("query")]))(w, r)
	})
	m, requeued := measurerOf(t, address, nil)
	metric := queryMetric("a", "{{.Release}}")
	metric.Baseline = v1alpha1.BaselineRatio
	request := requestOf("cart-2", metric)
	m.Ask(keyOf("cart-2"), request)
	wait(t, requeued)
	if got, _ := m.Ask(keyOf("cart-2"), request); got.Measurements[0].Result != v1alpha1.MeasurementSkipped || asked.Load() != 0 {
		t.Errorf("%+v after %d queries, want Skipped after 0 queries", got, asked.Load())
	}
	request.Active = &Target{Namespace: "shop", Release: "cart-1"}
	m.Ask(keyOf("cart-2"), request)
	wait(t, requeued)
	got, _ := m.Ask(keyOf("cart-2"), request)
	want := []Measurement{{Metric: "a", Result: "Passed", Value: "1.5", Message: "canary 3, active 2"}}
	if diff := cmp.Diff(want, got.Measurements); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMetrics checks the counters, and that no label depends on user input.
func TestMetrics(t *testing.T) {
	t.Parallel()
	registry := prometheus.NewRegistry()
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm()
		if strings.HasPrefix(r.Form.Get("query"), "none") {
			answers(200, vector())(w, r)
			return
		}
		answers(200, vector("NaN"))(w, r)
	})
	m, requeued := measurerOf(t, address, func(c *Config) { c.Registerer = registry })
	for i := range 20 {
		name := fmt.Sprint("r", i)
		m.Ask(keyOf(name), requestOf(name, queryMetric("a", "none_{{.Release}}"), queryMetric("b", "nan_{{.Release}}"), v1alpha1.AnalysisMetric{Name: "c"}))
	}
	for range 20 {
		wait(t, requeued)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, l := range metric.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			v := metric.GetCounter().GetValue()
			if h := metric.GetHistogram(); h != nil {
				v = float64(h.GetSampleCount())
			}
			got[family.GetName()+" "+strings.Join(labels, " ")] = v
		}
	}
	want := map[string]float64{
		"heighliner_analysis_queries_total prometheus NoTraffic":  20,
		"heighliner_analysis_queries_total prometheus NotANumber": 20,
		"heighliner_analysis_queries_total prometheus BadQuery":   20,
		"heighliner_analysis_query_duration_seconds prometheus":   40,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNew(t *testing.T) {
	t.Parallel()
	for address, good := range map[string]bool{
		"": true, "http://prometheus:9090": true, "https://prometheus/base": true,
		"prometheus:9090": false, "ftp://prometheus": false, "http://": false, "://": false,
	} {
		_, err := New(Config{PrometheusAddress: address})
		if (err == nil) != good || err != nil && !strings.Contains(err.Error(), "--prometheus-address") {
			t.Errorf("%q: error = %v", address, err)
		}
	}
	registry := prometheus.NewRegistry()
	if _, err := New(Config{Registerer: registry}); err != nil {
		t.Fatal(err)
	}
	if _, err := New(Config{Registerer: registry}); err == nil {
		t.Error("metrics are registered twice")
	}
}

// TestStart checks that when the manager stops, rounds in progress stop and nothing is requeued.
func TestStart(t *testing.T) {
	t.Parallel()
	arrived, ended := make(chan struct{}), make(chan struct{})
	address := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		_ = r.ParseForm() // A server detects that a request was canceled only after the body has been read.
		close(arrived)
		<-r.Context().Done()
		close(ended)
	})
	m, requeued := measurerOf(t, address, nil)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- m.Start(ctx) }()
	m.Ask(keyOf("cart-1"), requestOf("cart-1", queryMetric("a", "up")))
	<-arrived
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
	await.Receive(t, "the end of the query", ended)
	select {
	case key := <-requeued:
		t.Errorf("requeued for %s", key)
	default:
	}
}

// TestQuestions checks which server is queried, and which queries are rejected before they are sent.
func TestQuestions(t *testing.T) {
	t.Parallel()
	target := Target{Namespace: "shop", Release: "cart-1", Services: []string{"cart-1"}}
	for name, test := range map[string]struct {
		spec     v1alpha1.CanaryAnalysis
		metric   v1alpha1.AnalysisMetric
		target   Target
		operator string
		want     string // address
		reason   Reason
	}{
		"the operator's":              {v1alpha1.CanaryAnalysis{}, queryMetric("a", "up"), target, "http://operator", "http://operator", ""},
		"the user's own":              {v1alpha1.CanaryAnalysis{Provider: v1alpha1.AnalysisProvider{Prometheus: &v1alpha1.PrometheusProvider{Address: "http://own"}}}, queryMetric("a", "up"), target, "http://operator", "http://own", ""},
		"none":                        {v1alpha1.CanaryAnalysis{}, queryMetric("a", "up"), target, "", "", NoProvider},
		"neither built in nor custom": {v1alpha1.CanaryAnalysis{}, v1alpha1.AnalysisMetric{Name: "request-success-rate"}, target, "http://operator", "", BadQuery},
		"an unknown source":           {v1alpha1.CanaryAnalysis{Source: "Linkerd"}, v1alpha1.AnalysisMetric{SuccessRate: &v1alpha1.SuccessRateMetric{}}, target, "http://operator", "", BadQuery},
		"an unknown quantile":         {v1alpha1.CanaryAnalysis{}, v1alpha1.AnalysisMetric{Latency: &v1alpha1.LatencyMetric{Quantile: "P90"}}, target, "http://operator", "", BadQuery},
		"no Service to select":        {v1alpha1.CanaryAnalysis{}, v1alpha1.AnalysisMetric{SuccessRate: &v1alpha1.SuccessRateMetric{}}, Target{Release: "cart-1"}, "http://operator", "", BadQuery},
		"latency of Envoy Gateway":    {v1alpha1.CanaryAnalysis{Source: "EnvoyGateway"}, v1alpha1.AnalysisMetric{Latency: &v1alpha1.LatencyMetric{Quantile: "P95"}}, target, "http://operator", "", BadQuery},
		"an unknown field":            {v1alpha1.CanaryAnalysis{}, queryMetric("a", "{{.Secret}}"), target, "http://operator", "", BadQuery},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			q, err := question(&test.spec, &test.metric, test.target, start, test.operator)
			switch {
			case test.reason == "" && (err != nil || q.address != test.want):
				t.Errorf("%q, %v, want %q", q.address, err, test.want)
			case test.reason != "" && (err == nil || err.Reason != test.reason || err.Message == ""):
				t.Errorf("error = %v, want reason %s", err, test.reason)
			}
		})
	}
}
