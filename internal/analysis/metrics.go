package analysis

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the metrics about analyses. No label contains an object name, a URL or a query:
//
//	heighliner_analysis_queries_total{provider,result}
//	    queries that were sent, and queries that could not be created from a metric;
//	    provider is prometheus or web, and result is Value,
//	    NoTraffic or the reason for the error
//	heighliner_analysis_query_duration_seconds{provider}
//	    time until the response, without the wait for a slot in the pool
type metrics struct {
	queries *prometheus.CounterVec
	seconds *prometheus.HistogramVec
}

func newMetrics(registerer prometheus.Registerer) (*metrics, error) {
	m := &metrics{
		queries: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "heighliner_analysis_queries_total",
			Help: "Number of queries to metrics providers, by provider and result.",
		}, []string{"provider", "result"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "heighliner_analysis_query_duration_seconds",
			Help:    "Duration of queries to metrics providers in seconds.",
			Buckets: []float64{.005, .02, .1, .5, 1, 2.5, 5, 10, 30, 60},
		}, []string{"provider"}),
	}
	if registerer == nil {
		return m, nil
	}
	for _, c := range []prometheus.Collector{m.queries, m.seconds} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *metrics) asked(p provider, a answer) {
	result := "Value"
	switch {
	case a.err != nil:
		result = string(a.err.Reason)
	case a.noTraffic:
		result = "NoTraffic"
	}
	m.queries.WithLabelValues(string(p), result).Inc()
}

func (m *metrics) took(p provider, d time.Duration) {
	m.seconds.WithLabelValues(string(p)).Observe(d.Seconds())
}
