// Package hostile tests input with which a tenant, or a tenant's server, could slow down the manager or make
// it use too much memory.
package hostile

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/analysis"
	"github.com/heighliner/heighliner/internal/certs/certstest"
	"github.com/heighliner/heighliner/internal/github"
	"github.com/heighliner/heighliner/internal/outbound"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

const (
	// playing is the environment variable that contains the name of the case that a process runs.
	playing = "HEIGHLINER_TEST_HOSTILE"
	// limit is the maximum peak heap size of the process that runs a case. It is 256 MiB without the race detector. The
	// race detector delays the release of memory: see raceFactor.
	limit = 256 << 20 * raceFactor / 2
	// collected is the memory limit of the garbage collector. The manager also has such a limit, which is
	// derived from the memory limit of its container. Without such a limit, the peak would depend on the load on
	// the machine. Memory in use can still exceed this limit, and on a busy machine the garbage collector falls
	// behind, so there is a margin.
	collected = limit / 16 * 12
	// secret is the maximum size of a Secret in the API server.
	secret = 1 << 20
)

// cases are the cases by name. Each case is called with a context that ends soon, and must return with an
// error soon after the context has ended.
var cases = map[string]func(context.Context, testing.TB) error{
	"a GitHub App's key that fills a Secret": func(_ context.Context, t testing.TB) error {
		_, err := github.ReadCredential(map[string][]byte{"appID": []byte("1"), "privateKey": largest(t, certstest.KeyPEM)}, "acme")
		return err
	},
	"a registry's client key that fills a Secret": func(_ context.Context, t testing.TB) error {
		certificate, _ := registrytest.NewAuthority(t).Issue(t, time.Now().Add(time.Hour))
		_, err := registry.ParseTLS(registry.Secret{Name: "s", Type: registry.TypeTLS, Data: map[string][]byte{"tls.crt": certificate, "tls.key": largest(t, certstest.KeyPEM)}}, time.Now())
		return err
	},
	"a registry's authority that fills a Secret": func(_ context.Context, t testing.TB) error {
		_, err := registry.ParseTLS(registry.Secret{Name: "s", Type: registry.TypeTLS, Data: map[string][]byte{"ca.crt": largest(t, certstest.RootPEM)}}, time.Now())
		return err
	},
	"an authority for hooks and metrics that fills a Secret": func(_ context.Context, t testing.TB) error {
		_, err := loopback(t).Client(outbound.Options{CA: largest(t, certstest.RootPEM)})
		return err
	},
	"pull requests, packed": func(ctx context.Context, t testing.TB) error {
		_, err := client(t, packed("[", "{},", "{}]")).OpenPullRequests(ctx, shop)
		return err
	},
	"a pull request with countless labels": func(ctx context.Context, t testing.TB) error {
		_, err := client(t, packed(`[{"labels":[`, "{},", "{}]}]")).OpenPullRequests(ctx, shop)
		return err
	},
	"releases, packed": func(ctx context.Context, t testing.TB) error {
		_, err := client(t, packed("[", "{},", "{}]")).Releases(ctx, shop)
		return err
	},
	"tags, packed": func(ctx context.Context, t testing.TB) error {
		_, err := client(t, packed("[", "{},", "{}]")).Tags(ctx, shop)
		return err
	},
	"deployments, packed": func(ctx context.Context, t testing.TB) error {
		_, err := client(t, packed("[", "{},", "{}]")).Deployments(ctx, shop, "marker", strings.Repeat("a", 40), "web")
		return err
	},
	"a commit with countless parents": func(ctx context.Context, t testing.TB) error {
		_, err := client(t, packed(`{"parents":[`, "{},", "{}]}")).Commit(ctx, shop, strings.Repeat("a", 40))
		return err
	},
	"a response from GitHub that never ends": func(ctx context.Context, t testing.TB) error {
		_, err := client(t, endless).Tags(ctx, shop)
		return err
	},
	"the maximum number of concurrent responses for metrics": func(ctx context.Context, t testing.TB) error {
		return measureAll(ctx, t, "["+strings.Repeat(`{"":0},`, 149_000)+"0]")
	},
	"a list of tags, packed": func(ctx context.Context, t testing.TB) error {
		_, err := scan(ctx, t, packed(`{"tags":[`, `"a",`, `"a"]}`))
		return err
	},
	"a list of tags that never ends": func(ctx context.Context, t testing.TB) error {
		_, err := scan(ctx, t, endless)
		return err
	},
	"responses from hooks, packed": func(ctx context.Context, t testing.TB) error {
		return call(ctx, t, packed("[", "{},", "{}]"))
	},
	"responses from hooks that never end": func(ctx context.Context, t testing.TB) error {
		return call(ctx, t, endless)
	},
	"responses from hooks with one long line": func(ctx context.Context, t testing.TB) error {
		return call(ctx, t, packed("", "a", ""))
	},
	"responses from Prometheus, packed": func(ctx context.Context, t testing.TB) error {
		return measure(ctx, t, ofPrometheus, packed(vector+"[", sample+",", sample+"]}}"))
	},
	"responses from Prometheus with the maximum size": func(ctx context.Context, t testing.TB) error {
		return measure(ctx, t, ofPrometheus, filled(vector+"[", sample+",", sample+"]}}"))
	},
	"responses from Prometheus with one deep sample": func(ctx context.Context, t testing.TB) error {
		return measure(ctx, t, ofPrometheus, filled(vector, "[", ""))
	},
	"countless warnings from Prometheus": func(ctx context.Context, t testing.TB) error {
		return measure(ctx, t, ofPrometheus, filled(`{"status":"success","warnings":[`, `"",`, `""],"data":{"resultType":"vector","result":[]}}`))
	},
	"responses from Prometheus that never end": func(ctx context.Context, t testing.TB) error {
		return measure(ctx, t, ofPrometheus, endless)
	},
	"responses for web metrics, packed": func(ctx context.Context, t testing.TB) error {
		return measure(ctx, t, ofWeb, packed("[", "{},", "{}]"))
	},
	"responses for web metrics with countless objects": func(ctx context.Context, t testing.TB) error {
		return measure(ctx, t, ofWeb, filled("[", "{},", "{}]"))
	},
	"responses for web metrics with countless lists": func(ctx context.Context, t testing.TB) error {
		return measure(ctx, t, ofWeb, filled("[", "[0],", "[0]]"))
	},
	"responses for web metrics with deep nesting": func(ctx context.Context, t testing.TB) error {
		return measure(ctx, t, ofWeb, filled("", "[", ""))
	},
	"responses for web metrics that never end": func(ctx context.Context, t testing.TB) error {
		return measure(ctx, t, ofWeb, endless)
	},
	"unsigned deliveries with the longest payload": func(ctx context.Context, t testing.TB) error {
		return deliver(ctx, t, []byte("guessed"), github.MaxPayload, "[", "{},", "{}]")
	},
	"signed deliveries with the longest payload": func(ctx context.Context, t testing.TB) error {
		return deliver(ctx, t, signing, github.MaxPayload, `{"commits":[`, "{},", "{}]}")
	},
	"signed deliveries with countless fields": func(ctx context.Context, t testing.TB) error {
		var fields strings.Builder
		for n := 0; fields.Len() < 1<<20; n++ {
			fmt.Fprintf(&fields, `"%x":0,`, n)
		}
		return deliver(ctx, t, signing, 2<<20, "{", fields.String(), `"a":0}`)
	},
	"signed deliveries with countless fields that are kept": func(ctx context.Context, t testing.TB) error {
		return deliver(ctx, t, signing, 1<<20, "{", `"a":[[],{}],`, `"a":0}`)
	},
}

var shop = github.Repo{Owner: "acme", Name: "shop"}

// largest returns the largest PEM that fits into a Secret.
func largest(t testing.TB, pem func(testing.TB, uint) []byte) []byte {
	t.Helper()
	text := pem(t, 5_500_000) // This is a number of bits. As PEM, three bytes become four.
	if len(text) > secret || len(text) < secret/2 {
		t.Fatalf("%d bytes", len(text))
	}
	return text
}

func loopback(t testing.TB) *outbound.Policy {
	t.Helper()
	p, err := outbound.New(outbound.Config{Allow: []string{"127.0.0.0/8"}})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func client(t testing.TB, answer http.HandlerFunc) *github.Client {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	c, err := github.NewPool(github.Options{Outbound: loopback(t)}).Client(github.Config{BaseURL: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func scan(ctx context.Context, t testing.TB, answer http.HandlerFunc) (registry.Scan, error) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/v2/" {
			answer(w, r)
		}
	}))
	t.Cleanup(server.Close)
	return registry.New(registry.Options{Outbound: registrytest.Outbound()}).List(ctx, registry.Request{Repository: strings.TrimPrefix(server.URL, "http://") + "/acme/web", Timeout: time.Minute})
}

// measureAll makes the manager's maximum number of concurrent measurements, for hosts and namespaces that
// share the manager's workers. It returns the error of the last measurement, or nil if at least one
// measurement ends without an error.
func measureAll(ctx context.Context, t testing.TB, text string) error {
	t.Helper()
	const hosts, each = 4, 8
	listener, err := net.Listen("tcp", "0.0.0.0:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) }))
	server.Listener = listener
	server.Start()
	t.Cleanup(server.Close)
	notified := make(chan types.NamespacedName, hosts*each)
	m, err := analysis.New(analysis.Config{Outbound: loopback(t), QueriesPerSecond: 1000, Requeue: func(key types.NamespacedName) { notified <- key }})
	if err != nil {
		t.Fatal(err)
	}
	requests := map[types.NamespacedName]analysis.Request{}
	for host := range hosts {
		for i := range each {
			key := types.NamespacedName{Namespace: fmt.Sprintf("team-%d", (host+i)%each), Name: fmt.Sprintf("shop-%d", host)}
			url := fmt.Sprintf("http://127.0.0.%d:%d", host+1, listener.Addr().(*net.TCPAddr).Port)
			requests[key] = analysis.Request{
				At:     time.Now(),
				Spec:   v1alpha1.CanaryAnalysis{Interval: "1m", Metrics: []v1alpha1.AnalysisMetric{{Name: "score", Web: &v1alpha1.WebMetric{URL: url, Value: "size(body)"}}}},
				Canary: analysis.Target{Namespace: key.Namespace, Microservice: key.Name, Group: "release", Release: key.Name, Version: "1.0.0"},
			}
			m.Ask(key, requests[key])
		}
	}
	for range hosts * each {
		select {
		case key := <-notified:
			round, _ := m.Ask(key, requests[key])
			for _, x := range round.Measurements {
				if x.Result != v1alpha1.MeasurementError {
					return nil
				}
				err = errors.New(x.Message)
			}
		case <-ctx.Done():
			t.Fatal("not all measurements ended")
		}
	}
	return err
}

// packed returns a handler that responds with 15 MiB of text, compressed to a few kilobytes.
func packed(first, element, last string) http.HandlerFunc {
	var text bytes.Buffer
	z := gzip.NewWriter(&text)
	_, _ = io.WriteString(z, first)
	for n := 0; n < 15<<20; n += 1000 * len(element) {
		_, _ = io.WriteString(z, strings.Repeat(element, 1000))
	}
	_, _ = io.WriteString(z, last)
	_ = z.Close()
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(text.Bytes())
	}
}

// endless responds until the client disconnects.
func endless(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, "[")
	for r.Context().Err() == nil {
		if _, err := io.WriteString(w, strings.Repeat(" ", 1<<16)); err != nil {
			return
		}
	}
}

// TestHostile runs each case in a separate process. The case must return soon after its context has ended,
// and the heap must never exceed the limit.
func TestHostile(t *testing.T) {
	for name := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), await.Limit)
			defer cancel()
			cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestPlay$", "-test.count", "1", "-test.v")
			cmd.Env = append(os.Environ(), playing+"="+name, "GOGC=100", "GOMEMLIMIT="+strconv.Itoa(collected))
			out, err := cmd.CombinedOutput()
			if ctx.Err() != nil {
				t.Fatalf("the process has not exited after %s", await.Limit)
			}
			if err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			_, text, _ := strings.Cut(string(out), "peak: ")
			text, why, _ := strings.Cut(text, " bytes, ")
			peak, err := strconv.Atoi(text)
			if err != nil {
				t.Fatalf("the output contains no peak: %s", out)
			}
			why, _, _ = strings.Cut(why, "\n")
			t.Logf("%d MiB: %s", peak>>20, why)
			if peak > limit {
				t.Errorf("%d MiB at the peak, want at most %d", peak>>20, limit>>20)
			}
		})
	}
}

// TestPlay runs the case that the environment variable specifies, if there is one.
func TestPlay(t *testing.T) {
	play := cases[os.Getenv(playing)]
	if play == nil {
		return
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	err := play(ctx, t)
	if err == nil {
		t.Fatal("the input was accepted without an error")
	}
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	for wrapped := err; wrapped != nil; wrapped = errors.Unwrap(wrapped) {
		err = wrapped
	}
	fmt.Printf("peak: %d bytes, %.200v\n", m.HeapSys, err) // HeapSys never decreases, so it is the maximum.
}
