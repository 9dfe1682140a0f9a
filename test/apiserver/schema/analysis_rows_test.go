package schema_test

import "strings"

// analysisPatch returns a patch for a Microservice with an analysis that has the given fields.
func analysisPatch(fields string) string {
	return `spec: {updateStrategy: {canary: {steps: [{weight: 10}], analysis: {` + fields + `}}}}`
}

// analysisWith returns a patch with a valid metric and the given fields.
func analysisWith(fields string) string {
	return analysisPatch(`metrics: [{name: a, successRate: {}, thresholdRange: {min: 99}}], ` + fields)
}

// metricPatch returns a patch with one metric that has the given fields.
func metricPatch(fields string) string { return analysisPatch(`metrics: [{name: a, ` + fields + `}]`) }

// queryPatch returns a patch with one metric that has the given query.
func queryPatch(query string) string {
	return metricPatch(`prometheus: {query: '` + query + `'}, thresholdRange: {max: 1}`)
}

// webPatch returns a patch with one web metric that has the given fields.
func webPatch(fields string) string {
	return metricPatch(`web: {` + fields + `}, thresholdRange: {max: 1}`)
}

const analysisPath = "spec.updateStrategy.canary.analysis"

var analysisRows = map[string]row{
	"analysis smallest":            {kind: "Microservice", patch: analysisWith(``)},
	"analysis metrics absent":      {kind: "Microservice", patch: analysisPatch(``), refused: analysisPath + ".metrics: Required value"},
	"analysis metrics empty":       {kind: "Microservice", patch: analysisPatch(`metrics: []`), refused: analysisPath + ".metrics"},
	"analysis with ten metrics":    {kind: "Microservice", patch: analysisPatch(`metrics: ` + numbered(`{name: m#, successRate: {}, thresholdRange: {min: 99}}`, 10))},
	"analysis with eleven metrics": {kind: "Microservice", patch: analysisPatch(`metrics: ` + numbered(`{name: m#, successRate: {}, thresholdRange: {min: 99}}`, 11)), refused: analysisPath + ".metrics: Too many"},
	"analysis metric twice":        {kind: "Microservice", patch: analysisPatch(`metrics: ` + repeat(`{name: a, successRate: {}, thresholdRange: {min: 99}}`, 2)), refused: "Duplicate value"},
	"analysis typo":                {kind: "Microservice", patch: analysisWith(`intervall: 1m`), refused: `unknown field "` + analysisPath + `.intervall"`},

	"analysis of no requests":       {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 0}], analysis: {metrics: [{name: a, successRate: {}, thresholdRange: {min: 99}}]}}}}`, refused: "no step sends requests to the canary"},
	"analysis of matched requests":  {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 0, match: true}], analysis: {metrics: [{name: a, successRate: {}, thresholdRange: {min: 99}}]}}}}`},
	"analysis of mirrored requests": {kind: "Microservice", patch: `spec: {updateStrategy: {canary: {steps: [{weight: 0, mirrorPercent: 1}], analysis: {metrics: [{name: a, successRate: {}, thresholdRange: {min: 99}}]}}}}`},

	"analysis shortest interval":          {kind: "Microservice", patch: analysisWith(`interval: 10s`)},
	"analysis longest interval":           {kind: "Microservice", patch: analysisWith(`interval: 1h`)},
	"analysis interval too short":         {kind: "Microservice", patch: analysisWith(`interval: 9s, provider: {timeout: 1s}`), refused: "interval must be between 10s and 1h"},
	"analysis interval too long":          {kind: "Microservice", patch: analysisWith(`interval: 61m`), refused: "interval must be between 10s and 1h"},
	"analysis interval in days":           {kind: "Microservice", patch: analysisWith(`interval: 1d`), refused: analysisPath + ".interval"},
	"analysis fractional interval":        {kind: "Microservice", patch: analysisWith(`interval: 1.5m`), refused: analysisPath + ".interval"},
	"analysis highest count":              {kind: "Microservice", patch: analysisWith(`count: 100`)},
	"analysis count zero":                 {kind: "Microservice", patch: analysisWith(`count: 0`), refused: analysisPath + ".count"},
	"analysis limits":                     {kind: "Microservice", patch: analysisWith(`failureLimit: 0, consecutiveFailureLimit: 100`)},
	"analysis limit negative":             {kind: "Microservice", patch: analysisWith(`failureLimit: -1`), refused: analysisPath + ".failureLimit"},
	"analysis consecutive limit too high": {kind: "Microservice", patch: analysisWith(`consecutiveFailureLimit: 101`), refused: analysisPath + ".consecutiveFailureLimit"},
	"analysis no traffic":                 {kind: "Microservice", patch: analysisWith(`noTraffic: Ignore`)},
	"analysis no traffic unknown":         {kind: "Microservice", patch: analysisWith(`noTraffic: Pass`), refused: `supported values: "Fail", "Ignore", "Wait"`},
	"analysis source":                     {kind: "Microservice", patch: analysisWith(`source: IngressNGINX`)},
	"analysis source unknown":             {kind: "Microservice", patch: analysisWith(`source: Linkerd`), refused: `supported values: "Traefik", "Application", "EnvoyGateway", "Istio", "IngressNGINX"`},

	"analysis provider":               {kind: "Microservice", patch: analysisWith(`provider: {timeout: 1m, prometheus: {address: "https://prometheus.monitoring:9090/base", secretRef: {name: a}, caSecretRef: {name: b}}}`)},
	"analysis timeout too short":      {kind: "Microservice", patch: analysisWith(`provider: {timeout: 999ms}`), refused: "provider.timeout must be between 1s and 1m"},
	"analysis timeout too long":       {kind: "Microservice", patch: analysisWith(`interval: 1h, provider: {timeout: 61s}`), refused: "provider.timeout must be between 1s and 1m"},
	"analysis timeout in minutes":     {kind: "Microservice", patch: analysisWith(`provider: {timeout: 1min}`), refused: analysisPath + ".provider.timeout"},
	"analysis timeout over interval":  {kind: "Microservice", patch: analysisWith(`interval: 10s, provider: {timeout: 11s}`), refused: "provider.timeout must not be longer than the interval"},
	"analysis address absent":         {kind: "Microservice", patch: analysisWith(`provider: {prometheus: {}}`), refused: "provider.prometheus.address: Required value"},
	"analysis address empty":          {kind: "Microservice", patch: analysisWith(`provider: {prometheus: {address: ""}}`), refused: analysisPath + ".provider.prometheus.address"},
	"analysis address too long":       {kind: "Microservice", patch: analysisWith(`provider: {prometheus: {address: "http://` + long(512) + `"}}`), refused: "provider.prometheus.address: Too long"},
	"analysis address without scheme": {kind: "Microservice", patch: analysisWith(`provider: {prometheus: {address: "prometheus:9090"}}`), refused: "prometheus.address must be a URL such as"},
	"analysis address of a file":      {kind: "Microservice", patch: analysisWith(`provider: {prometheus: {address: "file:///etc/passwd"}}`), refused: "prometheus.address must be a URL such as"},
	"analysis address with a user":    {kind: "Microservice", patch: analysisWith(`provider: {prometheus: {address: "http://me:secret@prometheus"}}`), refused: "put credentials in secretRef"},
	"analysis address with a query":   {kind: "Microservice", patch: analysisWith(`provider: {prometheus: {address: "http://prometheus/?a=b"}}`), refused: "without a username, query or fragment"},
	"analysis secret without name":    {kind: "Microservice", patch: analysisWith(`provider: {prometheus: {address: "http://p", secretRef: {name: ""}}}`), refused: "provider.prometheus.secretRef.name"},
	"analysis authority without name": {kind: "Microservice", patch: analysisWith(`provider: {prometheus: {address: "http://p", caSecretRef: {name: ""}}}`), refused: "provider.prometheus.caSecretRef.name"},

	"metric that is only a name":     {kind: "Microservice", patch: metricPatch(`thresholdRange: {min: 99}`), refused: "write successRate: {} for the built-in metric, or prometheus: {query: …} for a custom query"},
	"metric named as in Flagger":     {kind: "Microservice", patch: analysisPatch(`metrics: [{name: request-success-rate, thresholdRange: {min: 99}}]`), refused: "set exactly one of successRate, latency, prometheus and web"},
	"metric by a template":           {kind: "Microservice", patch: metricPatch(`templateRef: {name: a}, thresholdRange: {min: 99}`), refused: `unknown field "` + analysisPath + `.metrics[0].templateRef"`},
	"metric of two kinds":            {kind: "Microservice", patch: metricPatch(`successRate: {}, latency: {quantile: P99}, thresholdRange: {max: 1}`), refused: "set exactly one of successRate, latency, prometheus and web"},
	"metric without a name":          {kind: "Microservice", patch: analysisPatch(`metrics: [{successRate: {}, thresholdRange: {min: 99}}]`), refused: analysisPath + ".metrics[0].name: Required value"},
	"metric name in upper case":      {kind: "Microservice", patch: analysisPatch(`metrics: [{name: A, successRate: {}, thresholdRange: {min: 99}}]`), refused: analysisPath + ".metrics[0].name"},
	"metric without a threshold":     {kind: "Microservice", patch: metricPatch(`successRate: {}`), refused: "metrics[0].thresholdRange: Required value"},
	"metric with an empty threshold": {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {}`), refused: "set at least one of min and max: a range without bounds includes every value"},
	"metric threshold reversed":      {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 99, max: 98}`), refused: "min must be less than or equal to max"},
	"metric threshold too low":       {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: -1e16}`), refused: "metrics[0].thresholdRange.min"},
	"metric threshold too high":      {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {max: 1e16}`), refused: "metrics[0].thresholdRange.max"},
	"metric threshold as a string":   {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: "99"}`), refused: "metrics[0].thresholdRange.min"},
	"metric inconclusive too low":    {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 99}, inconclusiveRange: {min: -1e16}`), refused: "metrics[0].inconclusiveRange.min"},
	"metric inconclusive too high":   {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {max: 99}, inconclusiveRange: {max: 1e16}`), refused: "metrics[0].inconclusiveRange.max"},
	"metric dry run":                 {kind: "Microservice", patch: metricPatch(`successRate: {}, dryRun: true, thresholdRange: {min: 99.95}`)},

	"success rate of 100 percent":          {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 100}`)},
	"success rate as a ratio":              {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 0.99}`), refused: "successRate is in percent, 0 to 100: write min: 99, not 0.99"},
	"success rate above 100 percent":       {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 990}`), refused: "successRate is in percent"},
	"success rate as baseline ratio":       {kind: "Microservice", patch: metricPatch(`successRate: {}, baseline: Ratio, thresholdRange: {min: 0.99}`)},
	"success rate as baseline difference":  {kind: "Microservice", patch: metricPatch(`successRate: {}, baseline: Difference, thresholdRange: {min: -0.5}`)},
	"baseline unknown":                     {kind: "Microservice", patch: metricPatch(`successRate: {}, baseline: Percent, thresholdRange: {min: 99}`), refused: `supported values: "Ratio", "Difference"`},
	"latency":                              {kind: "Microservice", patch: metricPatch(`latency: {quantile: P95}, thresholdRange: {max: 0.5}`)},
	"success rate without a minimum":       {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {max: 99}`), refused: "successRate requires thresholdRange.min"},
	"samples":                              {kind: "Microservice", patch: metricPatch(`latency: {quantile: P95}, baseline: Ratio, thresholdRange: {max: 1.2}, samples: {interval: 15s, count: 20, significance: 0.01}`)},
	"samples, baseline difference":         {kind: "Microservice", patch: metricPatch(`successRate: {}, baseline: Difference, thresholdRange: {min: -0.5}, samples: {interval: 15s}`)},
	"samples without a baseline":           {kind: "Microservice", patch: metricPatch(`latency: {quantile: P95}, thresholdRange: {max: 1.2}, samples: {interval: 15s}`), refused: "set baseline to Ratio or Difference"},
	"samples of a web metric":              {kind: "Microservice", patch: metricPatch(`web: {url: "https://example.com", value: body.x}, baseline: Ratio, thresholdRange: {max: 1.2}, samples: {interval: 15s}`), refused: "samples need a range query"},
	"samples of an improvement":            {kind: "Microservice", patch: metricPatch(`latency: {quantile: P95}, baseline: Ratio, thresholdRange: {max: 0.9}, samples: {interval: 15s}`), refused: "thresholdRange must include 1"},
	"samples of a lower rate":              {kind: "Microservice", patch: metricPatch(`successRate: {}, baseline: Difference, thresholdRange: {min: 0.5}, samples: {interval: 15s}`), refused: "thresholdRange must include 0"},
	"samples too frequent":                 {kind: "Microservice", patch: metricPatch(`latency: {quantile: P95}, baseline: Ratio, thresholdRange: {max: 1.2}, samples: {interval: 1s}`), refused: "samples.interval must be between 5s and 1h"},
	"too few samples":                      {kind: "Microservice", patch: metricPatch(`latency: {quantile: P95}, baseline: Ratio, thresholdRange: {max: 1.2}, samples: {interval: 15s, count: 7}`), refused: "greater than or equal to 8"},
	"significance in percent":              {kind: "Microservice", patch: metricPatch(`latency: {quantile: P95}, baseline: Ratio, thresholdRange: {max: 1.2}, samples: {interval: 15s, significance: 5}`), refused: "significance must be between 0.0001 and 0.2"},
	"success rate ratio without a minimum": {kind: "Microservice", patch: metricPatch(`successRate: {}, baseline: Ratio, thresholdRange: {max: 1}`), refused: "successRate requires thresholdRange.min"},
	"success rate between bounds":          {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 99, max: 100}`)},
	"latency without a maximum":            {kind: "Microservice", patch: metricPatch(`latency: {quantile: P95}, thresholdRange: {min: 0.5}`), refused: "latency requires thresholdRange.max"},
	"latency between bounds":               {kind: "Microservice", patch: metricPatch(`latency: {quantile: P95}, thresholdRange: {min: 0, max: 0.5}`)},
	"query with a minimum":                 {kind: "Microservice", patch: metricPatch(`prometheus: {query: a}, thresholdRange: {min: 1}`)},
	"minimum of requests":                  {kind: "Microservice", patch: metricPatch(`successRate: {}, minimumRequests: 100, thresholdRange: {min: 99}`)},
	"minimum of no requests":               {kind: "Microservice", patch: metricPatch(`successRate: {}, minimumRequests: 0, thresholdRange: {min: 99}`), refused: "metrics[0].minimumRequests"},
	"minimum above a million":              {kind: "Microservice", patch: metricPatch(`successRate: {}, minimumRequests: 1000001, thresholdRange: {min: 99}`), refused: "metrics[0].minimumRequests"},
	"minimum of requests of a query":       {kind: "Microservice", patch: metricPatch(`prometheus: {query: a}, minimumRequests: 2, thresholdRange: {max: 1}`), refused: "minimumRequests is allowed only for successRate and latency"},
	"latency in milliseconds":              {kind: "Microservice", patch: metricPatch(`latency: {quantile: P95}, thresholdRange: {max: 500}`), refused: "latency is in seconds, up to 60: write max: 0.5 for 500 milliseconds"},
	"latency from Envoy Gateway":           {kind: "Microservice", patch: analysisPatch(`source: EnvoyGateway, metrics: [{name: a, latency: {quantile: P95}, thresholdRange: {max: 0.5}}]`), refused: "Envoy Gateway measures the latency per route, not per release"},
	"latency without a quantile":           {kind: "Microservice", patch: metricPatch(`latency: {}, thresholdRange: {max: 0.5}`), refused: "latency.quantile: Required value"},
	"latency quantile unknown":             {kind: "Microservice", patch: metricPatch(`latency: {quantile: P90}, thresholdRange: {max: 0.5}`), refused: `supported values: "P50", "P95", "P99"`},
	"inconclusive below":                   {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 99}, inconclusiveRange: {min: 95}`)},
	"inconclusive within":                  {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 99}, inconclusiveRange: {min: 99.5}`), refused: "inconclusiveRange must be wider than thresholdRange"},
	"inconclusive on the other side":       {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 99}, inconclusiveRange: {max: 100}`), refused: "have a bound only where thresholdRange has one"},
	"inconclusive as a ratio":              {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 99}, inconclusiveRange: {min: 0.95}`), refused: "write inconclusiveRange: {min: 95}, not 0.95"},
	"inconclusive at zero":                 {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 99}, inconclusiveRange: {min: 0}`)},
	"inconclusive in milliseconds":         {kind: "Microservice", patch: metricPatch(`latency: {quantile: P95}, thresholdRange: {max: 0.5}, inconclusiveRange: {max: 1000}`), refused: "write inconclusiveRange: {max: 1}, not 1000"},
	"inconclusive without bounds":          {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 99}, inconclusiveRange: {}`), refused: "set at least one of min and max"},
	"inconclusive range reversed":          {kind: "Microservice", patch: metricPatch(`successRate: {}, thresholdRange: {min: 99}, inconclusiveRange: {min: 3, max: 2}`), refused: "min must be less than or equal to max"},

	"query":                        {kind: "Microservice", patch: queryPatch(`sum(rate(errors_total{release="{{.Release}}"}[{{ .Interval }}])) or vector(0)`)},
	"query with every field":       {kind: "Microservice", patch: queryPatch(`{{.Release}}{{.Group}}{{.Microservice}}{{.Namespace}}{{.Version}}{{.Interval}}{{.Service}}`)},
	"query without fields":         {kind: "Microservice", patch: queryPatch(`up{job=~"a.+"}`)},
	"query with an unknown field":  {kind: "Microservice", patch: queryPatch(`errors{a="{{.Target}}"}`), refused: "prometheus.query: the supported fields are {{.Release}}"},
	"query with a function":        {kind: "Microservice", patch: queryPatch(`errors{a="{{ printf .Release }}"}`), refused: "prometheus.query: the supported fields are {{.Release}}"},
	"query in Flagger's words":     {kind: "Microservice", patch: queryPatch(`errors{a="{{ target }}"}`), refused: "prometheus.query: the supported fields are {{.Release}}"},
	"query with an unclosed field": {kind: "Microservice", patch: queryPatch(`errors{a="{{.Release"}`), refused: "prometheus.query: the supported fields are {{.Release}}"},
	"query empty":                  {kind: "Microservice", patch: queryPatch(``), refused: "metrics[0].prometheus.query"},
	"query too long":               {kind: "Microservice", patch: queryPatch(long(2049)), refused: "metrics[0].prometheus.query: Too long"},

	"web by GET":                        {kind: "Microservice", patch: webPatch(`url: "https://quality.example.com/v1/{{.Release}}?version={{.Version}}", value: body.score, headers: [{name: X-Team, value: shop}], secretRef: {name: a}, caSecretRef: {name: b}`)},
	"web by POST":                       {kind: "Microservice", patch: webPatch(`url: "https://quality.example.com", value: body.score, body: '{"a": {"release": "{{.Release}}"}}'`)},
	"web without a value":               {kind: "Microservice", patch: webPatch(`url: "https://quality.example.com"`), refused: "web.value: Required value"},
	"web value empty":                   {kind: "Microservice", patch: webPatch(`url: "https://quality.example.com", value: ""`), refused: "metrics[0].web.value"},
	"web value too long":                {kind: "Microservice", patch: webPatch(`url: "https://quality.example.com", value: ` + long(1025)), refused: "metrics[0].web.value: Too long"},
	"web URL absent":                    {kind: "Microservice", patch: webPatch(`value: body`), refused: "web.url: Required value"},
	"web URL empty":                     {kind: "Microservice", patch: webPatch(`url: "", value: body`), refused: "metrics[0].web.url"},
	"web URL of another scheme":         {kind: "Microservice", patch: webPatch(`url: "gopher://a", value: body`), refused: "web.url must be an http or https URL"},
	"web URL with a user":               {kind: "Microservice", patch: webPatch(`url: "http://me@a", value: body`), refused: "web.url must be an http or https URL without a username"},
	"web URL with an unknown field":     {kind: "Microservice", patch: webPatch(`url: "http://a/{{.Secret}}", value: body`), refused: "the supported fields are {{.Release}}"},
	"web URL too long":                  {kind: "Microservice", patch: webPatch(`url: "http://` + long(1024) + `", value: body`), refused: "metrics[0].web.url: Too long"},
	"web body empty":                    {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, body: ""`), refused: "metrics[0].web.body"},
	"web body with a function":          {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, body: "{{ len .Release }}"`), refused: "web.body: the supported fields are {{.Release}}"},
	"web body too long":                 {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, body: ` + long(2049)), refused: "metrics[0].web.body: Too long"},
	"web headers, maximum":              {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: ` + numbered(`{name: X-#, value: a}`, 8))},
	"web too many headers":              {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: ` + numbered(`{name: X-#, value: a}`, 9)), refused: "metrics[0].web.headers: Too many"},
	"web header twice":                  {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: A, value: a}, {name: A, value: b}]`), refused: "Duplicate value"},
	"web header with a space":           {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: "A B", value: a}]`), refused: "metrics[0].web.headers[0].name"},
	"web header with credentials":       {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: authorization, value: a}]`), refused: "the Authorization header requires secretKeyRef instead of value; alternatively, omit the header and set web.secretRef"},
	"web header set by the transport":   {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: Host, secretKeyRef: {name: a, key: b}}]`), refused: "this header must not be set; for credentials use secretRef"},
	"web header from a Secret":          {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: Authorization, secretKeyRef: {name: a, key: tls.key}}, {name: X-Key, secretKeyRef: {name: a, key: b_c}}]`)},
	"web header from two sources":       {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: A, value: a, secretKeyRef: {name: a, key: b}}]`), refused: "set value or secretKeyRef, but not both"},
	"web header without a source":       {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: A}]`), refused: "set value or secretKeyRef, but not both"},
	"web header empty":                  {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: A, value: ""}]`)},
	"web Authorization twice":           {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, secretRef: {name: a}, headers: [{name: AUTHORIZATION, secretKeyRef: {name: a, key: b}}]`), refused: onlyOne},
	"web header without a Secret":       {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: A, secretKeyRef: {name: "", key: b}}]`), refused: "metrics[0].web.headers[0].secretKeyRef.name"},
	"web header, Secret too long":       {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: A, secretKeyRef: {name: ` + long(254) + `, key: b}}]`), refused: "secretKeyRef.name: Too long"},
	"web header without a key":          {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: A, secretKeyRef: {name: a, key: ""}}]`), refused: "metrics[0].web.headers[0].secretKeyRef.key"},
	"web header, key too long":          {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: A, secretKeyRef: {name: a, key: ` + long(254) + `}}]`), refused: "secretKeyRef.key: Too long"},
	"web header, key with a slash":      {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: A, secretKeyRef: {name: a, key: a/b}}]`), refused: "secretKeyRef.key must consist of letters"},
	"web times":                         {kind: "Microservice", patch: webPatch(`url: "http://a?from={{.Start}}&to={{ .End }}", value: body, body: '{"from": {{.Start}}000, "to": {{.End}}000}'`)},
	"query with times":                  {kind: "Microservice", patch: queryPatch(`errors{a="{{.Start}}"}`), refused: "prometheus.query: the supported fields are {{.Release}}"},
	"web header on two lines":           {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: A, value: "a\r\nB: c"}]`), refused: "metrics[0].web.headers[0].value"},
	"web header too long":               {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, headers: [{name: A, value: ` + strings.Repeat("a", 513) + `}]`), refused: "metrics[0].web.headers[0].value: Too long"},
	"web secret without name":           {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, secretRef: {name: ""}`), refused: "metrics[0].web.secretRef.name"},
	"web with AWS":                      {kind: "Microservice", patch: webPatch(`url: "https://monitoring.eu-central-1.amazonaws.com/", value: body, body: "{}", headers: [{name: X-Amz-Target, value: GraniteServiceVersion20100801.GetMetricData}], aws: {region: eu-central-1, secretRef: {name: a}}, caSecretRef: {name: b}`)},
	"web with AWS, other service":       {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: us-gov-west-1, service: aps, secretRef: {name: a}}`)},
	"web with AWS over http":            {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, aws: {region: a, secretRef: {name: a}}`), refused: "web.url must begin with https:// if web.aws or web.google is set"},
	"web with AWS without region":       {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {secretRef: {name: a}}`), refused: "web.aws.region: Required value"},
	"web with AWS, empty region":        {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: "", secretRef: {name: a}}`), refused: "metrics[0].web.aws.region"},
	"web with AWS, region as a path":    {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: a/b, secretRef: {name: a}}`), refused: "web.aws.region must consist of lowercase letters"},
	"web with AWS, long region":         {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: ` + long(64) + `, secretRef: {name: a}}`), refused: "web.aws.region: Too long"},
	"web with AWS, empty service":       {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: a, service: "", secretRef: {name: a}}`), refused: "metrics[0].web.aws.service"},
	"web with AWS, service in capitals": {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: a, service: APS, secretRef: {name: a}}`), refused: "web.aws.service must consist of lowercase letters"},
	"web with AWS, long service":        {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: a, service: ` + long(64) + `, secretRef: {name: a}}`), refused: "web.aws.service: Too long"},
	"web with AWS without Secret":       {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: a}`), refused: "web.aws.secretRef: Required value"},
	"web with AWS, Secret too long":     {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: a, secretRef: {name: ` + long(254) + `}}`), refused: "web.aws.secretRef.name: Too long"},
	"web with AWS, Secret unnamed":      {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: a, secretRef: {name: ""}}`), refused: "metrics[0].web.aws.secretRef.name"},
	"web with AWS and a token":          {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: a, secretRef: {name: a}}, secretRef: {name: a}`), refused: onlyOne},
	"web with AWS and a header":         {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: a, secretRef: {name: a}}, headers: [{name: AuthorizatioN, secretKeyRef: {name: a, key: b}}]`), refused: onlyOne},
	"web with AWS and Google":           {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, aws: {region: a, secretRef: {name: a}}, google: {secretRef: {name: a}}`), refused: onlyOne},
	"web with Google":                   {kind: "Microservice", patch: webPatch(`url: "https://a/{{.Release}}", value: body, google: {secretRef: {name: a}}, headers: [{name: X-Goog-User-Project, value: a}]`)},
	"web with Google over http":         {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, google: {secretRef: {name: a}}`), refused: "web.url must begin with https:// if web.aws or web.google is set"},
	"web with Google without Secret":    {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, google: {}`), refused: "web.google.secretRef: Required value"},
	"web with Google, Secret unnamed":   {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, google: {secretRef: {name: ""}}`), refused: "metrics[0].web.google.secretRef.name"},
	"web with Google, long Secret":      {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, google: {secretRef: {name: ` + long(254) + `}}`), refused: "web.google.secretRef.name: Too long"},
	"web with Google and a token":       {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, google: {secretRef: {name: a}}, secretRef: {name: a}`), refused: onlyOne},
	"web with Google and a header":      {kind: "Microservice", patch: webPatch(`url: "https://a", value: body, google: {secretRef: {name: a}}, headers: [{name: Authorization, secretKeyRef: {name: a, key: b}}]`), refused: onlyOne},
	"web authority without name":        {kind: "Microservice", patch: webPatch(`url: "http://a", value: body, caSecretRef: {name: ""}`), refused: "metrics[0].web.caSecretRef.name"},
}

// onlyOne is the message for a metric that sets the Authorization header twice.
const onlyOne = "web.secretRef, web.aws, web.google and the Authorization header in web.headers each set the Authorization header: keep one of them"
