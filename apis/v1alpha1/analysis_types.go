package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// CanaryAnalysis measures a canary in every step in which the canary can receive traffic. A round
// evaluates the queries of all metrics at the same time. The first round takes place when one
// interval, or eight times the longest samples.interval if that is longer, has passed since the
// weight of the step was programmed. As a result, the round covers only traffic of this step.
// +kubebuilder:validation:XValidation:rule="!has(self.interval) || !has(self.provider) || !has(self.provider.timeout) || duration(self.provider.timeout) <= duration(self.interval)",message="provider.timeout must not be longer than the interval"
// +kubebuilder:validation:XValidation:rule="!has(self.source) || self.source != 'EnvoyGateway' || !self.metrics.exists(m, has(m.latency))",message="source: Envoy Gateway measures the latency per route, not per release: use source: Application, or prometheus: {query: …}"
type CanaryAnalysis struct {
	// interval between two rounds, from 10s to 1h, and the time range of built-in queries. It must cover at least
	// two Prometheus scrapes; four are recommended. Defaults to 1m.
	// +optional
	// +kubebuilder:default="1m"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('10s') && duration(self) <= duration('1h')",message="interval must be between 10s and 1h"
	Interval Duration `json:"interval,omitempty"`

	// count is the number of passed rounds that are needed to complete a step. They do not need to be
	// consecutive. Measurements continue until the step ends. Defaults to 1.
	// +optional
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100
	Count int32 `json:"count,omitempty"`

	// failureLimit is the number of failed rounds that are tolerated during the whole rollout, across
	// all steps; one more failed round fails the release. A round fails when any of its metrics or
	// Rollout hooks fails. Defaults to 0, or to no limit if consecutiveFailureLimit is set.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	FailureLimit *int32 `json:"failureLimit,omitempty"`

	// consecutiveFailureLimit is the number of consecutive failed rounds that are tolerated; one more
	// failed round in a row fails the release. Defaults to no limit.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	ConsecutiveFailureLimit *int32 `json:"consecutiveFailureLimit,omitempty"`

	// noTraffic defines what happens when there are no requests to measure. Wait means that the step
	// is blocked until there are requests. Fail means that the round fails; if only the active release
	// lacks requests, the step is blocked instead. Ignore means that the metric is ignored in this
	// round. Defaults to Wait.
	// +optional
	// +kubebuilder:default=Wait
	NoTraffic NoTrafficPolicy `json:"noTraffic,omitempty"`

	// source is the component that counts the requests that the built-in metrics successRate and
	// latency measure. Traefik (as a Gateway), EnvoyGateway, Istio and IngressNGINX mean the proxies with
	// these names. Application means the pods themselves, which report http_requests_total and
	// http_request_duration_seconds. EnvoyGateway does not measure the latency of a release.
	// Defaults to Traefik.
	// +optional
	// +kubebuilder:default=Traefik
	Source MetricsSource `json:"source,omitempty"`

	// provider is the server that answers the queries.
	// +optional
	// +kubebuilder:default={}
	Provider AnalysisProvider `json:"provider,omitempty"`

	// metrics that are measured in each round. Each metric has exactly one of successRate, latency,
	// prometheus and web.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=10
	Metrics []AnalysisMetric `json:"metrics"`
}

// NoTrafficPolicy defines what happens when there are no requests to measure.
// +kubebuilder:validation:Enum=Fail;Ignore;Wait
type NoTrafficPolicy string

const (
	// NoTrafficFail fails the round.
	NoTrafficFail NoTrafficPolicy = "Fail"
	// NoTrafficIgnore ignores the metric in this round.
	NoTrafficIgnore NoTrafficPolicy = "Ignore"
	// NoTrafficWait blocks the step until there are requests.
	NoTrafficWait NoTrafficPolicy = "Wait"
)

// MetricsSource is the component that counts the requests that the built-in metrics measure.
// +kubebuilder:validation:Enum=Traefik;Application;EnvoyGateway;Istio;IngressNGINX
type MetricsSource string

const (
	// SourceTraefik is Traefik as a Gateway, with service labels enabled.
	SourceTraefik MetricsSource = "Traefik"
	// SourceApplication is the pods themselves, which report http_requests_total and
	// http_request_duration_seconds.
	SourceApplication MetricsSource = "Application"
	// SourceEnvoyGateway is Envoy Gateway.
	SourceEnvoyGateway MetricsSource = "EnvoyGateway"
	// SourceIstio is Istio.
	SourceIstio MetricsSource = "Istio"
	// SourceIngressNGINX is ingress-nginx.
	SourceIngressNGINX MetricsSource = "IngressNGINX"
)

// AnalysisProvider answers the queries of an analysis.
type AnalysisProvider struct {
	// prometheus answers the queries of built-in metrics and of prometheus metrics. Defaults to the
	// server that the manager's --prometheus-address flag specifies.
	// +optional
	Prometheus *PrometheusProvider `json:"prometheus,omitempty"`

	// timeout of one query or request, from 1s to 1m. It also applies to the requests of web metrics.
	// Defaults to 10s.
	// +optional
	// +kubebuilder:default="10s"
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('1s') && duration(self) <= duration('1m')",message="provider.timeout must be between 1s and 1m"
	Timeout Duration `json:"timeout,omitempty"`
}

// PrometheusProvider is a server with the HTTP API of Prometheus.
type PrometheusProvider struct {
	// address is the base URL of the server, to which /api/v1/query is appended. Link-local and
	// loopback addresses are rejected.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://[^/?#@ {}]+(/[^?#@ {}]*)?$')",message="prometheus.address must be a URL such as http://prometheus.monitoring:9090, without a username, query or fragment; put credentials in secretRef"
	Address string `json:"address"`

	// secretRef refers to a Secret in this namespace with the key token, or with the keys username and
	// password. The credentials are sent only to this address.
	// +optional
	SecretRef *Reference `json:"secretRef,omitempty"`

	// caSecretRef refers to a Secret in this namespace whose key ca.crt contains the certificate
	// authorities to trust for this address. They replace the certificate authorities of the system.
	// +optional
	CASecretRef *Reference `json:"caSecretRef,omitempty"`
}

// AnalysisMetric is a metric of the canary, and the range of values that pass.
// +kubebuilder:validation:XValidation:rule="[has(self.successRate), has(self.latency), has(self.prometheus), has(self.web)].exists_one(m, m)",message="metrics[]: set exactly one of successRate, latency, prometheus and web: write successRate: {} for the built-in metric, or prometheus: {query: …} for a custom query"
// +kubebuilder:validation:XValidation:rule="!has(self.successRate) || has(self.baseline) || ((!has(self.thresholdRange.min) || self.thresholdRange.min == 0.0 || (self.thresholdRange.min > 1.0 && self.thresholdRange.min <= 100.0)) && (!has(self.thresholdRange.max) || (self.thresholdRange.max >= 0.0 && self.thresholdRange.max <= 100.0)))",message="metrics[].successRate is in percent, 0 to 100: write min: 99, not 0.99"
// +kubebuilder:validation:XValidation:rule="!has(self.latency) || has(self.baseline) || ((!has(self.thresholdRange.min) || self.thresholdRange.min <= 60.0) && (!has(self.thresholdRange.max) || (self.thresholdRange.max > 0.0 && self.thresholdRange.max <= 60.0)))",message="metrics[].latency is in seconds, up to 60: write max: 0.5 for 500 milliseconds"
// +kubebuilder:validation:XValidation:rule="!has(self.successRate) || has(self.baseline) || !has(self.inconclusiveRange) || !has(self.inconclusiveRange.min) || self.inconclusiveRange.min == 0.0 || self.inconclusiveRange.min > 1.0",message="metrics[].successRate is in percent, 0 to 100: write inconclusiveRange: {min: 95}, not 0.95"
// +kubebuilder:validation:XValidation:rule="!has(self.latency) || has(self.baseline) || !has(self.inconclusiveRange) || !has(self.inconclusiveRange.max) || self.inconclusiveRange.max <= 60.0",message="metrics[].latency is in seconds, up to 60: write inconclusiveRange: {max: 1}, not 1000"
// +kubebuilder:validation:XValidation:rule="!has(self.inconclusiveRange) || ((!has(self.inconclusiveRange.min) || (has(self.thresholdRange.min) && self.inconclusiveRange.min <= self.thresholdRange.min)) && (!has(self.inconclusiveRange.max) || (has(self.thresholdRange.max) && self.inconclusiveRange.max >= self.thresholdRange.max)))",message="metrics[].inconclusiveRange must be wider than thresholdRange, and have a bound only where thresholdRange has one"
// +kubebuilder:validation:XValidation:rule="!has(self.successRate) || has(self.thresholdRange.min)",message="metrics[].successRate requires thresholdRange.min: with max alone, a canary that always fails would pass"
// +kubebuilder:validation:XValidation:rule="!has(self.latency) || has(self.thresholdRange.max)",message="metrics[].latency requires thresholdRange.max: with min alone, a slower canary would pass"
// +kubebuilder:validation:XValidation:rule="!has(self.minimumRequests) || has(self.successRate) || has(self.latency)",message="metrics[].minimumRequests is allowed only for successRate and latency: write a custom query so that it returns no data if there are too few requests"
// +kubebuilder:validation:XValidation:rule="!has(self.samples) || has(self.baseline)",message="metrics[].samples are compared with those of the active release: set baseline to Ratio or Difference"
// +kubebuilder:validation:XValidation:rule="!has(self.samples) || !has(self.web)",message="metrics[].samples need a range query: they are allowed for successRate, latency and prometheus"
// +kubebuilder:validation:XValidation:rule="!has(self.samples) || !has(self.baseline) || self.baseline != 'Ratio' || ((!has(self.thresholdRange.min) || self.thresholdRange.min <= 1.0) && (!has(self.thresholdRange.max) || self.thresholdRange.max >= 1.0))",message="metrics[].samples with baseline Ratio: thresholdRange must include 1, the ratio of equal releases"
// +kubebuilder:validation:XValidation:rule="!has(self.samples) || !has(self.baseline) || self.baseline != 'Difference' || ((!has(self.thresholdRange.min) || self.thresholdRange.min <= 0.0) && (!has(self.thresholdRange.max) || self.thresholdRange.max >= 0.0))",message="metrics[].samples with baseline Difference: thresholdRange must include 0, the difference between equal releases"
type AnalysisMetric struct {
	// name of the metric, such as error-rate.
	// +required
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z]([-a-z0-9]*[a-z0-9])?$')",message="the name of a metric must consist of lowercase letters, digits and '-', must start with a letter, and must end with a letter or digit, such as error-rate"
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// successRate is a built-in metric: the percentage (0 to 100) of requests without a 5xx status.
	// +optional
	SuccessRate *SuccessRateMetric `json:"successRate,omitempty"`

	// latency is a built-in metric: the response time, in seconds.
	// +optional
	Latency *LatencyMetric `json:"latency,omitempty"`

	// prometheus is a custom query.
	// +optional
	Prometheus *PrometheusMetric `json:"prometheus,omitempty"`

	// web is a number in the JSON response from a URL.
	// +optional
	Web *WebMetric `json:"web,omitempty"`

	// minimumRequests is the minimum number of requests that successRate and latency require in an
	// interval. With a baseline, the active release must also have received at least this number of
	// requests. If there are fewer requests, noTraffic applies. Defaults to 1.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MinimumRequests int32 `json:"minimumRequests,omitempty"`

	// thresholdRange is the range, including its bounds, in which a value passes.
	// +required
	ThresholdRange ValueRange `json:"thresholdRange"`

	// inconclusiveRange is a range that is wider than thresholdRange. If a value is in this range but
	// outside thresholdRange, the round does not fail but is inconclusive, and a user must decide
	// whether the rollout continues. Bounds default to those of thresholdRange.
	// +optional
	InconclusiveRange *ValueRange `json:"inconclusiveRange,omitempty"`

	// baseline defines how the value is compared with the same metric of the active release. Ratio
	// means that the ratio canary / active is used. Difference means that the difference canary -
	// active is used. By default the value of the canary is not compared. While the weight of the
	// active release is 0, a metric with a baseline is skipped.
	// +optional
	Baseline BaselineMode `json:"baseline,omitempty"`

	// samples compares several values of each release: the comparison defined by baseline uses the
	// medians. If the result is outside thresholdRange, but a Mann-Whitney U test finds no significant
	// difference between the values, the metric passes. By default one value of each release is compared.
	// +optional
	Samples *MetricSamples `json:"samples,omitempty"`

	// dryRun measures and reports the metric without affecting the rollout. Defaults to false.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`
}

// MetricSamples defines how several values of a metric are measured for each release, in the
// period before a round. A release needs at least eight values.
type MetricSamples struct {
	// interval is the time range of one value and the time between two values, from 5s to 1h. It
	// replaces {{.Interval}} in prometheus.query. It should contain at least four scrapes.
	// +required
	// +kubebuilder:validation:XValidation:rule="duration(self) >= duration('5s') && duration(self) <= duration('1h')",message="metrics[].samples.interval must be between 5s and 1h"
	Interval Duration `json:"interval"`

	// count is the maximum number of values for each release. Each round measures the preceding period,
	// which is count times interval long. If the current step is shorter than this period, only the
	// time since the start of the step is measured. Defaults to 20.
	// +optional
	// +kubebuilder:validation:Minimum=8
	// +kubebuilder:validation:Maximum=100
	Count int32 `json:"count,omitempty"`

	// significance is the p-value of the Mann-Whitney U test below which the values count as
	// different. Defaults to 0.05.
	// +optional
	// +kubebuilder:validation:XValidation:rule="self >= 0.0001 && self <= 0.2",message="metrics[].samples.significance must be between 0.0001 and 0.2: 0.05 is five percent"
	Significance *float64 `json:"significance,omitempty"`
}

// SuccessRateMetric has no settings.
type SuccessRateMetric struct{}

// LatencyQuantile is a quantile of the latency.
// +kubebuilder:validation:Enum=P50;P95;P99
type LatencyQuantile string

// The quantiles of the built-in latency.
const (
	LatencyP50 LatencyQuantile = "P50"
	LatencyP95 LatencyQuantile = "P95"
	LatencyP99 LatencyQuantile = "P99"
)

// LatencyMetric is a quantile of the response time.
type LatencyMetric struct {
	// quantile of the latency: P50, P95 or P99 is the time within which 50, 95 or 99 percent of the
	// requests are answered.
	// +required
	Quantile LatencyQuantile `json:"quantile"`
}

// PrometheusMetric is a query in PromQL.
type PrometheusMetric struct {
	// query returns one number: a scalar, or a vector with one series. An empty vector means no
	// traffic. The fields {{.Release}}, {{.Group}}, {{.Microservice}}, {{.Namespace}}, {{.Version}},
	// {{.Interval}} (such as 1m) and {{.Service}} are replaced with their values; the value of
	// {{.Service}} is a pattern for =~ that matches the Services of the release. In an AnalysisTemplate
	// or ClusterAnalysisTemplate, {{.Args.NAME}} is replaced too.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^{]|[{][^{]|[{][{] ?[.](Release|Group|Microservice|Namespace|Version|Interval|Service|Args[.][a-z][A-Za-z0-9]*) ?[}][}])*$')",message="prometheus.query: the supported fields are {{.Release}}, {{.Group}}, {{.Microservice}}, {{.Namespace}}, {{.Version}}, {{.Interval}}, {{.Service}} and, in templates, {{.Args.NAME}}, without functions"
	Query string `json:"query"`
}

// WebMetric is a number in the JSON response from a URL.
// +kubebuilder:validation:XValidation:rule="[has(self.secretRef), has(self.aws), has(self.google), has(self.headers) && self.headers.exists(h, h.name.lowerAscii() == 'authorization')].filter(x, x).size() <= 1",message="web.secretRef, web.aws, web.google and the Authorization header in web.headers each set the Authorization header: keep one of them, and remove the others"
// +kubebuilder:validation:XValidation:rule="!(has(self.aws) || has(self.google)) || self.url.startsWith('https://')",message="web.url must begin with https:// if web.aws or web.google is set, because the request contains credentials: write https://"
type WebMetric struct {
	// url to request. It can contain the same fields as prometheus.query, as well as {{.Start}} and
	// {{.End}}, the start and the end of the interval as Unix timestamps in seconds. Link-local and
	// loopback addresses are rejected, and so are redirects to other hosts.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	// +kubebuilder:validation:XValidation:rule="self.matches('^https?://([^/?#@ {}]|[{][{] ?[.](Release|Group|Microservice|Namespace|Version|Interval|Service|Start|End|Args[.][a-z][A-Za-z0-9]*) ?[}][}])+([/?]([^# {}]|[{][{] ?[.](Release|Group|Microservice|Namespace|Version|Interval|Service|Start|End|Args[.][a-z][A-Za-z0-9]*) ?[}][}])*)?$')",message="web.url must be an http or https URL without a username or fragment; the supported fields are {{.Release}}, {{.Group}}, {{.Microservice}}, {{.Namespace}}, {{.Version}}, {{.Interval}}, {{.Service}}, {{.Start}}, {{.End}} and, in templates, {{.Args.NAME}}"
	URL string `json:"url"`

	// body is the JSON to send in a POST request. It can contain the same fields as url. Without a
	// body, the request is a GET request.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.matches('^([^{]|[{][^{]|[{][{] ?[.](Release|Group|Microservice|Namespace|Version|Interval|Service|Start|End|Args[.][a-z][A-Za-z0-9]*) ?[}][}])*$')",message="web.body: the supported fields are {{.Release}}, {{.Group}}, {{.Microservice}}, {{.Namespace}}, {{.Version}}, {{.Interval}}, {{.Service}}, {{.Start}}, {{.End}} and, in templates, {{.Args.NAME}}, without functions"
	Body string `json:"body,omitempty"`

	// value is a CEL expression that returns a number. In this expression, body is the JSON of the
	// response (at most 1 MiB); a null result means no traffic. Example: body.errors / body.total.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=1024
	Value string `json:"value"`

	// headers of the request.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=8
	Headers []WebHeader `json:"headers,omitempty"`

	// secretRef refers to a Secret in this namespace with the key token, which is sent as a bearer
	// token, or with the keys username and password. For other credentials, use headers. Credentials
	// are sent only to the host of the URL.
	// +optional
	SecretRef *Reference `json:"secretRef,omitempty"`

	// aws signs the request with Signature Version 4, as Amazon CloudWatch requires. The URL must
	// begin with https://.
	// +optional
	AWS *WebAWS `json:"aws,omitempty"`

	// google sends an access token for a service account with the request, as Google Cloud Monitoring
	// requires. The URL must begin with https://.
	// +optional
	Google *WebGoogle `json:"google,omitempty"`

	// caSecretRef refers to a Secret in this namespace whose key ca.crt contains the certificate
	// authorities to trust for this URL. They replace the certificate authorities of the system.
	// +optional
	CASecretRef *Reference `json:"caSecretRef,omitempty"`
}

// WebAWS signs a request with AWS Signature Version 4. A body is sent with the Content-Type
// application/x-amz-json-1.0; CloudWatch also requires the X-Amz-Target header with the operation,
// such as GraniteServiceVersion20100801.GetMetricData.
type WebAWS struct {
	// region that the signature is for, such as eu-central-1.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+(-[a-z0-9]+)*$')",message="web.aws.region must consist of lowercase letters, digits and non-consecutive '-', and must start and end with a letter or digit, such as eu-central-1"
	Region string `json:"region"`

	// service that the signature is for: monitoring is CloudWatch, and aps is Amazon Managed Service
	// for Prometheus. Defaults to monitoring.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]+(-[a-z0-9]+)*$')",message="web.aws.service must consist of lowercase letters, digits and non-consecutive '-', and must start and end with a letter or digit, such as monitoring"
	Service string `json:"service,omitempty"`

	// secretRef refers to a Secret in this namespace with the keys access-key-id and
	// secret-access-key of an IAM user or role, and session-token if these keys are temporary. The
	// identity of the manager is never used.
	// +required
	SecretRef Reference `json:"secretRef"`
}

// WebGoogle fetches an access token with the scope
// https://www.googleapis.com/auth/monitoring.read from oauth2.googleapis.com, and sends it as a
// bearer token (RFC 7523). The token is used until shortly before it expires.
type WebGoogle struct {
	// secretRef refers to a Secret in this namespace whose key key.json contains a service account key
	// in JSON format. The token_uri in this JSON must be https://oauth2.googleapis.com/token.
	// The identity of the manager is never used.
	// +required
	SecretRef Reference `json:"secretRef"`
}

// WebHeader is a header of a request.
// +kubebuilder:validation:XValidation:rule="has(self.value) != has(self.secretKeyRef)",message="web.headers[]: set value or secretKeyRef, but not both"
// +kubebuilder:validation:XValidation:rule="has(self.secretKeyRef) || self.name.lowerAscii() != 'authorization'",message="web.headers[].name: the Authorization header requires secretKeyRef instead of value; alternatively, omit the header and set web.secretRef"
type WebHeader struct {
	// name of the header.
	// +required
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[A-Za-z0-9-]+$")`,message="web.headers[].name must consist of letters, digits and '-', such as X-Team"
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="!(self.lowerAscii() in ['proxy-authorization', 'cookie', 'host', 'content-length', 'transfer-encoding', 'connection', 'content-type', 'user-agent', 'accept-encoding'])",message="web.headers[].name: this header must not be set; for credentials use secretRef, or Authorization with secretKeyRef"
	Name string `json:"name"`

	// value of the header, in printable ASCII. In an AnalysisTemplate or ClusterAnalysisTemplate,
	// {{.Args.NAME}} is replaced.
	// +optional
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[ -~]*$")`,message="web.headers[].value must be printable ASCII"
	// +kubebuilder:validation:MaxLength=512
	Value *string `json:"value,omitempty"`

	// secretKeyRef refers to a key in a Secret in this namespace. The key contains the whole value of
	// the header, such as "Api-Token …" for Authorization. The value can be at most 8 KiB of printable
	// ASCII. A line break at the end of the value is ignored.
	// +optional
	SecretKeyRef *SecretKeyReference `json:"secretKeyRef,omitempty"`
}

// SecretKeyReference refers to a key in a Secret in the same namespace.
type SecretKeyReference struct {
	// name of the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`

	// key in the Secret.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule=`self.matches(r"^[-._a-zA-Z0-9]+$")`,message="secretKeyRef.key must consist of letters, digits, '-', '_' and '.'"
	Key string `json:"key"`
}

// ValueRange is a range of numbers, including both bounds.
// +kubebuilder:validation:XValidation:rule="has(self.min) || has(self.max)",message="set at least one of min and max: a range without bounds includes every value"
// +kubebuilder:validation:XValidation:rule="!has(self.min) || !has(self.max) || self.min <= self.max",message="min must be less than or equal to max"
type ValueRange struct {
	// min is the smallest value in the range.
	// +optional
	// +kubebuilder:validation:Minimum=-1000000000000000
	// +kubebuilder:validation:Maximum=1000000000000000
	Min *float64 `json:"min,omitempty"`

	// max is the largest value in the range.
	// +optional
	// +kubebuilder:validation:Minimum=-1000000000000000
	// +kubebuilder:validation:Maximum=1000000000000000
	Max *float64 `json:"max,omitempty"`
}

// BaselineMode defines how a value is compared with that of the active release.
// +kubebuilder:validation:Enum=Ratio;Difference
type BaselineMode string

const (
	// BaselineRatio is canary / active.
	BaselineRatio BaselineMode = "Ratio"
	// BaselineDifference is canary - active.
	BaselineDifference BaselineMode = "Difference"
)

// AnalysisPhase is the result of a step's rounds so far.
// +kubebuilder:validation:Enum=Running;Passed;Failed;Inconclusive;NoTraffic
type AnalysisPhase string

const (
	// AnalysisRunning means that further rounds are necessary.
	AnalysisRunning AnalysisPhase = "Running"
	// AnalysisPassed means that the required number of rounds passed. Measurements continue until
	// the step ends.
	AnalysisPassed AnalysisPhase = "Passed"
	// AnalysisFailed means that more rounds failed than are tolerated. It is final for the rollout.
	AnalysisFailed AnalysisPhase = "Failed"
	// AnalysisInconclusive means that a user must decide, because a value was inconclusive or the
	// metrics could not be measured.
	AnalysisInconclusive AnalysisPhase = "Inconclusive"
	// AnalysisNoTraffic means that the analysis is waiting for requests.
	AnalysisNoTraffic AnalysisPhase = "NoTraffic"
)

// MeasurementResult is the result of measuring a metric once.
// +kubebuilder:validation:Enum=Passed;Failed;Inconclusive;NoTraffic;Skipped;Error
type MeasurementResult string

const (
	// MeasurementPassed means that the value is inside thresholdRange or, if the metric has samples,
	// that the samples do not differ significantly.
	MeasurementPassed MeasurementResult = "Passed"
	// MeasurementFailed means that the value is outside both ranges.
	MeasurementFailed MeasurementResult = "Failed"
	// MeasurementInconclusive means that the value is outside thresholdRange and inside
	// inconclusiveRange.
	MeasurementInconclusive MeasurementResult = "Inconclusive"
	// MeasurementNoTraffic means that there were no requests to measure.
	MeasurementNoTraffic MeasurementResult = "NoTraffic"
	// MeasurementSkipped means that there is no baseline to compare with, because the active
	// release receives no traffic in this step.
	MeasurementSkipped MeasurementResult = "Skipped"
	// MeasurementError means that the metric could not be measured. It counts neither as passed nor
	// as failed.
	MeasurementError MeasurementResult = "Error"
)

// ReleaseAnalysis is the state of a canary's analysis.
type ReleaseAnalysis struct {
	// template that defines the analysis, with its generation, as in
	// ClusterAnalysisTemplate/http@3. It is empty if the Microservice defines the analysis.
	// +optional
	// +kubebuilder:validation:MaxLength=320
	Template string `json:"template,omitempty"`

	// run is the sequence number of the rollout.
	Run int64 `json:"run"`

	// step that is being measured, counted from 1. It is 0 if the steps were edited and the
	// canary is waiting for the first step.
	Step int32 `json:"step"`

	// since is when the measured step began to wait for the analysis.
	Since metav1.MicroTime `json:"since"`

	// specHash is the hash of the metrics with their thresholds, and of count, interval, source,
	// provider.prometheus and noTraffic. When one of these changes, rounds is reset to 0, but failures
	// is not reset.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	SpecHash string `json:"specHash,omitempty"`

	// phase of this step. Running means that further rounds are necessary. Passed means that the
	// required number of rounds passed. Failed means that more rounds failed than are tolerated, which
	// is final for the rollout. Inconclusive means that a user must decide, because a value was
	// inconclusive or could not be measured. NoTraffic means that the analysis is waiting for
	// requests.
	Phase AnalysisPhase `json:"phase"`

	// message describes the phase.
	// +optional
	// +kubebuilder:validation:MaxLength=512
	Message string `json:"message,omitempty"`

	// rounds is the number of passed rounds of this step.
	// +optional
	Rounds int32 `json:"rounds,omitempty"`

	// failures is the number of failed rounds of the rollout.
	// +optional
	Failures int32 `json:"failures,omitempty"`

	// consecutiveFailures counts the failed rounds of the rollout since the last passed round.
	// +optional
	ConsecutiveFailures int32 `json:"consecutiveFailures,omitempty"`

	// inconclusive counts the inconclusive rounds of this step.
	// +optional
	Inconclusive int32 `json:"inconclusive,omitempty"`

	// errors counts the consecutive rounds that could not be measured.
	// +optional
	Errors int32 `json:"errors,omitempty"`

	// lastTime is the time of the latest round.
	// +optional
	LastTime *metav1.MicroTime `json:"lastTime,omitempty"`

	// nextTime is the time of the next round.
	// +optional
	NextTime *metav1.MicroTime `json:"nextTime,omitempty"`

	// metrics with their latest measurements, in the same order as in the specification.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Metrics []MetricStatus `json:"metrics,omitempty"`
}

// MetricStatus contains the latest measurements of a metric.
type MetricStatus struct {
	// name of the metric.
	// +kubebuilder:validation:MaxLength=63
	Name string `json:"name"`

	// result of the latest measurement: Passed, Failed, Inconclusive, NoTraffic, Skipped or Error, as
	// explained in measurements[].result.
	Result MeasurementResult `json:"result"`

	// dryRun is true if the metric does not affect the rollout.
	// +optional
	DryRun bool `json:"dryRun,omitempty"`

	// measurements of this rollout, newest first.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=10
	Measurements []Measurement `json:"measurements,omitempty"`
}

// Measurement is one measurement of a metric, with its result.
type Measurement struct {
	// time of the measurement.
	Time metav1.MicroTime `json:"time"`

	// value that was compared with the ranges. It is empty if there was no value.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	Value string `json:"value,omitempty"`

	// result of the comparison. Passed means that the value is inside thresholdRange or, if the metric
	// has samples, that the samples do not differ significantly. Failed means that the value is outside
	// both ranges. Inconclusive means that it is outside thresholdRange and inside
	// inconclusiveRange. NoTraffic means that there were no requests to measure. Skipped
	// means that there is no baseline, because the active release receives no traffic. Error means
	// that the metric could not be measured; it counts neither as passed nor as failed.
	Result MeasurementResult `json:"result"`

	// message explains why there is no value, or which two values were compared.
	// +optional
	// +kubebuilder:validation:MaxLength=256
	Message string `json:"message,omitempty"`
}
