//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/test/harness"
)

// heighlinerAgent is the prefix of the manager's user agent.
const heighlinerAgent = "heighliner/"

// TestSteadyState creates 167 Microservices with three releases each on a simulated node. Their registry is
// polled once a minute. The test then counts the manager's writes in the API server's audit log for five
// minutes: only writes to its Lease are allowed. Finally, the test restarts the manager with a different
// build. This restart must change nothing. With -short, the test uses 10 Microservices and 90 seconds.
func TestSteadyState(t *testing.T) {
	services, window := 167, 5*time.Minute
	if testing.Short() {
		services, window = 10, 90*time.Second
	}
	node := simulateNode(t, "simulated")
	base := newService(t, "steady")
	fleet := newFleet(base, services, node)
	began := time.Now()
	for _, version := range []string{"1.0.0", "1.1.0", "1.2.0"} {
		fleet.release(version)
		t.Logf("%s is active %d times, %s after the start", version, services, time.Since(began).Round(time.Second))
	}
	fleet.waitStable()
	quiet(t, 30*time.Second)

	t.Logf("%d Microservices with three releases each are stable after %s; counting writes for %s", services, time.Since(began).Round(time.Second), window)
	from := time.Now()
	time.Sleep(window) // This is the duration of the measurement.
	writes := managerWrites(t, from)
	for _, w := range writes {
		t.Errorf("written while the services were stable: %s", w)
	}
	leases, err := harness.AuditWrites(env.AuditLog, harness.AuditFilter{Since: from, UserAgentPrefix: heighlinerAgent})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d kinds of writes in %s, apart from writes to the Lease; all writes: %v", len(writes), window, leases)
	if len(leases) == 0 {
		t.Error("the audit log contains no write to the Lease, so it does not belong to this manager")
	}
	fleet.upgrade()
}

// managerWrites returns the manager's writes since the given time, except writes to its Lease.
func managerWrites(t *testing.T, since time.Time) []harness.Writes {
	t.Helper()
	writes, err := harness.AuditWrites(env.AuditLog, harness.AuditFilter{Since: since, UserAgentPrefix: heighlinerAgent, IgnoreResources: []string{harness.Leases}})
	if err != nil {
		t.Fatal(err)
	}
	return writes
}

// quiet waits until the manager has not written for the given time.
func quiet(t *testing.T, d time.Duration) {
	t.Helper()
	wait(t, fmt.Sprintf("%s without a write", d), func(context.Context) (bool, string, error) {
		writes, err := harness.AuditWrites(env.AuditLog, harness.AuditFilter{Since: time.Now().Add(-d), UserAgentPrefix: heighlinerAgent, IgnoreResources: []string{harness.Leases}})
		return len(writes) == 0, fmt.Sprint(writes), err
	})
}

// fleet is a set of identical services in one namespace.
type fleet struct {
	base     *service
	names    []string
	released string
}

func newFleet(base *service, size int, node string) *fleet {
	f := &fleet{base: base}
	base.images.Spec.Interval = "1m"
	base.ms.Spec.Availability.Replicas = 1
	base.ms.Spec.UpdateStrategy.ProgressDeadlineSeconds = 600
	base.ms.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	base.ms.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: simulatedTaint, Operator: corev1.TolerationOpExists}}
	for i := range size {
		f.names = append(f.names, fmt.Sprintf("svc-%03d", i))
	}
	return f
}

// release pushes a version of every service, and waits until it is active in all services.
func (f *fleet) release(version string) {
	t := f.base.t
	t.Helper()
	for _, name := range f.names {
		one := *f.base
		one.repository = f.base.repository + "-" + name
		one.push(version)
	}
	if f.released == "" {
		f.create()
	}
	f.released = version
	f.scan(version)
	within(t, 10*time.Minute, version+" to be active everywhere", func(ctx context.Context) (bool, string, error) {
		return f.all(ctx, func(ms *v1alpha1.Microservice) bool {
			r := row(ms, version)
			return r != nil && r.Status == v1alpha1.ReleaseActive && r.Available
		})
	})
}

func (f *fleet) create() {
	for _, name := range f.names {
		images, ms, network := f.base.images.DeepCopy(), f.base.ms.DeepCopy(), f.base.network.DeepCopy()
		images.Name, ms.Name, network.Name = name, name, name
		images.Spec.Image += "-" + name
		ms.Spec.ImagePolicyRef.Name = name
		network.Spec.Domains[0].Domain = name + ".steady.localhost"
		f.base.create(images, ms, network)
	}
}

// scan requests a scan of every ImagePolicy.
func (f *fleet) scan(request string) {
	t := f.base.t
	t.Helper()
	for _, name := range f.names {
		p := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: f.base.namespace, Name: name}}
		patch := client.RawPatch(client.Merge.Type(), fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AnnotationRequestedAt, request))
		if err := env.Client.Patch(t.Context(), p, patch); err != nil {
			t.Fatal(err)
		}
	}
}

// waitStable waits until every service has three releases, no rollout is in progress, and everything is programmed.
func (f *fleet) waitStable() {
	t := f.base.t
	t.Helper()
	within(t, 10*time.Minute, "everything to be stable", func(ctx context.Context) (bool, string, error) {
		return f.all(ctx, func(ms *v1alpha1.Microservice) bool {
			g := group(ms)
			return g != nil && len(g.Releases) == 3 && g.Rollout == nil && is(ms.Status.Conditions, v1alpha1.ConditionReady, metav1.ConditionTrue, "") &&
				is(ms.Status.Conditions, v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Idle")
		})
	})
}

func (f *fleet) all(ctx context.Context, ok func(*v1alpha1.Microservice) bool) (bool, string, error) {
	var list v1alpha1.MicroserviceList
	if err := env.Client.List(ctx, &list, client.InNamespace(f.base.namespace)); err != nil {
		return false, "", err
	}
	n := 0
	for i := range list.Items {
		if ok(&list.Items[i]) {
			n++
		}
	}
	return n == len(f.names), fmt.Sprintf("%d of %d", n, len(f.names)), nil
}

// is reports whether a condition has the given status and, if reason is not empty, the given reason.
func is(conditions []metav1.Condition, kind string, status metav1.ConditionStatus, reason string) bool {
	for _, c := range conditions {
		if c.Type == kind {
			return c.Status == status && (reason == "" || c.Reason == reason)
		}
	}
	return false
}
