package analysis

import (
	"cmp"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/outbound"
)

// provider is the kind of provider, and is also a label value in metrics.
type provider string

const (
	providerPrometheus provider = "prometheus"
	providerWeb        provider = "web"
)

// login is the method by which a request authenticates with the credentials in its Secret.
type login string

const (
	// loginPlain sends a token, or a user name and a password.
	loginPlain login = ""
	// loginAWS signs requests with Signature Version 4.
	loginAWS login = "aws"
	// loginGoogle sends an access token of a service account.
	loginGoogle login = "google"
)

// query is one complete query to a provider. Equal queries have the same response and are sent only once. The namespace is part of the query,
// so that a query never waits for an equal query of another namespace that is still queued.
type query struct {
	provider provider
	// address is the URL of the server, or the whole URL of a web metric.
	address string
	// operator reports whether the address comes from the manager's --prometheus-address flag.
	operator bool
	// text is PromQL, or the CEL expression of a web metric.
	text string
	// latency reports whether a negative value means "more than its absolute value".
	latency bool
	// body and headers are the body and the headers of a web request. Each header is on a separate
	// line.
	body, headers string
	// keys contains a line for each header whose value is in a Secret: header, Secret and key.
	keys string
	// namespace is the namespace of the analysis and of its Secrets. secret and authority are names of Secrets.
	namespace, secret, authority string
	// login is the method by which requests authenticate with the credentials in secret. region and service are parameters of loginAWS.
	login           login
	region, service string
	// at is the time of the query, in nanoseconds since 1970.
	at int64
	// samples is the number of values up to that time, and step is the time between them in nanoseconds. samples is 0 for a single value.
	samples, step int64
}

// endpoint returns the key of the rate limit, which identifies one server in combination with the credentials of one user.
func (q query) endpoint() string {
	server := q.address
	if u, err := url.Parse(q.address); err == nil {
		server = u.Scheme + "://" + net.JoinHostPort(outbound.HostOf(q.address), u.Port())
	}
	if q.secret == "" && q.keys == "" {
		return server
	}
	return strings.Join([]string{server, q.namespace, q.secret, q.keys}, " ")
}

// question returns the query for a metric of a release.
func question(spec *v1alpha1.CanaryAnalysis, metric *v1alpha1.AnalysisMetric, t Target, at time.Time, operator string) (query, *Error) {
	interval := intervalOf(spec)
	if s := metric.Samples; s != nil {
		interval = s.Interval.Std(interval)
	}
	fields := valuesOf(t, interval)
	if metric.Web != nil {
		return webQuestion(metric.Web, fields, t.Namespace, at, interval)
	}
	q := query{provider: providerPrometheus, namespace: t.Namespace, at: at.UnixNano(), latency: metric.Latency != nil}
	if s := metric.Samples; s != nil {
		q.samples, q.step = int64(cmp.Or(s.Count, defaultSamples)), int64(interval)
	}
	var err *Error
	if metric.Prometheus != nil {
		q.text, err = fields.fill(metric.Prometheus.Query, inQuotes)
	} else if metric.SuccessRate != nil || metric.Latency != nil {
		q.text, err = builtin(spec, metric, t, interval)
	} else {
		err = errorf(BadQuery, "metric %s has no query: set successRate, latency, prometheus or web", metric.Name)
	}
	if err != nil {
		return q, err
	}
	switch server := spec.Provider.Prometheus; {
	case server != nil:
		q.address = server.Address
		q.secret, q.authority = name(server.SecretRef), name(server.CASecretRef)
	case operator != "":
		q.address, q.operator = operator, true
	default:
		return q, errorf(NoProvider, "set analysis.provider.prometheus.address, or the manager's flag --prometheus-address")
	}
	return q, nil
}

func webQuestion(web *v1alpha1.WebMetric, fields values, namespace string, at time.Time, interval time.Duration) (query, *Error) {
	q := query{
		provider: providerWeb, text: web.Value, namespace: namespace, at: at.UnixNano(),
		secret: name(web.SecretRef), authority: name(web.CASecretRef),
	}
	switch {
	case web.AWS != nil:
		q.login, q.secret = loginAWS, web.AWS.SecretRef.Name
		q.region, q.service = web.AWS.Region, cmp.Or(web.AWS.Service, "monitoring")
	case web.Google != nil:
		q.login, q.secret = loginGoogle, web.Google.SecretRef.Name
	}
	var err *Error
	// Only web requests can contain the start and the end of the interval. For Prometheus, the interval ends at the time of the query.
	fields["Start"], fields["End"] = strconv.FormatInt(at.Add(-interval).Unix(), 10), strconv.FormatInt(at.Unix(), 10)
	if q.address, err = fields.fill(web.URL, inURL); err != nil {
		return q, err
	}
	if q.body, err = fields.fill(web.Body, inQuotes); err != nil {
		return q, err
	}
	var lines, keys []string
	for _, h := range web.Headers {
		if h.SecretKeyRef != nil {
			keys = append(keys, h.Name+" "+h.SecretKeyRef.Name+" "+h.SecretKeyRef.Key)
			continue
		}
		text := ""
		if h.Value != nil {
			text = *h.Value
		}
		lines = append(lines, h.Name+": "+text)
	}
	slices.Sort(lines)
	slices.Sort(keys)
	q.headers, q.keys = strings.Join(lines, "\n"), strings.Join(keys, "\n")
	return q, nil
}

func name(ref *v1alpha1.Reference) string {
	if ref == nil {
		return ""
	}
	return ref.Name
}
