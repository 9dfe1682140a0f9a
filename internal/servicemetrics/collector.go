package servicemetrics

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

// DefaultLimit is the number of Microservices above which no metrics by namespace, Microservice and group are
// reported.
const DefaultLimit = 500

// readTimeout limits the time for reads of the cache, which may not be synced yet.
const readTimeout = 5 * time.Second

// Options configure a Collector.
type Options struct {
	// Cache is read at each scrape. The collector does not change the returned objects.
	Cache client.Reader
	// Elected is closed when this process becomes the leader. Processes that are not the leader report nothing, so that each series exists only
	// once. nil means that this process is the leader.
	Elected <-chan struct{}
	// Reports returns whether this process is the one that reports metrics if several processes are elected. nil means
	// that this process reports metrics.
	Reports func() bool
	// Limit is the number of Microservices above which no metrics by namespace, Microservice and group are reported; 0
	// disables these metrics.
	Limit int
	// Clock defaults to the system clock.
	Clock clock.PassiveClock
	// Log receives a line when the metrics by namespace, Microservice and group stop because of Limit, and another line when
	// they resume.
	Log logr.Logger
}

// Collector reports service metrics when it is scraped. It is safe for concurrent use.
type Collector struct {
	Options

	mu       sync.Mutex
	progress progress
	over     bool // the last scrape had too many Microservices
}

// New returns a collector.
func New(o Options) *Collector {
	if o.Clock == nil {
		o.Clock = clock.RealClock{}
	}
	return &Collector{Options: o}
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range described {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(ch chan<- prometheus.Metric) {
	select {
	case <-c.Elected:
	default:
		if c.Elected != nil {
			return
		}
	}
	if c.Reports != nil && !c.Reports() {
		return
	}
	// Unlike controller-runtime during a reconcile, Prometheus does not recover from panics. Without
	// this function, a panic would crash the manager.
	defer func() {
		if cause := recover(); cause != nil {
			c.Log.Error(fmt.Errorf("%v", cause), "the service metrics are incomplete: please report this", "stack", string(debug.Stack()))
		}
	}()
	in, err := c.read()
	if err != nil {
		ch <- prometheus.NewInvalidMetric(servicesTotal, err)
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.Clock.Now()
	states, starts := view.GroupStates(in, now), startsOf(in)
	c.progress.advance(states, starts, now)

	e := emit(func(desc *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, kind, value, labels...)
	})
	e.all(states, &c.progress, in)
	e(limitOfNames, prometheus.GaugeValue, float64(c.Limit))
	if !c.within(len(in.Microservices)) {
		e(namesEnabled, prometheus.GaugeValue, 0)
		return
	}
	e(namesEnabled, prometheus.GaugeValue, 1)
	e.named(states, &c.progress, starts, in, c.Limit)
	for k, t := range c.progress.services {
		ch <- prometheus.MustNewConstSummary(serviceLeadTime, t.leadTime.count, t.leadTime.seconds, nil, k.Namespace, k.Name)
		ch <- prometheus.MustNewConstSummary(serviceRestored, t.restored.count, t.restored.seconds, nil, k.Namespace, k.Name)
	}
}

// within reports whether the number of Microservices is within the limit, and logs when the result changes.
func (c *Collector) within(services int) bool {
	over := services > c.Limit
	if over != c.over && c.Limit > 0 {
		text := "metrics by namespace, Microservice and group are reported again"
		if over {
			text = "metrics by namespace, Microservice and group are not reported: there are more Microservices than --service-metrics-limit"
		}
		c.Log.Info(text, "microservices", services, "limit", c.Limit)
	}
	c.over = over
	return !over && c.Limit > 0
}

// read returns the objects from which the series are computed. The cache has already converted the statuses of the
// Microservices to their current form.
func (c *Collector) read() (view.Input, error) {
	ctx, cancel := context.WithTimeout(context.Background(), readTimeout)
	defer cancel()
	var (
		services v1alpha1.MicroserviceList
		releases v1alpha1.VersionedMicroserviceList
		routes   v1alpha1.NetworkPolicyList
		images   v1alpha1.ImagePolicyList
	)
	for _, list := range []client.ObjectList{&services, &releases, &routes, &images} {
		if err := c.Cache.List(ctx, list, client.UnsafeDisableDeepCopy); err != nil {
			return view.Input{}, fmt.Errorf("list %T for metrics: %w", list, err)
		}
	}
	return view.Input{Microservices: services.Items, Releases: releases.Items, NetworkPolicies: routes.Items, ImagePolicies: images.Items}, nil
}
