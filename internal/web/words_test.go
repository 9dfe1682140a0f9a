package web

import (
	"strings"
	"testing"

	"golang.org/x/net/html"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestActsExplainThemselves checks that each button and each form has a sentence that describes the effect of the action.
func TestActsExplainThemselves(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"approval", "crashes", "pinned", "paused", "frozen"} {
		b := story(t, name)
		for _, path := range []string{"/", "/services/shop/shop", "/freezes"} {
			root, err := html.Parse(strings.NewReader(b.get(path)))
			if err != nil {
				t.Fatal(err)
			}
			for n := range root.Descendants() {
				if n.Data == "a" && attribute(n, "data-act") != "no" && len(attribute(n, "title")) < 20 {
					t.Errorf("%s: %s: no title of %s", name, path, attribute(n, "href"))
				}
			}
		}
	}
	b := story(t, "approval")
	for verb := range actVerbs {
		page := b.get("/services/shop/shop/acts/" + verb)
		if about := abouts[verb]; about == "" || !strings.Contains(page, html.EscapeString(about)) {
			t.Errorf("%s: no explanation", verb)
		}
		if strings.Contains(page, "By the planner") {
			t.Errorf("%s: the page contains words of the planner", verb)
		}
	}
	if !strings.Contains(b.get("/freezes/freeze"), abouts["freeze"]) || !strings.Contains(b.get("/freezes/thaw?namespace=shop&name=fair"), abouts["thaw"]) {
		t.Error("no explanation of a freeze")
	}
}

// TestPinsAndProblemsAppearOnce checks that the page of a service shows each pin only once and by version, each problem only once, and the name of
// the service before the buttons.
func TestPinsAndProblemsAppearOnce(t *testing.T) {
	t.Parallel()
	b := story(t, "pinned")
	page := b.get("/services/shop/shop")
	if n := strings.Count(textOf(t, page), "sessions lost"); n != 1 {
		t.Errorf("the pin is shown %d times: %s", n, textOf(t, page))
	}
	if strings.Index(page, "<h1>") > strings.Index(page, "service-acts") {
		t.Error("buttons before the name")
	}
	// The pin selects a release, while the headline shows a canary.
	b = story(t, "approval")
	b.change(func(ms *v1alpha1.Microservice) {
		ms.Spec.UpdateStrategy.Manual = &v1alpha1.ManualUpdateStrategy{Groups: []v1alpha1.GroupPin{{Name: "1.x", Release: "shop-1-0-0-0a1b2c3d", Reason: "sessions lost"}}}
		for _, kind := range []string{v1alpha1.ConditionStalled, v1alpha1.ConditionBlocked} {
			ms.Status.Conditions = append(ms.Status.Conditions, metav1.Condition{Type: kind, Status: metav1.ConditionTrue, Reason: "ParentNotFound", Message: "Gateway infra/public does not exist"})
		}
	})
	got := textOf(t, b.get("/services/shop/shop"))
	if !strings.Contains(got, "◆ 1.x is pinned to 1.0.0 : “sessions lost”") && !strings.Contains(got, "◆ 1.x is pinned to 1.0.0: “sessions lost”") {
		t.Error(got)
	}
	if n := strings.Count(got, "ParentNotFound"); n != 1 {
		t.Errorf("the problem is shown %d times: %s", n, got)
	}
}
