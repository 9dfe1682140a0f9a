package registry

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/time/rate"

	"github.com/heighliner/heighliner/internal/registry/registrytest"
)

// counted returns the number of requests of each class since the previous call.
func counted(server *registrytest.Server, before map[registrytest.Class]int) map[registrytest.Class]int {
	since := map[registrytest.Class]int{}
	for _, class := range []registrytest.Class{registrytest.Ping, registrytest.Token, registrytest.List, registrytest.Head, registrytest.Get, registrytest.Blob, registrytest.Other} {
		if n := server.Requests(class); n > before[class] {
			since[class], before[class] = n-before[class], n
		}
	}
	return since
}

// TestRequests checks the number of requests for the first scan of a repository, a scan without changes, and a scan with a new tag, each with 3
// offered versions. It also checks the number of requests for another repository in the same registry.
func TestRequests(t *testing.T) {
	type counts = map[registrytest.Class]int
	for name, tc := range map[string]struct {
		platforms                    []string
		bearer                       bool
		first, idle, news, elsewhere counts
	}{
		// HTTPS is tried first. The server cannot count this attempt, because it fails in the TLS handshake.
		"image": {
			first:     counts{registrytest.Ping: 1, registrytest.List: 1, registrytest.Get: 3, registrytest.Blob: 3},
			idle:      counts{registrytest.List: 1, registrytest.Head: 3},
			news:      counts{registrytest.List: 1, registrytest.Head: 3, registrytest.Get: 1, registrytest.Blob: 1},
			elsewhere: counts{registrytest.List: 1, registrytest.Get: 3, registrytest.Blob: 3},
		},
		"index": {
			platforms: []string{"linux/amd64", "linux/arm64"},
			first:     counts{registrytest.Ping: 1, registrytest.List: 1, registrytest.Get: 3},
			idle:      counts{registrytest.List: 1, registrytest.Head: 3},
			news:      counts{registrytest.List: 1, registrytest.Head: 3, registrytest.Get: 1},
			elsewhere: counts{registrytest.List: 1, registrytest.Get: 3},
		},
		"index, with tokens": {
			platforms: []string{"linux/amd64", "linux/arm64"}, bearer: true,
			first:     counts{registrytest.Ping: 1, registrytest.Token: 1, registrytest.List: 1, registrytest.Get: 3},
			idle:      counts{registrytest.List: 1, registrytest.Head: 3},
			news:      counts{registrytest.List: 1, registrytest.Head: 3, registrytest.Get: 1},
			elsewhere: counts{registrytest.Token: 1, registrytest.List: 1, registrytest.Get: 3},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			r := Request{MaxAge: time.Minute}
			if tc.bearer {
				server.RequireBearer("robot", "hunter2")
				r.Auth = Credential{Username: "robot", Password: "hunter2"}
			}
			clock := newClock()
			scanner := scannerAt(clock)
			scan := func(path string) {
				t.Helper()
				r.Repository = server.Repository(path)
				list, err := scanner.List(t.Context(), r)
				if err != nil {
					t.Fatal(err)
				}
				for _, tag := range list.Tags {
					if _, err := scanner.Resolve(t.Context(), r, tag); err != nil {
						t.Fatal(err)
					}
				}
			}
			for _, path := range []string{"acme/web", "acme/api"} {
				for _, tag := range []string{"1.0.0", "1.1.0", "1.2.0"} {
					server.Push(t, path, tag, tc.platforms...)
				}
			}
			before := counts{}
			for _, step := range []struct {
				name, path string
				want       counts
			}{{"first scan", "acme/web", tc.first}, {"scan without news", "acme/web", tc.idle}, {"new tag", "acme/web", tc.news}, {"another repository", "acme/api", tc.elsewhere}} {
				if step.name == "new tag" {
					server.Push(t, step.path, "1.3.0", tc.platforms...)
				}
				scan(step.path)
				if diff := cmp.Diff(step.want, counted(server, before)); diff != "" {
					t.Errorf("%s: requests (-want +got):\n%s", step.name, diff)
				}
				clock.Step(time.Minute)
			}
		})
	}
}

// TestListIsConditional checks that the list of a registry with ETags is read again only after it has changed.
func TestListIsConditional(t *testing.T) {
	for name, tc := range map[string]struct {
		pages int
		same  int // number of lists for which the response is 304
	}{"one page": {1, 2}, "two pages": {2, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			server := registrytest.New(t)
			var etag, unchanged atomic.Value
			etag.Store(`"one"`)
			unchanged.Store(0)
			tags := []string{"1.0.0"}
			server.Fail(registrytest.List, -1, func(w http.ResponseWriter, r *http.Request) {
				if r.Header.Get("If-None-Match") == etag.Load() {
					unchanged.Store(unchanged.Load().(int) + 1)
					w.WriteHeader(http.StatusNotModified)
					return
				}
				w.Header().Set("ETag", etag.Load().(string))
				next := ""
				if tc.pages > 1 && r.URL.Query().Get("last") == "" {
					next = r.URL.Path + "?last=x"
				}
				registrytest.Page(next, tags...)(w, r)
			})
			clock := newClock()
			scanner := scannerAt(clock)
			r := Request{Repository: server.Repository("acme/web"), MaxAge: time.Minute}
			list := func() {
				t.Helper()
				scan, err := scanner.List(t.Context(), r)
				if err != nil || !slices.Equal(scan.Tags, tags) || scan.Checksum != checksum(tags) || !scan.Time.Equal(clock.Now()) {
					t.Errorf("List = %+v, %v; want %v now", scan, err, tags)
				}
				clock.Step(time.Minute)
			}
			list()
			list()
			list()
			if got := unchanged.Load().(int); got != tc.same {
				t.Errorf("%d lists were not modified, want %d", got, tc.same)
			}
			tags = []string{"1.0.0", "1.1.0"}
			etag.Store(`"two"`)
			list()
		})
	}
}

// TestNotModifiedWithoutACondition checks that a 304 response to a request without an ETag is not accepted as a list.
func TestNotModifiedWithoutACondition(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.Fail(registrytest.List, -1, registrytest.Status(http.StatusNotModified, ""))
	scan, err := scannerAt(newClock()).List(t.Context(), Request{Repository: server.Repository("acme/web")})
	if err == nil {
		t.Errorf("List = %+v, want an error", scan)
	}
}

// TestPingIsForgotten checks that GET /v2/ is sent again to a registry that changes how it authenticates requests.
func TestPingIsForgotten(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.SetTags("acme/web", numbered(1))
	server.SetTags("acme/api", numbered(1))
	server.RequireBasic("robot", "hunter2")
	scanner := scannerAt(newClock())
	auth := Credential{Username: "robot", Password: "hunter2"}
	web, api := Request{Repository: server.Repository("acme/web"), Auth: auth}, Request{Repository: server.Repository("acme/api"), Auth: auth}
	if _, err := scanner.List(t.Context(), web); err != nil {
		t.Fatal(err)
	}
	server.RequireBearer("robot", "hunter2")
	if _, err := scanner.List(t.Context(), web); KindOf(err) != Unauthorized {
		t.Errorf("List = %v, want %s: this repository is not requested again yet", err, Unauthorized)
	}
	if _, err := scanner.List(t.Context(), api); err != nil {
		t.Errorf("another repository: %v", err)
	}
}

// TestPingOfAnOutage checks that a failure of both schemes is not cached.
func TestPingOfAnOutage(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			registrytest.Page("", "1.0.0")(w, r)
		}
	}))
	outage := &outageListener{Listener: server.Listener}
	outage.down.Store(true)
	server.Listener = outage
	server.Start()
	t.Cleanup(server.Close)
	scanner := scannerAt(newClock())
	r := Request{Repository: server.Listener.Addr().String() + "/acme/web"}
	if _, err := scanner.List(t.Context(), r); KindOf(err) != Unreachable {
		t.Fatalf("List = %v, want %s", err, Unreachable)
	}
	outage.down.Store(false)
	if _, err := scanner.List(t.Context(), r); err != nil {
		t.Errorf("after the outage: %v", err)
	}
}

// outageListener closes each connection immediately while down is true.
type outageListener struct {
	net.Listener
	down atomic.Bool
}

func (l *outageListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil || !l.down.Load() {
			return c, err
		}
		c.Close()
	}
}

// TestQuota checks that requests pause after a registry reports that its quota is used up.
func TestQuota(t *testing.T) {
	now := newClock().Now()
	for name, tc := range map[string]struct {
		header map[string]string
		want   time.Duration
		spent  bool
	}{
		"none":                      {},
		"remaining":                 {header: map[string]string{"RateLimit": "limit=100, remaining=1, reset=30"}},
		"used up":                   {header: map[string]string{"RateLimit": "limit=100, remaining=0, reset=30"}, want: 30 * time.Second, spent: true},
		"newer draft":               {header: map[string]string{"RateLimit": `"default";r=0;t=45`}, want: 45 * time.Second, spent: true},
		"newer draft, remaining":    {header: map[string]string{"RateLimit": `"default";r=7;t=45`}},
		"two quotas, one spent":     {header: map[string]string{"RateLimit": `"hour";r=7;t=45, "minute";r=0;t=20`}, want: 20 * time.Second, spent: true},
		"first of two spent":        {header: map[string]string{"RateLimit": `"second";r=0;t=1, "day";r=5000;t=40000`}, want: time.Second, spent: true},
		"two spent quotas":          {header: map[string]string{"RateLimit": `"hour";r=0;t=45, "minute";r=0;t=20`}, want: 45 * time.Second, spent: true},
		"spent, no reset time":      {header: map[string]string{"RateLimit": `"second";r=0, "day";r=5000;t=40000`}},
		"fields":                    {header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "10"}, want: 10 * time.Second, spent: true},
		"fields with a window":      {header: map[string]string{"RateLimit-Remaining": "0;w=60", "RateLimit-Reset": "10"}, want: 10 * time.Second, spent: true},
		"time since 1970":           {header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "1767323345"}, want: 300 * time.Second, spent: true},
		"Docker Hub: no reset time": {header: map[string]string{"RateLimit-Limit": "100;w=21600", "RateLimit-Remaining": "0;w=21600"}},
		"a week":                    {header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "604800"}, want: time.Hour, spent: true},
		"too large for an integer":  {header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "9999999999999999999"}},
		"now":                       {header: map[string]string{"RateLimit-Remaining": "0", "RateLimit-Reset": "0"}, want: time.Second, spent: true},
		"unreadable":                {header: map[string]string{"RateLimit": "soon"}},
	} {
		h := http.Header{}
		for key, value := range tc.header {
			h.Set(key, value)
		}
		if got, spent := quotaSpent(h, now); got != tc.want || spent != tc.spent {
			t.Errorf("%s: %s, %t; want %s, %t", name, got, spent, tc.want, tc.spent)
		}
	}
}

// TestQuotaPausesAllRequests checks that the response that reports a used-up quota is still used, and that the next request
// waits.
func TestQuotaPausesAllRequests(t *testing.T) {
	t.Parallel()
	server := registrytest.New(t)
	server.SetTags("acme/api", numbered(1))
	server.Fail(registrytest.List, 1, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("RateLimit", "limit=100, remaining=0, reset=30")
		registrytest.Page("", "1.0.0")(w, r)
	})
	clock := newClock()
	scanner := scannerAt(clock)
	if scan, err := scanner.List(t.Context(), Request{Repository: server.Repository("acme/web")}); err != nil || len(scan.Tags) != 1 {
		t.Fatalf("List = %v, %v", scan, err)
	}
	before := server.Total()
	api := Request{Repository: server.Repository("acme/api")}
	_, err := scanner.List(t.Context(), api)
	var e *Error
	if !errors.As(err, &e) || e.Kind != RateLimited || !e.RetryAt.Equal(clock.Now().Add(30*time.Second)) {
		t.Errorf("List = %v, want %s for 30 s", err, RateLimited)
	}
	if got := server.Total() - before; got != 0 {
		t.Errorf("%d requests during the pause, want none", got)
	}
	clock.Step(30 * time.Second)
	if _, err := scanner.List(t.Context(), api); err != nil {
		t.Errorf("after the pause: %v", err)
	}
}

// TestRateAfter429 checks that a 429 response halves the rate, but only once for concurrent responses, and that the rate increases again each minute.
func TestRateAfter429(t *testing.T) {
	t.Parallel()
	clock := newClock()
	g := &gate{clock: clock, bucket: rate.NewLimiter(40, 80), rate: 40}
	expect := func(when string, want rate.Limit) {
		t.Helper()
		if got := g.bucket.Limit(); got != want {
			t.Errorf("%s: %g per second, want %g", when, got, want)
		}
	}
	g.slow()
	g.slow()
	expect("after two concurrent responses", 20)
	clock.Step(minPause)
	g.slow()
	expect("after another one", 10)
	for range 9 {
		clock.Step(minPause)
		g.slow()
	}
	expect("after ten", 1)
	clock.Step(rateInterval - time.Second)
	g.recover(clock.Now())
	expect("before a minute is over", 1)
	clock.Step(time.Second)
	for _, want := range []rate.Limit{1.5, 2.25} {
		g.recover(clock.Now())
		g.recover(clock.Now())
		expect("after a minute", want)
		clock.Step(rateInterval)
	}
	for range 20 {
		g.recover(clock.Now())
		clock.Step(rateInterval)
	}
	expect("in the end", 40)
}

// TestConnectionsAreShared checks that policies with the same registry share connections.
func TestConnectionsAreShared(t *testing.T) {
	t.Parallel()
	var opened atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			registrytest.Page("", "1.0.0")(w, r)
		}
	}))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	server.Start()
	t.Cleanup(server.Close)
	scanner := New(Options{Outbound: registrytest.Outbound(), Clock: newClock(), Backoff: fast, Burst: 1000})
	const policies = 200
	for i := range policies {
		path := "/acme/web-" + numbered(policies)[i]
		if _, err := scanner.List(t.Context(), Request{Repository: server.Listener.Addr().String() + path}); err != nil {
			t.Fatal(err)
		}
	}
	// One connection is for the attempt with HTTPS, and one stays open. The server may close a connection after an error.
	if got := opened.Load(); got > 4 {
		t.Errorf("%d connections for the lists of %d repositories that were read one after another", got, policies)
	}
}

// answers responds to requests without a server.
type answers func(*http.Request) *http.Response

func (f answers) RoundTrip(req *http.Request) (*http.Response, error) { return f(req), nil }

// TestPingsAreBounded checks that responses from hosts to which a registry redirects GET /v2/ are not cached, and that long challenges are not
// cached.
func TestPingsAreBounded(t *testing.T) {
	t.Parallel()
	const redirecting, long = "redirecting.example", "long.example"
	redirected := 0
	transport := answers(func(req *http.Request) *http.Response {
		w := httptest.NewRecorder()
		switch {
		case req.URL.Path != "/v2/":
			registrytest.Page("", "1.0.0")(w, req)
		case req.URL.Host == redirecting:
			redirected++
			http.Redirect(w, req, fmt.Sprintf("https://host-%d.example/v2/", redirected), http.StatusTemporaryRedirect)
		case req.URL.Host == long:
			w.Header().Set("WWW-Authenticate", `Basic realm="`+strings.Repeat("a", 2*maxChallenge)+`"`)
			w.WriteHeader(http.StatusUnauthorized)
		}
		resp := w.Result()
		resp.Request = req
		return resp
	})
	scanner := New(Options{Transport: transport, Clock: newClock(), Backoff: fast, Burst: 1000})
	const repositories = 20
	for _, path := range numbered(repositories) {
		for _, host := range []string{redirecting, long, "usual.example"} {
			if _, err := scanner.List(t.Context(), Request{Repository: host + "/acme/web-" + path}); err != nil {
				t.Fatal(err)
			}
		}
	}
	if redirected < repositories {
		t.Errorf("%d redirects, want at least one for each of the %d repositories", redirected, repositories)
	}
	for key, l := range scanner.logins {
		want := 0
		if key.registry == "usual.example" {
			want = 1
		}
		if got := len(l.gate.pings.answers); got != want {
			t.Errorf("%d responses of %s are cached, want %d", got, key.registry, want)
		}
	}
}
