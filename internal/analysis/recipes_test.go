package analysis

import (
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// store is a metrics store, as described in its documentation.
type store struct {
	// method, host, path and query are the parts of the recipe's request, as in the documentation of the store.
	method, host, path string
	query              url.Values
	// body is the JSON body of the request; empty for a GET.
	body string
	// header is the name of the header that contains credential.
	header, credential string
	// service is the service of Signature Version 4; empty if the request is not signed.
	service string
	// answers maps responses to the values that the recipe extracts from them; nil means no traffic.
	answers map[string]*float64
}

// stores maps the names of recipes to stores. The responses have the form that the documentation of each store describes: Datadog's "Query timeseries
// points", New Relic's NerdGraph tutorial for NRQL, Dynatrace's "Metrics API - GET metric data points", InfluxDB's "/query" of the 1.x API,
// Graphite's "The Render URL API", Elasticsearch's "Search API", Honeycomb's "Get SLO History", CloudWatch's GetMetricData in the AWS JSON 1.0
// protocol, and the HTTP API of Prometheus on Amazon and Google.
var stores = map[string]store{
	"datadog": {
		method: http.MethodGet, host: "api.datadoghq.com", path: "/api/v1/query", header: "DD-API-KEY", credential: "api-key of datadog",
		query: url.Values{"from": {"1699999940"}, "to": {"1700000000"}, "query": {"sum:shop.errors{release:cart-1}.as_count()/sum:shop.requests{release:cart-1}.as_count()"}},
		answers: map[string]*float64{
			`{"status":"ok","res_type":"time_series","series":[{"metric":"a","pointlist":[[1699999940000,0.5],[1699999970000,0.25]],"length":2,"scope":"release:cart-1"}],"error":""}`: new(0.25),
			`{"status":"ok","res_type":"time_series","series":[]}`: nil,
		},
	},
	"new-relic": {
		method: http.MethodPost, host: "api.newrelic.com", path: "/graphql", header: "API-Key", credential: "api-key of new-relic",
		body: `{"query": "{ actor { account(id: 1234567) { nrql(query: \"SELECT percentage(count(*), WHERE error IS true) AS errors FROM Transaction WHERE release = 'cart-1' SINCE 1699999940000 UNTIL 1700000000000\") { results } } } }"}`,
		answers: map[string]*float64{
			`{"data":{"actor":{"account":{"nrql":{"results":[{"errors":1.5}]}}}}}`:  new(1.5),
			`{"data":{"actor":{"account":{"nrql":{"results":[{"errors":null}]}}}}}`: nil,
		},
	},
	"dynatrace": {
		method: http.MethodGet, host: "abc12345.live.dynatrace.com", path: "/api/v2/metrics/query", header: "Authorization", credential: "authorization of dynatrace",
		query: url.Values{"resolution": {"Inf"}, "from": {"1699999940000"}, "to": {"1700000000000"}, "metricSelector": {"ext:shop.failures:filter(eq(release,cart-1)):sum"}},
		answers: map[string]*float64{
			`{"totalCount":1,"nextPageKey":null,"resolution":"Inf","result":[{"metricId":"ext:shop.failures","data":[{"dimensions":[],"dimensionMap":{},"timestamps":[1700000000000],"values":[3]}]}]}`: new(3.0),
			`{"totalCount":0,"nextPageKey":null,"resolution":"Inf","result":[{"metricId":"ext:shop.failures","data":[]}]}`:                                                                              nil,
		},
	},
	"influxdb": {
		method: http.MethodGet, host: "influxdb.example.com", path: "/query", header: "Authorization", credential: "authorization of influxdb",
		query: url.Values{"db": {"shop"}, "epoch": {"s"}, "q": {"SELECT sum(failed)/sum(total) FROM requests WHERE release='cart-1' AND time>=1699999940s AND time<1700000000s"}},
		answers: map[string]*float64{
			`{"results":[{"statement_id":0,"series":[{"name":"requests","columns":["time","sum_sum"],"values":[[1699999940,0.02]]}]}]}`: new(0.02),
			`{"results":[{"statement_id":0}]}`: nil,
		},
	},
	"graphite": {
		method: http.MethodGet, host: "graphite.example.com", path: "/render", header: "Authorization", credential: "Basic cm9ib3Q6c2VjcmV0",
		query: url.Values{"format": {"json"}, "noNullPoints": {"true"}, "from": {"1699999940"}, "until": {"1700000000"}, "target": {"divideSeries(shop.cart-1.errors,shop.cart-1.requests)"}},
		answers: map[string]*float64{
			`[{"target":"divideSeries(shop)","datapoints":[[1.0,1699999940],[0.5,1699999970]],"tags":{}}]`: new(0.5),
			`[{"target":"divideSeries(shop)","datapoints":[]}]`:                                            nil,
			`[]`: nil,
		},
	},
	"elasticsearch": {
		method: http.MethodPost, host: "elasticsearch.example.com", path: "/logs-shop/_search", header: "Authorization", credential: "authorization of elasticsearch",
		body: `{"size": 0, "track_total_hits": true, "query": {"bool": {"filter": [{"term": {"release": "cart-1"}}, {"range": {"@timestamp": {"gte": 1699999940, "lt": 1700000000, "format": "epoch_second"}}}]}},
			"aggs": {"errors": {"filter": {"range": {"status": {"gte": 500}}}}}}`,
		answers: map[string]*float64{
			`{"took":2,"timed_out":false,"_shards":{"total":5,"successful":5,"skipped":0,"failed":0},"hits":{"total":{"value":200,"relation":"eq"},"max_score":null,"hits":[]},"aggregations":{"errors":{"doc_count":3}}}`: new(1.5),
			`{"took":2,"timed_out":false,"_shards":{"total":5,"successful":5,"skipped":0,"failed":0},"hits":{"total":{"value":0,"relation":"eq"},"max_score":null,"hits":[]},"aggregations":{"errors":{"doc_count":0}}}`:   nil,
		},
	},
	"honeycomb": {
		method: http.MethodPost, host: "api.honeycomb.io", path: "/1/reporting/slos/historical", header: "X-Honeycomb-Team", credential: "api-key of honeycomb",
		body: `{"ids": ["2LBq9LckbcA"], "start_time": 1699999940, "end_time": 1700000000}`,
		answers: map[string]*float64{
			`{"2LBq9LckbcA":[{"timestamp":1744650000,"compliance":91.4,"budget_remaining":14.5},{"timestamp":1744653600,"compliance":98.0,"budget_remaining":88.1}]}`: new(88.1),
			`{"2LBq9LckbcA":[]}`: nil,
		},
	},
	"cloudwatch": {
		method: http.MethodPost, host: "monitoring.eu-central-1.amazonaws.com", path: "/", header: "X-Amz-Target", credential: "GraniteServiceVersion20100801.GetMetricData",
		service: "monitoring",
		body: `{"StartTime": 1699999700, "EndTime": 1700000000, "MetricDataQueries": [{"Id": "errors", "MetricStat": {"Stat": "Average", "Period": 300,
			"Metric": {"Namespace": "Shop", "MetricName": "Errors", "Dimensions": [{"Name": "Release", "Value": "cart-1"}]}}}]}`,
		answers: map[string]*float64{
			`{"MetricDataResults":[{"Id":"errors","Label":"Errors","Timestamps":[1699999800,1699999500],"Values":[0.005,0.5],"StatusCode":"Complete"}],"Messages":[]}`: new(0.005),
			`{"MetricDataResults":[{"Id":"errors","Label":"Errors","Timestamps":[],"Values":[],"StatusCode":"Complete"}],"Messages":[]}`:                               nil,
		},
	},
	"amazon-prometheus": {
		method: http.MethodGet, host: "aps-workspaces.eu-central-1.amazonaws.com", path: "/workspaces/ws-12345678/api/v1/query", header: "X-Amz-Security-Token", credential: "session",
		service: "aps", query: sharePromQL, answers: sharesPromQL,
	},
	"google-monitoring": {
		method: http.MethodGet, host: "monitoring.googleapis.com", path: "/v1/projects/my-project/location/global/prometheus/api/v1/query", header: "Authorization", credential: "Bearer ya29.1",
		query: sharePromQL, answers: sharesPromQL,
	},
}

// sharePromQL is the query of the recipes that use PromQL, and sharesPromQL contains responses to this query.
var (
	sharePromQL = url.Values{"time": {"1700000000"}, "query": {`sum(rate(http_requests_total{release="cart-1",code!~"5.."}[1m]))/(sum(rate(http_requests_total{release="cart-1"}[1m]))>0)`}}

	sharesPromQL = map[string]*float64{
		`{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1700000000,"0.995"]}]}}`: new(0.995),
		`{"status":"success","data":{"resultType":"vector","result":[]}}`:                                           nil,
	}
)

// credentials contains the Secrets of the recipes. The value of each key consists of the name of the key and the name of the Secret.
var credentials = func() secrets {
	all := secrets{}
	for name := range stores {
		data := map[string][]byte{}
		for _, key := range []string{"api-key", "application-key", "authorization"} {
			data[key] = []byte(key + " of " + name + "\n")
		}
		all["shop/"+name] = data
	}
	keys := map[string][]byte{keyAccessID: []byte(exampleID), keyAccessSecret: []byte(exampleKey)}
	all["shop/cloudwatch"] = keys
	all["shop/amazon-prometheus"] = map[string][]byte{keyAccessID: keys[keyAccessID], keyAccessSecret: keys[keyAccessSecret], keySession: []byte("session")}
	all["shop/graphite"] = map[string][]byte{"username": []byte("robot"), "password": []byte("secret")}
	return all
}()

// TestRecipes sends the request of each recipe in the guide, and reads responses in the form that the store documents.
func TestRecipes(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/how-to/metrics-stores.md")
	if err != nil {
		t.Fatal(err)
	}
	at := time.Unix(1700000000, 0)
	played := map[string]bool{}
	for _, fragment := range regexp.MustCompile("(?s)```yaml fragment\n(.*?)\n```").FindAllStringSubmatch(string(text), -1) {
		var spec v1alpha1.CanaryAnalysis
		if err := yaml.UnmarshalStrict([]byte(fragment[1]), &spec); err != nil {
			t.Fatalf("%v in:\n%s", err, fragment[1])
		}
		for _, metric := range spec.Metrics {
			if metric.Web == nil {
				continue
			}
			st, ok := stores[metric.Name]
			if !ok {
				t.Errorf("recipe %s is not tested", metric.Name)
				continue
			}
			played[metric.Name] = true
			for answer, want := range st.answers {
				q, failure := question(&spec, &metric, Target{Namespace: "shop", Release: "cart-1"}, at, "")
				if failure != nil {
					t.Fatalf("%s: %v", metric.Name, failure)
				}
				u, err := url.Parse(q.address)
				if err != nil || u.Host != st.host {
					t.Fatalf("%s: host %q, want %q: %v", metric.Name, u.Host, st.host, err)
				}
				address, ca := serveTLS(t, func(w http.ResponseWriter, r *http.Request) {
					raw, _ := io.ReadAll(r.Body)
					if st.service != "" {
						if why := verify(r, raw, exampleID, exampleKey, "eu-central-1", st.service, time.Now()); why != "" {
							t.Errorf("%s: %s", metric.Name, why)
						}
					}
					if r.Method != st.method || r.URL.Path != st.path || r.Header.Get(st.header) != st.credential {
						t.Errorf("%s: %s %s with %s %q", metric.Name, r.Method, r.URL.Path, st.header, r.Header.Get(st.header))
					}
					if diff := cmp.Diff(st.query, r.URL.Query()); diff != "" && len(st.query)+len(r.URL.Query()) > 0 {
						t.Errorf("%s: query (-want +got):\n%s", metric.Name, diff)
					}
					if diff := cmp.Diff(document(t, st.body), document(t, string(raw))); diff != "" {
						t.Errorf("%s: body (-want +got):\n%s", metric.Name, diff)
					}
					answers(200, answer)(w, r)
				})
				q.address = strings.Replace(q.address, "https://"+st.host, address, 1)
				q.authority = "ca"
				tokens := newTokenServer(t)
				s := signedSender(t, ca, credentials)
				s.secrets.(secrets)["shop/google-monitoring"] = map[string][]byte{keyServiceAccount: keyFile(t, tokens.url, nil)}
				s.tokenURL = tokens.url
				wanted := answered{noTraffic: want == nil}
				if want != nil {
					wanted.value = *want
				}
				check(t, wanted, s.send(t.Context(), q))
			}
		}
	}
	for name := range stores {
		if !played[name] {
			t.Errorf("the guide has no recipe %s", name)
		}
	}
}

// document returns a JSON document, or nil for empty text.
func document(t *testing.T, text string) (v any) {
	t.Helper()
	if text == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Errorf("%v in %s", err, text)
	}
	return v
}

// TestHeadersFromSecrets checks which values a Secret may contain for a header, and that no error contains a value.
func TestHeadersFromSecrets(t *testing.T) {
	t.Parallel()
	s := openSender(t, secrets{"shop/a": {
		"lines": []byte("hunter2\nX-Other: b"), "unicode": []byte("hunter2é"), "long": []byte(strings.Repeat("hunter2", 8<<10)), "empty": []byte(" \n"),
	}})
	for key, want := range map[string]string{
		"lines":   "Secret a: the key lines must be at most 8 KiB of printable ASCII, because it is the value of the header X-Key",
		"unicode": "Secret a: the key unicode must be at most 8 KiB of printable ASCII, because it is the value of the header X-Key",
		"long":    "Secret a: the key long must be at most 8 KiB of printable ASCII, because it is the value of the header X-Key",
		"empty":   "Secret a has no key empty, which the header X-Key needs",
		"absent":  "Secret a has no key absent, which the header X-Key needs",
	} {
		got := s.send(t.Context(), query{provider: providerWeb, address: "http://127.0.0.1:1", text: "body", namespace: "shop", keys: "X-Key a " + key})
		if got.err == nil || got.err.Reason != BadSecret || got.err.Message != want {
			t.Errorf("%s: %v, want %s", key, got.err, want)
		}
	}
	got := s.send(t.Context(), query{provider: providerWeb, address: "http://127.0.0.1:1", text: "body", namespace: "shop", keys: "X-Key absent b"})
	if want := "metrics[].web.headers[].secretKeyRef of the analysis: not found"; got.err == nil || got.err.Message != want {
		t.Errorf("%v, want %s", got.err, want)
	}
}

// TestRecipesOfFailures checks that a response that reports a failure of the store counts as an error in the round, and not as missing traffic.
// Otherwise, the round would pass with noTraffic: Ignore, and a good release would be rolled back with noTraffic: Fail.
func TestRecipesOfFailures(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../docs/how-to/metrics-stores.md")
	if err != nil {
		t.Fatal(err)
	}
	for recipe, answers := range map[string][]string{
		// https://github.com/influxdata/influxdb/issues/6724: InfluxDB 1 and 2 respond with status 200, and the response may contain values that were
		// read before the error.
		"influxdb": {`{"results":[{"statement_id":0,"error":"database not found: shop"}]}`, `{"results":[{"statement_id":0,"series":[{"name":"requests","columns":["time","sum"],"values":[[1699999940,0.02]]}],"error":"timeout"}]}`},
		// https://docs.aws.amazon.com/AmazonCloudWatch/latest/APIReference/API_MetricDataResult.html: StatusCode is Complete, InternalError, PartialData or Forbidden.
		"cloudwatch": {
			`{"MetricDataResults":[{"Id":"errors","Label":"Errors","Timestamps":[],"Values":[],"StatusCode":"InternalError"}],"Messages":[]}`,
			`{"MetricDataResults":[{"Id":"errors","Label":"Errors","Timestamps":[1699999500],"Values":[0.5],"StatusCode":"PartialData"}],"Messages":[]}`,
		},
		// A search that timed out returns partial results: https://www.elastic.co/docs/api/doc/elasticsearch/operation/operation-search.
		"elasticsearch": {`{"took":2,"timed_out":true,"_shards":{"total":5,"successful":1,"failed":4},"hits":{"total":{"value":0,"relation":"eq"},"max_score":null,"hits":[]},"aggregations":{"errors":{"doc_count":0}}}`},
		// https://docs.datadoghq.com/api/latest/metrics/#query-timeseries-points: error is a message "if status is not ok".
		"datadog": {`{"status":"error","error":"Query timed out","series":[],"res_type":"time_series"}`},
	} {
		found := false
		for _, fragment := range regexp.MustCompile("(?s)```yaml fragment\n(.*?)\n```").FindAllStringSubmatch(string(text), -1) {
			var spec v1alpha1.CanaryAnalysis
			if err := yaml.UnmarshalStrict([]byte(fragment[1]), &spec); err != nil {
				t.Fatal(err)
			}
			for _, metric := range spec.Metrics {
				if metric.Name != recipe {
					continue
				}
				found = true
				program, failure := compile(metric.Web.Value)
				if failure != nil {
					t.Fatal(failure)
				}
				for _, answer := range answers {
					if got := evaluate(t.Context(), program, []byte(answer)); got.err == nil {
						t.Errorf("%s: %s is read as %+v, want an error", recipe, answer, got)
					}
				}
			}
		}
		if !found {
			t.Errorf("no recipe %s", recipe)
		}
	}
}
