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

// budget is the maximum number of writes that a manager may make for one service. Writes to Services, routes, statuses and
// events are included. docs/explanation/write-budget.md describes the design.
type budget struct {
	create, upgrade int
	// retire is the maximum for an upgrade that removes the oldest release.
	retire int
}

var (
	budgetWithoutPauses = budget{create: 15, upgrade: 22, retire: 25}
	budgetWithPauses    = budget{create: 16, upgrade: 23, retire: 26}
)

// budgeted lists the services for which writes are counted. No name contains another name.
var budgeted = []string{"bookshop", "carpool", "dogfood"}

// rolloutState counts the writes of a manager, by service and kind.
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

// reasons matches the reasons of the events that are expected, or that were expected earlier.
var reasons = regexp.MustCompile("Started|Promoted|Step|Removed|TrafficMoved|Succeeded|NewVersion|Programmed|Accepted|ResolvedRefs")

// reasonOf returns the reason in an encoded event.
func reasonOf(event []byte) string {
	return string(reasons.Find(event))
}

// quiet reports whether the manager has sent at least one request, but none within the last d. Before its first request, it is
// still starting.
func (l *rolloutState) quiet(d time.Duration) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.last.IsZero() && time.Since(l.last) > d
}

// clear returns the counts and resets them.
func (l *rolloutState) clear() map[string]map[string]int {
	l.mu.Lock()
	defer l.mu.Unlock()
	writes := l.writes
	l.writes = map[string]map[string]int{}
	return writes
}

// counted starts a proxy for the API server, as proxied does, and counts writes by service.
func counted(t *testing.T) (*rolloutState, string) {
	t.Helper()
	l := &rolloutState{writes: map[string]map[string]int{}}
	return l, proxied(t, l.note)
}

// counts returns the writes since the last call: the mean number per service, and a list of all
// writes.
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
		t.Errorf("%s: %d %s do not belong to any service", phase, n, what)
	}
	t.Logf("%s: %v writes", phase, totals)
	if slices.Min(totals) == 0 {
		t.Errorf("%s: at least one service has no counted writes", phase)
	}
	for _, total := range totals {
		out.mean += float64(total) / float64(len(totals))
	}
	out.list = strings.Join(lines, "\n")
	return out
}

// played contains the writes in a phase: the mean number per service, and a list of all writes.
type played struct {
	mean float64
	list string
}

// phases contains the writes of each phase. The keys are the field names of budget.
type phases map[string]played

// fewest stores the writes of a phase if they are fewer than the stored writes.
func (p phases) fewest(phase string, x played) {
	if was, ok := p[phase]; !ok || x.mean < was.mean {
		p[phase] = x
	}
}

// over describes the phases with more writes than the budget allows.
func (p phases) over(b budget) (out []string) {
	for phase, most := range map[string]int{"create": b.create, "upgrade": b.upgrade, "retire": b.retire} {
		if x, ok := p[phase]; !ok || x.mean > float64(most)+0.01 {
			out = append(out, fmt.Sprintf("%s: %.1f writes per service, more than %d:\n%s", phase, x.mean, most, x.list))
		}
	}
	return out
}

// rounds is the number of attempts to stay within the budget. On a busy machine, two controllers that see a change at
// different times cause an additional write. Therefore, only the round with the fewest writes counts. A new
// unnecessary write would occur in every round.
const rounds = 4

// TestWriteBudget counts the writes of a manager while services with a canary and a domain are created and upgraded, and
// while they are stable.
func TestWriteBudget(t *testing.T) {
	for name, test := range map[string]struct {
		pause *v1alpha1.CanaryPause
		budget
	}{
		"without pauses": {nil, budgetWithoutPauses},
		"with pauses":    {&v1alpha1.CanaryPause{Duration: "3s"}, budgetWithPauses},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // The subtests spend most of their time waiting for writes to stop.
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

// playBudget counts the writes for new services from their creation to the fourth upgrade, and checks that nothing is
// written while they are stable.
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
	waitFor(t, "the manager to stop sending requests", await.Limit, func() string { return notQuiet(writes) })
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
			phase = "retire" // This upgrade removes the oldest release.
		}
		for _, service := range budgeted {
			images.Push(t, "team/"+service, version)
		}
		settled(version, len(budgeted)*min(v+1, 3))
		least.fewest(phase, writes.counts(t, phase+" to "+version))
	}
	time.Sleep(15 * time.Second)
	if at := writes.clear(); len(at) > 0 {
		t.Errorf("writes for stable services: %v", at)
	}
}

// slow returns the number of NetworkPolicies that were not Ready within ten seconds of their creation. After this time,
// the manager writes their status once more, to show what they are waiting for. Such delays occur with the race detector
// on a busy machine.
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

// notQuiet returns a message if requests were sent in the last five seconds. Delayed writes happen within this time.
func notQuiet(l *rolloutState) string {
	if !l.quiet(5 * time.Second) {
		return "the manager is still sending requests"
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
	// After another test deletes its list of domains, the list might remain in effect for a moment.
	await.Nil(t, func(ctx context.Context) error { return env.Client.Create(ctx, routes) })
}

// unprogrammed describes a NetworkPolicy or Microservice that is not Ready.
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
