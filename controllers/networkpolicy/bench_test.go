package networkpolicy

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"
	"sigs.k8s.io/controller-runtime/pkg/event"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/controllers/networkpolicy/traffic"
	"github.com/heighliner/heighliner/internal/apply"
	"github.com/heighliner/heighliner/internal/index"
)

// fleet contains many policies in one namespace, and the parts of a manager that process a change:
// a cache with its indexes, the handlers of its watches, and a queue. It measures the cost of a
// change.
type fleet struct {
	client.Client
	t          testing.TB
	scheme     *runtime.Scheme
	objects    map[string]client.Object
	index      map[string]map[string]client.Object
	applied    map[string]string
	reconciler *Reconciler
	queue      []reconcile.Request
	version    int

	passes, reads, seen, writes int
}

const fleetNamespace = "shops"

// newFleet returns a fleet of n policies with the given domains, which are routed and stable.
func newFleet(t testing.TB, n int, domains func(policy string) []v1alpha1.Domain) *fleet {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{AddToScheme, v1alpha1.AddToScheme, corev1.AddToScheme, discoveryv1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	f := &fleet{t: t, scheme: scheme, objects: map[string]client.Object{}, index: map[string]map[string]client.Object{}, applied: map[string]string{}}
	mapper := meta.NewDefaultRESTMapper(nil)
	for _, kind := range traffic.AllKinds() {
		mapper.Add(schema.GroupVersionKind{Group: kind.Group, Version: kind.Versions[0], Kind: kind.Kind}, meta.RESTScopeNamespace)
	}
	known, _ := watched(mapper, time.Hour)
	known.discover(traffic.AllKinds())
	f.reconciler = &Reconciler{Client: f, Live: f, Writer: fleetWriter{f}, Now: func() time.Time { return time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC) }, kinds: known}
	f.put(openGateway())
	for i := range n {
		f.add(i, domains)
	}
	f.run()
	return f
}

// ownHosts returns five domains whose hosts no other policy has.
func ownHosts(policy string) (out []v1alpha1.Domain) {
	for i := range 5 {
		out = append(out, v1alpha1.Domain{Domain: fmt.Sprintf("d%d.%s.example.com", i, policy)})
	}
	return out
}

// sharedHosts returns domains whose hosts, but not paths, other policies have as well.
func sharedHosts(policy string) (out []v1alpha1.Domain) {
	for _, domain := range []string{"www.example.com", "{{.Namespace}}.example.com", "{{.ReleaseGroupName}}.example.com"} {
		out = append(out, v1alpha1.Domain{Domain: domain, Path: "/" + policy})
	}
	return out
}

// add adds the i-th policy, with its Microservice.
func (f *fleet) add(i int, domains func(policy string) []v1alpha1.Domain) {
	name := fmt.Sprintf("shop-%03d", i)
	policy := newWorld(f.t).Policy.DeepCopy()
	policy.ObjectMeta = metav1.ObjectMeta{Namespace: fleetNamespace, Name: name, UID: types.UID(name), Generation: 1}
	policy.Spec.Domains = domains(name)
	f.put(policy)
	f.rollout(i, 1, 10)
}

// rollout sets the canary weight of the i-th Microservice.
func (f *fleet) rollout(i int, revision int64, weight int) {
	f.releases(i, revision, fmt.Sprintf("shop-%03d-b 1.1.0 canary %d", i, weight), fmt.Sprintf("shop-%03d-a 1.0.0 active %d", i, 100-weight))
}

// release sets the status and weight of the only release of the i-th Microservice.
func (f *fleet) release(i int, revision int64, status string) {
	f.releases(i, revision, fmt.Sprintf("shop-%03d-a 1.0.0 %s", i, status))
}

// releases sets the releases of the i-th Microservice.
func (f *fleet) releases(i int, revision int64, releases ...string) {
	name := fmt.Sprintf("shop-%03d", i)
	m := &v1alpha1.Microservice{ObjectMeta: metav1.ObjectMeta{Namespace: fleetNamespace, Name: name, UID: types.UID("uid-" + name), Generation: 1}}
	m.Status.ObservedGeneration = m.Generation
	m.Status.Internal = &v1alpha1.MicroserviceInternal{Sequence: revision}
	m.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{group("1-x", revision, releases...)}
	f.put(m)
	f.enqueue(f.reconciler.byMicroservice(f.t.Context(), m)...)
}

// run reconciles until the queue is empty.
func (f *fleet) run() {
	for len(f.queue) > 0 {
		request := f.queue[0]
		f.queue = f.queue[1:]
		f.passes++
		if _, err := f.reconciler.Reconcile(f.t.Context(), request); err != nil {
			f.t.Fatal(err)
		}
	}
}

func (f *fleet) enqueue(requests ...reconcile.Request) {
	for _, r := range requests {
		if !slices.Contains(f.queue, r) {
			f.queue = append(f.queue, r)
		}
	}
}

func (f *fleet) key(o runtime.Object, namespace, name string) (schema.GroupVersionKind, string) {
	gvk, err := apiutil.GVKForObject(o, f.scheme)
	if err != nil {
		f.t.Fatal(err)
	}
	return gvk, strings.TrimSuffix(gvk.Kind, "List") + "/" + namespace + "/" + name
}

// entries returns the index entries of an object in the cache.
func (f *fleet) entries(o client.Object) []string {
	_, prefix := f.key(o, o.GetNamespace(), "")
	out := []string{prefix, strings.SplitN(prefix, "/", 2)[0] + "/"} // These entries are for lists of the namespace and of all namespaces.
	ofKind := []index.Index{index.ByPolicy(o)}
	if _, ok := o.(*v1alpha1.NetworkPolicy); ok {
		ofKind = slices.DeleteFunc(slices.Clone(indexes), func(x index.Index) bool { return reflect.TypeOf(x.Object) != reflect.TypeOf(o) })
	}
	for _, x := range ofKind {
		for _, value := range x.Values(o) {
			out = append(out, prefix+x.Field+"="+value)
			if x.AllNamespaces {
				out = append(out, strings.SplitN(prefix, "/", 2)[0]+"/"+x.Field+"="+value)
			}
		}
	}
	return out
}

func (f *fleet) put(o client.Object) {
	_, key := f.key(o, o.GetNamespace(), o.GetName())
	f.drop(key)
	f.version++
	o.SetResourceVersion(fmt.Sprint(f.version))
	f.objects[key] = o
	for _, entry := range f.entries(o) {
		if f.index[entry] == nil {
			f.index[entry] = map[string]client.Object{}
		}
		f.index[entry][key] = o
	}
}

func (f *fleet) drop(key string) {
	if old := f.objects[key]; old != nil {
		for _, entry := range f.entries(old) {
			delete(f.index[entry], key)
		}
		delete(f.objects, key)
	}
}

func (f *fleet) Scheme() *runtime.Scheme { return f.scheme }

func (f *fleet) Get(_ context.Context, key client.ObjectKey, o client.Object, _ ...client.GetOption) error {
	f.reads++
	gvk, name := f.key(o, key.Namespace, key.Name)
	live := f.objects[name]
	if live == nil {
		return apierrors.NewNotFound(schema.GroupResource{Group: gvk.Group, Resource: gvk.Kind}, key.Name)
	}
	f.seen++
	return f.scheme.Convert(live.DeepCopyObject(), o, nil)
}

// List reads the objects of the narrowest index, and filters them by labels, as a cache does.
func (f *fleet) List(_ context.Context, list client.ObjectList, opts ...client.ListOption) error {
	f.reads++
	var o client.ListOptions
	o.ApplyOptions(opts)
	_, entry := f.key(list, o.Namespace, "")
	if o.Namespace == "" {
		entry = strings.SplitN(entry, "/", 2)[0] + "/"
	}
	if o.FieldSelector != nil {
		wanted := o.FieldSelector.Requirements()[0]
		entry += wanted.Field + "=" + wanted.Value
	}
	var found []runtime.Object
	for _, key := range slices.Sorted(maps.Keys(f.index[entry])) {
		f.seen++
		if live := f.index[entry][key]; o.LabelSelector == nil || o.LabelSelector.Matches(labelSet(live.GetLabels())) {
			found = append(found, live.DeepCopyObject())
		}
	}
	return meta.SetList(list, found)
}

type labelSet map[string]string

func (s labelSet) Has(label string) bool { _, ok := s[label]; return ok }

func (s labelSet) Get(label string) string { return s[label] }

func (s labelSet) Lookup(label string) (value string, ok bool) {
	value, ok = s[label]
	return value, ok
}

// fleetWriter writes the objects of a policy.
type fleetWriter struct{ f *fleet }

// Apply writes an object, and sets the endpoints of a Service or the acceptance of a route.
func (w fleetWriter) Apply(_ context.Context, owner, desired client.Object) (apply.Outcome, error) {
	f := w.f
	next := desired.DeepCopyObject().(client.Object)
	next.SetUID("")
	next.SetResourceVersion("")
	if err := controllerutil.SetControllerReference(owner, next, f.scheme); err != nil {
		return "", err
	}
	gvk, key := f.key(next, next.GetNamespace(), next.GetName())
	intent := mustJSON(next)
	if f.applied[key] == intent {
		return apply.Unchanged, nil
	}
	f.applied[key] = intent
	f.writes++
	next.SetUID(types.UID(key))
	next.GetObjectKind().SetGroupVersionKind(gvk)
	next.SetGeneration(int64(f.writes))
	switch o := next.(type) {
	case *gatewayv1.HTTPRoute:
		for _, p := range o.Spec.ParentRefs {
			o.Status.Parents = append(o.Status.Parents, answer(p, o.Generation, metav1.ConditionTrue, "Accepted"))
		}
	case *corev1.Service:
		release := o.Spec.Selector[v1alpha1.LabelRelease]
		labels := maps.Clone(o.Labels)
		labels[discoveryv1.LabelServiceName] = o.Name
		f.put(&discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name, Labels: labels},
			Endpoints:  []discoveryv1.Endpoint{{TargetRef: &corev1.ObjectReference{UID: types.UID(release)}, Addresses: []string{"10.0.0.1"}}},
		})
	}
	f.put(next)
	f.enqueue(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
	return apply.Updated, nil
}

func (w fleetWriter) Delete(_ context.Context, owner, o client.Object) error {
	f := w.f
	_, key := f.key(o, o.GetNamespace(), o.GetName())
	f.drop(key)
	delete(f.applied, key)
	f.writes++
	f.enqueue(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(owner)})
	return nil
}

func (f *fleet) GroupVersionKindFor(o runtime.Object) (schema.GroupVersionKind, error) {
	return apiutil.GVKForObject(o, f.scheme)
}

func (f *fleet) Status() client.SubResourceWriter { return fleetStatus{f} }

type fleetStatus struct{ *fleet }

func (s fleetStatus) Create(context.Context, client.Object, client.Object, ...client.SubResourceCreateOption) error {
	panic("a reconcile never creates a subresource")
}

func (s fleetStatus) Update(context.Context, client.Object, ...client.SubResourceUpdateOption) error {
	panic("a reconcile never updates a status")
}

func (s fleetStatus) Apply(context.Context, runtime.ApplyConfiguration, ...client.SubResourceApplyOption) error {
	panic("a reconcile never applies a status")
}

// Patch writes the status of a policy, and enqueues the policies that the controller's watches select.
func (s fleetStatus) Patch(ctx context.Context, o client.Object, patch client.Patch, _ ...client.SubResourcePatchOption) error {
	s.writes++
	_, key := s.key(o, o.GetNamespace(), o.GetName())
	old := s.objects[key]
	data, err := patch.Data(o)
	if err != nil {
		return err
	}
	merged, err := jsonpatch.MergePatch([]byte(mustJSON(old)), data)
	if err != nil {
		return err
	}
	next := &v1alpha1.NetworkPolicy{}
	if err := json.Unmarshal(merged, next); err != nil {
		return err
	}
	s.put(next)
	o.SetResourceVersion(next.GetResourceVersion())
	s.enqueue(reconcile.Request{NamespacedName: client.ObjectKeyFromObject(o)})
	if claimsChanged.Update(event.UpdateEvent{ObjectOld: old, ObjectNew: next}) {
		s.enqueue(s.reconciler.byHosts(ctx, old)...)
		s.enqueue(s.reconciler.byHosts(ctx, next)...)
	}
	return nil
}

// BenchmarkStep measures a canary step of one Microservice among many, from the change to the
// rollout state until the policy has confirmed it. It counts the reconciles, the reads from the
// cache, the objects that these reads examine, and the writes. None of these numbers grows with the
// number of policies and domains.
func BenchmarkStep(b *testing.B) {
	for _, n := range []int{2, 20, 200} {
		b.Run(fmt.Sprintf("%d domains", 5*n), func(b *testing.B) {
			f := newFleet(b, n, ownHosts)
			f.passes, f.reads, f.seen, f.writes = 0, 0, 0, 0
			revision := int64(1)
			for i := 0; b.Loop(); i++ {
				if i%n == 0 {
					revision++
				}
				f.rollout(i%n, revision, 10+int(revision%2)*10)
				f.run()
			}
			for unit, count := range map[string]int{"passes/step": f.passes, "reads/step": f.reads, "objects-seen/step": f.seen, "writes/step": f.writes} {
				b.ReportMetric(float64(count)/float64(b.N), unit)
			}
		})
	}
}

// TestCostGrowsWithChanges checks that a step, and a new policy, have the same cost in a fleet of two policies as in a
// fleet of forty, even if the policies share their hosts.
func TestCostGrowsWithChanges(t *testing.T) {
	for name, domains := range map[string]func(string) []v1alpha1.Domain{"own hosts": ownHosts, "shared hosts": sharedHosts} {
		cost := func(n int) (step, added string) {
			f := newFleet(t, n, domains)
			measure := func(change func()) string {
				f.passes, f.reads, f.seen, f.writes = 0, 0, 0, 0
				change()
				f.run()
				return fmt.Sprintf("%d passes, %d reads, %d objects, %d writes", f.passes, f.reads, f.seen, f.writes)
			}
			step = measure(func() { f.rollout(0, 2, 20) })
			var policy v1alpha1.NetworkPolicy
			if err := f.Get(t.Context(), client.ObjectKey{Namespace: fleetNamespace, Name: "shop-000"}, &policy); err != nil {
				t.Fatal(err)
			}
			want(t, name+": confirmed revision", traffic.Find(policy.Status.Groups, "1-x").Revision, 2)
			want(t, name+": split", policy.Status.Summary.Split, "1.0.0=80 1.1.0=20")
			return step, measure(func() { f.add(n, domains) })
		}
		step, added := cost(2)
		stepOfMany, addedToMany := cost(40)
		want(t, name+": cost of a step", stepOfMany, step)
		want(t, name+": cost of a new policy", addedToMany, added)
	}
}

// canaryHosts returns domains whose hosts, but not paths, other policies have as well. One of them routes only to canaries.
func canaryHosts(policy string) []v1alpha1.Domain {
	return []v1alpha1.Domain{
		{Domain: "www.example.com", Path: "/" + policy},
		{Domain: "canary.example.com", Path: "/" + policy, Release: &v1alpha1.DomainRelease{Status: v1alpha1.DomainCanary, WhenAbsent: v1alpha1.AbsentNotFound}},
	}
}

// TestWaitingDomainsAreSeparate checks that the start of a canary, and of a first release, have the same cost among two policies as among
// forty, if the policies share hosts whose domains wait for a release.
func TestWaitingDomainsAreSeparate(t *testing.T) {
	canary := func(n int) string {
		f := newFleet(t, n, canaryHosts)
		for i := range n {
			f.release(i, 2, "active 100")
		}
		f.run()
		f.passes, f.reads, f.seen, f.writes = 0, 0, 0, 0
		f.rollout(0, 3, 10)
		f.run()
		return fmt.Sprintf("%d passes, %d reads, %d objects, %d writes", f.passes, f.reads, f.seen, f.writes)
	}
	first := func(n int) string {
		f := newFleet(t, 0, sharedHosts)
		for i := range n {
			f.add(i, sharedHosts)
			f.release(i, 2, "pending 0")
		}
		f.run()
		f.passes, f.reads, f.seen, f.writes = 0, 0, 0, 0
		f.release(0, 3, "active 100")
		f.run()
		return fmt.Sprintf("%d passes, %d reads, %d objects, %d writes", f.passes, f.reads, f.seen, f.writes)
	}
	want(t, "cost of a canary", canary(40), canary(2))
	want(t, "cost of a first release", first(40), first(2))
}
