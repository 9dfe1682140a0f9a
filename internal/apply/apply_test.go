package apply_test

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/test/apiserver"
)

var env *apiserver.Env

func TestMain(m *testing.M) {
	os.Exit(apiserver.Run(m, apiserver.Options{GatewayAPI: true}, &env))
}

// bench is a namespace with an owner and a Writer that counts writes.
type bench struct {
	client.Client
	writer    apply.Writer
	writes    *atomic.Int32
	owner     *corev1.ConfigMap
	namespace string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	writes := &atomic.Int32{}
	counted := interceptor.NewClient(env.Client, interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			writes.Add(1)
			return c.Apply(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			writes.Add(1)
			return c.Delete(ctx, obj, opts...)
		},
	})
	b := &bench{Client: env.Client, writes: writes, namespace: env.Namespace(t), writer: apply.Writer{Client: counted, Owner: "heighliner-test", Matches: &apply.Matches{}}}
	b.owner = b.makeOwner(t, "owner")
	return b
}

func (b *bench) makeOwner(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	if err := b.Create(t.Context(), owner); err != nil {
		t.Fatal(err)
	}
	return owner
}

func (b *bench) service(release string) *corev1.Service {
	return &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "web", Labels: map[string]string{"app": "web"}},
		Spec: corev1.ServiceSpec{
			Selector: map[string]string{"release": release},
			Ports:    []corev1.ServicePort{{Name: "http", Port: 80, TargetPort: intstr.FromInt32(8080)}},
		},
	}
}

func (b *bench) read(t *testing.T) *corev1.Service {
	t.Helper()
	live := &corev1.Service{}
	if err := b.Get(t.Context(), client.ObjectKey{Namespace: b.namespace, Name: "web"}, live); err != nil {
		t.Fatal(err)
	}
	return live
}

// apply checks the outcome, and the exact number of writes.
func (b *bench) apply(t *testing.T, desired client.Object, want apply.Outcome, writes int32) {
	t.Helper()
	before := b.writes.Load()
	got, err := b.writer.Apply(t.Context(), b.owner, desired)
	if err != nil {
		t.Fatalf("Apply: %v", err)
	}
	if got != want || b.writes.Load()-before != writes {
		t.Errorf("Apply: %s after %d writes, want %s after %d", got, b.writes.Load()-before, want, writes)
	}
}

func TestApplyWritesOnlyDifferences(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t, b.service("one"), apply.Created, 1)
	if owner := metav1.GetControllerOf(b.read(t)); owner == nil || owner.UID != b.owner.UID {
		t.Errorf("controller of the new object: %v, want UID %s", owner, b.owner.UID)
	}
	for range 3 {
		b.apply(t, b.service("one"), apply.Unchanged, 0)
	}
	b.apply(t, b.service("two"), apply.Updated, 1)
	b.apply(t, b.service("two"), apply.Unchanged, 0)
	if diff := cmp.Diff(map[string]string{"release": "two"}, b.read(t).Spec.Selector); diff != "" {
		t.Errorf("selector (-want +got):\n%s", diff)
	}

	// Fields that the intent no longer contains are removed. Fields of other field managers remain.
	live := b.read(t)
	live.Labels["theirs"] = "kept"
	if err := b.Update(t.Context(), live, client.FieldOwner("someone")); err != nil {
		t.Fatal(err)
	}
	b.apply(t, b.service("two"), apply.Unchanged, 0)
	bare := b.service("two")
	bare.Labels = nil
	b.apply(t, bare, apply.Updated, 1)
	if diff := cmp.Diff(map[string]string{"theirs": "kept"}, b.read(t).Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
}

// TestApplyWithFieldsThatTheServerSets applies an intent whose list of rules lacks a field that the
// API server sets, although lists of rules must be equal (row 15 of the known failures). A call
// that changes nothing does not count as a write.
func TestApplyWithFieldsThatTheServerSets(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	route := &gatewayv1.HTTPRoute{
		ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: "web"},
		Spec: gatewayv1.HTTPRouteSpec{Rules: []gatewayv1.HTTPRouteRule{{BackendRefs: []gatewayv1.HTTPBackendRef{{
			BackendRef: gatewayv1.BackendRef{BackendObjectReference: gatewayv1.BackendObjectReference{Name: "web", Port: new(gatewayv1.PortNumber(80))}},
		}}}}},
	}
	b.apply(t, route, apply.Created, 1)
	b.apply(t, route, apply.Unchanged, 1)

	live := &gatewayv1.HTTPRoute{}
	if err := b.Get(t.Context(), client.ObjectKeyFromObject(route), live); err != nil {
		t.Fatal(err)
	}
	live.Spec.Rules[0].Timeouts = &gatewayv1.HTTPRouteTimeouts{Request: new(gatewayv1.Duration("1ms"))}
	if err := b.Update(t.Context(), live, client.FieldOwner("someone")); err != nil {
		t.Fatal(err)
	}
	b.apply(t, route, apply.Updated, 1)
}

func TestApplyLeavesDesiredAlone(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	desired := b.service("one")
	b.apply(t, desired, apply.Created, 1)
	if diff := cmp.Diff(b.service("one"), desired); diff != "" {
		t.Errorf("desired was changed (-want +got):\n%s", diff)
	}
}

func TestApplyRepairsDrift(t *testing.T) {
	t.Parallel()
	for name, edit := range map[string]func(*corev1.Service){
		"map value changed":   func(s *corev1.Service) { s.Spec.Selector = map[string]string{"release": "theirs"} },
		"list item changed":   func(s *corev1.Service) { s.Spec.Ports[0].TargetPort = intstr.FromInt32(9) },
		"label removed":       func(s *corev1.Service) { delete(s.Labels, "app") },
		"annotation removed":  func(s *corev1.Service) { s.Annotations = nil },
		"atomic map extended": func(s *corev1.Service) { s.Spec.Selector["more"] = "y" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			b.apply(t, b.service("one"), apply.Created, 1)
			live := b.read(t)
			edit(live)
			if err := b.Update(t.Context(), live, client.FieldOwner("someone")); err != nil {
				t.Fatal(err)
			}
			b.apply(t, b.service("one"), apply.Updated, 1)
			b.apply(t, b.service("one"), apply.Unchanged, 0)
			if got := b.read(t); got.Spec.Selector["release"] != "one" || len(got.Spec.Selector) != 1 || got.Spec.Ports[0].TargetPort.IntValue() != 8080 || got.Labels["app"] != "web" {
				t.Errorf("drift was not repaired: %v %v", got.Spec, got.Labels)
			}
		})
	}
}

func TestApplyLeavesForeignObjectsAlone(t *testing.T) {
	t.Parallel()
	for name, claim := range map[string]func(*testing.T, *bench, *corev1.Service){
		"without an owner": func(*testing.T, *bench, *corev1.Service) {},
		"with another owner": func(t *testing.T, b *bench, s *corev1.Service) {
			other := b.makeOwner(t, "other")
			s.OwnerReferences = []metav1.OwnerReference{*metav1.NewControllerRef(other, corev1.SchemeGroupVersion.WithKind("ConfigMap"))}
		},
		"with an owner of the same name but another UID": func(_ *testing.T, b *bench, s *corev1.Service) {
			ref := *metav1.NewControllerRef(b.owner, corev1.SchemeGroupVersion.WithKind("ConfigMap"))
			ref.UID = "0000"
			s.OwnerReferences = []metav1.OwnerReference{ref}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t)
			theirs := b.service("theirs")
			claim(t, b, theirs)
			if err := b.Create(t.Context(), theirs); err != nil {
				t.Fatal(err)
			}
			var foreign *apply.ForeignError
			if _, err := b.writer.Apply(t.Context(), b.owner, b.service("one")); !errors.As(err, &foreign) {
				t.Errorf("Apply: %v, want a ForeignError", err)
			}
			if err := b.writer.Delete(t.Context(), b.owner, b.service("one")); !errors.As(err, &foreign) {
				t.Errorf("Delete: %v, want a ForeignError", err)
			}
			if n := b.writes.Load(); n != 0 {
				t.Errorf("%d writes, want none", n)
			}
			if diff := cmp.Diff(theirs, b.read(t)); diff != "" {
				t.Errorf("the foreign object changed (-want +got):\n%s", diff)
			}
		})
	}
}

// blind is a cache that does not contain any objects yet.
type blind struct{ client.Client }

func (blind) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(corev1.Resource("services"), key.Name)
}

func TestApplyWithABlindCache(t *testing.T) {
	t.Parallel()
	t.Run("own object", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		b.apply(t, b.service("one"), apply.Created, 1)
		b.writer.Live, b.writer.Client = b.Client, blind{b.writer.Client}
		b.apply(t, b.service("one"), apply.Unchanged, 0)
	})
	t.Run("foreign object", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		if err := b.Create(t.Context(), b.service("theirs")); err != nil {
			t.Fatal(err)
		}
		b.writer.Live, b.writer.Client = b.Client, blind{b.writer.Client}
		var foreign *apply.ForeignError
		if _, err := b.writer.Apply(t.Context(), b.owner, b.service("one")); !errors.As(err, &foreign) {
			t.Errorf("Apply: %v, want a ForeignError", err)
		}
	})
	t.Run("foreign object that is created after the live read", func(t *testing.T) {
		t.Parallel()
		b := newBench(t)
		if err := b.Create(t.Context(), b.service("theirs")); err != nil {
			t.Fatal(err)
		}
		b.writer.Client = blind{b.writer.Client}
		if _, err := b.writer.Apply(t.Context(), b.owner, b.service("one")); !apierrors.IsConflict(err) {
			t.Errorf("Apply: %v, want a conflict", err)
		}
		if got := b.read(t); got.Spec.Selector["release"] != "theirs" || len(got.OwnerReferences) != 0 {
			t.Errorf("the foreign object was taken over: %v %v", got.Spec.Selector, got.OwnerReferences)
		}
	})
}

// behind is a cache with an outdated state of an object.
type behind struct {
	client.Client
	old *corev1.Service
}

func (b behind) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	b.old.DeepCopyInto(into.(*corev1.Service))
	return nil
}

func TestApplyOntoAReplacedObject(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t, b.service("one"), apply.Created, 1)
	old := b.read(t)
	if err := b.writer.Delete(t.Context(), b.owner, b.service("one")); err != nil {
		t.Fatal(err)
	}
	b.writer.Client = behind{b.writer.Client, old}
	if _, err := b.writer.Apply(t.Context(), b.owner, b.service("two")); !apierrors.IsConflict(err) {
		t.Errorf("Apply to an object that is gone: %v, want a conflict", err)
	}
	if err := b.Create(t.Context(), b.service("theirs")); err != nil {
		t.Fatal(err)
	}
	if _, err := b.writer.Apply(t.Context(), b.owner, b.service("two")); !apierrors.IsConflict(err) {
		t.Errorf("Apply to an object that was replaced: %v, want a conflict", err)
	}
	if err := b.writer.Delete(t.Context(), b.owner, b.service("two")); !apierrors.IsConflict(err) {
		t.Errorf("Delete of an object that was replaced: %v, want a conflict", err)
	}
	if got := b.read(t); got.Spec.Selector["release"] != "theirs" {
		t.Errorf("the foreign object was changed: %v", got.Spec)
	}
}

func TestTerminatingObjects(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t, b.service("one"), apply.Created, 1)
	live := b.read(t)
	live.Finalizers = []string{"example.com/hold"}
	if err := b.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if err := b.writer.Delete(t.Context(), b.owner, b.service("one")); err != nil {
		t.Fatal(err)
	}
	before := b.writes.Load()
	var terminating *apply.TerminatingError
	if _, err := b.writer.Apply(t.Context(), b.owner, b.service("two")); !errors.As(err, &terminating) {
		t.Errorf("Apply: %v, want a TerminatingError", err)
	}
	if err := b.writer.Delete(t.Context(), b.owner, b.service("one")); err != nil {
		t.Errorf("Delete of a terminating object: %v", err)
	}
	if n := b.writes.Load() - before; n != 0 {
		t.Errorf("%d writes to a terminating object", n)
	}
	live = b.read(t)
	live.Finalizers = nil
	if err := b.Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
	if err := b.writer.Delete(t.Context(), b.owner, b.service("one")); err != nil {
		t.Errorf("Delete of an absent object: %v", err)
	}
	b.apply(t, b.service("two"), apply.Created, 1)
}

func TestPreconditions(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.apply(t, b.service("one"), apply.Created, 1)
	old := b.read(t)
	b.apply(t, b.service("two"), apply.Updated, 1)

	stale := b.service("three")
	stale.ResourceVersion = old.ResourceVersion
	if _, err := b.writer.Apply(t.Context(), b.owner, stale); !apierrors.IsConflict(err) {
		t.Errorf("Apply with an old resourceVersion: %v, want a conflict", err)
	}
	if err := b.writer.Delete(t.Context(), b.owner, stale); !apierrors.IsConflict(err) {
		t.Errorf("Delete with an old resourceVersion: %v, want a conflict", err)
	}
	other := b.service("three")
	other.UID = "0000"
	if _, err := b.writer.Apply(t.Context(), b.owner, other); !apierrors.IsConflict(err) {
		t.Errorf("Apply with another UID: %v, want a conflict", err)
	}
	if err := b.writer.Delete(t.Context(), b.owner, other); !apierrors.IsConflict(err) {
		t.Errorf("Delete with another UID: %v, want a conflict", err)
	}
	fresh := b.service("three")
	fresh.ResourceVersion = b.read(t).ResourceVersion
	b.apply(t, fresh, apply.Updated, 1)

	gone := b.service("four")
	gone.Name, gone.UID = "gone", "0000"
	if _, err := b.writer.Apply(t.Context(), b.owner, gone); !apierrors.IsConflict(err) {
		t.Errorf("Apply to a lost object: %v, want a conflict", err)
	}
}
