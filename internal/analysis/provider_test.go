package analysis

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/test/await"
)

// secrets maps "namespace/name" to the data of a Secret.
type secrets map[string]map[string][]byte

func (s secrets) Secret(_ context.Context, namespace, name string) (map[string][]byte, error) {
	if data, ok := s[namespace+"/"+name]; ok {
		return data, nil
	}
	return nil, errors.New("not found")
}

// openSender returns a sender that may connect to loopback addresses.
func openSender(t testing.TB, s Secrets) *sender {
	t.Helper()
	policy, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8", "::1"}})
	if err != nil {
		t.Fatal(err)
	}
	sender, err := newSender(Config{Outbound: policy, Secrets: s, UserAgent: "heighliner/test", Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	return sender
}

func serve(t testing.TB, handler http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return server.URL
}

// answers returns a handler that responds with a status and a body.
func answers(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// success returns a successful response of the Prometheus HTTP API.
func success(kind, result string) string {
	return fmt.Sprintf(`{"status":"success","data":{"resultType":%q,"result":%s}}`, kind, result)
}

// vector returns a response with the given values. The time of each sample is start.
func vector(samples ...string) string {
	var out []string
	for i, s := range samples {
		out = append(out, fmt.Sprintf(`{"metric":{"code":"%d"},"value":[%d,%q]}`, i, start.Unix(), s))
	}
	return success("vector", "["+strings.Join(out, ",")+"]")
}

// answered is an expected answer: a value, no traffic, or a reason.
type answered struct {
	value     float64
	noTraffic bool
	reason    Reason
}

func check(t *testing.T, want answered, got answer) {
	t.Helper()
	reason := Reason("")
	if got.err != nil {
		reason = got.err.Reason
		if strings.TrimSpace(got.err.Message) == "" {
			t.Errorf("%s has no message", reason)
		}
	}
	if diff := cmp.Diff(want, answered{got.value, got.noTraffic, reason}, cmp.AllowUnexported(answered{})); diff != "" {
		t.Errorf("(-want +got):\n%s\n%v", diff, got.err)
	}
}

// TestPrometheusAnswers checks the answer for each response of the Prometheus HTTP API.
func TestPrometheusAnswers(t *testing.T) {
	t.Parallel()
	failure := func(kind, message string) string {
		return fmt.Sprintf(`{"status":"error","errorType":%q,"error":%q}`, kind, message)
	}
	stamped := func(at int64, v string) string {
		return success("vector", fmt.Sprintf(`[{"metric":{},"value":[%d,%q]}]`, at, v))
	}
	for name, test := range map[string]struct {
		status int
		body   string
		want   answered
	}{
		"one series":                  {200, vector("99.5"), answered{value: 99.5}},
		"zero":                        {200, vector("0"), answered{}},
		"scalar":                      {200, success("scalar", fmt.Sprintf(`[%d,"42"]`, start.Unix())), answered{value: 42}},
		"empty vector":                {200, vector(), answered{noTraffic: true}},
		"several series":              {200, vector("1", "1"), answered{reason: SeveralSeries}},
		"NaN":                         {200, vector("NaN"), answered{reason: NotANumber}},
		"+Inf":                        {200, vector("+Inf"), answered{reason: Infinite}},
		"-Inf":                        {200, vector("-Inf"), answered{reason: Infinite}},
		"scalar NaN":                  {200, success("scalar", fmt.Sprintf(`[%d,"NaN"]`, start.Unix())), answered{reason: NotANumber}},
		"range vector":                {200, success("matrix", fmt.Sprintf(`[{"metric":{},"values":[[%d,"1"]]}]`, start.Unix())), answered{reason: WrongType}},
		"empty range vector":          {200, success("matrix", `[]`), answered{reason: WrongType}},
		"string":                      {200, success("string", fmt.Sprintf(`[%d,"99"]`, start.Unix())), answered{reason: BadAnswer}},
		"histogram":                   {200, success("vector", fmt.Sprintf(`[{"metric":{},"histogram":[%d,{"count":"1","sum":"1","buckets":[]}]}]`, start.Unix())), answered{reason: WrongType}},
		"a little earlier":            {200, stamped(start.Unix()-30, "1"), answered{value: 1}},
		"an hour earlier":             {200, stamped(start.Unix()-3600, "1"), answered{reason: WrongTime}},
		"an hour later":               {200, stamped(start.Unix()+3600, "1"), answered{reason: WrongTime}},
		"value not a number":          {200, vector("many"), answered{reason: BadAnswer}},
		"result of unknown type":      {200, success("tensor", `[]`), answered{reason: BadAnswer}},
		"result null":                 {200, success("vector", `null`), answered{noTraffic: true}},
		"no data":                     {200, `{"status":"success"}`, answered{reason: BadAnswer}},
		"not JSON":                    {200, `<html>`, answered{reason: BadAnswer}},
		"no body":                     {200, ``, answered{reason: BadAnswer}},
		"query that cannot be parsed": {400, failure("bad_data", "parse error"), answered{reason: BadQuery}},
		"query that cannot match":     {422, failure("execution", "many-to-many matching not allowed"), answered{reason: BadQuery}},
		"query that takes too long":   {503, failure("timeout", "query timed out in expression evaluation"), answered{reason: ServerError}},
		"error with status 200":       {200, failure("bad_data", "parse error"), answered{reason: BadQuery}},
		"success with status 400":     {400, vector("99.5"), answered{reason: BadAnswer}},
		"not found":                   {404, `page not found`, answered{reason: ClientError}},
		"not allowed":                 {401, `who are you`, answered{reason: Unauthorized}},
		"forbidden":                   {403, `not you`, answered{reason: Unauthorized}},
		"too many":                    {429, `later`, answered{reason: Throttled}},
		"server error":                {500, `oops`, answered{reason: ServerError}},
		"bad gateway":                 {502, `<html>`, answered{reason: ServerError}},
		"unavailable":                 {503, `starting`, answered{reason: ServerError}},
		"redirect without a target":   {302, ``, answered{reason: BadAnswer}},
		"too many values":             {200, success("vector", `[`+strings.Repeat(`{},`, 100_000)+`{}]`), answered{reason: TooLarge}},
		"too large":                   {200, vector("1") + strings.Repeat(" ", outbound.DefaultMaxBody), answered{reason: TooLarge}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serve(t, answers(test.status, test.body))
			ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
			defer cancel()
			got := openSender(t, nil).send(ctx, query{provider: providerPrometheus, address: address, text: "up", at: start.UnixNano()})
			check(t, test.want, got)
		})
	}
}

// TestPrometheusRequest checks the query, the time and the credentials in a
// request.
func TestPrometheusRequest(t *testing.T) {
	t.Parallel()
	type request struct{ Method, Path, Query, Time, Authorization, Agent string }
	for name, test := range map[string]struct {
		secret map[string][]byte
		want   string // value of Authorization
		reason Reason
	}{
		"token":                        {map[string][]byte{"token": []byte("abc\n")}, "Bearer abc", ""},
		"user and password":            {map[string][]byte{"username": []byte("me"), "password": []byte("secret")}, "Basic bWU6c2VjcmV0", ""},
		"token before user":            {map[string][]byte{"token": []byte("abc"), "username": []byte("me")}, "Bearer abc", ""},
		"a Secret with other keys":     {map[string][]byte{"tls.key": []byte("abc")}, "", BadSecret},
		"no such Secret":               {nil, "", BadSecret},
		"a Secret with an empty token": {map[string][]byte{"token": []byte(" \n")}, "", BadSecret},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan request, 1)
			address := serve(t, func(w http.ResponseWriter, r *http.Request) {
				_ = r.ParseForm()
				seen <- request{r.Method, r.URL.Path, r.Form.Get("query"), r.Form.Get("time"), r.Header.Get("Authorization"), r.UserAgent()}
				answers(200, vector("1"))(w, r)
			})
			store := secrets{}
			if test.secret != nil {
				store["shop/access"] = test.secret
			}
			got := openSender(t, store).send(t.Context(), query{provider: providerPrometheus, address: address + "/base", text: `up{a="b"}`, at: start.UnixNano(), namespace: "shop", secret: "access"})
			if test.reason != "" {
				check(t, answered{reason: test.reason}, got)
				if strings.Contains(got.err.Message, "abc") {
					t.Errorf("the message contains a credential: %s", got.err.Message)
				}
				return
			}
			check(t, answered{value: 1}, got)
			want := request{"POST", "/base/api/v1/query", `up{a="b"}`, fmt.Sprint(start.Unix()), test.want, "heighliner/test"}
			if diff := cmp.Diff(want, <-seen); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMissingSecrets checks that the error contains the name of the field that refers to a missing
// Secret.
func TestMissingSecrets(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		q    query
		want string
	}{
		"of Prometheus":               {query{provider: providerPrometheus, secret: "a"}, "provider.prometheus.secretRef"},
		"of Prometheus's authority":   {query{provider: providerPrometheus, authority: "a"}, "provider.prometheus.caSecretRef"},
		"of a web metric":             {query{provider: providerWeb, secret: "a"}, "metrics[].web.secretRef"},
		"of a web metric's authority": {query{provider: providerWeb, authority: "a"}, "metrics[].web.caSecretRef"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.q.namespace, test.q.address = "shop", "http://a"
			got := openSender(t, secrets{}).send(t.Context(), test.q)
			if want := test.want + " of the analysis: not found"; got.err == nil || got.err.Reason != BadSecret || got.err.Message != want {
				t.Errorf("%v, want %s", got.err, want)
			}
		})
	}
}

// TestUnreachable checks failures below the HTTP layer.
func TestUnreachable(t *testing.T) {
	t.Parallel()
	never := make(chan struct{})
	slow := serve(t, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, `{"status":`)
		w.(http.Flusher).Flush()
		select {
		case <-r.Context().Done():
		case <-never:
		}
	})
	t.Cleanup(func() { close(never) })
	broken := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, `{"status":`)
	})
	elsewhere := serve(t, func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data/", http.StatusTemporaryRedirect)
	})
	for _, provider := range []provider{providerPrometheus, providerWeb} {
		for name, test := range map[string]struct {
			address string
			reason  Reason
		}{
			"closed":            {"http://127.0.0.1:1", Unreachable}, // Linux never assigns this port to a server of another test.
			"slow":              {slow, Timeout},
			"connection lost":   {broken, BadAnswer},
			"metadata":          {"http://169.254.169.254", Refused},
			"redirected":        {elsewhere, ClientError},
			"unknown host name": {"http://prometheus.invalid", Unreachable},
			"no HTTPS":          {strings.Replace(slow, "http:", "https:", 1), Unreachable},
		} {
			t.Run(string(provider)+" "+name, func(t *testing.T) {
				t.Parallel()
				limit := await.Limit
				if test.reason == Timeout {
					limit = 300 * time.Millisecond
				}
				ctx, cancel := context.WithTimeout(t.Context(), limit)
				defer cancel()
				got := openSender(t, nil).send(ctx, query{provider: provider, address: test.address, text: "body", at: start.UnixNano()})
				if got.err != nil && (test.reason == BadAnswer && got.err.Reason == Unreachable || name == "unknown host name" && got.err.Reason == Timeout) {
					return // Which of the two results occurs depends on timing.
				}
				check(t, answered{reason: test.reason}, got)
			})
		}
	}
}

// TestOperatorsAddress checks that the address in the flag may be a loopback address, but that an address from a
// user may not.
func TestOperatorsAddress(t *testing.T) {
	t.Parallel()
	address := serve(t, answers(200, vector("1")))
	s, err := newSender(Config{PrometheusAddress: address, Now: time.Now})
	if err != nil {
		t.Fatal(err)
	}
	q := query{provider: providerPrometheus, address: address, text: "up", at: start.UnixNano(), operator: true}
	check(t, answered{value: 1}, s.send(t.Context(), q))
	q.operator = false
	check(t, answered{reason: Refused}, s.send(t.Context(), q))
}

// TestAuthority checks queries to a server with a self-signed certificate.
func TestAuthority(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(answers(200, `{"v": 1}`))
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // discards the error from the failed handshake
	server.StartTLS()
	t.Cleanup(server.Close)
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s := openSender(t, secrets{
		"shop/ca":    {"ca.crt": own},
		"shop/other": {"tls.crt": own},
		"shop/bad":   {"ca.crt": []byte("no PEM")},
	})
	for name, want := range map[string]answered{"ca": {value: 1}, "other": {reason: BadSecret}, "bad": {reason: BadSecret}, "none": {reason: BadSecret}, "": {reason: Unreachable}} {
		q := query{provider: providerWeb, address: server.URL, text: "body.v", namespace: "shop", authority: name}
		t.Run(name, func(t *testing.T) { check(t, want, s.send(t.Context(), q)) })
	}
}

// TestWebAnswers checks the answer for a JSON document and an expression.
func TestWebAnswers(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		status int
		body   string
		value  string
		want   answered
	}{
		"a field":                    {200, `{"score": 99.5}`, `body.score`, answered{value: 99.5}},
		"the whole body":             {200, `7`, `body`, answered{value: 7}},
		"a sum":                      {200, `{"errors": 1, "total": 4}`, `100.0 * body.errors / body.total`, answered{value: 25}},
		"an item":                    {200, `{"a": [{"b": 1}, {"b": 2}]}`, `body.a[1].b`, answered{value: 2}},
		"a size":                     {200, `{"a": [1, 2, 3]}`, `size(body.a)`, answered{value: 3}},
		"a choice":                   {200, `{"status": "ok"}`, `body.status == "ok" ? 1.0 : 0.0`, answered{value: 1}},
		"null without traffic":       {200, `{"score": null}`, `body.score`, answered{noTraffic: true}},
		"a guarded field":            {200, `{}`, `has(body.score) ? body.score : null`, answered{noTraffic: true}},
		"a missing field":            {200, `{}`, `body.score`, answered{reason: BadAnswer}},
		"a field of a list":          {200, `[]`, `body.score`, answered{reason: BadAnswer}},
		"0 / 0":                      {200, `{"a": 0, "b": 0}`, `body.a / body.b`, answered{reason: NotANumber}},
		"1 / 0":                      {200, `{"a": 1, "b": 0}`, `body.a / body.b`, answered{reason: Infinite}},
		"text":                       {200, `{"score": "99"}`, `body.score`, answered{reason: WrongType}},
		"text converted to a number": {200, `{"score": "99"}`, `double(body.score)`, answered{value: 99}},
		"true":                       {200, `{"ok": true}`, `body.ok`, answered{reason: WrongType}},
		"an object":                  {200, `{"ok": {}}`, `body.ok`, answered{reason: WrongType}},
		"a condition":                {200, `{"score": 1}`, `body.score > 0`, answered{reason: BadQuery}},
		"no expression":              {200, `{}`, `body.`, answered{reason: BadQuery}},
		"an unknown name":            {200, `{}`, `result.score`, answered{reason: BadQuery}},
		"not JSON":                   {200, `score: 1`, `body`, answered{reason: BadAnswer}},
		"two documents":              {200, `1 2`, `body`, answered{reason: BadAnswer}},
		"no body":                    {204, ``, `body`, answered{reason: BadAnswer}},
		"a number out of bounds":     {200, `1e999`, `body`, answered{reason: BadAnswer}},
		"not found":                  {404, `{"score": 1}`, `body.score`, answered{reason: ClientError}},
		"server error":               {500, `{"score": 1}`, `body.score`, answered{reason: ServerError}},
		"too many":                   {429, `{"score": 1}`, `body.score`, answered{reason: Throttled}},
		"not allowed":                {403, `{"score": 1}`, `body.score`, answered{reason: Unauthorized}},
		"too large":                  {200, `"` + strings.Repeat("a", outbound.DefaultMaxBody) + `"`, `size(body)`, answered{reason: TooLarge}},
		"too costly":                 {200, `[` + strings.Repeat("1,", 2000) + `1]`, `size(body.filter(a, body.exists(b, b == a + 1.0)))`, answered{reason: BadAnswer}},
		"too deep":                   {200, strings.Repeat("[", 20000), `body`, answered{reason: TooLarge}},
		"too many values":            {200, `[` + strings.Repeat(`{"":0},`, 100_000) + `0]`, `size(body)`, answered{reason: TooLarge}},
		"many values":                {200, `[` + strings.Repeat(`0,`, 8000) + `0]`, `size(body)`, answered{value: 8001}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address := serve(t, answers(test.status, test.body))
			check(t, test.want, openSender(t, nil).send(t.Context(), query{provider: providerWeb, address: address, text: test.value}))
		})
	}
}

// TestWebRequest checks the method, headers and body of a request.
func TestWebRequest(t *testing.T) {
	t.Parallel()
	type request struct {
		Method, URI, Body string
		Header            map[string]string
	}
	seen := make(chan request, 1)
	address := serve(t, func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		got := request{Method: r.Method, URI: r.RequestURI, Body: string(raw), Header: map[string]string{}}
		for _, name := range []string{"Accept", "Content-Type", "User-Agent", "X-Team", "Authorization", "Api-Key"} {
			got.Header[name] = r.Header.Get(name)
		}
		seen <- got
		answers(200, `1`)(w, r)
	})
	s := openSender(t, secrets{"shop/access": {"token": []byte("abc"), "header": []byte("Api-Token def\n"), "key": []byte("ghi")}})
	spec := &v1alpha1.CanaryAnalysis{}
	target := Target{Namespace: "shop", Release: "cart-1", Version: "1.0.0+x"}
	for name, test := range map[string]struct {
		web  v1alpha1.WebMetric
		want request
	}{
		"GET": {
			v1alpha1.WebMetric{URL: address + "/v1/{{.Release}}?version={{ .Version }}", Value: "body", Headers: []v1alpha1.WebHeader{{Name: "X-Team", Value: new("shop: a")}}},
			request{"GET", "/v1/cart-1?version=1.0.0%2Bx", "", map[string]string{"Accept": "application/json", "Content-Type": "", "User-Agent": "heighliner/test", "X-Team": "shop: a", "Authorization": "", "Api-Key": ""}},
		},
		"POST": {
			v1alpha1.WebMetric{URL: address, Value: "body", Body: `{"release":"{{.Release}}"}`, SecretRef: &v1alpha1.Reference{Name: "access"}},
			request{"POST", "/", `{"release":"cart-1"}`, map[string]string{"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "heighliner/test", "X-Team": "", "Authorization": "Bearer abc", "Api-Key": ""}},
		},
		"headers from a Secret, and times": {
			v1alpha1.WebMetric{URL: address + "/?from={{.Start}}&to={{.End}}", Value: "body", Body: `{"from":{{.Start}}000,"to":{{.End}}000}`, Headers: []v1alpha1.WebHeader{
				{Name: "Authorization", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "access", Key: "header"}},
				{Name: "Api-Key", SecretKeyRef: &v1alpha1.SecretKeyReference{Name: "access", Key: "key"}},
			}},
			request{"POST", fmt.Sprintf("/?from=%d&to=%d", start.Unix()-60, start.Unix()), fmt.Sprintf(`{"from":%d000,"to":%d000}`, start.Unix()-60, start.Unix()), map[string]string{
				"Accept": "application/json", "Content-Type": "application/json", "User-Agent": "heighliner/test", "X-Team": "", "Authorization": "Api-Token def", "Api-Key": "ghi",
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			q, err := question(spec, &v1alpha1.AnalysisMetric{Name: "a", Web: &test.web}, target, start, "")
			if err != nil {
				t.Fatal(err)
			}
			check(t, answered{value: 1}, s.send(t.Context(), q))
			if diff := cmp.Diff(test.want, <-seen); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	web := func(value string) *v1alpha1.CanaryAnalysis {
		return &v1alpha1.CanaryAnalysis{Metrics: []v1alpha1.AnalysisMetric{{Name: "score", Web: &v1alpha1.WebMetric{Value: value}}}}
	}
	for name, test := range map[string]struct {
		spec *v1alpha1.CanaryAnalysis
		want string
	}{
		"none":          {nil, ""},
		"good":          {web("body.a"), ""},
		"no expression": {web("body.a +"), "metrics[score].web.value: the expression is not valid CEL with body as its only variable"},
		"a condition":   {web("body.a > 1"), "metrics[score].web.value: the expression returns a value of type bool instead of a number"},
		"text":          {web("'a'"), "type string instead of a number"},
	} {
		err := Check(test.spec)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error = %v, want an error with %q", name, err, test.want)
		}
	}
}

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	for header, want := range map[string]time.Duration{
		"": 0, "120": 2 * time.Minute, "-1": 0, "soon": 0, "1.5": 0, "99999999999": 0,
		"Thu, 31 Jan 2030 12:01:00 GMT": time.Minute, "Thu, 31 Jan 2030 11:00:00 GMT": 0,
	} {
		if got := retryAfter(header, start); got != want {
			t.Errorf("%q: %s, want %s", header, got, want)
		}
	}
}

// bytesOf responds to every request with the same bytes.
type bytesOf []byte

func (b bytesOf) RoundTrip(r *http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: 200, Status: "200 OK", Header: http.Header{}, Body: io.NopCloser(strings.NewReader(string(b))), Request: r}, nil
}

// FuzzPrometheus checks that any response results in a finite number, no traffic,
// or a typed error.
func FuzzPrometheus(f *testing.F) {
	for _, seed := range []string{
		vector("1"), vector(), vector("NaN"), vector("1", "2"), success("scalar", `[1,"2"]`), success("scalar", `null`), success("matrix", `[]`),
		success("string", `[1,"2"]`), success("vector", `[{}]`), success("vector", `[null]`), success("vector", `[{"value":[]}]`),
		`{"status":"success","data":null}`, `null`, `[]`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a := askPrometheus(t.Context(), &http.Client{Transport: bytesOf(raw)}, query{address: "http://prometheus.example", text: "up", at: start.UnixNano()})
		plainOrTyped(t, a)
	})
}

// FuzzWeb checks the same property for JSON.
func FuzzWeb(f *testing.F) {
	for _, seed := range []string{`{"a":1}`, `{"a":"1"}`, `{"a":[1]}`, `{"a":null}`, `{"a":1e308}`, `1`, `null`, `[`, ``} {
		f.Add([]byte(seed))
	}
	program, failure := compile("body.a * 10.0")
	if failure != nil {
		f.Fatal(failure)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		a := evaluate(t.Context(), program, raw)
		plainOrTyped(t, a)
		var document map[string]any
		if a.err == nil && !a.noTraffic && json.Unmarshal(raw, &document) != nil {
			t.Errorf("%v from %q, which is not an object", a.value, raw)
		}
	})
}

func plainOrTyped(t *testing.T, a answer) {
	t.Helper()
	switch {
	case a.err != nil && (a.err.Reason == "" || a.err.Message == ""):
		t.Errorf("an error without a reason or a message: %+v", a.err)
	case a.err != nil && (a.noTraffic || a.value != 0):
		t.Errorf("an error with a value: %+v", a)
	case math.IsNaN(a.value) || math.IsInf(a.value, 0):
		t.Errorf("value %v", a.value)
	}
}

// FuzzFill checks that no value can end the string into which it is inserted.
func FuzzFill(f *testing.F) {
	f.Add(`a"} or up{b="`)
	f.Add(`\`)
	f.Fuzz(func(t *testing.T, version string) {
		v := valuesOf(Target{Version: version}, time.Minute)
		got, err := v.fill(`{"version":"{{.Version}}"}`, inQuotes)
		if err != nil || strings.ContainsFunc(version, func(r rune) bool { return r < ' ' || r == '\ufffd' }) {
			return
		}
		var document map[string]string
		if err := json.Unmarshal([]byte(got), &document); err != nil {
			t.Fatalf("%s: %v", got, err)
		}
		if diff := cmp.Diff(map[string]string{"version": version}, document, cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
	})
}

// TestConnections checks that connections are reused or closed after any response.
func TestConnections(t *testing.T) {
	t.Parallel()
	var open atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		status, err := strconv.Atoi(strings.Split(r.URL.Path, "/")[1])
		if err != nil {
			status = http.StatusBadRequest
		}
		body := `{"status":"success"}`
		if status == http.StatusAccepted {
			body = strings.Repeat("a", 2*outbound.DefaultMaxBody)
		}
		answers(status, body)(w, r)
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		switch state {
		case http.StateNew:
			open.Add(1)
		case http.StateClosed, http.StateHijacked:
			open.Add(-1)
		}
	}
	server.StartTLS()
	t.Cleanup(server.Close)
	own := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	s := openSender(t, secrets{"shop/ca": {"ca.crt": own}})
	for i := range 60 {
		status := []int{200, 202, 302, 401, 429, 500}[i%6]
		q := query{provider: providerWeb, address: fmt.Sprintf("%s/%d", server.URL, status), text: "body", namespace: "shop", authority: "ca", at: start.UnixNano()}
		if i%2 == 0 {
			q.provider = providerPrometheus
		}
		s.send(t.Context(), q)
	}
	await.Nil(t, func(context.Context) error {
		if n := open.Load(); n > 0 {
			return fmt.Errorf("%d connections stay open", n)
		}
		return nil
	})
}
