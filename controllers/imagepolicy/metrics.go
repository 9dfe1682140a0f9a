package imagepolicy

import (
	"cmp"
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heighliner/heighliner/internal/cosign"
	"github.com/heighliner/heighliner/internal/registry"
)

// metrics are the metrics of scans. No label identifies an object. The metrics are:
//
//	heighliner_registry_lookups_total{operation,result}
//	    requests to the scanner and the verifier, including requests that they answer with
//	    results for another policy; operation is List, Resolve, Inspect, Verify or Gone;
//	    result is Ok, the kind of error, Failed for other errors, or, for Verify, NotSigned
//	    or Invalid
//	heighliner_scan_duration_seconds
//	    duration of one scan, excluding the time in the queue
//	heighliner_registry_scans{state}
//	    scans that are Waiting in the queue, and scans that are Running
type metrics struct {
	lookups *prometheus.CounterVec
	seconds prometheus.Histogram
}

func newMetrics(registerer prometheus.Registerer, ls *scanCache) (*metrics, error) {
	m := &metrics{
		lookups: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "heighliner_registry_lookups_total",
			Help: "Number of requests to registries, by operation and result.",
		}, []string{"operation", "result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "heighliner_scan_duration_seconds",
			Help:    "Duration of registry scans in seconds, excluding the time in the queue.",
			Buckets: []float64{.005, .02, .1, .5, 1, 2.5, 5, 10, 30, 60, 300},
		}),
	}
	state := func(name string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "heighliner_registry_scans", Help: "Number of registry scans, by state.", ConstLabels: prometheus.Labels{"state": name},
		}, value)
	}
	for _, c := range []prometheus.Collector{
		m.lookups, m.seconds,
		state("Waiting", func() float64 { waiting, _ := ls.size(); return float64(waiting) }),
		state("Running", func() float64 { _, running := ls.size(); return float64(running) }),
	} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// counted counts the requests to a Scanner.
type counted struct {
	scanner Scanner
	metrics *metrics
}

func (c counted) count(operation string, err error) { c.metrics.count(operation, "Ok", err) }

func (m *metrics) count(operation, result string, err error) {
	if err != nil {
		result = cmp.Or(string(registry.KindOf(err)), "Failed")
	}
	m.lookups.WithLabelValues(operation, result).Inc()
}

// countedVerifier counts the requests to a Verifier.
type countedVerifier struct {
	verifier Verifier
	metrics  *metrics
}

func (c countedVerifier) Verify(ctx context.Context, r registry.Request, digest string, keys cosign.Keys) (cosign.Result, error) {
	result, err := c.verifier.Verify(ctx, r, digest, keys)
	word := "Ok"
	if result.Verdict != cosign.Verified {
		word = string(result.Verdict)
	}
	c.metrics.count("Verify", word, err)
	return result, err
}

func (c counted) List(ctx context.Context, r registry.Request) (registry.Scan, error) {
	scan, err := c.scanner.List(ctx, r)
	c.count("List", err)
	return scan, err
}

func (c counted) Resolve(ctx context.Context, r registry.Request, tag string) (registry.Image, error) {
	image, err := c.scanner.Resolve(ctx, r, tag)
	c.count("Resolve", err)
	return image, err
}

func (c counted) Inspect(ctx context.Context, r registry.Request, digest, platform string) (registry.Image, error) {
	image, err := c.scanner.Inspect(ctx, r, digest, platform)
	c.count("Inspect", err)
	return image, err
}

func (c counted) Gone(ctx context.Context, r registry.Request, tag, digest, witness string) (bool, error) {
	gone, err := c.scanner.Gone(ctx, r, tag, digest, witness)
	c.count("Gone", err)
	return gone, err
}
