package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/test/await"
)

// What a manager may write for one service, everything included: Services, routes, statuses and
// events. The design is in docs/explanation/write-budget.md.
type budget struct {
	create, upgrade int
	// retire is of an upgrade with which the oldest release goes. One of them is at times a size that
	// the server refuses, because the status of the release changed in between.
	retire int
}

var (
	budgetWithoutPauses = budget{create: 15, upgrade: 22, retire: 26}
	budgetWithPauses    = budget{create: 16, upgrade: 23, retire: 27}
)

// budgeted are the services whose writes are counted: no name is part of another.
var budgeted = []string{"bookshop", "carpool", "dogfood"}

// rollout state counts the writes that a manager makes, by service and by kind.
type rolloutState struct {
	mu     sync.Mutex
	last   time.Time
	writes map[string]map[string]int
}

// note counts a request to the API server.
func (l *rolloutState) note(r *http.Request) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last = time.Now()
	if !isWrite(r) {
		return
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	of := "none of them"
	for _, service := range budgeted {
		if strings.Contains(parts[len(parts)-1], service) || len(parts) > 1 && strings.Contains(parts[len(parts)-2], service) ||
			of == "none of them" && bytes.Contains(body, []byte(service)) {
			of = service
		}
	}
	if l.writes[of] == nil {
		l.writes[of] = map[string]int{}
	}
	what := r.Method
	for i, part := range parts {
		switch { // …/namespaces/NAMESPACE/RESOURCE[/NAME[/SUBRESOURCE]]
		case i > 1 && parts[i-2] == "namespaces":
			what += " " + part
		case i > 3 && parts[i-4] == "namespaces":
			what += "/" + part
		}
	}
	if r.URL.Query().Has("dryRun") {
		what += " dry run"
	}
	if by := r.URL.Query().Get("fieldManager"); by != "" {
		what += " by " + by
	}
	if strings.Contains(what, " events") {
		what += " " + reasonOf(body)
	}
	l.writes[of][what]++
}

// reasons of events that are expected, or were before.
var reasons = regexp.MustCompile("Started|Promoted|Step|Removed|TrafficMoved|Succeeded|NewVersion|Programmed|Accepted|ResolvedRefs")

// reasonOf finds the reason in an event, in whatever encoding it is sent.
func reasonOf(event []byte) string {
	return string(reasons.Find(event))
}

// quiet reports whether nothing was asked for a while.
func (l *rolloutState) quiet(d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Since(l.last) > d
}

// clear forgets what was counted, and returns it.
func (l *rolloutState) clear() map[string]map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	writes := l.writes
	l.writes = map[string]map[string]int{}
	return writes
}

// counted serves the API server like proxied, and counts writes by service.
func counted(t *testing.T) (*rolloutState, string) {
	t.Helper()
	l := &rolloutState{writes: map[string]map[string]int{}}
	return l, proxied(t, l.note)
}

// counts returns the writes since the last call: the mean of all services, and all of them in
// words.
func (l *rolloutState) counts(t *testing.T, phase string) played {
	t.Helper()
	var out played
	var totals []int
	var lines []string
	writes := l.clear()
	for _, service := range budgeted {
		total := 0
		for _, what := range slices.Sorted(maps.Keys(writes[service])) {
			total += writes[service][what]
			lines = append(lines, fmt.Sprintf("%s: %d %s", service, writes[service][what], what))
		}
		totals = append(totals, total)
	}
	for what, n := range writes["none of them"] {
		t.Errorf("%s: %d %s for none of the services", phase, n, what)
	}
	t.Logf("%s: %v writes", phase, totals)
	if slices.Min(totals) == 0 {
		t.Errorf("%s: nothing was written for some service: the test counts nothing", phase)
	}
	for _, total := range totals {
		out.mean += float64(total) / float64(len(totals))
	}
	out.list = strings.Join(lines, "\n")
	return out
}

// played are the writes of a service in a phase, as the mean of all services, and those of all in words.
type played struct {
	mean float64
	list string
}

// phases are what is counted, by the names of the fields of budget.
type phases map[string]played

// fewest keeps the fewest writes of a phase.
func (p phases) fewest(phase string, x played) {
	if was, ok := p[phase]; !ok || x.mean < was.mean {
		p[phase] = x
	}
}

// over returns the phases with more writes than a budget has for them.
func (p phases) over(b budget) (out []string) {
	for phase, most := range map[string]int{"create": b.create, "upgrade": b.upgrade, "retire": b.retire} {
		if x, ok := p[phase]; !ok || x.mean > float64(most)+0.01 {
			out = append(out, fmt.Sprintf("%s: %.1f writes for a service, more than %d:\n%s", phase, x.mean, most, x.list))
		}
	}
	return out
}

// rounds in which the budget is to be met once. Two controllers that see a fact at different times write once more, which
// happens on a busy machine: the fewest writes count. A write that is added is added in every round.
const rounds = 4

// TestWriteBudget counts what a manager writes for the creation of a service with a canary and a
// domain, for its upgrades, and when it is stable.
func TestWriteBudget(t *testing.T) {
	for name, test := range map[string]struct {
		pause *v1alpha1.CanaryPause
		budget
	}{
		"without pauses": {nil, budgetWithoutPauses},
		"with pauses":    {&v1alpha1.CanaryPause{Duration: "3s"}, budgetWithPauses},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // Most of the time they wait until nothing more is written.
			least := phases{}
			for round := 1; round <= rounds && len(least.over(test.budget)) > 0 && !t.Failed(); round++ {
				t.Run(fmt.Sprint("round ", round), func(t *testing.T) { playBudget(t, test.pause, least) })
			}
			for _, text := range least.over(test.budget) {
				t.Error(text)
			}
		})
	}
}

// playBudget counts the writes of new services from their creation to the fourth upgrade, and asks that
// nothing is written when they are stable.
func playBudget(t *testing.T, pause *v1alpha1.CanaryPause, least phases) {
	namespace := env.Namespace(t)
	env.PlayKubelet(t, namespace, nil)
	env.PlayGateway(t, namespace, nil)
	images := registrytest.New(t)
	writes, kubeconfig := counted(t)
	gateway := &gatewayv1.Gateway{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "public"}}
	gateway.Spec.GatewayClassName = "test"
	gateway.Spec.Listeners = []gatewayv1.Listener{{Name: "http", Port: 80, Protocol: gatewayv1.HTTPProtocolType}}
	create(t, gateway)
	startManager(t, "v1.0.0", kubeconfig, namespace)
	waitFor(t, "a manager without requests", await.Limit, func() string { return notQuiet(writes) })
	writes.clear()

	for _, service := range budgeted {
		images.Push(t, "team/"+service, "1.0.0")
		createBudgeted(t, namespace, service, images.Repository("team/"+service), pause)
	}
	settled := func(version string, releases int) {
		t.Helper()
		waitFor(t, version, 10*time.Minute, func() string {
			if text := missing(t, namespace, version, releases); text != "" {
				return text
			}
			if text := unprogrammed(t, namespace); text != "" {
				return text
			}
			return notQuiet(writes)
		})
	}
	settled("1.0.0", len(budgeted))
	created := writes.counts(t, "create")
	created.mean -= float64(slow(t, namespace)) / float64(len(budgeted))
	least.fewest("create", created)
	for v := 1; v <= 4; v++ {
		version, phase := fmt.Sprintf("1.%d.0", v), "upgrade"
		if v > 2 {
			phase = "retire" // The oldest release goes.
		}
		for _, service := range budgeted {
			images.Push(t, "team/"+service, version)
		}
		settled(version, len(budgeted)*min(v+1, 3))
		least.fewest(phase, writes.counts(t, phase+" to "+version))
	}
	time.Sleep(15 * time.Second)
	if at := writes.clear(); len(at) > 0 {
		t.Errorf("writes of stable services: %v", at)
	}
}

// slow returns how many NetworkPolicies were not Ready within the ten seconds in which a new object needs no status: each of
// them writes once more, so that users see what it waits for. It happens with the race detector, on a busy machine.
func slow(t *testing.T, namespace string) (n int) {
	t.Helper()
	var policies v1alpha1.NetworkPolicyList
	if err := env.Client.List(t.Context(), &policies, client.InNamespace(namespace)); err != nil {
		t.Fatal(err)
	}
	for _, p := range policies.Items {
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		if took := ready.LastTransitionTime.Sub(p.CreationTimestamp.Time); took >= 10*time.Second {
			t.Logf("NetworkPolicy %s was Ready %s after its creation", p.Name, took)
			n++
		}
	}
	return n
}

// notQuiet reports that something was asked of the API server in the last seconds, in which
// what may wait is written.
func notQuiet(l *rolloutState) string {
	if !l.quiet(5 * time.Second) {
		return "it still sends requests"
	}
	return ""
}

// createBudgeted creates a service with two steps, two replicas and a domain.
func createBudgeted(t *testing.T, namespace, name, repository string, pause *v1alpha1.CanaryPause) {
	t.Helper()
	about := metav1.ObjectMeta{Namespace: namespace, Name: name}
	policy := &v1alpha1.ImagePolicy{ObjectMeta: about}
	policy.Spec.Image, policy.Spec.Interval, policy.Spec.Platforms = repository, "5s", []string{"linux/amd64"}
	ms := &v1alpha1.Microservice{ObjectMeta: about}
	ms.Spec.ImagePolicyRef.Name = name
	ms.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: name, Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
	}}
	ms.Spec.Availability.Replicas = 2
	ms.Spec.UpdateStrategy = v1alpha1.UpdateStrategy{DrainDelay: "1s", Canary: &v1alpha1.CanaryStrategy{
		Steps: []v1alpha1.CanaryStep{{Weight: 20, Pause: pause}, {Weight: 50, Pause: pause}},
	}}
	routes := &v1alpha1.NetworkPolicy{ObjectMeta: about}
	routes.Spec.Ports = []v1alpha1.NetworkPort{{Name: "http", Port: 80}}
	routes.Spec.Provider = &v1alpha1.NetworkProvider{Gateway: &v1alpha1.GatewayProvider{ParentRefs: []v1alpha1.ParentReference{{Name: "public"}}}}
	routes.Spec.Domains = []v1alpha1.Domain{{Domain: name + ".example.com", Port: "http"}}
	for _, obj := range []client.Object{policy, ms} {
		create(t, obj)
	}
	// A list of domains that another test deleted may be in force for a moment.
	await.Nil(t, func(ctx context.Context) error { return env.Client.Create(ctx, routes) })
}

// unprogrammed reports which policy or Microservice is not Ready.
func unprogrammed(t *testing.T, namespace string) string {
	t.Helper()
	var policies v1alpha1.NetworkPolicyList
	var services v1alpha1.MicroserviceList
	for _, l := range []client.ObjectList{&services, &policies} {
		if err := env.Client.List(t.Context(), l, client.InNamespace(namespace)); err != nil {
			return err.Error()
		}
	}
	for _, p := range policies.Items {
		if !meta.IsStatusConditionTrue(p.Status.Conditions, v1alpha1.ConditionReady) {
			return fmt.Sprintf("NetworkPolicy %s: %v", p.Name, p.Status.Conditions)
		}
	}
	for _, ms := range services.Items {
		if !meta.IsStatusConditionTrue(ms.Status.Conditions, v1alpha1.ConditionReady) || meta.IsStatusConditionTrue(ms.Status.Conditions, v1alpha1.ConditionProgressing) {
			return fmt.Sprintf("Microservice %s: %v", ms.Name, ms.Status.Conditions)
		}
	}
	return ""
}
