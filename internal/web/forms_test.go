package web

import (
	"context"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestUnpin checks that the form offers a choice of groups if several groups are pinned, and that the buttons of a group select the group.
func TestUnpin(t *testing.T) {
	t.Parallel()
	b := story(t, "promoted")
	const path = "/services/shop/shop/acts/unpin"
	pins := []v1alpha1.GroupPin{{Name: "1.x", Version: "1.1.0"}}
	b.change(func(ms *v1alpha1.Microservice) {
		ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{Groups: pins}
		ms.Status.ReleaseGroups[0].Target.Reason = "Pinned"
	})
	if f := only(t, b.get(path)); len(f.options) > 0 || f.values.Get("group") != "" || !slices.Contains(f.buttons, "Unpin") {
		t.Errorf("one pinned group: %+v", f)
	}
	b.change(func(ms *v1alpha1.Microservice) {
		g := *ms.Status.ReleaseGroups[0].DeepCopy()
		g.Name, g.Slug = "2.x", "2-x"
		for i := range g.Releases {
			r := &g.Releases[i]
			r.SemVer.Version = strings.Replace(r.SemVer.Version, "1.", "2.", 1)
			r.VersionedMicroservice = strings.Replace(r.VersionedMicroservice, "shop-1-", "shop-2-", 1)
		}
		g.Target.Release = strings.Replace(g.Target.Release, "shop-1-", "shop-2-", 1)
		ms.Status.ReleaseGroups = slices.Insert(ms.Status.ReleaseGroups, 0, g)
		ms.Spec.UpdateStrategy.Manual.Groups = append(pins, v1alpha1.GroupPin{Name: "2.x", Release: g.Target.Release})
	})
	if page := b.get("/services/shop/shop"); !strings.Contains(page, path+"?group=2.x") || !strings.Contains(page, path+"?group=1.x") {
		t.Error("the buttons do not name their groups")
	}
	f := only(t, b.get(path))
	if !slices.Equal(f.options, []string{"2.x, pinned to 2.1.0", "1.x, pinned to 1.1.0"}) || slices.Contains(f.buttons, "Unpin") {
		t.Errorf("without a group: %+v", f)
	}
	f = only(t, b.get(path+"?group=1.x"))
	if f.values.Get("group") != "1.x" || !slices.Contains(f.buttons, "Unpin") {
		t.Errorf("with a group: %+v", f)
	}
	other := url.Values{}
	for k, v := range f.values {
		other[k] = v
	}
	other.Set("group", "2.x")
	if w := b.request("POST", path, other); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "You chose a different group") || len(b.acts.done) > 0 {
		t.Errorf("a group other than the one in the preview: %d %+v", w.Code, b.acts.done)
	}
	if w := b.request("POST", path, f.values); w.Code != http.StatusSeeOther || len(b.acts.done) != 1 || b.acts.done[0].Group != "1.x" {
		t.Errorf("%d %+v", w.Code, b.acts.done)
	}
	if w := b.request("POST", path, url.Values{}); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "Choose a group") {
		t.Errorf("without a group: %d", w.Code)
	}
}

// endless rejects previews of pins without an end, as if the group were already pinned to the version.
type endless struct{ *fakeActs }

func (e endless) Preview(ctx context.Context, a Act) (Outcome, error) {
	if a.Until == "" {
		return Outcome{}, &Problem{Status: http.StatusConflict, Title: "This is not possible now", Text: "it is already pinned"}
	}
	return e.fakeActs.Preview(ctx, a)
}

// TestEndOfAPin checks that an end can be added to a pin that has none.
func TestEndOfAPin(t *testing.T) {
	t.Parallel()
	b := story(t, "promoted")
	b.Server.Acts = endless{b.acts}
	const path = "/services/shop/shop/acts/pin"
	f := only(t, b.get(path+"?target=1.1.0"))
	if f.method != "get" || !f.values.Has("until") {
		t.Errorf("the form has no field for the end: %+v", f)
	}
	f.values.Set("until", "4h")
	if f = only(t, b.get(path+"?"+f.values.Encode())); f.method != "post" || f.values.Get("until") != "4h" {
		t.Fatalf("with an end: %+v", f)
	}
	if w := b.request("POST", path, f.values); w.Code != http.StatusSeeOther || len(b.acts.done) != 1 || b.acts.done[0].Until != "4h" {
		t.Errorf("%d %+v", w.Code, b.acts.done)
	}
}

// TestDoubleSubmission checks that a form that is submitted twice at the same time performs one action, and that both submissions show the result of the
// action, even if the browser cancels the first submission.
func TestDoubleSubmission(t *testing.T) {
	t.Parallel()
	b := rollbacks(t)
	const path = "/services/shop/shop/acts/rollback"
	f := only(t, b.get(path))
	var mu sync.Mutex
	previews, begun, both := 0, make(chan struct{}), make(chan struct{})
	show := b.acts.preview
	b.acts.preview = func(a Act) Outcome {
		mu.Lock()
		previews++
		first := previews == 1
		mu.Unlock()
		if first {
			close(begun)
		}
		<-both
		return show(a)
	}
	ctx, drop := context.WithCancel(t.Context())
	codes := make(chan int, 2)
	go func() {
		w := b.request("POST", path, f.values, func(r *http.Request) { *r = *r.WithContext(ctx) })
		codes <- w.Code
	}()
	<-begun
	drop()
	go func() { codes <- b.request("POST", path, f.values).Code }()
	time.Sleep(50 * time.Millisecond) // until the second submission has arrived; the test would also pass without this
	close(both)
	if x, y := <-codes, <-codes; x != http.StatusSeeOther || y != http.StatusSeeOther || len(b.acts.done) != 1 {
		t.Errorf("%d, %d, %d acts", x, y, len(b.acts.done))
	}
}
