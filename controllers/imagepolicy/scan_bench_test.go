package imagepolicy

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
	runtimemetrics "runtime/metrics"
	"slices"
	"syscall"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
)

// shelf is a registry with one repository and one image for each tag.
type shelf struct{ scan registry.Scan }

func (s *shelf) List(context.Context, registry.Request) (registry.Scan, error) { return s.scan, nil }

func (s *shelf) Resolve(_ context.Context, _ registry.Request, tag string) (registry.Image, error) {
	return registry.Image{Digest: fmt.Sprintf("sha256:%064x", len(tag)), Platforms: []string{"linux/amd64"}, Time: s.scan.Time}, nil
}

func (*shelf) Inspect(_ context.Context, _ registry.Request, digest, _ string) (registry.Image, error) {
	return registry.Image{Digest: digest}, nil
}

func (*shelf) Gone(context.Context, registry.Request, string, string, string) (bool, error) {
	return false, nil
}

// newShelf returns a registry with n typical tags: three quarters are versions, and the rest are commits,
// signatures, and floating tags.
func newShelf(n int, at time.Time) *shelf {
	tags := make([]string, n)
	for i := range tags {
		switch i % 8 {
		case 0:
			tags[i] = fmt.Sprintf("%040x", i)
		case 1:
			tags[i] = fmt.Sprintf("sha256-%064x.sig", i)
		case 2:
			tags[i] = fmt.Sprintf("v%d.%d.%d-rc.%d", i%7, i%50, i/100, i%9)
		default:
			tags[i] = fmt.Sprintf("%d.%d.%d", i%7, i%50, i/100)
		}
	}
	slices.Sort(tags)
	tags = slices.Compact(tags)
	return &shelf{registry.Scan{Tags: tags, Checksum: "a", Time: at}}
}

// rulesOfScans are the specifications of the policies that use the same repository.
var rulesOfScans = []v1alpha1.ImagePolicySpec{
	{},
	{Versioning: v1alpha1.Versioning{Level: v1alpha1.LevelCandidate, GroupBy: v1alpha1.GroupByMinor, Range: ">=1.0.0 <5.0.0"}, Deny: []string{"2.3.x", "4.0.0"}},
	{TagFilter: &v1alpha1.TagFilter{Pattern: `^v?(?P<version>\d+\.\d+\.\d+)$`, Extract: "$version", Exclude: []string{"nightly"}}},
	{Versioning: v1alpha1.Versioning{Scheme: v1alpha1.SchemeTuple, GroupBy: v1alpha1.GroupByMajor}},
}

// observedShelf returns the observed state of a policy that accepts at most n tags.
func observedShelf(t testing.TB, spec v1alpha1.ImagePolicySpec, n int) *observed {
	o := &observed{policy: &v1alpha1.ImagePolicy{Spec: spec}, platforms: []string{"linux/amd64"}}
	o.policy.Spec.Image = "registry.example.com/shop"
	o.selector = compile(t, &o.policy.Spec)
	o.query = query{origin: origin{repository: o.policy.Spec.Image}, interval: time.Minute, maxTags: n}
	return o
}

// TestMemoryOfAScan checks that a scan of the maximum number of tags, together with the reconcile that
// reports it, never uses more than 64 MiB that the garbage collector cannot free. Sixteen concurrent scans
// therefore require at most 1 GiB. Any further memory depends on the garbage collector (GOGC,
// GOMEMLIMIT). The list of tags is not included, because it belongs to the registry and is shared. No other
// test runs at the same time.
func TestMemoryOfAScan(t *testing.T) {
	const n, needs = 100_000, 64 << 20
	defer debug.SetGCPercent(debug.SetGCPercent(50))
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock, shelf := testingclock.NewFakeClock(now), newShelf(n, now)
	for i, spec := range rulesOfScans {
		o := observedShelf(t, spec, n)
		live := heap()
		var s selection
		var out plan
		most := peak(func() {
			l := newScanRecord(o.query, o.access, false)
			s = selectReleases(o, &recordReader{scanRecord: l, clock: clock, scanner: shelf, ctx: t.Context()}, map[string]time.Time{}, nil)
			l.finish(s.err, now)
			s = selectReleases(o, &recordReader{scanRecord: l, clock: clock}, map[string]time.Time{}, nil)
			out = newPlan(o, s, now)
		}) - live
		if most < 1<<20 {
			t.Errorf("policy %d: a scan needs %d KiB, which is too little for a measurement", i, most>>10)
		}
		if len(out.releases) == 0 || s.tags < n*9/10 {
			t.Fatalf("policy %d offers %d of %d tags", i, len(out.releases), s.tags)
		}
		t.Logf("policy %d: %d MiB", i, most>>20)
		if most > needs {
			t.Errorf("policy %d: a scan needs %d MiB", i, most>>20)
		}
	}
}

// peak returns the maximum memory that the garbage collector found in use while f ran.
func peak(f func()) int64 {
	sample := []runtimemetrics.Sample{{Name: "/gc/heap/live:bytes"}}
	done, most := make(chan struct{}), make(chan int64)
	go func() {
		var seen uint64
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			runtimemetrics.Read(sample)
			seen = max(seen, sample[0].Value.Uint64())
			select {
			case <-done:
				most <- int64(seen)
				return
			case <-tick.C:
			}
		}
	}()
	f()
	close(done)
	return <-most
}

// BenchmarkScan measures a whole scan of each of twenty policies for one repository, with the reconcile
// that reports it. cpu-ms/scan is the processor time of one scan, including garbage collection.
// KiB-live is the memory that all twenty policies keep until the next scan. B/op and allocs/op are
// the allocations of all twenty scans, most of which are freed immediately. TestMemoryOfAScan bounds
// the memory of one scan.
func BenchmarkScan(b *testing.B) {
	for _, n := range []int{10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			const policies = 20
			now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
			clock := testingclock.NewFakeClock(now)
			registry := newShelf(n, now)
			var all []*observed
			for i := range policies {
				all = append(all, observedShelf(b, rulesOfScans[i%len(rulesOfScans)], n))
			}
			kept := make([]*scanRecord, policies)
			live, before := heap(), cpu(b)
			b.ReportAllocs()
			for b.Loop() {
				for i, o := range all {
					l := newScanRecord(o.query, o.access, false)
					s := selectReleases(o, &recordReader{scanRecord: l, clock: clock, scanner: registry, ctx: b.Context()}, map[string]time.Time{}, nil)
					l.finish(s.err, now)
					kept[i] = l
					s = selectReleases(o, &recordReader{scanRecord: l, clock: clock}, map[string]time.Time{}, nil)
					out := newPlan(o, s, now)
					if o.policy.Status.Releases = out.releases; len(out.releases) == 0 || s.incomplete {
						b.Fatalf("policy %d offers %d versions, incomplete: %v", i, len(out.releases), s.incomplete)
					}
				}
			}
			b.ReportMetric(float64((cpu(b)-before).Microseconds())/1000/float64(b.N*policies), "cpu-ms/scan")
			b.ReportMetric(float64(heap()-live)/1024, "KiB-live")
			runtime.KeepAlive(kept)
		})
	}
}

// cpu returns the processor time of this process, including garbage collection.
func cpu(b *testing.B) time.Duration {
	b.Helper()
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// heap returns the memory in use.
func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
