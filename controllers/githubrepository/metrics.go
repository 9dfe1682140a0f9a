package githubrepository

import (
	"cmp"
	"context"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/heighliner/heighliner/internal/github"
)

// metrics contains the metrics of polls and webhooks. No label identifies an object or a credential. The metrics are:
//
//	heighliner_github_reads_total{operation,result}
//	    requests to GitHub; operation is Repository, PullRequests, PullRequest,
//	    Commit, Releases or Tags; result is Ok or the kind of error
//	heighliner_github_poll_duration_seconds
//	    duration of one poll, excluding the time in the queue
//	heighliner_github_polls{state}
//	    polls that are Waiting in the queue, and polls that are Running
//	heighliner_github_rate_limit_remaining{host}
//	    remaining requests in this hour, for the credential with the fewest remaining requests
//	heighliner_github_requests_total{code}
//	    requests that were sent, including requests for feedback, by status code; the code is
//	    "none" if there was no response
//	heighliner_github_paused_credentials{host}
//	    credentials whose requests GitHub currently limits
//	heighliner_webhook_total{result}
//	    deliveries of webhooks: Accepted, Ignored, Duplicate, Unknown, Unauthorized,
//	    MethodNotAllowed, TooLarge, UnsupportedMediaType, Malformed, TooMany or Failed
type metrics struct {
	reads    *prometheus.CounterVec
	seconds  prometheus.Histogram
	webhooks *prometheus.CounterVec
}

func newMetrics(registerer prometheus.Registerer, ls *pollCache, pool *github.Pool) (*metrics, error) {
	m := &metrics{
		reads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "heighliner_github_reads_total",
			Help: "Number of requests to GitHub, by operation and result.",
		}, []string{"operation", "result"}),
		seconds: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name:    "heighliner_github_poll_duration_seconds",
			Help:    "Duration of GitHub polls in seconds, excluding the time in the queue.",
			Buckets: []float64{.02, .1, .5, 1, 2.5, 5, 10, 30, 60, 120},
		}),
		webhooks: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "heighliner_webhook_total",
			Help: "Number of webhook deliveries, by result.",
		}, []string{"result"}),
	}
	state := func(name string, value func() float64) prometheus.Collector {
		return prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "heighliner_github_polls", Help: "Number of GitHub polls, by state.", ConstLabels: prometheus.Labels{"state": name},
		}, value)
	}
	for _, c := range []prometheus.Collector{
		m.reads, m.seconds, m.webhooks, budgets{pool},
		state("Waiting", func() float64 { waiting, _ := ls.size(); return float64(waiting) }),
		state("Running", func() float64 { _, running := ls.size(); return float64(running) }),
	} {
		if err := registerer.Register(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// delivered counts a webhook delivery.
func (m *metrics) delivered(result string) { m.webhooks.WithLabelValues(result).Inc() }

// counted returns a function that makes a request and counts it.
func counted[T any](m *metrics, operation string, request func(context.Context) (T, error)) func(context.Context) (T, error) {
	return func(ctx context.Context) (T, error) {
		value, err := request(ctx)
		result := "Ok"
		if err != nil {
			result = cmp.Or(string(github.KindOf(err)), "Failed")
		}
		m.reads.WithLabelValues(operation, result).Inc()
		return value, err
	}
}

// budgets collects the metrics of requests and rate limits. The pool limits the number of clients, and therefore
// the number of values of the label host.
type budgets struct{ pool *github.Pool }

var (
	remaining = prometheus.NewDesc("heighliner_github_rate_limit_remaining", "Number of requests that remain in the current hour for the credential with the fewest remaining requests, by host.", []string{"host"}, nil)
	paused    = prometheus.NewDesc("heighliner_github_paused_credentials", "Number of credentials whose requests GitHub currently limits, by host.", []string{"host"}, nil)
)

var requests = prometheus.NewDesc("heighliner_github_requests_total", "Number of requests to GitHub, by status code.", []string{"code"}, nil)

// Describe implements prometheus.Collector.
func (b budgets) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- remaining
	descriptions <- paused
	descriptions <- requests
}

// Collect implements prometheus.Collector.
func (b budgets) Collect(values chan<- prometheus.Metric) {
	for code, n := range b.pool.Requests() {
		label := "none"
		if code > 0 && code < 1000 {
			label = strconv.Itoa(code)
		}
		values <- prometheus.MustNewConstMetric(requests, prometheus.CounterValue, float64(n), label)
	}
	for host, all := range b.pool.Budgets() {
		least, pauses, known := 0, 0, false
		for _, budget := range all {
			if !budget.PausedUntil.IsZero() {
				pauses++
			}
			if budget.Limit > 0 && (!known || budget.Remaining < least) {
				least, known = budget.Remaining, true
			}
		}
		if known {
			values <- prometheus.MustNewConstMetric(remaining, prometheus.GaugeValue, float64(least), host)
		}
		values <- prometheus.MustNewConstMetric(paused, prometheus.GaugeValue, float64(pauses), host)
	}
}
