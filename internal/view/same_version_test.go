package view_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestReleasesOfTheSameVersion checks the states and answers of a service after a change of its pod template, which starts another release of the
// active version.
func TestReleasesOfTheSameVersion(t *testing.T) {
	t.Parallel()
	const first, second = "shop-1-0-0-0a1b2c3d", "shop-1-0-0-c2"
	for story, c := range map[string]struct {
		sentence string // of the second release
		result   view.Result
		summary  string
		do       string
	}{
		"config canary": {"waits for approval since 10:00", view.Serving, second + " is live with a share of 10% in group 1.x: waits for approval since 10:00.", second + " waits for approval since 10:00: hlnr continue shop " + second + ", or hlnr deprecate shop " + second},
		"config failed": {"failed 110m ago: container shop: exit 1: out of licenses", view.NotServing, second + " is not live: it failed 110m ago: container shop: exit 1: out of licenses.", second + " failed 110m ago: container shop: exit 1: out of licenses: hlnr retry shop " + second},
	} {
		s, ok := viewtest.Play(story, "shop")
		if !ok {
			t.Fatalf("there is no history %s", story)
		}
		svc, _ := view.NewService(s.Input, "shop", "shop", s.Now)
		if x := svc.State; x.Release != second || x.Version != "1.0.0" || x.Sentence != c.sentence {
			t.Errorf("%s: the state is about %s, %s: %q", story, x.Release, x.Version, x.Sentence)
		}
		a, err := view.WhyVersion(s.Input, "shop", "shop", second, s.Now)
		if err != nil || a.Result != c.result || a.Summary != c.summary || a.Do != c.do {
			t.Errorf("%s: why %s: %v, %s, %q, %q", story, second, err, a.Result, a.Summary, a.Do)
		}
		want := view.Line{Name: "active", Text: first + " serves group 1.x", Object: "Microservice shop/shop"}
		if !slices.Contains(a.Lines, want) {
			t.Errorf("%s: why %s: %+v", story, second, a.Lines)
		}
		a, err = view.WhyVersion(s.Input, "shop", "shop", "1.0.0", s.Now)
		if err != nil || a.Result != view.Serving || !strings.HasPrefix(a.Summary, "1.0.0 is live: active ") {
			t.Errorf("%s: why 1.0.0: %v, %s, %q", story, err, a.Result, a.Summary)
		}
		want = view.Line{Name: "release", Text: second + " has the same version: " + c.sentence, Object: "VersionedMicroservice shop/" + second}
		if !slices.Contains(a.Lines, want) {
			t.Errorf("%s: why 1.0.0: %+v", story, a.Lines)
		}
	}
}
