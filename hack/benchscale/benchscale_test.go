package main

import (
	"context"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestParseUsage(t *testing.T) {
	t.Parallel()
	const stat = "4711 (a (strange) name) S 1 4711 4711 0 -1 4194560 100 0 0 0 250 50 0 0 20 0 12 0 1000 2000000 300"
	got, err := parseUsage(stat, "Name:\tx\nVmHWM:\t    2048 kB\nVmRSS:\t    1024 kB\n")
	if diff := cmp.Diff(usage{CPU: 3 * time.Second, Resident: 1 << 20, Peak: 2 << 20}, got); err != nil || diff != "" {
		t.Errorf("%v, -want +got\n%s", err, diff)
	}
	for name, broken := range map[string]string{"short": "1 (x) S 1 2 3", "text": strings.ReplaceAll(stat, " 250 ", " many ")} {
		if _, err := parseUsage(broken, ""); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func line(agent, verb, uri, object string, code int) string {
	return `{"kind":"Event","stage":"ResponseComplete","requestURI":"` + uri + `","verb":"` + verb + `","userAgent":"` + agent +
		`","requestReceivedTimestamp":"1970-01-01T00:00:01.000000Z","stageTimestamp":"1970-01-01T00:00:01.250000Z","objectRef":{` + object + `},"responseStatus":{"code":` + map[int]string{200: "200", 409: "409"}[code] + `}}`
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	lines := []string{
		line("heighliner/v1 (linux/amd64)", "patch", "/apis/hlnr.io/v1alpha1/x", `"resource":"microservices","apiGroup":"hlnr.io","subresource":"status","name":"shop"`, 409),
		line("heighliner/v1", "create", "/apis/apps/v1/x?dryRun=All", `"resource":"deployments","apiGroup":"apps"`, 200),
		line("heighliner/v1", "update", "/apis/coordination.k8s.io/v1/x", `"resource":"leases","apiGroup":"coordination.k8s.io"`, 200),
		line("heighliner/v1", "get", "/api/v1/x", `"resource":"secrets"`, 200),
		line("heighliner/v1", "watch", "/api/v1/x", `"resource":"pods"`, 200),
		line("kube-controller-manager/v1.35.4 (linux/amd64) kubernetes/x/deployment-controller", "update", "/x", `"resource":"deployments","apiGroup":"apps","subresource":"status"`, 409),
		line("kube-controller-manager/v1.35.4", "create", "/x", `"resource":"events"`, 200),
		`{"kind":"Event","stage":"ResponseComplete","requestURI":"/readyz","verb":"get","userAgent":"x"}`,
	}
	half := len(lines[0]) / 2
	if err := os.WriteFile(path, []byte(lines[0][:half]), 0o600); err != nil {
		t.Fatal(err)
	}
	log := &auditLog{path: path}
	if got, err := log.read(); err != nil || len(got) != 0 {
		t.Fatalf("half a line: %v, %v", got, err)
	}
	if err := os.WriteFile(path, []byte(strings.Join(lines, "\n")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := log.read()
	if err != nil || len(got) != 7 {
		t.Fatalf("%d requests, %v, want 7", len(got), err)
	}
	if s := got[0]; s.name != "shop" || s.at.UnixMilli() != 1000 || s.ended.UnixMilli() != 1250 {
		t.Errorf("name %q, from %s to %s", s.name, s.at, s.ended)
	}
	if again, err := log.read(); err != nil || len(again) != 0 {
		t.Errorf("read again: %v, %v", again, err)
	}
	result := phaseResult{requests: got}
	result.finish("heighliner", "", usage{}, usage{CPU: time.Second}, usage{CPU: 2 * time.Second, Resident: 7})
	want := phaseResult{
		Writes: 2, Refused: 1, Reads: 1, Follow: 2, FollowBudgeted: 1, FollowRefused: 1, Leases: 1, CPUToGoal: 1, CPU: 2, Resident: 7,
		Kinds: map[string]map[string]int{
			"heighliner": {
				"patch microservices.hlnr.io/status": 1, "create deployments.apps (dry run)": 1, "update leases.coordination.k8s.io": 1, "get secrets": 1,
			},
			"kube-controller-manager": {"update deployments.apps/status": 1, "create events": 1},
		},
	}
	if diff := cmp.Diff(want, result, cmpopts.IgnoreUnexported(phaseResult{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestQueueSince(t *testing.T) {
	t.Parallel()
	before := queue{Passes: 10, Waited: 1, Worked: 2, buckets: map[float64]float64{0.1: 10, 1: 10, 10: 10}}
	after := queue{Passes: 110, Waited: 3, Worked: 5, buckets: map[float64]float64{0.1: 60, 1: 109, 10: 110}}
	want := queue{Passes: 100, Waited: 2, Worked: 3, WaitedP99: 1}
	if diff := cmp.Diff(want, after.since(before), cmpopts.IgnoreUnexported(queue{})); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := before.since(before).WaitedP99; got != 0 {
		t.Errorf("nothing waited, but the upper bound of the 99th percentile is %g s, want 0", got)
	}
}

// TestFlags tests that each invalid flag is reported before anything is started.
func TestFlags(t *testing.T) {
	t.Parallel()
	for arguments, want := range map[string]string{
		"-n 0":                                  "-n",
		"-upgrades 0":                           "-upgrades",
		"-namespaces 0":                         "-namespaces",
		"-n 5 -namespaces 6":                    "-namespaces",
		"-source git":                           "-source",
		"-decide":                               "-batch",
		"-assets x -kwok y -memory-limit much":  "-memory-limit",
		"-assets x -kwok y -memory-limit 0":     "-memory-limit",
		"-assets= ":                             "-assets",
		"-assets x":                             "-kwok",
		"-assets x -kwok y -only-peer":          "-peer",
		"-assets x -kwok y -peer argo-rollouts": "-peer-bin",
		"-assets x -kwok y -peer argo-rollouts -peer-bin z":                              "-peer-crds",
		"-assets x -kwok y -peer flagger -peer-bin z -peer-crds c -peer-routing none":    "-peer-routing",
		"-assets x -kwok y -peer argo-rollouts -peer-bin z -peer-crds c -peer-routing q": "-peer-routing",
		"-assets x -kwok y": "config/crd", // tests do not run in the root of the checkout
	} {
		var o options
		f := flag.NewFlagSet("benchscale", flag.ContinueOnError)
		o.register(f)
		o.assets = ""
		if err := f.Parse(strings.Fields(arguments)); err != nil {
			t.Fatal(err)
		}
		if err := o.validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want an error with %s", arguments, err, want)
		}
	}
}

func TestSoftLimit(t *testing.T) {
	t.Parallel()
	for limit, want := range map[string]int64{"": 0, "1000": 750, "700Mi": 604 << 20, "1Gi": 1<<30 - 1<<30/10} {
		o := options{memoryLimit: limit}
		if got, err := o.softLimit(); got != want || err != nil {
			t.Errorf("%q: %d, %v, want %d", limit, got, err, want)
		}
	}
}

// TestWhen checks that a caller gets the time of the first change that meets its condition, and that other changes and other objects do not count.
func TestWhen(t *testing.T) {
	t.Parallel()
	follower := &tracker{objects: map[string]client.Object{}, reached: map[string]bool{}, waiting: map[string][]condition{}}
	pod := func(name string, generation int64) client.Object {
		return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Generation: generation}}
	}
	follower.changed(pod("a", 2))
	if got := follower.generation("a"); got != 2 || follower.generation("b") != 0 {
		t.Errorf("generation %d, want 2; generation %d of an unknown object, want 0", got, follower.generation("b"))
	}
	at := follower.when("a", func(o client.Object) bool { return o.GetGeneration() > 2 })
	follower.changed(pod("a", 2))
	follower.changed(pod("b", 3))
	select {
	case <-at:
		t.Fatal("a change that does not meet the condition counts")
	default:
	}
	follower.changed(pod("a", 3))
	follower.changed(pod("a", 4))
	select {
	case <-at:
	default:
		t.Fatal("a change that meets the condition does not count")
	}
	if left := follower.waiting["a"]; len(left) > 0 {
		t.Errorf("%d conditions left, want none", len(left))
	}
}

func TestPercentile(t *testing.T) {
	t.Parallel()
	hundred := make([]float64, 100)
	for i := range hundred {
		hundred[i] = float64(i + 1)
	}
	for _, tc := range []struct {
		sorted  []float64
		percent int
		want    float64
	}{{nil, 50, 0}, {[]float64{7}, 99, 7}, {hundred, 50, 51}, {hundred, 99, 100}, {hundred[:50], 99, 50}} {
		if got := percentile(tc.sorted, tc.percent); got != tc.want {
			t.Errorf("percentile %d of %d numbers is %g, want %g", tc.percent, len(tc.sorted), got, tc.want)
		}
	}
}

func TestUpTo(t *testing.T) {
	t.Parallel()
	change := func(context.Context, int) error { return nil }
	all := []phase{{name: "create", change: change}, {name: "prepare", hidden: true, change: change}, {name: "upgrade", change: change}, {name: "abort", change: change}, {name: "rest"}}
	for until, want := range map[string][]string{
		"":        {"create", "prepare", "upgrade", "abort", "rest"},
		"create":  {"create", "rest"},
		"upgrade": {"create", "prepare", "upgrade", "rest"},
		"prepare": nil,
		"rest":    {"create", "prepare", "upgrade", "abort", "rest"},
	} {
		phases, err := upTo(all, until)
		var got []string
		for _, p := range phases {
			got = append(got, p.name)
		}
		if diff := cmp.Diff(want, got); diff != "" || (err != nil) != (want == nil) {
			t.Errorf("until %q: %v, -want +got\n%s", until, err, diff)
		}
	}
}

// TestActedSeconds checks that the result of a phase contains the times until the status of a decision was stored. Only successful status writes for the
// service count, and of these, the last one that began before a watch delivered the status.
func TestActedSeconds(t *testing.T) {
	at := func(ms int) time.Time { return time.Unix(1000, 0).Add(time.Duration(ms) * time.Millisecond) }
	const agent, status = "heighliner", "microservices.hlnr.io/status"
	write := func(service string, began int) request {
		return request{at: at(began), ended: at(began + 10), agent: agent, name: service, verb: "patch", resource: status}
	}
	failed, other, object := write("svc-00001", 320), write("svc-00001", 330), write("svc-00001", 340)
	failed.failed, other.agent, object.resource = true, "kube-controller-manager", "microservices.hlnr.io"
	result := phaseResult{
		requests: []request{
			write("svc-00001", 40), write("svc-00001", 90), failed, other, object, write("svc-00001", 400), write("svc-00001", 300), // The log is sorted by the end of requests.
			write("svc-00002", 150), write("svc-00003", 10),
		},
		decisions: []madeDecision{{"svc-00001", at(50), at(350)}, {"svc-00002", at(60), at(180)}, {"svc-00003", at(60), at(100)}},
	}
	result.finish(agent, status, usage{}, usage{}, usage{})
	if want := []float64{0.1, 0.26}; !slices.Equal(result.ActedSeconds, want) {
		t.Errorf("got %v, want %v", result.ActedSeconds, want)
	}
}
