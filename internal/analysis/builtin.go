package analysis

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// source defines the built-in queries for one way of counting requests. A query returns a percentage from 0 to 100 or a duration in seconds. It returns
// nothing if there were no requests.
type source struct {
	// requests is the counter of requests, and failed is the counter of failed requests. If bad is set, they are the same counter, and bad
	// selects the failed requests.
	requests, failed, bad string
	// buckets is the histogram of response times, and perSecond is the number of its time units in a second. If buckets is empty, the source has no
	// per-release histogram.
	buckets   string
	perSecond int
	// selectors returns selectors for the series of a release, without braces. A series counts if it matches any of these selectors. The function fails if
	// the release lacks an object that the selectors need.
	selectors func(Target) ([]string, *Error)
	// join restricts an expression to a release if labels are not sufficient.
	join func(expression string, t Target) string
}

// sources contains the sources of built-in metrics. docs/explanation/analysis.md lists the metrics and labels, and describes how they were tested.
var sources = map[v1alpha1.MetricsSource]source{
	v1alpha1.SourceTraefik: {
		requests: "traefik_service_requests_total", failed: "traefik_service_requests_total", bad: `code=~"5.."`,
		buckets: "traefik_service_request_duration_seconds_bucket", perSecond: 1,
		selectors: func(t Target) ([]string, *Error) {
			services, err := servicesOf(t)
			return []string{fmt.Sprintf(`service=~"(.+-svc-)?%s-(%s)(-http)?-[0-9]+(-grpc)?@kubernetesgateway"`, regexp.QuoteMeta(t.Namespace), services)}, err
		},
	},
	v1alpha1.SourceApplication: {
		requests: "http_requests_total", failed: "http_requests_total", bad: `code=~"5.."`,
		buckets: "http_request_duration_seconds_bucket", perSecond: 1,
		selectors: func(t Target) ([]string, *Error) {
			return []string{fmt.Sprintf(`namespace="%s",hlnr_io_release="%s"`, inQuotes(t.Namespace), inQuotes(t.Release))}, nil
		},
	},
	v1alpha1.SourceIstio: {
		requests: "istio_requests_total", failed: "istio_requests_total", bad: `response_code=~"5.."`,
		buckets: "istio_request_duration_milliseconds_bucket", perSecond: 1000,
		selectors: func(t Target) ([]string, *Error) {
			return []string{fmt.Sprintf(`reporter=~"destination|waypoint",destination_workload_namespace="%s",destination_workload="%s"`, inQuotes(t.Namespace), inQuotes(t.Release))}, nil
		},
	},
	v1alpha1.SourceIngressNGINX: {
		requests: "nginx_ingress_controller_requests", failed: "nginx_ingress_controller_requests", bad: `status=~"5.."`,
		buckets: "nginx_ingress_controller_request_duration_seconds_bucket", perSecond: 1,
		selectors: func(t Target) ([]string, *Error) {
			services, err := servicesOf(t)
			return []string{ // series of the release as the canary of an Ingress, and as the main backend of an Ingress
				fmt.Sprintf(`namespace="%s",canary=~"%s-(%s)-[^-]+"`, inQuotes(t.Namespace), regexp.QuoteMeta(t.Namespace), services),
				fmt.Sprintf(`namespace="%s",canary="",service=~"%s"`, inQuotes(t.Namespace), services),
			}, err
		},
	},
	v1alpha1.SourceEnvoyGateway: {
		requests: "envoy_cluster_endpoint_rq_total", failed: "envoy_cluster_endpoint_rq_error",
		selectors: func(Target) ([]string, *Error) { return []string{""}, nil },
		join: func(expression string, t Target) string {
			return fmt.Sprintf(`label_replace(%s, "pod_ip", "$1", "envoy_endpoint_address", "\\[?([^\\]]+)\\]?:[0-9]+")`+
				` * on (pod_ip) group_left () max by (pod_ip) (kube_pod_info{namespace="%s",created_by_kind="ReplicaSet",created_by_name=~"%s-[a-z0-9]+"})`,
				expression, inQuotes(t.Namespace), regexp.QuoteMeta(t.Release))
		},
	},
}

// servicesOf returns a pattern that matches the Services of a release.
func servicesOf(t Target) (string, *Error) {
	if len(t.Services) == 0 {
		return "", errorf(BadQuery, "release %s has no Service, which this source needs: reference the Microservice in a NetworkPolicy, or use source Application", t.Release)
	}
	return valuesOf(t, 0)["Service"], nil
}

// builtin returns the query for a built-in metric over an interval.
func builtin(spec *v1alpha1.CanaryAnalysis, metric *v1alpha1.AnalysisMetric, t Target, interval time.Duration) (string, *Error) {
	name := spec.Source
	if name == "" {
		name = v1alpha1.SourceTraefik
	}
	s, ok := sources[name]
	if !ok {
		return "", errorf(BadQuery, "analysis.source: %q is not supported", name)
	}
	if metric.SuccessRate != nil {
		return s.successRate(t, interval, enough(metric))
	}
	return s.latency(t, interval, enough(metric), metric.Latency.Quantile, name)
}

// enough returns the PromQL comparison of the number of requests with the minimum that a metric requires.
func enough(metric *v1alpha1.AnalysisMetric) string {
	if n := metric.MinimumRequests; n > 1 {
		return fmt.Sprintf(">= %d", n)
	}
	return "> 0"
}

// successRate returns a query for 100 x (1 - bad / all). If the series of bad requests do not exist, because there were none, bad is 0. With too few
// requests, the query returns nothing.
func (s source) successRate(t Target, interval time.Duration, enough string) (string, *Error) {
	all, err := s.rise(s.requests, t, interval)
	if err != nil {
		return "", err
	}
	bad, err := s.rise(s.failed, t, interval, s.bad)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("100 * (1 - (sum(%s) or vector(0)) / (sum(%s) %s))", bad, all, enough), nil
}

// latency returns a query for a quantile in seconds. If the quantile is above the highest bucket, the query returns the bound of that bucket as a
// negative number. The negative sign shows that the quantile may be any value above the bound.
func (s source) latency(t Target, interval time.Duration, enough string, quantile v1alpha1.LatencyQuantile, name v1alpha1.MetricsSource) (string, *Error) {
	q, ok := map[v1alpha1.LatencyQuantile]string{v1alpha1.LatencyP50: "0.5", v1alpha1.LatencyP95: "0.95", v1alpha1.LatencyP99: "0.99"}[quantile]
	if !ok {
		return "", errorf(BadQuery, "latency.quantile: %q is not supported", quantile)
	}
	if s.buckets == "" {
		return "", errorf(BadQuery, "source %s has no per-release latency metric: use source Application, or a custom query", name)
	}
	all, err := s.rise(s.buckets, t, interval)
	if err != nil {
		return "", err
	}
	total, err := s.rise(s.buckets, t, interval, `le="+Inf"`)
	if err != nil {
		return "", err
	}
	finite, err := s.rise(s.buckets, t, interval, `le!="+Inf"`)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("histogram_quantile(%[1]s, sum by (le) (%[2]s)) / %[5]d * on () (1 - 2 * (max(sum by (le) (%[3]s)) < bool %[1]s * sum(%[4]s))) and on () (sum(%[4]s) %[6]s)",
		q, all, finite, total, s.perSecond, enough), nil
}

// rise returns an expression for the increase in a release's counters over the interval. A series that first appeared in the interval counts as having
// started at 0. increase() alone would miss its first value, and therefore the first error with each status code.
func (s source) rise(metric string, t Target, interval time.Duration, more ...string) (string, *Error) {
	selectors, err := s.selectors(t)
	if err != nil {
		return "", err
	}
	window := model.Duration(interval).String()
	var parts []string
	for _, selector := range selectors {
		labels := slices.DeleteFunc(append([]string{selector}, more...), func(s string) bool { return s == "" })
		series := metric + "{" + strings.Join(labels, ",") + "}"
		parts = append(parts, fmt.Sprintf("((%[1]s unless %[1]s offset %[2]s) or increase(%[1]s[%[2]s]))", series, window))
	}
	expression := strings.Join(parts, " or ")
	if s.join != nil {
		expression = s.join("("+expression+")", t)
	}
	return expression, nil
}
