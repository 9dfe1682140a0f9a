package imagepolicy

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/cosign"
	"github.com/heighliner/heighliner/internal/registry"
	"github.com/heighliner/heighliner/internal/registry/registrytest"
	"github.com/heighliner/heighliner/internal/status"
	"github.com/heighliner/heighliner/test/apiserver"
	"github.com/heighliner/heighliner/test/await"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	log.SetLogger(logr.Discard())
	os.Exit(apiserver.Run(m, apiserver.Options{}, &env))
}

// path is the path of the images that tests push.
const path = "team/shop"

// story is a test namespace with a registry, a clock that the test sets, and a reconciler that the
// test calls. The reconciler reads from the API server, so that no cache lags.
type story struct {
	*testing.T
	server     *registrytest.Server
	clock      *testingclock.FakeClock
	namespace  string
	reconciler *Reconciler
	client     client.WithWatch
	writes     int
	secrets    int // number of reads of Secrets
	events     []string
}

func begin(t *testing.T) *story {
	t.Helper()
	t.Parallel()
	s := &story{
		T: t, server: registrytest.New(t), namespace: env.Namespace(t),
		clock: testingclock.NewFakeClock(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)),
	}
	var x []apiserver.Index
	for _, i := range indexes {
		x = append(x, apiserver.Index{Field: i.Field, Values: i.Values})
	}
	s.client = interceptor.NewClient(apiserver.Indexed(env.Client, x...), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
			if _, secret := obj.(*corev1.Secret); secret {
				s.secrets++
			}
			return c.Get(ctx, key, obj, opts...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, sub string, obj client.Object, patch client.Patch, opts ...client.SubResourcePatchOption) error {
			s.writes++
			return c.SubResource(sub).Patch(ctx, obj, patch, opts...)
		},
	})
	s.restart()
	return s
}

// Eventf collects events in the form "Type Reason: note".
func (s *story) Eventf(_, _ runtime.Object, kind, reason, _, note string, args ...any) {
	s.events = append(s.events, fmt.Sprintf("%s %s: %s", kind, reason, fmt.Sprintf(note, args...)))
}

// reported returns the events since the last call.
func (s *story) reported() []string {
	reported := s.events
	s.events = nil
	return reported
}

// restart recreates the reconciler and the scanner, as a restart of the manager does.
func (s *story) restart() { s.identify(nil) }

// identify recreates the reconciler and the scanner with an identity that provides credentials for registries.
func (s *story) identify(identified registry.Identity) {
	s.Helper()
	ls := newScanCache(s.clock, defaultScans)
	m, err := newMetrics(prometheus.NewRegistry(), ls)
	if err != nil {
		s.Fatal(err)
	}
	scanner := registry.New(registry.Options{Outbound: registrytest.Outbound(), Identity: identified,
		Clock: s.clock, PerSecond: 1e6, Burst: 1e6, Backoff: remote.Backoff{Duration: time.Millisecond, Factor: 1, Steps: 1},
	})
	s.reconciler = &Reconciler{
		Client: s.client, scanner: counted{scanner, m}, verifier: countedVerifier{cosign.New(scanner, s.clock), m}, namespaces: env.Client, metrics: m, clock: s.clock,
		events: status.Recorder{Events: s}, platform: "linux/amd64", scans: ls, identity: identity{Identity: identified},
	}
	ls.run(s.Context(), func(types.NamespacedName) {}) // pass checks whether the scan is done
}

// policy creates a policy for the test's repository.
func (s *story) policy(name string, edit ...func(*v1alpha1.ImagePolicySpec)) {
	s.Helper()
	p := &v1alpha1.ImagePolicy{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name},
		Spec:       v1alpha1.ImagePolicySpec{Image: s.server.Repository(path), Interval: "60s"},
	}
	for _, e := range edit {
		e(&p.Spec)
	}
	s.create(p)
}

func (s *story) create(obj client.Object) {
	s.Helper()
	if err := env.Client.Create(s.Context(), obj); err != nil {
		s.Fatalf("create %T: %v", obj, err)
	}
}

// microservice creates a Microservice that refers to the policy and uses the versions in held, in the form "group version".
func (s *story) microservice(name, policy string, held ...string) {
	s.Helper()
	ms := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: s.namespace, Name: name}}
	ms.Spec.ImagePolicyRef.Name = policy
	ms.Spec.Template.Spec.Containers = append(ms.Spec.Template.Spec.Containers, container(name))
	s.create(ms)
	s.hold(name, held...)
}

// hold sets the rows in a Microservice's rollout state.
func (s *story) hold(name string, held ...string) {
	s.Helper()
	ms := &v1alpha1.Microservice{}
	s.get(name, ms)
	ms.Status.ReleaseGroups = nil
	for i, h := range held {
		group, version, _ := strings.Cut(h, " ")
		at := slices.IndexFunc(ms.Status.ReleaseGroups, func(g v1alpha1.ReleaseGroup) bool { return g.Slug == group })
		if at < 0 {
			at = len(ms.Status.ReleaseGroups)
			ms.Status.ReleaseGroups = append(ms.Status.ReleaseGroups, v1alpha1.ReleaseGroup{Slug: group, Name: group, Level: "Release", Phase: v1alpha1.GroupLive})
		}
		g := &ms.Status.ReleaseGroups[at]
		g.Releases = append(g.Releases, v1alpha1.Release{
			VersionedMicroservice: fmt.Sprintf("%s-%d", name, i), SemVer: v1alpha1.SemVer{Name: group, Version: version},
			Status: v1alpha1.ReleaseActive, LastTransitionTime: metav1.NowMicro(),
		})
	}
	if err := env.Client.Status().Update(s.Context(), ms); err != nil {
		s.Fatal(err)
	}
}

func (s *story) get(name string, obj client.Object) {
	s.Helper()
	if err := env.Client.Get(s.Context(), client.ObjectKey{Namespace: s.namespace, Name: name}, obj); err != nil {
		s.Fatal(err)
	}
}

// edit changes a policy's specification or annotations.
func (s *story) edit(name string, change func(*v1alpha1.ImagePolicy)) {
	s.Helper()
	await.Nil(s, func(ctx context.Context) error {
		p := &v1alpha1.ImagePolicy{}
		s.get(name, p)
		change(p)
		err := env.Client.Update(ctx, p)
		if err != nil && !apierrors.IsConflict(err) { // A running manager might write the status at the same time.
			s.Fatal(err)
		}
		return err
	})
}

// once reconciles one policy once, and returns the policy and the time until the next reconcile.
func (s *story) once(name string) (*v1alpha1.ImagePolicy, time.Duration) {
	s.Helper()
	result, err := s.reconciler.Reconcile(s.Context(), ctrl.Request{NamespacedName: s.key(name)})
	if err != nil {
		s.Fatalf("reconcile %s: %v", name, err)
	}
	p := &v1alpha1.ImagePolicy{}
	s.get(name, p)
	return p, result.RequeueAfter
}

func (s *story) key(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: s.namespace, Name: name}
}

// pass reconciles one policy, and reconciles it again each time its scan is done, as the controller
// does.
func (s *story) pass(name string) (*v1alpha1.ImagePolicy, time.Duration) {
	s.Helper()
	for {
		before := s.reconciler.scans.entry(s.key(name)).record
		p, next := s.once(name)
		s.await(name)
		if s.reconciler.scans.entry(s.key(name)).record == before {
			return p, next
		}
	}
}

// await waits until a policy's scan is done.
func (s *story) await(name string) {
	s.Helper()
	await.Until(s, "the scan of "+name+" to end", func() bool { return s.reconciler.scans.entry(s.key(name)).task == nil })
}

// scan sets the clock to the time at which the policy is due, and reconciles it.
func (s *story) scan(name string) *v1alpha1.ImagePolicy {
	s.Helper()
	s.clock.Step(interval(&v1alpha1.ImagePolicySpec{Interval: "60s"}))
	p, _ := s.pass(name)
	return p
}

// offered returns the offered versions with their groups, in the form "1.0.0 in 1-x". The form is "1.0.0 in 1-x held" if a version is
// offered only because it is in use.
func offered(p *v1alpha1.ImagePolicy) []string {
	var out []string
	for _, r := range p.Status.Releases {
		line := r.SemVer.Version + " in " + r.Group
		if r.Held {
			line += " held"
		}
		out = append(out, line)
	}
	return out
}

// taken returns the withdrawn versions with their reasons, in the form "1.0.0 in release: Denied".
func taken(p *v1alpha1.ImagePolicy) []string {
	var out []string
	for _, w := range p.Status.Withdrawn {
		out = append(out, fmt.Sprintf("%s in %s: %s", w.Version, w.Group, w.Reason))
	}
	return out
}

// condition returns the condition in the form "True Reason: message", or "" if it is not set.
func condition(p *v1alpha1.ImagePolicy, kind string) string {
	c := meta.FindStatusCondition(p.Status.Conditions, kind)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("%s %s: %s", c.Status, c.Reason, c.Message)
}

// manifests returns the number of requests for manifests: HEAD for known tags, GET for other tags.
func manifests(server *registrytest.Server) int {
	return server.Requests(registrytest.Head) + server.Requests(registrytest.Get)
}
