package imagepolicy

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/internal/registry"
)

// TestListsAreBounded checks that, if a tenant has many policies, not all lists of these policies are kept, and
// that the lists of other tenants and all other policy state are kept.
func TestListsAreBounded(t *testing.T) {
	t.Parallel()
	clock := testingclock.NewFakeClock(time.Now())
	ls := newScanCache(clock, 32)
	ended := make(chan types.NamespacedName, 1)
	ls.run(t.Context(), func(policy types.NamespacedName) { ended <- policy })
	long := strings.Repeat("a", 8<<20)
	scan := func(namespace, name string, tags ...string) {
		t.Helper()
		q := query{origin: origin{repository: "registry.example.com/" + name}}
		ls.start(types.NamespacedName{Namespace: namespace, Name: name}, newScanRecord(q, access{}, false), false, func(_ context.Context, l *scanRecord) {
			l.time = clock.Now()
			l.tags = &answer[registry.Scan]{value: registry.Scan{Tags: tags}}
			l.due = clock.Now().Add(time.Hour)
		})
		if policy := <-ended; policy.Name != name {
			t.Fatalf("scan of %s ended, want %s", policy, name)
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
