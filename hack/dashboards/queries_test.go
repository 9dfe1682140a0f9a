//go:build dashboards

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/github/githubtest"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
	"github.com/heighliner/heighliner/test/httpclient"
	"github.com/heighliner/heighliner/test/port"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	os.Exit(apiserver.Run(m, apiserver.Options{GatewayAPI: true, ControllerManager: true}, &env))
}

// objects are the test's objects, with placeholders for the registry, the hook receiver, and GitHub.
const objects = `
apiVersion: gateway.networking.k8s.io/v1
kind: Gateway
metadata: {name: public}
spec:
  gatewayClassName: test
  listeners: [{name: http, port: 80, protocol: HTTP}]
---
apiVersion: v1
kind: Secret
metadata: {name: github}
stringData: {token: token, secret: signs}
---
apiVersion: hlnr.io/v1alpha1
kind: GitHubRepository
metadata: {name: github}
spec: {owner: acme, repo: shop, baseURL: $GITHUB, interval: 30s, credentialsSecretRef: {name: github}, webhookSecretRef: {name: github}}
---
apiVersion: hlnr.io/v1alpha1
kind: ImagePolicy
metadata: {name: tagged}
spec: {image: $REGISTRY/team/shop, source: {github: {repositoryRef: {name: github}, tags: {}}}}
---
apiVersion: hlnr.io/v1alpha1
kind: ImagePolicy
metadata: {name: away}
spec: {image: "127.0.0.1:1/away", interval: 5s}
---
apiVersion: hlnr.io/v1alpha1
kind: ImagePolicy
metadata: {name: shop}
spec: {image: $REGISTRY/team/shop, interval: 5s, platforms: [linux/amd64]}
---
apiVersion: hlnr.io/v1alpha1
kind: Microservice
metadata: {name: shop}
spec:
  imagePolicyRef: {name: shop}
  availability: {minReadySeconds: 0}
  updateStrategy:
    minimumAvailable: 2
    progressDeadlineSeconds: 30
    drainDelay: 1s
    canary:
      hooks: [{name: test, type: PreRollout, url: $HOOK}, {name: check, type: Rollout, url: $HOOK}]
      analysis: {interval: 10s, count: 2, metrics: [{name: answer, prometheus: {query: "vector(1)"}, thresholdRange: {min: 1}}]}
      steps: [{weight: 50}]
  template:
    spec:
      containers:
      - {name: app, image: app, ports: [{containerPort: 8080}], readinessProbe: {exec: {command: ["true"]}}}
---
apiVersion: hlnr.io/v1alpha1
kind: NetworkPolicy
metadata: {name: shop}
spec: {ports: [{name: http, port: 80, targetPort: 8080}], provider: {gateway: {parentRefs: [{name: public}]}}, domains: [{domain: shop.example.com}]}
---
apiVersion: hlnr.io/v1alpha1
kind: ImagePolicy
metadata: {name: cart}
spec: {image: $REGISTRY/team/cart, interval: 5s, platforms: [linux/amd64]}
---
apiVersion: hlnr.io/v1alpha1
kind: Microservice
metadata: {name: cart}
spec:
  imagePolicyRef: {name: cart}
  updateStrategy: {canary: {steps: [{weight: 10, approval: {}}]}}
  template:
    spec:
      containers:
      - {name: app, image: app, ports: [{containerPort: 8080}], readinessProbe: {exec: {command: ["true"]}}}
`

// TestQueries runs rollouts with the real manager, which a real Prometheus scrapes, and checks that each query of each
// dashboard returns data.
func TestQueries(t *testing.T) {
	namespace := env.Namespace(t)
	metrics, webhooks, prometheus := port.Take(t), port.Take(t), port.Take(t)
	hub, err := githubtest.New(githubtest.Options{})
	if err != nil {
		t.Fatal(err)
	}
	hub.AddRepository("acme/shop").Tag("v1.0.0")
	hub.AddToken("token", githubtest.Access{})
	github := httptest.NewServer(hub)
	t.Cleanup(github.Close)
	hook := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	t.Cleanup(hook.Close)
	images := registrytest.New(t)
	for _, image := range []string{"team/shop", "team/cart"} {
		images.Push(t, image, "1.0.0")
	}
	env.PlayKubelet(t, namespace, func(p *corev1.Pod) bool { return p.Annotations[v1alpha1.AnnotationVersion] != "1.2.0" })
	env.PlayGateway(t, namespace, func(*gatewayv1.HTTPRoute) bool { return true })
	startManager(t, metrics, webhooks, prometheus)
	startPrometheus(t, prometheus, metrics)

	text := strings.NewReplacer("$REGISTRY", images.Host(), "$GITHUB", github.URL, "$HOOK", hook.URL).Replace(objects)
	if out, err := env.Kubectl(t, text, "apply", "-n", namespace, "-f", "-"); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	status(t, namespace, "shop", "1.0.0", v1alpha1.ReleaseActive)
	status(t, namespace, "cart", "1.0.0", v1alpha1.ReleaseActive)
	for _, image := range []string{"team/shop", "team/cart"} {
		images.Push(t, image, "1.1.0")
	}
	if _, err := httpclient.New().Post("http://"+webhooks+"/github/"+namespace+"/github", "application/json", strings.NewReader("{}")); err != nil {
		t.Fatal(err)
	}
	status(t, namespace, "shop", "1.1.0", v1alpha1.ReleaseActive)
	status(t, namespace, "cart", "1.1.0", v1alpha1.ReleaseCanary)
	scraped(t, prometheus, `heighliner_group_version{microservice="shop",status="active",version="1.1.0"}`) // If there are two changes between two scrapes, Prometheus sees only the last change.
	pin(t, namespace, "shop", "1.0.0")
	status(t, namespace, "shop", "1.0.0", v1alpha1.ReleaseActive)
	scraped(t, prometheus, `heighliner_service_rollouts_total{microservice="shop",result="RolledBack"} == 1`)
	pin(t, namespace, "shop", "")
	images.Push(t, "team/shop", "1.2.0")
	status(t, namespace, "shop", "1.2.0", v1alpha1.ReleaseError)

	answered(t, prometheus, namespace)
}

// scrapeInterval is the scrape interval of the test's Prometheus.
const scrapeInterval = time.Second

// run starts a process, and stops it at the end of the test.
func run(t *testing.T, environment []string, name string, args ...string) {
	t.Helper()
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(context.Background())
	process := exec.CommandContext(ctx, name, args...)
	process.Stdout, process.Stderr, process.Env = &log, &log, append(os.Environ(), environment...)
	if err := process.Start(); err != nil {
		cancel()
		t.Fatalf("start %s: %v", name, err)
	}
	t.Cleanup(func() {
		cancel() // This stops the process.
		_ = process.Wait()
		if t.Failed() {
			t.Logf("%s:\n%s", filepath.Base(name), log.Bytes()[max(0, log.Len()-4000):])
		}
	})
}

// startManager builds and starts the manager.
func startManager(t *testing.T, metrics, webhooks, prometheus string) {
	t.Helper()
	binary := filepath.Join(t.TempDir(), "heighliner")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/heighliner")
	build.Dir = apiserver.Root(t)
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build the manager: %v\n%s", err, out)
	}
	run(t, []string{"KUBECONFIG=" + env.Kubeconfig()}, binary, "--metrics-insecure", "--metrics-bind-address="+metrics, "--webhook-bind-address="+webhooks,
		"--health-probe-bind-address=0", "--outbound-allow=127.0.0.1", "--min-drain-delay=1s", "--prometheus-address=http://"+prometheus)
}

// startPrometheus starts a Prometheus that scrapes the manager as documented.
func startPrometheus(t *testing.T, address, target string) {
	t.Helper()
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := fmt.Sprintf("global: {scrape_interval: %s}\nscrape_configs:\n- {job_name: heighliner, honor_labels: true, static_configs: [{targets: [%q], labels: {namespace: heighliner-system}}]}\n", scrapeInterval, target)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	run(t, nil, "prometheus", "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address, "--log.level=warn")
}

// status waits until a version has the given status.
func status(t *testing.T, namespace, name, version string, want v1alpha1.ReleaseStatus) {
	t.Helper()
	await.Nil(t, func(ctx context.Context) error {
		var ms v1alpha1.Microservice
		if err := env.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, &ms); err != nil {
			return err
		}
		for _, g := range ms.Status.ReleaseGroups {
			for _, r := range g.Releases {
				if r.SemVer.Version == version && r.Status == want && (want != v1alpha1.ReleaseCanary || r.Weight > 0) {
					return nil
				}
			}
		}
		return fmt.Errorf("%s %s is not %s: %+v", name, version, want, ms.Status)
	})
	t.Logf("%s %s is %s", name, version, want)
}

// scraped waits until a query returns a number.
func scraped(t *testing.T, prometheus, expr string) {
	t.Helper()
	await.Nil(t, func(context.Context) error { return answer(prometheus, expr) })
}

// pin pins a Microservice to a version, or removes the pin if the version is empty.
func pin(t *testing.T, namespace, name, version string) {
	t.Helper()
	manual := "null"
	if version != "" {
		manual = `{"semVer":{"version":"` + version + `"}}`
	}
	patch := `{"spec":{"updateStrategy":{"manual":` + manual + `}}}`
	if out, err := env.Kubectl(t, "", "patch", "msvc", name, "-n", namespace, "--type=merge", "-p", patch); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// asked is the query of a panel. The variables in the query are replaced by values.
type asked struct {
	dashboard, panel, unit, expr string
}

// questions returns the queries of all dashboards. Their variables are replaced by the values that Grafana would insert.
func questions(namespace string) (out []asked) {
	values := strings.NewReplacer("$__rate_interval", "5m", "$namespace", namespace, "$microservice", "shop")
	for _, name := range slices.Sorted(maps.Keys(dashboards())) {
		for _, p := range dashboards()[name].Panels {
			for _, q := range p.Targets {
				expr := values.Replace(q.Expr)
				if strings.Contains(expr, "_canary_") || strings.Contains(expr, "_last_lead_time_") { // The service cart has a canary, and was not rolled back.
					expr = strings.ReplaceAll(expr, `microservice="shop"`, `microservice="cart"`)
				}
				out = append(out, asked{name, p.Title, p.FieldConfig.Defaults.Unit, expr})
			}
		}
	}
	return out
}

// answered checks that each query returns a number. If the PICTURES environment variable names a folder,
// answered also writes pictures of the results to this folder.
func answered(t *testing.T, prometheus, namespace string) {
	t.Helper()
	all := questions(namespace)
	if len(all) < 60 {
		t.Errorf("there are only %d queries", len(all))
	}
	await.Nil(t, func(context.Context) error {
		var missing []error
		for _, q := range all {
			if err := answer(prometheus, q.expr); err != nil {
				missing = append(missing, fmt.Errorf("%s, panel %q: %s: %w", q.dashboard, q.panel, q.expr, err))
			}
		}
		return errors.Join(missing...)
	})
	t.Logf("%d queries have data", len(all))
	dir := os.Getenv("PICTURES")
	if dir == "" {
		return
	}
	pictures := map[string][]picture{}
	for _, q := range all {
		lines, err := between(prometheus, q.expr)
		if err != nil {
			t.Errorf("%s, panel %q: %v", q.dashboard, q.panel, err)
		}
		pictures[q.dashboard] = append(pictures[q.dashboard], picture{q.panel, q.unit, lines})
	}
	for name, list := range pictures {
		if err := os.WriteFile(filepath.Join(dir, "dashboard-"+name+".svg"), draw(name, list), 0o644); err != nil {
			t.Error(err)
		}
	}
}

// result is a query result.
type result struct {
	Metric map[string]string `json:"metric"`
	Value  [2]any            `json:"value"`
	Values [][2]any          `json:"values"`
}

func ask(prometheus, path string, parameters url.Values) ([]result, error) {
	response, err := httpclient.New().Get("http://" + prometheus + "/api/v1/" + path + "?" + parameters.Encode())
	if err != nil {
		return nil, err
	}
	defer func() { _ = response.Body.Close() }()
	var body struct {
		Status, Error string
		Data          struct{ Result []result }
	}
	if err := json.NewDecoder(response.Body).Decode(&body); err != nil {
		return nil, err
	}
	if body.Status != "success" {
		return nil, fmt.Errorf("%s: %s", body.Status, body.Error)
	}
	return body.Data.Result, nil
}

// answer returns nil if the current value of a query is a number.
func answer(prometheus, expr string) error {
	results, err := ask(prometheus, "query", url.Values{"query": {expr}})
	if err != nil {
		return err
	}
	for _, r := range results {
		if v := number(r.Value); !math.IsNaN(v) && !math.IsInf(v, 0) {
			return nil
		}
	}
	return fmt.Errorf("no number: %v", results)
}

func number(value [2]any) float64 {
	text, _ := value[1].(string)
	v, err := strconv.ParseFloat(text, 64)
	if err != nil {
		return math.NaN()
	}
	return v
}

// between returns the values of a query over the last three minutes.
func between(prometheus, expr string) ([]result, error) {
	now := time.Now()
	return ask(prometheus, "query_range", url.Values{
		"query": {expr}, "step": {"2"}, "start": {fmt.Sprint(now.Add(-3 * time.Minute).Unix())}, "end": {fmt.Sprint(now.Unix())},
	})
}
