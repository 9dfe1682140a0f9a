package networkpolicy

import (
	"cmp"
	"context"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/probe"
	"github.com/heighliner/heighliner/controllers/networkpolicy/providers/certmanager"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
)

// metrics are the metrics of routes; nil means that nothing is recorded. No label contains an object name or an address.
// The metrics are:
//
//	heighliner_route_confirmation_seconds{confirm}
//	    time from the last write of a route until it was programmed, by confirmation
//	    mode: Status or Probe
//	heighliner_gateway_probes_total{result}
//	    requests to Gateways that verify whether a route is served; result is
//	    Served, Earlier, Elsewhere, Failed or Refused
//	heighliner_certificates_earliest_expiry_timestamp_seconds
//	    earliest time at which a Certificate of any policy expires
type metrics struct {
	seconds  *prometheus.HistogramVec
	requests *prometheus.CounterVec

	mu sync.Mutex
	// written contains the write times of routes that are not programmed yet, by policy and route
	// name.
	written map[types.NamespacedName]map[string]time.Time
}

func newMetrics(registerer prometheus.Registerer, certs certificates) (*metrics, error) {
	m := &metrics{
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "heighliner_route_confirmation_seconds",
			Help:    "Time from the last write of a route until it was programmed, by confirmation mode.",
			Buckets: []float64{.05, .1, .25, .5, 1, 2, 3, 5, 10, 30, 60, 300},
		}, []string{"confirm"}),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "heighliner_gateway_probes_total",
			Help: "Number of probes of Gateways that verify whether a route is served, by result.",
		}, []string{"result"}),
		written: map[types.NamespacedName]map[string]time.Time{},
	}
	for _, r := range probe.Results {
		m.requests.WithLabelValues(string(r))
	}
	for _, c := range []prometheus.Collector{m.seconds, m.requests, certs} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) probed(r probe.Result) { m.requests.WithLabelValues(string(r)).Inc() }

// observe records the confirmation times of those routes of a policy that this process wrote. It is
// called after the writes of each reconcile.
func (m *metrics) observe(f *traffic.Observed, out *traffic.Decision, w traffic.Applied) {
	if m == nil {
		return
	}
	key := types.NamespacedName{Namespace: f.Policy.Namespace, Name: f.Policy.Name}
	m.mu.Lock()
	defer m.mu.Unlock()
	left := map[string]time.Time{}
	for _, route := range out.Routes {
		at, open := m.written[key][route.Name]
		switch {
		case w.Changed[traffic.AppliedRouteKey(route.Name)]:
			left[route.Name] = f.Now
		case !open:
		case f.View.Verdict(route.Route, route.Objects).Accepted:
			m.seconds.WithLabelValues(string(confirmMode(f.Policy, route))).Observe(f.Now.Sub(at).Seconds())
		default:
			left[route.Name] = at
		}
	}
	m.written[key] = left
	if len(left) == 0 {
		delete(m.written, key)
	}
}

// forget removes a policy that was deleted.
func (m *metrics) forget(policy types.NamespacedName) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.written, policy)
}

// confirmMode returns how a policy confirms that a route is served.
func confirmMode(p *v1alpha1.NetworkPolicy, route *traffic.RouteDecision) v1alpha1.ConfirmMode {
	if p.Spec.Provider == nil || p.Spec.Provider.Gateway == nil || cmp.Or(route.Protocol, v1alpha1.ProtocolHTTP) != v1alpha1.ProtocolHTTP && route.Protocol != v1alpha1.ProtocolHTTPS {
		return v1alpha1.ConfirmStatus
	}
	return cmp.Or(p.Spec.Provider.Gateway.Confirm, v1alpha1.ConfirmStatus)
}

// certificates is a collector of the earliest expiry time of Certificates. It reads the cache
// without copying objects.
type certificates struct {
	cache client.Reader
	// watched reports whether the API server serves Certificates and the cache contains them. If it does not
	// contain them, they are not listed, because each scrape would send a list request to the API server.
	watched func() bool
}

var earliestExpiry = prometheus.NewDesc("heighliner_certificates_earliest_expiry_timestamp_seconds",
	"Earliest time at which a Certificate that a NetworkPolicy requested from cert-manager expires.", nil, nil)

// Describe implements prometheus.Collector.
func (certificates) Describe(ch chan<- *prometheus.Desc) { ch <- earliestExpiry }

// Collect implements prometheus.Collector. If Certificates are not watched, there is no series.
func (c certificates) Collect(ch chan<- prometheus.Metric) {
	if !c.watched() {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var list certmanager.CertificateList
	if err := c.cache.List(ctx, &list, client.HasLabels{v1alpha1.LabelPolicy}, client.UnsafeDisableDeepCopy); err != nil {
		return
	}
	var first time.Time
	for i := range list.Items {
		if at := list.Items[i].Status.NotAfter; at != nil && (first.IsZero() || at.Time.Before(first)) {
			first = at.Time
		}
	}
	if !first.IsZero() {
		ch <- prometheus.MustNewConstMetric(earliestExpiry, prometheus.GaugeValue, float64(first.Unix()))
	}
}
