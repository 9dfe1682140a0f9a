package web

import (
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

// TestFreezes checks that the board, the service page and the freezes page show when a freeze ends, its reason, the
// user who created it, and which services are waiting for it to end.
func TestFreezes(t *testing.T) {
	t.Parallel()
	b := story(t, "frozen")
	const sentence = `namespace shop: frozen until Mon 08:00 by ana: "trade fair"`
	for path, want := range map[string][]string{
		"/":                   {"❄ " + sentence + " 1 service, 1 waits for it to end", "waits, frozen until 2030-02-04T08:00:00Z"},
		"/?namespace=shop":    {"❄ " + sentence},
		"/services/shop/shop": {"❄ " + sentence + " Freeze fair", "Roll back Freeze", "waits, frozen until"},
		"/freezes":            {"fair Freeze of shop", sentence + " End", "1 service. 1 waits for it to end: shop/shop"},
	} {
		got := textOf(t, b.get(path))
		for _, w := range want {
			if !strings.Contains(got, w) {
				t.Errorf("%s: no %q in %s", path, w, got)
			}
		}
	}
	var list view.Freezes
	b.json("/freezes", &list)
	if list.Kind != view.KindFreezes || len(list.Freezes) != 1 || list.Freezes[0].Next[0].Command != "hlnr thaw shop --name fair" || cmp.Diff(list.Freezes[0].Effect.Waiting, []string{"shop/shop"}) != "" {
		t.Errorf("%+v", list)
	}
	if got := textOf(t, b.get("/?namespace=other")); strings.Contains(got, "trade fair") {
		t.Error("a freeze of another namespace is shown")
	}
	b.acts.may = false
	for _, path := range []string{"/freezes", "/services/shop/shop"} {
		if page := b.get(path); strings.Contains(page, "/freezes/freeze") || strings.Contains(page, "/freezes/thaw") {
			t.Errorf("%s: buttons for a reader who may not freeze", path)
		}
	}
	if got := textOf(t, story(t, "active").get("/freezes")); !strings.Contains(got, "You are not allowed to list Freezes") {
		t.Error(got)
	}
}

// TestPlannedAndClusterFreezes checks that planned freezes appear only on the freezes page. It also checks that, if the labels of namespaces were
// not read, a freeze that selects namespaces by labels counts only the services that are waiting for it to end.
func TestPlannedAndClusterFreezes(t *testing.T) {
	t.Parallel()
	b := story(t, "frozen start")
	data, _ := b.store.Data()
	o, now := data.Objects, b.clock.Now()
	later := v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "sale"}}
	later.Spec.Reason = "end-of-year sale"
	later.Spec.Periods = []v1alpha1.FreezePeriod{{From: metav1.NewTime(now.Add(time.Hour)), To: metav1.NewTime(now.Add(2 * time.Hour))}}
	over := v1alpha1.Freeze{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "past"}}
	over.Spec.Reason, over.Spec.Until = "the past", &metav1.Time{Time: now}
	o.Freezes = append(o.Freezes, later, over)
	all := v1alpha1.ClusterFreeze{ObjectMeta: metav1.ObjectMeta{Name: "upgrade"}}
	all.Spec.Reason, all.Spec.Indefinite = "upgrade", true
	all.Spec.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"stage": "production"}}
	all.Spec.Exceptions = []v1alpha1.ClusterFreezeException{{Namespace: "shop", Name: "shop", Reason: "hotfix"}}
	o.ClusterFreezes = []v1alpha1.ClusterFreeze{all}
	b.store.Set(o)
	b.clock.Step(time.Second)
	got := textOf(t, b.get("/freezes"))
	for _, want := range []string{
		`namespaces with stage=production: frozen indefinitely: "upgrade"`, "0 services or more: it selects by the labels of namespaces, which you are not allowed to list", "shop/shop : “hotfix”",
		"sale Freeze of shop planned", `namespace shop: frozen from 12:00 until 13:00: "end-of-year sale" Delete`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in %s", want, got)
		}
	}
	if strings.Contains(got, "the past") {
		t.Error("a freeze that is over is shown")
	}
	board := textOf(t, b.get("/"))
	if !strings.Contains(board, `1.1.0 is waiting, frozen until`) || strings.Contains(board, "end-of-year") || strings.Contains(board, "upgrade") {
		t.Error(board)
	}
}

// TestFreezeForm checks that a reader can fill in the form, see the effects, and confirm. The input remains after an
// error.
func TestFreezeForm(t *testing.T) {
	t.Parallel()
	b := story(t, "frozen")
	form := b.get("/freezes/freeze")
	if got := textOf(t, form); len(faults(t, form)) > 0 || !strings.Contains(got, "namespace shop") || !strings.Contains(got, "the cluster") || strings.Contains(got, "What will happen") {
		t.Error(got, faults(t, form))
	}
	values := url.Values{"namespace": {"shop"}, "until": {"Mon 08:00"}, "reason": {" fair "}, "selector": {"tier=web"}, "name": {"fair"}}
	preview := b.get("/freezes/freeze?" + values.Encode())
	if got := textOf(t, preview); len(faults(t, preview)) > 0 || !strings.Contains(got, `What will happen would freeze "shop" until "Mon 08:00" Recorded as ana .`) || len(b.acts.frozen) > 0 {
		t.Error(got, faults(t, preview))
	}
	w := b.request("POST", "/freezes/freeze", values)
	if w.Code != http.StatusSeeOther {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	if got := textOf(t, b.get(w.Header().Get("Location"))); !strings.Contains(got, "done by ana") {
		t.Error(got)
	}
	if got := textOf(t, b.get("/freezes/thaw?namespace=shop&name=fair")); !strings.Contains(got, "End the freeze fair of namespace shop") || !strings.Contains(got, "shop/shop waits for the end of the freeze") {
		t.Error(got)
	}
	if w := b.request("POST", "/freezes/thaw", url.Values{"namespace": {"shop"}, "name": {"fair"}}); w.Code != http.StatusSeeOther {
		t.Errorf("%d", w.Code)
	}
	want := []Freeze{{Namespace: "shop", Name: "fair", Until: "Mon 08:00", Reason: "fair", Selector: "tier=web"}, {Thaw: true, Namespace: "shop", Name: "fair"}}
	if diff := cmp.Diff(want, b.acts.frozen); diff != "" {
		t.Error(diff)
	}
	b.acts.refuse = &Problem{Status: http.StatusConflict, Title: "This makes no sense now", Text: "it exists"}
	if w := b.request("POST", "/freezes/freeze", values); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), `value="tier=web"`) || !strings.Contains(w.Body.String(), "it exists") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	b.acts.may = false
	for _, method := range []string{"GET", "POST"} {
		if w := b.request(method, "/freezes/freeze?namespace=shop", url.Values{"namespace": {"shop"}}); w.Code != http.StatusForbidden {
			t.Errorf("%s without the permission: %d", method, w.Code)
		}
	}
	if w := b.request("POST", "/freezes/delete", url.Values{}); w.Code != http.StatusNotFound {
		t.Errorf("unknown act: %d", w.Code)
	}
}

// TestChangedFreezeForm checks that a form with a field that was changed after the preview requires another preview.
func TestChangedFreezeForm(t *testing.T) {
	t.Parallel()
	b := story(t, "frozen")
	f := only(t, b.get("/freezes/freeze?namespace=shop&until=4h&reason=fair"))
	if f.method != "post" || f.values.Get("until") != "4h" {
		t.Fatalf("%+v", f)
	}
	f.values.Set("namespace", "shop")
	f.values.Del("indefinite")
	f.values.Set("until", "3d")
	w := b.request("POST", "/freezes/freeze", f.values)
	if got := textOf(t, w.Body.String()); w.Code != http.StatusConflict || !strings.Contains(got, "The form changed after the preview") || !strings.Contains(got, `would freeze "shop" until "3d"`) || len(b.acts.frozen) > 0 {
		t.Errorf("%d %s", w.Code, got)
	}
	again := only(t, w.Body.String()).values
	again.Set("namespace", "shop")
	again.Del("indefinite")
	again.Set("reason", "trade fair")
	if w := b.request("POST", "/freezes/freeze", again); w.Code != http.StatusSeeOther || len(b.acts.frozen) != 1 || b.acts.frozen[0].Until != "3d" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestReplacedFreeze checks that the form for the end of a freeze deletes only the freeze that the form showed.
func TestReplacedFreeze(t *testing.T) {
	t.Parallel()
	b := story(t, "frozen")
	b.acts.uid = "one"
	f := only(t, b.get("/freezes/thaw?namespace=shop&name=fair"))
	b.acts.uid = "two" // Another user replaces the freeze.
	w := b.request("POST", "/freezes/thaw", f.values)
	if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "it was replaced") || len(b.acts.frozen) > 0 {
		t.Errorf("%d %+v %s", w.Code, b.acts.frozen, w.Body)
	}
	again := only(t, w.Body.String()).values
	f.values.Set("uid", "two") // The reader has not seen this freeze in the first form.
	if w := b.request("POST", "/freezes/thaw", f.values); w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "The form changed after the preview") || len(b.acts.frozen) > 0 {
		t.Errorf("%d %+v %s", w.Code, b.acts.frozen, w.Body)
	}
	w = b.request("POST", "/freezes/thaw", again)
	want := []Freeze{{Thaw: true, Namespace: "shop", Name: "fair", UID: "two", Generation: 7}}
	if diff := cmp.Diff(want, b.acts.frozen); w.Code != http.StatusSeeOther || diff != "" {
		t.Errorf("%d %s", w.Code, diff)
	}
}
