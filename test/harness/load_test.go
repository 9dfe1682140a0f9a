package harness

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestLoadConfigIsChecked(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*LoadConfig)
		want   string
	}{
		"another machine":  {func(c *LoadConfig) { c.Gateway = "10.250.0.1:8000" }, `check gateway: refuse address "10.250.0.1:8000": only loopback addresses are allowed`},
		"a name":           {func(c *LoadConfig) { c.Gateway = "localhost:8000" }, `check gateway: parse address "localhost:8000": must be an IP and a port such as 127.0.0.1:8000`},
		"no port":          {func(c *LoadConfig) { c.Gateway = "127.0.0.1" }, `check gateway: parse address "127.0.0.1": must be an IP and a port such as 127.0.0.1:8000`},
		"no host":          {func(c *LoadConfig) { c.Host = "" }, "check host: it is required: set it to the domain of the Microservice"},
		"no rate":          {func(c *LoadConfig) { c.Rate = 0 }, "check rate: must be above 0 and at most 2000 per second, not 0"},
		"too fast":         {func(c *LoadConfig) { c.Rate = 2001 }, "check rate: must be above 0 and at most 2000 per second, not 2001"},
		"no end":           {func(c *LoadConfig) { c.Count = 0 }, "check end: set count or duration, because a load must end"},
		"too many":         {func(c *LoadConfig) { c.Count = 1_000_001 }, "check count: must be 0 to 1000000, not 1000001"},
		"too long":         {func(c *LoadConfig) { c.Duration = 3 * time.Hour }, "check duration: must be 0s to 2h0m0s, not 3h0m0s"},
		"timeout too long": {func(c *LoadConfig) { c.Timeout = time.Minute }, "check timeout: must be above 0s and at most 30s, not 1m0s"},
		"relative path":    {func(c *LoadConfig) { c.Path = "cart" }, `check path: must begin with /, not "cart"`},
	} {
		t.Run(name, func(t *testing.T) {
			config := LoadConfig{Gateway: "127.0.0.1:8000", Host: "shop.localhost", Rate: 50, Count: 1}
			test.change(&config)
			if _, err := StartLoad(t.Context(), config); err == nil || err.Error() != test.want {
				t.Errorf("error is %v, want %s", err, test.want)
			}
		})
	}
}

func TestSchedule(t *testing.T) {
	for name, test := range map[string]struct {
		config LoadConfig
		n      int
		offset time.Duration
		ok     bool
	}{
		"first":                      {config: LoadConfig{Rate: 50, Count: 10}, n: 0, offset: 0, ok: true},
		"every 20ms":                 {config: LoadConfig{Rate: 50, Count: 1000}, n: 51, offset: 1020 * time.Millisecond, ok: true},
		"slow":                       {config: LoadConfig{Rate: 0.5, Duration: time.Minute}, n: 3, offset: 6 * time.Second, ok: true},
		"after the count":            {config: LoadConfig{Rate: 50, Count: 10}, n: 10},
		"within duration":            {config: LoadConfig{Rate: 50, Duration: time.Second}, n: 49, offset: 980 * time.Millisecond, ok: true},
		"after duration":             {config: LoadConfig{Rate: 50, Duration: time.Second}, n: 50},
		"duration ends before count": {config: LoadConfig{Rate: 50, Duration: time.Second, Count: 100}, n: 50},
	} {
		t.Run(name, func(t *testing.T) {
			due, ok := schedule{start: start, config: test.config}.due(test.n)
			if ok != test.ok || ok && due != start.Add(test.offset) {
				t.Errorf("due is %s, %t; want %s, %t", due.Sub(start), ok, test.offset, test.ok)
			}
		})
	}
}

func TestJudge(t *testing.T) {
	for name, test := range map[string]struct {
		status  int
		version string
		err     error
		want    string
	}{
		"good":            {status: 200, version: "1.0.0"},
		"redirect":        {status: 302, version: "1.0.0"},
		"server error":    {status: 503, version: "1.0.0", want: "status 503"},
		"no route":        {status: 404, want: "status 404"},
		"another server":  {status: 200, want: "status 200 without X-Version"},
		"incomplete body": {status: 200, version: "1.0.0", err: context.DeadlineExceeded, want: "the response with status 200 was incomplete: context deadline exceeded"},
	} {
		t.Run(name, func(t *testing.T) {
			want := Outcome{Version: test.version, Status: test.status, Failure: test.want}
			if diff := cmp.Diff(want, judge(test.status, test.version, test.err)); diff != "" {
				t.Errorf("outcome (-want +got):\n%s", diff)
			}
		})
	}
}

// gateway is a server that listens on loopback and records hosts and connections.
type gateway struct {
	*httptest.Server
	hosts       sync.Map
	connections atomic.Int64
}

func newGateway(t *testing.T, handler http.HandlerFunc) *gateway {
	g := &gateway{}
	g.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		g.hosts.Store(r.Host, true)
		handler(w, r)
	}))
	g.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			g.connections.Add(1)
		}
	}
	g.Start()
	t.Cleanup(g.Close)
	return g
}

func TestLoadCountsEveryRequest(t *testing.T) {
	var asked atomic.Int64
	g := newGateway(t, func(w http.ResponseWriter, r *http.Request) {
		n := asked.Add(1)
		w.Header().Set("X-Version", "1.0.0")
		switch {
		case n%10 == 0:
			w.Header().Set("X-Version", "1.1.0")
		case n == 11:
			w.WriteHeader(http.StatusBadGateway)
		case n == 12:
			panic(http.ErrAbortHandler) // This closes the connection.
		}
		fmt.Fprintln(w, r.URL.Path)
	})
	load, err := StartLoad(t.Context(), LoadConfig{
		Gateway: g.Listener.Addr().String(), Host: "shop.localhost", Rate: 1000, Count: 200, NoKeepAlive: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	report := load.Wait()

	want := Counts{Sent: 200, Answered: 198, Failed: 2, Versions: map[string]VersionCounts{
		"": {Failed: 1}, "1.0.0": {Answered: 178, Failed: 1}, "1.1.0": {Answered: 20},
	}}
	if diff := cmp.Diff(want, report.Total.Counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if got := load.Split("start").Percents(); !cmp.Equal(got, []int{90, 10}) {
		t.Errorf("split is %v, want 90, 10", got)
	}
	if len(report.Failures) != 2 || report.Failures[0].Failure == "" || report.Failures[0].At.IsZero() {
		t.Errorf("failures are %+v, want two with details", report.Failures)
	}
	if _, named := g.hosts.Load("shop.localhost"); !named || report.Host != "shop.localhost" {
		t.Errorf("the Host header is not the domain")
	}
	if got := g.connections.Load(); got < 200 {
		t.Errorf("%d connections for 200 requests without keep-alive", got)
	}
	if report.Total.Latency.Max == 0 {
		t.Error("no latency was recorded")
	}
}

func TestLoadReusesConnections(t *testing.T) {
	g := newGateway(t, func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("X-Version", "1.0.0") })
	load, err := StartLoad(t.Context(), LoadConfig{Gateway: g.Listener.Addr().String(), Host: "shop.localhost", Rate: 50, Count: 100})
	if err != nil {
		t.Fatal(err)
	}
	if report := load.Wait(); report.Total.Answered != 100 {
		t.Errorf("%d answered, want 100: %v", report.Total.Answered, report.Failures)
	}
	if got := g.connections.Load(); got >= 100 { // On a busy machine, many requests are sent together, and each of them needs a connection.
		t.Errorf("%d connections for 100 requests with keep-alive", got)
	}
}

func TestStopLetsRequestsInProgressEnd(t *testing.T) {
	arrived, release := make(chan struct{}, 1), make(chan struct{})
	g := newGateway(t, func(w http.ResponseWriter, _ *http.Request) {
		arrived <- struct{}{}
		<-release
		w.Header().Set("X-Version", "1.0.0")
	})
	load, err := StartLoad(t.Context(), LoadConfig{Gateway: g.Listener.Addr().String(), Host: "shop.localhost", Rate: 0.01, Duration: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	<-arrived
	load.Mark("after")
	stopped := make(chan Report)
	go func() { stopped <- load.Stop() }()
	close(release)
	report := <-stopped
	want := Counts{Sent: 1, Answered: 1, Versions: map[string]VersionCounts{"1.0.0": {Answered: 1}}}
	if diff := cmp.Diff(want, report.Phases[0].Counts); diff != "" {
		t.Errorf("counts of the first phase (-want +got):\n%s", diff)
	}
}

func TestLoadReportsARefusedConnection(t *testing.T) {
	const down = "127.0.0.1:1" // Linux never assigns this port to a server of another test.
	load, err := StartLoad(t.Context(), LoadConfig{Gateway: down, Host: "shop.localhost", Rate: 100, Count: 3, KeepFailures: 1})
	if err != nil {
		t.Fatal(err)
	}
	report := load.Wait()
	if report.Total.Failed != 3 || report.FailuresOmitted != 2 || !strings.Contains(report.Failures[0].Failure, "connection refused") {
		t.Errorf("failed %d, omitted %d, details %v", report.Total.Failed, report.FailuresOmitted, report.Failures)
	}
}
