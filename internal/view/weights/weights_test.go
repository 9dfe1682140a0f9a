package weights

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

// rolling returns a service whose canary has a weight.
func rolling(weight int32) []v1alpha1.Microservice {
	ms := v1alpha1.Microservice{}
	ms.Namespace, ms.Name = "shop", "cart"
	row := func(version string, status v1alpha1.ReleaseStatus, weight int32) v1alpha1.Release {
		return v1alpha1.Release{VersionedMicroservice: "cart-" + version, SemVer: v1alpha1.SemVer{Version: version}, Status: status, Weight: weight}
	}
	ms.Status.ReleaseGroups = []v1alpha1.ReleaseGroup{
		{Name: "1.x", Slug: "1-x", Phase: v1alpha1.GroupLive, Releases: []v1alpha1.Release{row("1.1.0", v1alpha1.ReleaseCanary, weight), row("1.0.0", v1alpha1.ReleaseActive, 100-weight)}},
		{Name: "cart-17", Slug: "cart-17", Phase: v1alpha1.GroupLive, Level: v1alpha1.LevelPreview, Releases: []v1alpha1.Release{row("abc", v1alpha1.ReleaseActive, weight)}},
	}
	return []v1alpha1.Microservice{ms}
}

// TestWeights checks that weights are recorded when they change, up to a maximum number of points, and are dropped when the
// service is gone.
func TestWeights(t *testing.T) {
	t.Parallel()
	begin := time.Date(2030, 1, 31, 9, 0, 0, 0, time.UTC)
	var w History
	w.Observe(rolling(0), begin)
	if got := w.Of("shop", "cart"); got != nil {
		t.Errorf("nothing changed: %+v", got)
	}
	w.Observe(rolling(10), begin.Add(time.Minute))
	first := w.Of("shop", "cart")
	w.Observe(rolling(10), begin.Add(2*time.Minute))
	w.Observe(rolling(50), begin.Add(3*time.Minute))
	text := func(groups []view.GroupWeights) (out []string) {
		for _, g := range groups {
			for _, p := range g.Points {
				out = append(out, fmt.Sprintf("%s %s %v", g.Group, p.Time.Format("15:04"), p.Shares))
			}
		}
		return out
	}
	want := []string{"1.x 09:00 [{cart-1.0.0 1.0.0 100}]", "1.x 09:01 [{cart-1.0.0 1.0.0 90} {cart-1.1.0 1.1.0 10}]", "1.x 09:03 [{cart-1.0.0 1.0.0 50} {cart-1.1.0 1.1.0 50}]"}
	if diff := cmp.Diff(want, text(w.Of("shop", "cart"))); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want[:2], text(first)); diff != "" {
		t.Errorf("the points that were returned before have changed: %s", diff)
	}
	for i := range 500 {
		w.Observe(rolling(int32(i%100)), begin.Add(time.Hour+time.Duration(i)*time.Second))
	}
	if got := w.Of("shop", "cart"); len(got) != 1 || len(got[0].Points) != 48 || got[0].Points[47].Shares[1].Weight != 99 {
		t.Errorf("%+v", got)
	}
	w.Observe(nil, begin.Add(2*time.Hour))
	if got := w.Of("shop", "cart"); got != nil {
		t.Errorf("a service that is gone: %+v", got)
	}
}
