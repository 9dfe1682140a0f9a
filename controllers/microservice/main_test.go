package microservice

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	gocmp "github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/test/apiserver"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m, apiserver.Options{}, &env))
}

// errCrash is the error from a write at which the manager stops.
var errCrash = errors.New("the manager crashed")

// story is a test namespace with the Microservice shop and simulated dependencies: pods are available
// immediately unless a version is broken, and a NetworkPolicy, if there is one, confirms the rollout state.
// The test sets the clock and calls the reconciler, which reads from the API server.
type story struct {
	testing.TB
	clock      *testingclock.FakeClock
	namespace  string
	client     client.WithWatch
	reconciler *Reconciler
	// broken contains the versions that never become available.
	broken map[string]bool
	// before is called before each write by the reconciler. If it returns an error, the write fails with this error.
	before func(what string) error
	// after is called after each write. If it returns an error, the error replaces the API server's response.
	after func(what string) error
	// passed is called after each reconcile.
	passed func()
	// logger is the logger of the reconciles.
	logger logr.Logger
	// newest reports whether the NetworkPolicy has a domain that routes to the newest group.
	newest bool

	writes []string
	events []string
	// keys counts events by the key with which a recorder combines them into series.
	keys map[string]int
}

// begin creates the namespace and the Microservice, with two replicas and steps of 10
// and 50 percent.
func begin(t testing.TB, edit ...func(*v1alpha1.Microservice)) *story {
	t.Helper()
	s := &story{
		TB: t, namespace: env.Namespace(t), broken: map[string]bool{},
		clock: testingclock.NewFakeClock(time.Now().Truncate(time.Second)),
	}
	x := []apiserver.Index{{Field: fieldMicroservice, Values: func(o client.Object) []string { // The API server provides this index.
		if c, ok := o.(*v1alpha1.VersionedMicroservice); ok {
			return []string{c.Spec.MicroserviceName}
		}
		return nil
	}}}
	for _, i := range indexes {
		x = append(x, apiserver.Index{Field: i.Field, Values: i.Values})
	}
	write := func(what string, do func() error) error {
		if s.before != nil {
			if err := s.before(what); err != nil {
				return err
			}
		}
		s.writes = append(s.writes, what)
		err := do()
		if err == nil && s.after != nil {
			err = s.after(what)
		}
		return err
	}
	s.client = interceptor.NewClient(apiserver.Indexed(env.Client, x...), interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			return write("create "+obj.GetName(), func() error { return c.Create(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			return write("patch "+obj.GetName(), func() error { return c.Patch(ctx, obj, patch, opts...) })
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return write("delete "+obj.GetName(), func() error { return c.Delete(ctx, obj, opts...) })
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			return write("status", func() error { return c.SubResource(sub).Patch(ctx, obj, patch, opts...) })
		},
	})
	s.restart()

	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
	ms.Spec.ImagePolicyRef.Name = "shop"
	ms.Spec.Template.Spec.Containers = []corev1.Container{{
		Name: "shop", Ports: []corev1.ContainerPort{{ContainerPort: 8080}},
		ReadinessProbe: &corev1.Probe{ProbeHandler: corev1.ProbeHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}},
	}}
	ms.Spec.Availability.Replicas = 2
	ms.Spec.UpdateStrategy.MinimumAvailable = 2
	ms.Spec.UpdateStrategy.Canary = &v1alpha1.CanaryStrategy{Steps: []v1alpha1.CanaryStep{
		{Weight: 10, Pause: &v1alpha1.CanaryPause{Duration: "1m"}}, {Weight: 50},
	}}
	for _, e := range edit {
		e(ms)
	}
	s.create(ms)
	return s
}

// restart recreates the reconciler, as a restart of the manager does.
func (s *story) restart() { s.reconciler = s.make(s.client, s.client) }

func (s *story) make(c client.Client, live client.Reader) *Reconciler {
	s.Helper()
	m, err := newMetrics(prometheus.NewRegistry(), c)
	if err != nil {
		s.Fatal(err)
	}
	return &Reconciler{
		Client: c, live: live, metrics: m, clock: s.clock,
		events: status.Recorder{Events: s}, minDrain: 5 * time.Second,
	}
}

// Eventf collects events in the form "Reason: note".
func (s *story) Eventf(about, related runtime.Object, kind, reason, action, note string, args ...any) {
	key := fmt.Sprint(kind, reason, action, about.(client.Object).GetResourceVersion())
	if related != nil {
		key += related.(client.Object).GetName()
	}
	if s.keys == nil {
		s.keys = map[string]int{}
	}
	if s.keys[key]++; s.keys[key] > 1 {
		s.Errorf("event %s: %s is combined with an earlier event", reason, note)
	}
	s.events = append(s.events, fmt.Sprintf("%s: %s", reason, fmt.Sprintf(note, args...)))
}

func (s *story) create(obj client.Object) {
	s.Helper()
	if err := env.Client.Create(s.Context(), obj); err != nil {
		s.Fatalf("create %T: %v", obj, err)
	}
}

func (s *story) get(name string, obj client.Object) {
	s.Helper()
	if err := env.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, obj); err != nil {
		s.Fatal(err)
	}
}

func (s *story) ms() *v1alpha1.Microservice {
	s.Helper()
	ms := &v1alpha1.Microservice{}
	s.get("shop", ms)
	return ms
}

// edit changes the Microservice's specification.
func (s *story) edit(change func(*v1alpha1.MicroserviceSpec)) {
	s.Helper()
	ms := s.ms()
	change(&ms.Spec)
	if err := env.Client.Update(s.Context(), ms); err != nil {
		s.Fatal(err)
	}
}

// offer makes the ImagePolicy shop offer versions of a single group.
func (s *story) offer(versions ...string) {
	s.Helper()
	p := &v1alpha1.ImagePolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
	p.Spec.Image = "r.example/shop"
	if err := env.Client.Create(s.Context(), p); err != nil {
		s.get("shop", p)
	}
	p.Status = v1alpha1.ImagePolicyStatus{ObservedGeneration: p.Generation}
	for _, v := range versions {
		p.Status.Releases = append(p.Status.Releases, v1alpha1.OfferedRelease{
			SemVer: v1alpha1.SemVer{Name: "release", Version: v}, Group: "release", Level: "Release",
			Images: []v1alpha1.ReleaseImage{{Image: "r.example/shop:" + v + "@sha256:" + v, Digest: "sha256:" + v}},
		})
	}
	if err := env.Client.Status().Update(s.Context(), p); err != nil {
		s.Fatal(err)
	}
}

// route creates the NetworkPolicy shop.
func (s *story) route() {
	s.Helper()
	p := &v1alpha1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: "shop"}}
	p.Spec.Ports = []v1alpha1.NetworkPort{{Name: "http", Port: 80}}
	s.create(p)
}

// pass reconciles once, and checks that at most one write changes the rollout state.
func (s *story) pass() (ctrl.Result, error) {
	s.Helper()
	first := len(s.writes)
	key := client.ObjectKey{Namespace: s.namespace, Name: "shop"}
	result, err := s.reconciler.Reconcile(log.IntoContext(s.Context(), s.logger), ctrl.Request{NamespacedName: key})
	rolloutStates := 0
	for _, w := range s.writes[first:] {
		if w == "status" {
			rolloutStates++
		}
	}
	if rolloutStates > 1 {
		s.Errorf("one reconcile wrote the rollout state %d times", rolloutStates)
	}
	if s.passed != nil {
		s.passed()
	}
	return result, err
}

// play reconciles, simulates the other controllers, and advances the clock until nothing changes or done
// returns true. A reconcile that crashes is followed by a restart.
func (s *story) play(done ...func() bool) {
	s.Helper()
	for range 500 {
		if len(done) > 0 && done[0]() {
			return
		}
		writes := len(s.writes)
		result, err := s.pass()
		if errors.Is(err, errCrash) {
			s.restart()
			continue
		}
		if err != nil {
			s.Fatalf("reconcile: %v", err)
		}
		acted := len(s.writes) > writes
		acted = s.kubelet() || acted
		acted = s.gateway() || acted
		switch {
		case acted:
		case result.RequeueAfter > 0:
			s.clock.Step(result.RequeueAfter)
		default:
			return
		}
	}
	s.Fatalf("the rollout does not end: %s", s.rolloutState())
}

// until returns a function that reports whether the rollout state contains a line.
func (s *story) until(line string) func() bool {
	return func() bool { return strings.Contains(s.rolloutState(), line) }
}

// objects returns the objects of the releases, by name.
func (s *story) objects() map[string]*v1alpha1.VersionedMicroservice {
	s.Helper()
	var list v1alpha1.VersionedMicroserviceList
	if err := env.Client.List(s.Context(), &list, client.InNamespace(s.namespace)); err != nil {
		s.Fatal(err)
	}
	objects := map[string]*v1alpha1.VersionedMicroservice{}
	for i := range list.Items {
		objects[list.Items[i].Name] = &list.Items[i]
	}
	return objects
}

// kubelet simulates the pods of the releases. It reports whether it changed anything.
func (s *story) kubelet() (acted bool) {
	s.Helper()
	for _, c := range s.objects() {
		before := c.DeepCopy()
		c.Status.ObservedGeneration, c.Status.Available, c.Status.Failure = c.Generation, c.Spec.Replicas, ""
		value := metav1.ConditionTrue
		if s.broken[c.Spec.SemVer.Version] {
			c.Status.Available, c.Status.Failure, value = 0, v1alpha1.FailureCrashLoopBackOff, metav1.ConditionFalse
		}
		status.Set(&c.Status.Conditions, c.Generation, v1alpha1.ConditionAvailable, value, "Played", "")
		acted = s.report(c, before) || acted
	}
	return acted
}

// gateway confirms the routes that the rollout state requires.
func (s *story) gateway() bool {
	s.Helper()
	p := &v1alpha1.NetworkPolicy{}
	if err := env.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: "shop"}, p); err != nil {
		return false
	}
	before := p.DeepCopy()
	p.Status.Provider, p.Status.Groups = "gateway", nil
	found := !s.newest
	for _, g := range s.ms().Status.ReleaseGroups {
		report := v1alpha1.GroupTraffic{Slug: g.Slug, Revision: g.TrafficRevision, Split: v1alpha1.SplitWeighted}
		if !found && g.ActiveRelease() != nil {
			report.Newest, found = true, true
		}
		for _, r := range g.Releases {
			if r.Weight > 0 || r.Status == v1alpha1.ReleaseActive || r.Status == v1alpha1.ReleaseCanary {
				report.References = append(report.References, r.VersionedMicroservice)
			}
			if r.Status == v1alpha1.ReleaseActive {
				report.Active = r.VersionedMicroservice
			}
		}
		now := metav1.NewMicroTime(s.clock.Now())
		report.ConfirmedTime = &now
		for _, b := range before.Status.Groups {
			if b.Slug == report.Slug && b.Revision == report.Revision && slices.Equal(b.References, report.References) {
				report.ConfirmedTime = b.ConfirmedTime
			}
		}
		p.Status.Groups = append(p.Status.Groups, report)
	}
	return s.report(p, before)
}

func (s *story) report(obj, before client.Object) bool {
	s.Helper()
	if equality.Semantic.DeepEqual(obj, before) {
		return false
	}
	if err := env.Client.Status().Patch(s.Context(), obj, client.MergeFrom(before)); client.IgnoreNotFound(err) != nil {
		s.Fatal(err)
	}
	return true
}

// rolloutState renders groups, rows, and objects, without times and revisions.
func (s *story) rolloutState() string {
	s.Helper()
	objects := s.objects()
	var lines []string
	for _, g := range s.ms().Status.ReleaseGroups {
		lines = append(lines, fmt.Sprintf("%s %s target %s", g.Slug, g.Phase, g.Target.Reason))
		for _, r := range g.Releases {
			line := fmt.Sprintf("  %s %s %d%% %s", r.SemVer.Version, r.Status, r.Weight, r.Reason)
			if c := objects[r.VersionedMicroservice]; c != nil {
				line += fmt.Sprintf(", %d replicas", c.Spec.Replicas)
				delete(objects, c.Name)
			}
			lines = append(lines, line)
		}
	}
	var orphans []string
	for _, c := range objects {
		orphans = append(orphans, "without a row: "+c.Spec.SemVer.Version)
	}
	slices.Sort(orphans)
	return strings.Join(append(lines, orphans...), "\n")
}

// release returns a version's newest object.
func (s *story) release(version string) *v1alpha1.VersionedMicroservice {
	s.Helper()
	var found []*v1alpha1.VersionedMicroservice
	for _, c := range s.objects() {
		if c.Spec.SemVer.Version == version {
			found = append(found, c)
		}
	}
	if len(found) == 0 {
		s.Fatalf("there is no release of %s: %s", version, s.rolloutState())
	}
	return slices.MaxFunc(found, func(a, b *v1alpha1.VersionedMicroservice) int {
		return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
	})
}

// condition returns the condition in the form "True Reason: message", or "" if it is not set.
func condition(ms *v1alpha1.Microservice, kind string) string {
	c := meta.FindStatusCondition(ms.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

func same(t testing.TB, what string, got, want any) {
	t.Helper()
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func lines(text ...string) string { return strings.Join(text, "\n") }
