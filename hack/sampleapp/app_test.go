package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

var identity = Identity{App: "shop", Version: "1.1.0", Release: "shop-1-x-abc", Group: "1.x", Pod: "shop-0"}

// answer is the response to a request.
type answer struct {
	Status  int
	Body    string
	Version string
	Took    time.Duration
}

func ask(handler http.Handler, method, target, body string) answer {
	began := time.Now()
	recorder := httptest.NewRecorder()
	handler.ServeHTTP(recorder, httptest.NewRequest(method, target, strings.NewReader(body)))
	return answer{
		Status:  recorder.Code,
		Body:    strings.TrimSpace(recorder.Body.String()),
		Version: recorder.Header().Get("X-Version"),
		Took:    time.Since(began),
	}
}

func TestAnswers(t *testing.T) {
	slow := Config{Identity: identity, Latency: time.Second}
	for name, test := range map[string]struct {
		config Config
		method string
		target string
		body   string
		age    time.Duration
		want   answer
	}{
		"root":                      {target: "/", want: answer{Status: 200, Body: "shop 1.1.0"}},
		"any other path":            {target: "/cart/7", want: answer{Status: 200, Body: "shop 1.1.0"}},
		"health":                    {target: "/healthz", want: answer{Status: 200, Body: "ok"}},
		"ready":                     {target: "/readyz", want: answer{Status: 200, Body: "ok"}},
		"slow":                      {target: "/slow?seconds=0.3", want: answer{Status: 200, Body: "...done", Took: 300 * time.Millisecond}},
		"slow without a duration":   {target: "/slow", want: answer{Status: 400, Body: `check seconds: must be 0 to 600, not ""`}},
		"slow forever":              {target: "/slow?seconds=601", want: answer{Status: 400, Body: `check seconds: must be 0 to 600, not "601"`}},
		"configured latency":        {config: slow, target: "/", want: answer{Status: 200, Body: "shop 1.1.0", Took: time.Second}},
		"health is not delayed":     {config: slow, target: "/healthz", want: answer{Status: 200, Body: "ok"}},
		"latency of request":        {config: slow, target: "/?latency=200ms", want: answer{Status: 200, Body: "shop 1.1.0", Took: 200 * time.Millisecond}},
		"status of request":         {target: "/?status=503", want: answer{Status: 503, Body: "shop 1.1.0 responds with 503 as requested"}},
		"latency too long":          {target: "/?latency=31s", want: answer{Status: 400, Body: "check latency: must be 0s to 30s, not 31s"}},
		"latency negative":          {target: "/?latency=-1s", want: answer{Status: 400, Body: "check latency: must be 0s to 30s, not -1s"}},
		"latency is not a duration": {target: "/?latency=1", want: answer{Status: 400, Body: `parse latency: time: missing unit in duration "1"`}},
		"status out of range":       {target: "/?status=101", want: answer{Status: 400, Body: `check status: must be 200 to 599, not "101"`}},
		"error rate of one":         {config: Config{Identity: identity, ErrorRate: 1}, target: "/", want: answer{Status: 500, Body: "shop 1.1.0 responds with 500 as requested"}},
		"never ready": {
			config: Config{Identity: identity, FailReadiness: After{On: true}}, target: "/readyz",
			want: answer{Status: 503, Body: "readiness fails as requested"},
		},
		"still ready": {
			config: Config{Identity: identity, FailReadiness: After{On: true, Delay: time.Minute}}, target: "/readyz", age: 59 * time.Second,
			want: answer{Status: 200, Body: "ok"},
		},
		"no longer ready": {
			config: Config{Identity: identity, FailReadiness: After{On: true, Delay: time.Minute}}, target: "/readyz", age: time.Minute,
			want: answer{Status: 503, Body: "readiness fails as requested"},
		},
		"control off": {
			method: http.MethodPost, target: "/control", body: `{}`,
			want: answer{Status: 404, Body: "runtime control is off: start with --control or CONTROL=true"},
		},
		"identity": {
			target: "/version",
			want:   answer{Status: 200, Body: `{"app":"shop","version":"1.1.0","release":"shop-1-x-abc","group":"1.x","pod":"shop-0"}`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if test.config == (Config{}) {
					test.config.Identity = identity
				}
				if test.method == "" {
					test.method = http.MethodGet
				}
				test.want.Version = "1.1.0"
				handler := NewApp(test.config).Handler()
				time.Sleep(test.age)
				if diff := cmp.Diff(test.want, ask(handler, test.method, test.target, test.body)); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestControl(t *testing.T) {
	for name, test := range map[string]struct {
		method string
		body   string
		want   answer
	}{
		"sets everything":          {body: `{"failReadiness":true,"errorRate":0.5,"latency":"200ms"}`, want: answer{Status: 200, Body: `{"failReadiness":true,"errorRate":0.5,"latency":"200ms"}`}},
		"the rest does not change": {body: `{"failReadiness":true}`, want: answer{Status: 200, Body: `{"failReadiness":true,"errorRate":0.25,"latency":"0s"}`}},
		"errors off":               {body: `{"errorRate":0}`, want: answer{Status: 200, Body: `{"failReadiness":false,"errorRate":0,"latency":"0s"}`}},
		"unknown field":            {body: `{"errors":1}`, want: answer{Status: 400, Body: `parse control: json: unknown field "errors"`}},
		"rate out of range":        {body: `{"errorRate":1.5}`, want: answer{Status: 400, Body: "check errorRate: must be 0 to 1, not 1.5"}},
		"latency too long":         {body: `{"latency":"1m"}`, want: answer{Status: 400, Body: "check latency: must be 0s to 30s, not 1m0s"}},
		"too long":                 {body: strings.Repeat(" ", maxControlBytes+1), want: answer{Status: 400, Body: "read control: http: request body too large"}},
		"not a POST":               {method: http.MethodGet, want: answer{Status: 405, Body: "send a POST"}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				handler := NewApp(Config{Identity: identity, ErrorRate: 0.25, Control: true}).Handler()
				method := test.method
				if method == "" {
					method = http.MethodPost
				}
				test.want.Version = "1.1.0"
				if diff := cmp.Diff(test.want, ask(handler, method, "/control", test.body)); diff != "" {
					t.Errorf("answer (-want +got):\n%s", diff)
				}
			})
		})
	}
}

func TestControlTakesEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := NewApp(Config{Identity: identity, Control: true}).Handler()
		ask(handler, http.MethodPost, "/control", `{"failReadiness":true,"errorRate":1,"latency":"2s"}`)
		ready, root := ask(handler, http.MethodGet, "/readyz", ""), ask(handler, http.MethodGet, "/", "")
		if ready.Status != 503 || root.Status != 500 || root.Took != 2*time.Second {
			t.Errorf("readiness responds with %d, root with %d after %s; want 503, and 500 after 2s", ready.Status, root.Status, root.Took)
		}
	})
}

func TestErrorRateFollowsChance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		app := NewApp(Config{Identity: identity, ErrorRate: 0.25})
		chances := []float64{0, 0.2499, 0.25, 0.99}
		app.chance = func() float64 {
			next := chances[0]
			chances = chances[1:]
			return next
		}
		var got []int
		for range 4 {
			got = append(got, ask(app.Handler(), http.MethodGet, "/", "").Status)
		}
		if diff := cmp.Diff([]int{500, 500, 200, 200}, got); diff != "" {
			t.Errorf("statuses (-want +got):\n%s", diff)
		}
	})
}

func TestMetricsCountWhatUsersAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		handler := NewApp(Config{Identity: identity}).Handler()
		for _, target := range []string{"/", "/cart", "/version?latency=300ms", "/?status=503", "/healthz", "/readyz"} {
			ask(handler, http.MethodGet, target, "")
		}
		page := ask(handler, http.MethodGet, "/metrics", "").Body + "\n"
		for _, line := range []string{
			`http_requests_total{code="200",version="1.1.0"} 3`,
			`http_requests_total{code="500",version="1.1.0"} 0`,
			`http_requests_total{code="503",version="1.1.0"} 1`,
			`http_request_duration_seconds_bucket{version="1.1.0",le="0.25"} 3`,
			`http_request_duration_seconds_sum{version="1.1.0"} 0.3`,
			`http_request_duration_seconds_count{version="1.1.0"} 4`,
		} {
			if !strings.Contains(page, line+"\n") {
				t.Errorf("metrics do not contain %q:\n%s", line, page)
			}
		}
	})
}

func TestNoMetrics(t *testing.T) {
	if got := ask(NewApp(Config{Identity: identity, NoMetrics: true}).Handler(), http.MethodGet, "/metrics", "").Status; got != http.StatusNotFound {
		t.Errorf("/metrics responds with %d, want 404", got)
	}
}

func TestParseConfig(t *testing.T) {
	defaults := Config{
		Identity: Identity{App: "shop", Version: "0.0.0"}, Port: 8080, GRPCPort: 8081, TCPPort: 9000, UDPPort: 9000, TLSPort: 8443,
		ShutdownDelay: 3 * time.Second, DrainTimeout: 10 * time.Second, QueueName: "jobs",
	}
	for name, test := range map[string]struct {
		args        []string
		environment map[string]string
		want        func(*Config)
		wantError   string
	}{
		"defaults": {want: func(*Config) {}},
		"environment": {
			environment: map[string]string{
				"VERSION": "1.2.0", "PORT": "9000", "GRPC_PORT": "9001", "TCP_PORT": "9002", "UDP_PORT": "9003", "TLS_PORT": "0", "START_DELAY": "5s", "FAIL_READINESS": "true", "EXIT_AFTER": "0s",
				"ERROR_RATE": "0.2", "LATENCY": "50ms", "SHUTDOWN_DELAY": "1s", "CONTROL": "true",
				"POD_NAME": "shop-0", "HLNR_RELEASE": "shop-1-x", "HLNR_GROUP": "1.x",
			},
			want: func(c *Config) {
				*c = Config{
					Identity: Identity{App: "shop", Version: "1.2.0", Release: "shop-1-x", Group: "1.x", Pod: "shop-0"},
					Port:     9000, GRPCPort: 9001, TCPPort: 9002, UDPPort: 9003, StartDelay: 5 * time.Second, FailReadiness: After{On: true}, ExitAfter: After{On: true},
					ErrorRate: 0.2, Latency: 50 * time.Millisecond, ShutdownDelay: time.Second, DrainTimeout: 10 * time.Second, QueueName: "jobs", Control: true,
				}
			},
		},
		"flag wins": {
			environment: map[string]string{"VERSION": "1.2.0"}, args: []string{"--version=1.3.0"},
			want: func(c *Config) { c.Version = "1.3.0" },
		},
		"readiness fails later": {
			args: []string{"--fail-readiness=30s"},
			want: func(c *Config) { c.FailReadiness = After{On: true, Delay: 30 * time.Second} },
		},
		"fault disabled": {
			environment: map[string]string{"FAIL_READINESS": "false"},
			want:        func(*Config) {},
		},
		"wrong variable": {
			environment: map[string]string{"EXIT_AFTER": "soon"},
			wantError:   `parse environment: EXIT_AFTER="soon": must be true, false, or a duration that is not negative, such as 30s; not "soon"`,
		},
		"wrong port":     {args: []string{"--port=0"}, wantError: "check port: must be 1 to 65535, not 0"},
		"wrong UDP port": {args: []string{"--udp-port=-1"}, wantError: "check udp-port: must be 0 to 65535, not -1"},
		"wrong rate":     {args: []string{"--error-rate=NaN"}, wantError: "check errorRate: must be 0 to 1, not NaN"},
		"wrong latency":  {args: []string{"--latency=1h"}, wantError: "check latency: must be 0s to 30s, not 1h0m0s"},
		"negative delay": {args: []string{"--start-delay=-1s"}, wantError: "check start-delay: must be at least 0, not -1s"},
		"stray argument": {args: []string{"serve"}, wantError: `parse arguments: "serve" is not a flag; see --help`},
		"unknown flag":   {args: []string{"--x"}, wantError: "parse arguments: flag provided but not defined: -x; see --help"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ParseConfig(test.args, func(name string) string { return test.environment[name] }, io.Discard)
			if test.wantError != "" {
				if err == nil || err.Error() != test.wantError {
					t.Fatalf("error is %v, want %s", err, test.wantError)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			want := defaults
			test.want(&want)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("configuration (-want +got):\n%s", diff)
			}
		})
	}
}

func TestHelpNamesEveryVariable(t *testing.T) {
	var help strings.Builder
	_, err := ParseConfig([]string{"--help"}, func(string) string { return "" }, &help)
	if err == nil {
		t.Error("--help returns no error")
	}
	for _, name := range []string{
		"VERSION", "PORT", "START_DELAY", "FAIL_READINESS", "EXIT_AFTER", "ERROR_RATE", "LATENCY", "SHUTDOWN_DELAY",
		"DRAIN_TIMEOUT", "CONTROL", "POD_NAME", "HLNR_RELEASE", "HLNR_GROUP", "APP",
		"GRPC_PORT", "TCP_PORT", "UDP_PORT", "TLS_PORT",
	} {
		if !strings.Contains(help.String(), "["+name+"]") {
			t.Errorf("help does not contain %s", name)
		}
	}
}
