package web

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

// TestSpark checks that values and bounds use the same scale, and that the picture has text for screen readers.
func TestSpark(t *testing.T) {
	t.Parallel()
	bound := 500.0
	if got := spark(view.Metric{Name: "latency-p99", Values: []float64{612}}); got != nil {
		t.Errorf("one value is a line: %+v", got)
	}
	want := &sparkline{Points: "2.0,18.0 50.0,13.6 98.0,2.0", X: "98.0", Y: "2.0", Bounds: []string{"6.3"}, Label: "latency-p99: 200, 314, 612; at most 500"}
	if diff := cmp.Diff(want, spark(view.Metric{Name: "latency-p99", Values: []float64{200, 314, 612}, Max: &bound})); diff != "" {
		t.Error(diff)
	}
	if got := spark(view.Metric{Name: "even", Values: []float64{1, 1}}); got == nil || strings.Contains(got.Points, "NaN") {
		t.Errorf("%+v", got)
	}
}

// TestSparkOnPages checks that the pages of the service and the release show the values of the last
// rounds, oldest first.
func TestSparkOnPages(t *testing.T) {
	t.Parallel()
	b := story(t, "rolled back")
	data, _ := b.store.Data()
	o := data.Objects
	found := ""
	for i := range o.Releases {
		r := &o.Releases[i]
		if r.Status.Analysis == nil || len(r.Status.Analysis.Metrics) == 0 {
			continue
		}
		m := &r.Status.Analysis.Metrics[0]
		for _, value := range []string{"", "0.314", "NaN", "0.2"} { // newest first, after the value in the story
			m.Measurements = append(m.Measurements, v1alpha1.Measurement{Time: metav1.NewMicroTime(time.Unix(1, 0)), Value: value})
		}
		found = r.Name
	}
	if found == "" {
		t.Fatal("the story has no measurements")
	}
	b.store.Set(o)
	b.clock.Step(time.Second)
	for _, path := range []string{"/services/shop/shop", "/services/shop/shop/releases/" + found} {
		page := b.get(path)
		if !strings.Contains(page, `aria-label="latency-p99: 0.2, 0.314, 0.612; at most 0.5"`) {
			t.Errorf("%s has no picture of the measurements: %s", path, page)
		}
		if faults := faults(t, page); len(faults) > 0 {
			t.Errorf("%s: %v", path, faults)
		}
	}
}

// TestHooksOnPages checks that the page of a release shows its hooks, in order, and the logs of Jobs as text.
func TestHooksOnPages(t *testing.T) {
	t.Parallel()
	b := story(t, "rolled back")
	data, _ := b.store.Data()
	o := data.Objects
	r := &o.Releases[0]
	at := func(second int64) *metav1.MicroTime { return new(metav1.NewMicroTime(time.Unix(second, 0))) }
	r.Status.Hooks = []v1alpha1.HookStatus{
		{Name: "smoke", Type: v1alpha1.HookPreRollout, ID: "2", Phase: v1alpha1.HookDelivered, Time: at(20), Message: "200 OK"},
		{Name: "migrate", Type: v1alpha1.HookConfirmRollout, ID: "1", Phase: v1alpha1.HookFailed, Time: at(10), Message: "Job shop-1 failed: no such table", Job: "shop-1", Log: "begin\n<b>no such table</b>"},
	}
	b.store.Set(o)
	b.clock.Step(time.Second)
	page := b.get("/services/shop/shop/releases/" + r.Name)
	first, second := strings.Index(page, `migrate <span class="faint">(ConfirmRollout)</span>`), strings.Index(page, `smoke <span class="faint">(PreRollout)</span>`)
	if first < 0 || second < first {
		t.Errorf("the hooks are at %d and %d", first, second)
	}
	for _, want := range []string{"Job shop-1 failed: no such table", "<summary>Log of Job shop-1</summary><pre>begin\n&lt;b&gt;no such table&lt;/b&gt;</pre>", "200 OK"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page has no %q:\n%s", want, page)
		}
	}
	if faults := faults(t, page); len(faults) > 0 {
		t.Error(faults)
	}
}
