package microservice

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/release"
	"github.com/heighliner/heighliner/internal/startlimit"
)

// metrics are the metrics of releases. No label identifies an object. The metrics are:
//
//	heighliner_release_events_total{reason}
//	    events of releases, by reason: Started, Step,
//	    Promoted, ReleaseFailed, Superseded, Removed, …
//	heighliner_release_promotion_seconds
//	    time from a release's creation to its first promotion, including pauses
//	heighliner_releases{status}
//	    releases in the rollout states of all Microservices,
//	    by status, counted at each scrape
//	heighliner_rollouts_starting{state}
//	    rollouts that are starting within the limit, and
//	    rollouts that wait for their turn
type metrics struct {
	events    *prometheus.CounterVec
	promotion prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer, cache client.Reader) (*metrics, error) {
	m := &metrics{
		events: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "heighliner_release_events_total",
			Help: "Number of release events, by reason.",
		}, []string{"reason"}),
		promotion: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "heighliner_release_promotion_seconds",
			Help:    "Time from the creation of a release to its first promotion, including pauses.",
			Buckets: []float64{5, 10, 30, 60, 120, 300, 600, 1800, 3600, 4 * 3600, 24 * 3600},
		}),
	}
	for _, c := range []prometheus.Collector{m.events, m.promotion, census{cache}} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// count adds an event to the metrics. For a release's first promotion, it also records the time since the release's creation.
func (m *metrics) count(w *pass, n release.Note, now time.Time) {
	m.events.WithLabelValues(string(n.Reason)).Inc()
	if n.Reason != release.Promoted || w.objects[n.Release] == nil {
		return
	}
	for _, g := range w.facts.State.Groups {
		if row := g.Row(n.Release); row != nil && row.Promoted > 0 {
			return // the release was active before
		}
	}
	m.promotion.Observe(now.Sub(w.objects[n.Release].CreationTimestamp.Time).Seconds())
}

// census counts releases at each scrape.
type census struct{ cache client.Reader }

var releases = prometheus.NewDesc("heighliner_releases", "Number of releases in the rollout states of all Microservices, by status.", []string{"status"}, nil)

// statuses are the statuses of releases. Each scrape returns a count for each status.
var statuses = []v1alpha1.ReleaseStatus{
	v1alpha1.ReleasePending, v1alpha1.ReleaseCanary, v1alpha1.ReleaseActive, v1alpha1.ReleaseError, v1alpha1.ReleaseDeprecated,
}

// Describe implements prometheus.Collector.
func (census) Describe(ch chan<- *prometheus.Desc) { ch <- releases }

// Collect implements prometheus.Collector. It reads the cache without copying objects.
func (c census) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var list v1alpha1.MicroserviceList
	if err := c.cache.List(ctx, &list, client.UnsafeDisableDeepCopy); err != nil {
		ch <- prometheus.NewInvalidMetric(releases, err)
		return
	}
	count := map[v1alpha1.ReleaseStatus]int{}
	for i := range list.Items {
		for _, g := range list.Items[i].Status.ReleaseGroups {
			for _, r := range g.Releases {
				count[r.Status]++
			}
		}
	}
	for _, s := range statuses {
		ch <- prometheus.MustNewConstMetric(releases, prometheus.GaugeValue, float64(count[s]), string(s))
	}
}

// starting reports the rollouts that are starting, and those that wait for their turn.
type starting struct{ limit *startlimit.Limit }

var rolloutsStarting = prometheus.NewDesc("heighliner_rollouts_starting", "Number of rollouts that are starting, and of rollouts that are waiting to start because of --max-starting-rollouts, by state.", []string{"state"}, nil)

// Describe implements prometheus.Collector.
func (starting) Describe(ch chan<- *prometheus.Desc) { ch <- rolloutsStarting }

// Collect implements prometheus.Collector.
func (s starting) Collect(ch chan<- prometheus.Metric) {
	admitted, waiting := s.limit.Counts()
	ch <- prometheus.MustNewConstMetric(rolloutsStarting, prometheus.GaugeValue, float64(admitted), "starting")
	ch <- prometheus.MustNewConstMetric(rolloutsStarting, prometheus.GaugeValue, float64(waiting), "waiting")
}
