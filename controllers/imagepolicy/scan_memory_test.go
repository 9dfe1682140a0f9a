package imagepolicy

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"testing"
	"time"
	"weak"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
)

// TestListsAreBounded checks that, if a tenant has many policies, not all lists of these policies are kept, and
// that the lists of other tenants and all other policy state are kept.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	ls, clock, ended := runScans(t)
	long := strings.Repeat("a", 8<<20)
	o := &observed{policy: &v1alpha1.ImagePolicy{}, minAge: time.Hour}
	var lists []weak.Pointer[string]
	scan := func(namespace, name string, tags ...string) {
		t.Helper()
		lists = append(lists, weak.Make(&tags[0]))
		q := query{origin: origin{repository: "registry.example.com/" + name}}
		ls.start(types.NamespacedName{Namespace: namespace, Name: name}, newScanRecord(q, access{}, false), false, func(_ context.Context, l *scanRecord) {
			l.time = clock.Now()
			l.tags = &answer[registry.Scan]{value: registry.Scan{Tags: tags}}
			l.due = clock.Now().Add(time.Hour)
		})
		if policy := <-ended; policy.Name != name {
			t.Fatalf("scan of %s ended, want %s", policy, name)
		} else {
			ls.setFirstSeen(policy, o.observeTags(nil, tags, "", clock.Now()))
		}
		clock.Step(time.Second)
	}
	scan("careful", "shop", long[:1<<20])
	shared := []string{long, long, long, long, long}
	for n := range 3 { // three policies share one list
		scan("shared", fmt.Sprint("shop-", n), shared...)
	}
	for n := range 20 {
		scan("greedy", fmt.Sprint("shop-", n), long)
		bytes, seen := 0, map[*string]bool{}
		for _, m := range ls.policies {
			if list := m.record.list(); len(list) > 0 && !seen[&list[0]] {
				seen[&list[0]] = true
				bytes += m.record.listBytes
			}
		}
		if bytes > maxLists {
			t.Fatalf("%d bytes of lists after %d scans, want at most %d", bytes, n, maxLists)
		}
		runtime.GC()
		reachable := 0
		for _, list := range lists {
			if list.Value() != nil {
				reachable++
			}
		}
		if most := 3 + 1 + maxLists/len(long); reachable > most { // the policies in "shared" use one list
			t.Fatalf("%d lists are reachable after %d scans, want at most %d", reachable, n, most)
		}
	}
	listed := 0
	for _, m := range ls.policies {
		listed += m.record.bytes()
	}
	if ls.listed != listed {
		t.Errorf("%d bytes of lists are counted, want %d", ls.listed, listed)
	}
	for name, want := range map[types.NamespacedName]bool{
		{Namespace: "careful", Name: "shop"}: true, {Namespace: "shared", Name: "shop-0"}: true, {Namespace: "shared", Name: "shop-2"}: true,
		{Namespace: "greedy", Name: "shop-0"}: false, {Namespace: "greedy", Name: "shop-19"}: true, {Namespace: "greedy", Name: "shop-18"}: true,
	} {
		m := ls.entry(name)
		if got := len(m.record.list()) > 0; got != want {
			t.Errorf("%s has its list: %t, want %t", name, got, want)
		}
		if !m.record.answers(m.record.query, clock.Now()) {
			t.Errorf("the scan of %s was lost", name)
		}
	}
}

// TestTimesAreBounded checks that build times count as part of the lists, and that the build times of a namespace are
// removed after its lists.
func TestTimesAreBounded(t *testing.T) {
	t.Parallel()
	ls, clock, ended := runScans(t)
	long := strings.Repeat("a", 8<<20)
	for n := range 20 {
		name := types.NamespacedName{Namespace: "greedy", Name: fmt.Sprint("shop-", n)}
		q := query{origin: origin{repository: "registry.example.com/" + name.Name}}
		ls.start(name, newScanRecord(q, access{}, false), false, func(_ context.Context, l *scanRecord) {
			l.time = clock.Now()
			l.tags = &answer[registry.Scan]{value: registry.Scan{Tags: []string{long[:1<<20]}}}
			l.times[long] = &answer[buildTime]{value: buildTime{digest: "sha256:1"}}
		})
		<-ended
		clock.Step(time.Second)
	}
	bytes, lists := 0, 0
	for _, m := range ls.policies {
		lists += len(m.record.list())
		for tag := range m.record.times {
			bytes += len(tag)
		}
	}
	if bytes > maxLists || bytes < maxLists/2 {
		t.Errorf("%d bytes of build times, want at most %d", bytes, maxLists)
	}
	same(t, "lists", lists, 1)
	last := ls.entry(types.NamespacedName{Namespace: "greedy", Name: "shop-19"}).record
	same(t, "lists and build times of the last scan", [2]int{len(last.list()), len(last.times)}, [2]int{1, 1})
	first := ls.entry(types.NamespacedName{Namespace: "greedy", Name: "shop-0"}).record.clone()
	first.times["1.0.0"] = &answer[buildTime]{} // A scan can continue.
}

// runScans returns a scanCache that runs scans, its clock, and a channel that gets the policy of each scan that ended.
func runScans(t *testing.T) (*scanCache, *testingclock.FakeClock, <-chan types.NamespacedName) {
	clock := testingclock.NewFakeClock(time.Now())
	ls := newScanCache(clock, 32)
	ended := make(chan types.NamespacedName, 1)
	ls.run(t.Context(), func(policy types.NamespacedName) { ended <- policy })
	return ls, clock, ended
}
