package compact

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"
	"unsafe"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/controller-runtime/pkg/client"
	gatewayv1 "sigs.k8s.io/gateway-api/apis/v1"
	"sigs.k8s.io/randfill"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestRandomObjectsDoNotChange checks that random objects of all kinds with large specs differ from the original only in their managed fields,
// after one and after two transforms.
func TestRandomObjectsDoNotChange(t *testing.T) {
	// This test does not run in parallel with others, because its values would displace the values that other tests expect in the tables.
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	fill := randfill.NewWithSeed(seed).NilChance(0.3).NumElements(0, 3).MaxDepth(12).Funcs(
		func(q *resource.Quantity, c randfill.Continue) {
			*q = *resource.NewMilliQuantity(c.Int63n(1000), resource.DecimalSI)
		},
		func(x *runtime.RawExtension, _ randfill.Continue) { x.Raw = []byte("{}") },
		func(m *metav1.Time, c randfill.Continue) { m.Time = time.Unix(c.Int63n(1000), 0).Local() },
		// A few different strings, so that many parts are equal.
		func(s *string, c randfill.Continue) { *s = strings.Clone(string(rune('a' + c.Intn(3)))) },
	)
	for _, kind := range []client.Object{
		&v1alpha1.Microservice{}, &v1alpha1.VersionedMicroservice{}, &v1alpha1.NetworkPolicy{}, &v1alpha1.ImagePolicy{}, &v1alpha1.AnalysisTemplate{},
		&corev1.Pod{}, &corev1.Service{}, &corev1.ConfigMap{}, &appsv1.Deployment{}, &discoveryv1.EndpointSlice{}, &policyv1.PodDisruptionBudget{}, &gatewayv1.HTTPRoute{},
	} {
		for range 50 {
			want := reflect.New(reflect.TypeOf(kind).Elem()).Interface().(client.Object)
			fill.Fill(want)
			want.SetManagedFields(nil)
			got := any(want.DeepCopyObject())
			for run := range 2 {
				got, _ = Transform(got)
				if !reflect.DeepEqual(got, any(want)) {
					a, _ := json.Marshal(want)
					b, _ := json.Marshal(got)
					t.Fatalf("%T, run %d: the object changed from\n%s\nto\n%s", kind, run, a, b)
				}
			}
		}
	}
}

// podTemplate returns a pod template whose content does not share memory with the templates that other calls
// return.
func podTemplate(t *testing.T, image string) corev1.PodTemplateSpec {
	t.Helper()
	var out corev1.PodTemplateSpec
	text := `{"metadata": {"labels": {"team": "shop"}}, "spec": {
		"containers": [{"name": "shop", "image": "` + image + `", "env": [{"name": "REGION", "value": "eu"}],
			"resources": {"requests": {"cpu": "10m", "memory": "16Mi"}}, "readinessProbe": {"httpGet": {"path": "/readyz", "port": 8080}}}],
		"volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "1Mi"}}], "securityContext": {"runAsNonRoot": true}}}`
	if err := json.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

// parts returns the addresses of the parts of a pod template.
func parts(p corev1.PodTemplateSpec) map[string]any {
	c := p.Spec.Containers[0]
	return map[string]any{
		"labels": reflect.ValueOf(p.Labels).Pointer(), "environment": &c.Env[0], "requests": reflect.ValueOf(c.Resources.Requests).Pointer(),
		"probe": c.ReadinessProbe, "volumes": &p.Spec.Volumes[0], "security context": p.Spec.SecurityContext, "name": unsafe.StringData(c.Name),
	}
}

// TestReleasesShareTemplates checks that a Microservice and its releases with different images share all other parts of their pod
// templates.
func TestReleasesShareTemplates(t *testing.T) {
	t.Parallel()
	ms := &v1alpha1.Microservice{Spec: v1alpha1.MicroserviceSpec{Template: podTemplate(t, "")}}
	first := &v1alpha1.VersionedMicroservice{Spec: v1alpha1.VersionedMicroserviceSpec{Template: podTemplate(t, "shop:1")}}
	second := &v1alpha1.VersionedMicroservice{Spec: v1alpha1.VersionedMicroserviceSpec{Template: podTemplate(t, "shop:2")}}
	for _, o := range []client.Object{ms, first, second} {
		transform(t, o)
	}
	want := parts(ms.Spec.Template)
	for _, release := range []*v1alpha1.VersionedMicroservice{first, second} {
		for name, address := range parts(release.Spec.Template) {
			if address != want[name] {
				t.Errorf("%s: the %s are not shared", release.Spec.Template.Spec.Containers[0].Image, name)
			}
		}
	}
	if &first.Spec.Template.Spec.Containers[0] == &second.Spec.Template.Spec.Containers[0] {
		t.Error("different containers share memory")
	}
}

// TestStringsOfDifferentPartsAreShared checks that strings in pointers, slices, and maps share memory even if the parts that contain them differ.
func TestStringsOfDifferentPartsAreShared(t *testing.T) {
	t.Parallel()
	const text = "a string in different parts"
	key := func(m map[string]string) *byte {
		for k := range m {
			if k == text {
				return unsafe.StringData(k)
			}
		}
		return nil
	}
	a := &corev1.Service{Spec: corev1.ServiceSpec{
		Ports:    []corev1.ServicePort{{Name: strings.Clone(text)}, {Name: "other"}},
		Selector: map[string]string{strings.Clone(text): "a", "other": strings.Clone(text)},
	}}
	b := &policyv1.PodDisruptionBudget{Spec: policyv1.PodDisruptionBudgetSpec{
		MaxUnavailable: &intstr.IntOrString{Type: intstr.String, StrVal: strings.Clone(text)},
		Selector:       &metav1.LabelSelector{MatchLabels: map[string]string{strings.Clone(text): "b"}},
	}}
	transform(t, a)
	transform(t, b)
	parts := sharer{left: maxAdded}
	want := unsafe.StringData(parts.text(text))
	for name, got := range map[string]*byte{
		"slice": unsafe.StringData(a.Spec.Ports[0].Name), "key of a map": key(a.Spec.Selector), "value of a map": unsafe.StringData(a.Spec.Selector["other"]),
		"pointer": unsafe.StringData(b.Spec.MaxUnavailable.StrVal), "map in a pointer": key(b.Spec.Selector.MatchLabels),
	} {
		if got != want {
			t.Errorf("the string in the %s is not shared", name)
		}
	}
}

// TestSharedPartsAreNotWritten checks that a transform does not change the memory of an object that readers already have, even if the
// tables have forgotten its parts.
func TestSharedPartsAreNotWritten(t *testing.T) {
	for range 20 {
		name := strings.Repeat("n", 1+rand.IntN(200))
		seen := &corev1.Service{Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Name: name, Port: 80}}, Selector: map[string]string{name: name},
			SessionAffinityConfig: &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(len(name)))}},
		}}
		transform(t, seen)
		port, affinity := unsafe.StringData(seen.Spec.Ports[0].Name), seen.Spec.SessionAffinityConfig.ClientIP
		forget(name)
		other := &corev1.Service{Spec: corev1.ServiceSpec{SessionAffinityConfig: &corev1.SessionAffinityConfig{
			ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(len(name)))},
		}}}
		transform(t, other)
		forget(name)
		again := *seen // It refers to the ports of the object that readers have.
		transform(t, &again)
		if unsafe.StringData(seen.Spec.Ports[0].Name) != port || seen.Spec.SessionAffinityConfig.ClientIP != affinity {
			t.Fatal("a string or a pointer of an object that readers have was replaced")
		}
	}
}

// TestTableDoesNotFollowObjects checks that a change to a field of an object, for example by a trim, does not change the value in the table.
func TestTableDoesNotFollowObjects(t *testing.T) {
	t.Parallel()
	of := func(name string) *corev1.Service {
		out := &corev1.Service{Spec: corev1.ServiceSpec{Ports: []corev1.ServicePort{{Name: name, Port: 81}}}}
		transform(t, out)
		return out
	}
	of("first").Spec.Ports = []corev1.ServicePort{{Name: "changed", Port: 81}}
	if a, b := of("first"), of("first"); &a.Spec.Ports[0] != &b.Spec.Ports[0] {
		t.Error("the value in the table changed with the object")
	}
}

// TestStatusesShareStrings checks that equal strings in statuses share memory, that slices and pointers in statuses, which trims and conversions change,
// do not share memory, and that the owners of objects are shared.
func TestStatusesShareStrings(t *testing.T) {
	t.Parallel()
	of := func() *v1alpha1.Microservice {
		out := &v1alpha1.Microservice{}
		out.OwnerReferences = []metav1.OwnerReference{{Kind: "Application", Name: "shop"}}
		out.Annotations = map[string]string{"note": strings.Clone("a note that occurs only once")}
		out.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{{Slug: strings.Clone("release-of-statuses"), Releases: []v1alpha1.Release{{Internal: &v1alpha1.ReleaseInternal{Routed: true}}}}}
		transform(t, out)
		return out
	}
	a, b := of(), of()
	if unsafe.StringData(a.Status.ReleaseGroups[0].Slug) != unsafe.StringData(b.Status.ReleaseGroups[0].Slug) {
		t.Error("the strings in the status are not shared")
	}
	if &a.Status.ReleaseGroups[0] == &b.Status.ReleaseGroups[0] || a.Status.ReleaseGroups[0].Releases[0].Internal == b.Status.ReleaseGroups[0].Releases[0].Internal {
		t.Error("parts of the status are shared")
	}
	if &a.OwnerReferences[0] != &b.OwnerReferences[0] {
		t.Error("the owners are not shared")
	}
	if unsafe.StringData(a.Annotations["note"]) == unsafe.StringData(b.Annotations["note"]) {
		t.Error("the values of annotations are shared")
	}
	statuses := []corev1.ContainerStatus{{Ready: true}}
	pod := &corev1.Pod{Status: corev1.PodStatus{ContainerStatuses: statuses}}
	transform(t, pod)
	if &pod.Status.ContainerStatuses[0] != &statuses[0] {
		t.Error("the container statuses that ready pods share were copied")
	}
}

// TestOneObjectDoesNotReplaceOthers checks that objects with very many or very large parts do not replace the other values in the tables.
func TestOneObjectDoesNotReplaceOthers(t *testing.T) {
	const others = 1000
	parts := sharer{left: 1 << 30}
	for i := range others {
		parts.text(fmt.Sprint("other-", i))
		v := []string{fmt.Sprint("other-", i)}
		parts.share(reflect.ValueOf(&v).Elem())
	}
	names, large, empty := &corev1.Service{}, &corev1.Pod{}, &corev1.Pod{}
	for i := range 40_000 {
		names.Spec.Ports = append(names.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("port-", i), AppProtocol: new(fmt.Sprint("protocol-", i))})
		names.Status.Conditions = append(names.Status.Conditions, metav1.Condition{Message: fmt.Sprint("message-", i)})
	}
	for i := range 400 {
		large.Spec.Containers = append(large.Spec.Containers, corev1.Container{Args: []string{fmt.Sprint(i, strings.Repeat("a", 10<<10))}})
		empty.Spec.Containers = append(empty.Spec.Containers, corev1.Container{Args: append(make([]string, 900), fmt.Sprint(i))})
	}
	for _, o := range []client.Object{names, large, empty} {
		transform(t, o)
	}
	for i := range others {
		text := fmt.Sprint("other-", i)
		v := reflect.ValueOf([]string{text})
		key, _, _ := hashOf(v)
		if _, ok := stringTable.known(text, text); !ok {
			t.Fatalf("string %d was replaced", i)
		}
		if _, ok := valueTable.known(key, v); !ok {
			t.Fatalf("value %d was replaced", i)
		}
	}
}

// TestTablesAreBounded checks the size of the tables after very many objects with large parts.
func TestTablesAreBounded(t *testing.T) {
	for i := range 1000 {
		transform(t, &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Args: []string{fmt.Sprint(i), strings.Repeat("a", 10<<10)}}}, Hostname: fmt.Sprint(i, strings.Repeat("a", 200))}})
	}
	size := 0
	for _, all := range []map[uint64]entry[reflect.Value]{valueTable.recent, valueTable.earlier} {
		for _, e := range all {
			if v, ok := e.value.Interface().([]string); ok && len(v) == 2 && e.size < 10<<10 {
				t.Fatalf("a value of 10 KiB counts as %d bytes", e.size)
			}
			size += e.size + entrySize
		}
	}
	if size > 2<<20+64<<10 {
		t.Errorf("the values occupy %d bytes", size)
	}
	parts := sharer{left: 1 << 30}
	for i := range 30_000 {
		parts.text(fmt.Sprint(i, strings.Repeat("a", 200)))
	}
	size = 0
	for _, all := range []map[string]entry[string]{stringTable.recent, stringTable.earlier} {
		for s := range all {
			size += len(s) + entrySize
		}
	}
	if size > 2<<20+64<<10 {
		t.Errorf("the strings occupy %d bytes", size)
	}
}

// TestSharedSlicesHaveNoUnusedCapacity checks that an append to a slice of one object does not change another object.
func TestSharedSlicesHaveNoUnusedCapacity(t *testing.T) {
	t.Parallel()
	of := func() *corev1.Pod {
		out := &corev1.Pod{Spec: corev1.PodSpec{
			SecurityContext: &corev1.PodSecurityContext{SupplementalGroups: append(make([]int64, 0, 9), 1, 2)}, Containers: []corev1.Container{{Args: append(make([]string, 0, 9), "a")}},
		}}
		transform(t, out)
		return out
	}
	p := of()
	if groups := p.Spec.SecurityContext.SupplementalGroups; cap(groups) != len(groups) {
		t.Errorf("numbers: length %d, capacity %d", len(groups), cap(groups))
	}
	if args := p.Spec.Containers[0].Args; cap(args) != len(args) {
		t.Errorf("strings: length %d, capacity %d", len(args), cap(args))
	}
}

func transform(t *testing.T, o client.Object) {
	t.Helper()
	if _, err := Transform(o); err != nil {
		t.Fatal(err)
	}
}

// forget clears the table of values, and replaces a string in the table of strings.
func forget(s string) {
	valueTable.mu.Lock()
	defer valueTable.mu.Unlock()
	valueTable.recent, valueTable.earlier = nil, nil
	stringTable.mu.Lock()
	defer stringTable.mu.Unlock()
	stringTable.put(s, entry[string]{value: strings.Clone(s)})
}

// TestHash checks that equal values have equal hashes, and that different values have different
// hashes.
func TestHash(t *testing.T) {
	t.Parallel()
	one, zero := 1, 0
	different := []any{
		[]string{"ab", "c"}, []string{"a", "bc"}, []string{"ab"}, []string{"", "ab"}, [][]string{{"a"}, {"b"}}, [][]string{{"a", "b"}},
		map[string]string{"a": "b"}, map[string]string{"b": "a"}, map[string]string{"a": "b", "c": "d"}, map[string]string{"a": "d", "c": "b"},
		[]*int{&one}, []*int{&zero}, []*int{nil}, []bool{true}, []bool{false},
	}
	hashes := map[uint64]any{}
	for _, v := range different {
		hash, _, small := hashOf(reflect.ValueOf(v))
		if other, ok := hashes[hash]; ok || !small {
			t.Errorf("%v and %v have the same hash, or the first value is not hashed", v, other)
		}
		hashes[hash] = v
	}
	for i := range 15 {
		m, reversed := map[string]int{}, map[string]int{}
		for k := range i {
			m[string(rune(k))], reversed[string(rune(i-1-k))] = k, i-1-k
		}
		a, _, _ := hashOf(reflect.ValueOf(m))
		b, _, _ := hashOf(reflect.ValueOf(reversed))
		if a != b {
			t.Fatalf("equal maps with %d keys have different hashes", i)
		}
	}
	for _, v := range []any{[]time.Time{{}}, []any{1}, []float64{1}, []func(){nil}} {
		if _, _, small := hashOf(reflect.ValueOf(v)); small {
			t.Errorf("%T has a hash", v)
		}
	}
}
