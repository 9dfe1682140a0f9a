package apply

import (
	"context"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func configMap(uid types.UID, version, content string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", UID: uid, ResourceVersion: version}, Data: map[string]string{"a": content},
	}
}

// TestMatches checks that a match is remembered only for the same state of an object, the same
// intent and the same owner.
func TestMatches(t *testing.T) {
	t.Parallel()
	owner, other := configMap("owner", "1", ""), configMap("other", "1", "")
	for name, tc := range map[string]struct {
		owner, live, desired *corev1.ConfigMap
		want                 bool
	}{
		"same":           {owner, configMap("web", "7", "x"), configMap("", "", "x"), true},
		"changed since":  {owner, configMap("web", "8", "x"), configMap("", "", "x"), false},
		"another object": {owner, configMap("new", "7", "x"), configMap("", "", "x"), false},
		"another intent": {owner, configMap("web", "7", "x"), configMap("", "", "y"), false},
		"another owner":  {other, configMap("web", "7", "x"), configMap("", "", "x"), false},
	} {
		c := &Matches{}
		noted, err := c.digest(owner, configMap("", "", "x"))
		if err != nil {
			t.Fatal(err)
		}
		c.note(configMap("web", "7", "x"), noted)
		asked, err := c.digest(tc.owner, tc.desired)
		if err != nil {
			t.Fatal(err)
		}
		if got := c.have(tc.live, asked); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
		c.forget("web")
		if c.have(tc.live, asked) {
			t.Errorf("%s: it is remembered after its deletion", name)
		}
	}
	var none *Matches
	none.noteReplaced("web", "6")
	if none.haveReplaced("web", "6") {
		t.Error("nil remembers a replaced state")
	}
	none.note(configMap("web", "7", "x"), checksum{})
	none.forget("web")
	if none.have(configMap("web", "7", "x"), checksum{}) {
		t.Error("nil remembers an object")
	}
}

// stored is a client with one object.
type stored struct {
	client.Client
	object *corev1.Service
}

func (stored) Scheme() *runtime.Scheme { return clientgoscheme.Scheme }

func (s stored) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	s.object.DeepCopyInto(into.(*corev1.Service))
	return nil
}

// BenchmarkUnchanged applies an unchanged intent, with and without Matches.
func BenchmarkUnchanged(b *testing.B) {
	owner := configMap("owner", "1", "")
	desired := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"a": "b", "c": "d"}},
		Spec:       corev1.ServiceSpec{Selector: map[string]string{"a": "b"}, Ports: []corev1.ServicePort{{Name: "http", Port: 80}}},
	}
	for name, memory := range map[string]*Matches{"without": nil, "with": {}} {
		b.Run(name, func(b *testing.B) {
			w := Writer{Client: stored{}, Owner: "bench", Matches: memory}
			intent, err := w.intent(owner, desired)
			if err != nil {
				b.Fatal(err)
			}
			live := desired.DeepCopy()
			live.UID, live.ResourceVersion, live.Annotations = "web", "7", intent.GetAnnotations()
			live.OwnerReferences = intent.GetOwnerReferences()
			w.Client = stored{object: live}
			b.ReportAllocs()
			for b.Loop() {
				if got, err := w.Apply(b.Context(), owner, desired); err != nil || got != Unchanged {
					b.Fatalf("%s, %v", got, err)
				}
			}
		})
	}
}

// TestReplaced checks that a state that our write replaced is remembered until the next
// write.
func TestReplaced(t *testing.T) {
	t.Parallel()
	c := &Matches{}
	c.noteReplaced("web", "6")
	for name, tc := range map[string]struct {
		uid     types.UID
		version string
		want    bool
	}{
		"replaced":        {"web", "6", true},
		"the next state":  {"web", "7", false},
		"another object":  {"api", "6", false},
		"no precondition": {"web", "", false},
	} {
		if got := c.haveReplaced(tc.uid, tc.version); got != tc.want {
			t.Errorf("%s: %t, want %t", name, got, tc.want)
		}
	}
	if c.noteReplaced("web", "7"); c.haveReplaced("web", "6") {
		t.Error("an older state is also remembered")
	}
	if c.forget("web"); len(c.replaced.recent)+len(c.replaced.earlier) > 0 {
		t.Error("a state of a deleted object is remembered")
	}
	c.noteReplaced("web", "7")
	refused := 0
	for c.haveReplaced("web", "7") {
		refused++
	}
	if refused != maxRefusals {
		t.Errorf("a write is refused %d times before the server is asked, want %d", refused, maxRefusals)
	}
}

// TestMatchesAreLimited checks that the records that were used most recently are kept, and that the number of records is limited.
func TestMatchesAreLimited(t *testing.T) {
	t.Parallel()
	const limit = 100
	uid := func(i int) types.UID { return types.UID(strconv.Itoa(i)) }
	var g generations[int]
	for i := range 10 * limit {
		g.put(uid(i), i, limit)
		if got, ok := g.get(uid(0), limit); !ok || got != 0 {
			t.Fatalf("after %d records, the record that is always used is %d, %t, want 0", i, got, ok)
		}
		if n := len(g.recent) + len(g.earlier); n > 2*limit {
			t.Fatalf("there are %d records, want at most %d", n, 2*limit)
		}
	}
	for i := 9*limit + 1; i < 10*limit; i++ {
		if got, ok := g.get(uid(i), limit); !ok || got != i {
			t.Fatalf("one of the last %d records, %d, is %d, %t", limit, i, got, ok)
		}
	}
	g.put("replaced", 1, limit)
	g.put("replaced", 2, limit)
	if got, _ := g.get("replaced", limit); got != 2 {
		t.Errorf("a replaced record is %d, want 2", got)
	}
	g.remove("replaced")
	if _, ok := g.get("replaced", limit); ok {
		t.Error("a removed record is found")
	}
}
