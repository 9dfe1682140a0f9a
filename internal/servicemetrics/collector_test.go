package servicemetrics

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// cached replaces the cache.
type cached struct {
	view.Input
	err error
}

func (c *cached) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("objects are never read one by one")
}

func (c *cached) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	if !slices.Contains(options, client.ListOption(client.UnsafeDisableDeepCopy)) {
		return errors.New("the list is copied")
	}
	switch l := list.(type) {
	case *v1alpha1.MicroserviceList:
		l.Items = slices.Clone(c.Microservices)
	case *v1alpha1.VersionedMicroserviceList:
		l.Items = slices.Clone(c.Releases)
	case *v1alpha1.NetworkPolicyList:
		l.Items = slices.Clone(c.NetworkPolicies)
	case *v1alpha1.ImagePolicyList:
		l.Items = slices.Clone(c.ImagePolicies)
	}
	return c.err
}

// scraped is a collector that reads given objects, at a time that a test sets.
type scraped struct {
	*Collector
	cached *cached
	clock  *clocktesting.FakePassiveClock
	gather *prometheus.Registry
	log    *strings.Builder
}

func scrapedAt(now time.Time, limit int) *scraped {
	s := &scraped{cached: &cached{}, clock: clocktesting.NewFakePassiveClock(now), gather: prometheus.NewPedanticRegistry(), log: &strings.Builder{}}
	s.Collector = New(Options{Cache: s.cached, Limit: limit, Clock: clock.PassiveClock(s.clock), Log: funcr.New(func(_, args string) { fmt.Fprintln(s.log, args) }, funcr.Options{})})
	s.gather.MustRegister(s.Collector)
	return s
}

// scrape returns the values of series as name{label="value"}, for metrics whose names have the given prefix.
func (s *scraped) scrape(t testing.TB, prefix string) map[string]float64 {
	t.Helper()
	families, err := s.gather.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if !strings.HasPrefix(f.GetName(), prefix) {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
			}
			name := f.GetName() + "{" + strings.Join(labels, ",") + "}"
			switch {
			case m.GetSummary() != nil:
				out[name] = m.GetSummary().GetSampleSum()
				out[name+" count"] = float64(m.GetSummary().GetSampleCount())
			case m.GetCounter() != nil:
				out[name] = m.GetCounter().GetValue()
			default:
				out[name] = m.GetGauge().GetValue()
			}
		}
	}
	return out
}

// story returns the objects of a story of the service shop.
func story(t testing.TB, name string) viewtest.Story {
	t.Helper()
	s, ok := viewtest.Play(name, "shop")
	if !ok {
		t.Fatalf("there is no story %q", name)
	}
	return s
}

// TestReports checks that only one of several elected processes reports.
func TestReports(t *testing.T) {
	t.Parallel()
	st := viewtest.Stories()[0]
	s := scrapedAt(st.Now, 500)
	s.cached.Input = st.Input
	reports := false
	s.Collector.Reports = func() bool { return reports }
	if got := s.scrape(t, "heighliner_"); len(got) > 0 {
		t.Errorf("a process that does not report exposes the metrics %v", got)
	}
	reports = true
	if got := s.scrape(t, "heighliner_microservices"); len(got) != 1 {
		t.Errorf("a process that reports has %v", got)
	}
}

// TestStates checks that, for each story, a scrape returns the state that readers see.
func TestStates(t *testing.T) {
	t.Parallel()
	for _, st := range viewtest.Stories() {
		t.Run(st.Name, func(t *testing.T) {
			t.Parallel()
			s := scrapedAt(st.Now, 500)
			s.cached.Input = st.Input
			got := s.scrape(t, "heighliner_group")
			want := 0
			for _, service := range view.New(st.Input, st.Now).Services {
				for i, g := range service.Groups {
					series := fmt.Sprintf(`heighliner_group_state{group=%q,microservice=%q,namespace=%q,state=%q}`, g.Slug, service.Name, service.Namespace, g.State.Word)
					if i < maxGroups && got[series] != 1 {
						t.Errorf("there is no %s", series)
					}
					want++
				}
				for _, g := range service.Previews {
					if g.Phase != "" {
						want++
					}
				}
			}
			sum := 0.0
			for name, value := range got {
				if strings.HasPrefix(name, "heighliner_groups{") {
					sum += value
				}
			}
			if int(sum) != want {
				t.Errorf("heighliner_groups adds up to %v, want %d", sum, want)
			}
		})
	}
}

// TestCanary checks the series of a canary in its second step.
func TestCanary(t *testing.T) {
	t.Parallel()
	st := story(t, "second step")
	s := scrapedAt(st.Now, 500)
	s.cached.Input = st.Input
	got := s.scrape(t, "heighliner_group_")
	group := `group="1-x",microservice="shop",namespace="shop"`
	for name := range got {
		if strings.Contains(name, "_timestamp_") {
			if at := time.UnixMilli(int64(got[name] * 1000)); at.After(st.Now) || st.Now.Sub(at) > 3*time.Hour {
				t.Errorf("%s is %s, want a time in the three hours before %s", name, at, st.Now)
			}
			delete(got, name)
		}
		if strings.Contains(name, "lead_time") {
			delete(got, name)
		}
	}
	if diff := cmp.Diff(map[string]float64{
		"heighliner_group_state{" + group + `,state="Pause"}`:                     1,
		"heighliner_group_version{" + group + `,status="active",version="1.0.0"}`: 1,
		"heighliner_group_version{" + group + `,status="canary",version="1.1.0"}`: 1,
		"heighliner_group_canary_step{" + group + "}":                             2,
		"heighliner_group_canary_steps{" + group + "}":                            2,
		"heighliner_group_canary_weight_percent{" + group + "}":                   50,
		"heighliner_group_deployments_total{" + group + "}":                       1,
	}, got); diff != "" {
		t.Error(diff)
	}
}

// TestLimit checks that, above the limit, there are counts but no names, that the log contains one line when the
// names are omitted and one line when they return, and that a standby process reports nothing.
func TestLimit(t *testing.T) {
	t.Parallel()
	in, now := viewtest.Many(20)
	named := func(s *scraped) int {
		return len(s.scrape(t, "heighliner_group_")) + len(s.scrape(t, "heighliner_service_g")) + len(s.scrape(t, "heighliner_policy_condition{"))
	}
	s := scrapedAt(now, 19)
	s.cached.Input = in
	for range 3 {
		if n := named(s); n > 0 {
			t.Errorf("%d series with names, above the limit", n)
		}
	}
	if got := s.scrape(t, "heighliner_")["heighliner_service_metrics_enabled{}"]; got != 0 {
		t.Errorf("heighliner_service_metrics_enabled is %v", got)
	}
	if got := s.scrape(t, "heighliner_")["heighliner_microservices{}"]; got != 20 {
		t.Errorf("heighliner_microservices is %v", got)
	}
	s.cached.Microservices = in.Microservices[:19]
	if named(s) == 0 {
		t.Error("no series with names, at the limit")
	}
	if lines := strings.Split(strings.TrimSpace(s.log.String()), "\n"); len(lines) != 2 || !strings.Contains(lines[0], `"microservices"=20 "limit"=19`) || !strings.Contains(lines[1], "again") {
		t.Errorf("logged:\n%s", s.log)
	}

	off := scrapedAt(now, 0)
	off.cached.Input = in
	if n := named(off); n > 0 || off.log.Len() > 0 {
		t.Errorf("with limit 0: %d series with names, logged %q; want none", n, off.log)
	}
	standby := scrapedAt(now, 500)
	standby.cached.Input, standby.Elected = in, make(chan struct{})
	if got := standby.scrape(t, ""); len(got) > 0 {
		t.Errorf("a manager that is not elected reports %v", got)
	}
}

// TestUnreadable checks that a scrape fails if the cache cannot be read, and does not report zero services.
func TestUnreadable(t *testing.T) {
	t.Parallel()
	s := scrapedAt(time.Now(), 500)
	s.cached.err = errors.New("not synced")
	if _, err := s.gather.Gather(); err == nil || !strings.Contains(err.Error(), "not synced") {
		t.Errorf("got %v", err)
	}
}

// TestNames checks that names and units follow the recommendations of Prometheus.
func TestNames(t *testing.T) {
	t.Parallel()
	in, now := viewtest.Many(48)
	s := scrapedAt(now, 500)
	s.cached.Input = in
	families, err := s.gather.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
}

// TestEstimate checks the estimate of the number of series in docs/reference/metrics.md.
func TestEstimate(t *testing.T) {
	t.Parallel()
	const services = 500
	in, now := viewtest.Many(services)
	s := scrapedAt(now, services)
	s.cached.Input = in
	series := len(s.scrape(t, "heighliner_"))
	t.Logf("%d series for %d services", series, services)
	if most := 30*services + 150; series > most {
		t.Errorf("%d series for %d services, want at most %d", series, services, most)
	}
}

// BenchmarkScrape measures a scrape: the read of the cache, without its lock, and the output of all series.
func BenchmarkScrape(b *testing.B) {
	for _, n := range []int{500, 2000} {
		in, now := viewtest.Many(n)
		for name, limit := range map[string]int{"names": n, "counts": 0} {
			b.Run(fmt.Sprintf("%s/services=%d", name, n), func(b *testing.B) {
				s := scrapedAt(now, limit)
				s.cached.Input = in
				b.ReportAllocs()
				series := 0
				for b.Loop() {
					ch := make(chan prometheus.Metric, 256)
					done := make(chan int)
					go func() {
						n := 0
						for range ch {
							n++
						}
						done <- n
					}()
					s.Collect(ch)
					close(ch)
					series = <-done
				}
				b.ReportMetric(float64(series), "series")
			})
		}
	}
}

// TestSortAllocatesLittle checks that sorting policies allocates memory for each policy, and not for each comparison.
func TestSortAllocatesLittle(t *testing.T) {
	const n = 500
	in := view.Input{}
	for i := range n {
		named := metav1.ObjectMeta{Namespace: "prod", Name: fmt.Sprint("shop-", i*7919%n)}
		in.ImagePolicies = append(in.ImagePolicies, v1alpha1.ImagePolicy{ObjectMeta: named})
		in.NetworkPolicies = append(in.NetworkPolicies, v1alpha1.NetworkPolicy{ObjectMeta: named})
	}
	if allocated := testing.AllocsPerRun(5, func() { namedPolicies(in, n) }); allocated > n {
		t.Errorf("%g allocations for %d policies", allocated, 2*n)
	}
}
