package versionedmicroservice

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// callMetrics are the metrics of hook calls. No label identifies an object or an address. The
// metrics are:
//
//	heighliner_hook_calls_total{type,result}
//	    hook calls, by type of hook; result is Yes or No
//	heighliner_hook_call_duration_seconds
//	    duration of one call
type callMetrics struct {
	calls   *prometheus.CounterVec
	seconds prometheus.Histogram
}

func newCallMetrics(registerer prometheus.Registerer) (*callMetrics, error) {
	m := &callMetrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "heighliner_hook_calls_total",
			Help: "Number of hook calls, by type and result.",
		}, []string{"type", "result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "heighliner_hook_call_duration_seconds",
			Help:    "Duration of hook calls in seconds.",
			Buckets: []float64{.005, .02, .1, .5, 1, 2.5, 5, 10, 30, 60},
		}),
	}
	for _, c := range []prometheus.Collector{m.calls, m.seconds} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *callMetrics) observe(t v1alpha1.HookType, yes bool, took time.Duration) {
	result := "No"
	if yes {
		result = "Yes"
	}
	m.calls.WithLabelValues(string(t), result).Inc()
	m.seconds.Observe(took.Seconds())
}
