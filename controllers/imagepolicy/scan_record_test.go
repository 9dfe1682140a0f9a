package imagepolicy

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	testingclock "k8s.io/utils/clock/testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/registry"
)

// silentRegistry responds only after the caller's context is done.
type silentRegistry struct{ shelf }

func (*silentRegistry) List(ctx context.Context, _ registry.Request) (registry.Scan, error) {
	<-ctx.Done()
	return registry.Scan{}, ctx.Err()
}

// TestLateScan checks that a scan that takes too long is reported, does not change the offer, and is soon
// started again.
func TestLateScan(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	clock := testingclock.NewFakeClock(now)
	o, _ := fixture(t, []string{"1.0.0"}, "1.0.0")
	o.query.interval = time.Hour
	ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
	defer cancel()
	l := newScanRecord(o.query, o.access, false)
	s := selectReleases(o, &recordReader{scanRecord: l, clock: clock, scanner: &silentRegistry{}, ctx: ctx}, map[string]time.Time{}, nil)
	if !errors.Is(s.err, errTimedOut) {
		t.Fatalf("error %v, want %v", s.err, errTimedOut)
	}
	l.finish(s.err, now)
	same(t, "due", l.due, now.Add(5*time.Minute))

	s = selectReleases(o, &recordReader{scanRecord: l, clock: clock}, map[string]time.Time{}, nil)
	out := newPlan(o, s, now)
	setConditions(o, s, out)
	shown := &v1alpha1.ImagePolicy{Status: v1alpha1.ImagePolicyStatus{Releases: out.releases, Conditions: o.policy.Status.Conditions}}
	same(t, "offered", offered(shown), []string{"1.0.0 in release"})
	same(t, "Ready", condition(shown, "Ready"), "True Succeeded: offers 1 version in 1 group")
	same(t, "SourceReachable", condition(shown, "SourceReachable"), "False Failed: "+errTimedOut.Error())
}

func TestDue(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	down := &registry.Error{Kind: registry.Unreachable}
	for name, test := range map[string]struct {
		interval time.Duration
		before   time.Duration // previous due time, relative to now; 0 means that the scan was not complete before
		err      error
		least    time.Duration
		most     time.Duration
	}{
		"good":                                {time.Hour, 0, nil, 54 * time.Minute, time.Hour},
		"down":                                {time.Hour, 0, down, 5 * time.Minute, 5 * time.Minute},
		"unreachable, with frequent requests": {5 * time.Second, 0, down, 5 * time.Second, 5 * time.Second},
		"refused":                             {time.Hour, 0, &registry.Error{Kind: registry.Unauthorized}, time.Hour, time.Hour},
		"paused":                              {time.Minute, 0, &registry.Error{Kind: registry.RateLimited, RetryAt: now.Add(time.Hour)}, time.Hour, time.Hour + spread},
		"due again, and good":                 {time.Hour, time.Minute, nil, time.Minute, time.Minute},
		"due again, and unreachable":          {time.Hour, 30 * time.Minute, down, 5 * time.Minute, 5 * time.Minute},
		"due again earlier, and unreachable":  {time.Hour, time.Minute, down, time.Minute, time.Minute},
		"due again, and paused for longer":    {time.Minute, time.Second, &registry.Error{Kind: registry.RateLimited, RetryAt: now.Add(time.Hour)}, time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newScanRecord(query{interval: test.interval}, access{}, false)
			l.time = now
			if test.before > 0 {
				l.due = now.Add(test.before)
			}
			l.finish(test.err, now)
			if due := l.due.Sub(now); due < test.least || due > test.most {
				t.Errorf("due in %s, want %s to %s", due, test.least, test.most)
			}
		})
	}
}

// TestPausedScansAreSpread checks that the scans that waited for the same rate limit do not all start in the same second.
func TestPausedScansAreSpread(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seconds := map[time.Time]int{}
	for range 100 {
		l := newScanRecord(query{interval: time.Minute}, access{}, false)
		l.finish(&registry.Error{Kind: registry.RateLimited, RetryAt: now.Add(time.Second)}, now)
		seconds[l.due.Truncate(time.Second)]++
	}
	for second, scans := range seconds {
		if scans > 30 {
			t.Errorf("%d of 100 scans start at %s", scans, second)
		}
	}
}

// labeledRegistry returns images with many labels.
type labeledRegistry struct {
	shelf
	labels map[string]string
}

func (r *labeledRegistry) Inspect(_ context.Context, _ registry.Request, digest, _ string) (registry.Image, error) {
	return registry.Image{Digest: digest, Labels: r.labels, Revision: r.labels["revision"]}, nil
}

// TestRecordKeepsMatchedLabels checks that a record keeps only the labels in spec.match, and that the labels are requested again if spec.match
// changes.
func TestRecordKeepsMatchedLabels(t *testing.T) {
	t.Parallel()
	labels := map[string]string{"team": "a", "revision": "0123"}
	for i := range 100 {
		labels[fmt.Sprint("label-", i)] = "x"
	}
	l := newScanRecord(query{origin: origin{repository: "r.example/shop"}}, access{}, false)
	clock := testingclock.NewFakeClock(time.Now())
	a := &recordReader{scanRecord: l, clock: clock, scanner: &labeledRegistry{labels: labels}, ctx: t.Context(), labels: []string{"team", "absent"}}
	got, err := a.Inspect(0, "sha256:1", "linux/amd64")
	same(t, "error", err, nil)
	same(t, "labels", got.Labels, map[string]string{"team": "a"})
	same(t, "revision", got.Revision, "0123")
	for _, x := range l.details {
		same(t, "labels in the record", x.value.Labels, map[string]string{"team": "a"})
	}
	a = &recordReader{scanRecord: l, clock: clock, labels: []string{"label-1"}}
	if _, err := a.Inspect(0, "sha256:1", "linux/amd64"); !errors.Is(err, errNotScanned) || !a.incomplete {
		t.Errorf("Inspect after a change of spec.match: %v, want %v", err, errNotScanned)
	}
}
