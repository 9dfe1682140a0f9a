package text

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestPinOfOneOfTwoGroups checks that the pin of one of two groups is shown in the tree, and in the answers about the version that serves
// traffic and the version that is waiting.
func TestPinOfOneOfTwoGroups(t *testing.T) {
	t.Parallel()
	s, ok := viewtest.Play("one group pinned", "shop")
	if !ok {
		t.Fatal("no history")
	}
	o := Options{Now: s.Now}
	check := func(what string, write func(b *strings.Builder) error) {
		var b strings.Builder
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(b.String(), "pinned to 1.0.0") {
			t.Errorf("%s does not name the pin:\n%s", what, b.String())
		}
	}
	check("tree", func(b *strings.Builder) error {
		return Tree(b, view.New(s.Input, s.Now).Services[0], o, TreeOptions{})
	})
	for _, v := range []string{"1.0.0", "1.1.0"} {
		check("why "+v, func(b *strings.Builder) error {
			a, err := view.WhyVersion(s.Input, "shop", "shop", v, s.Now)
			if err != nil {
				return err
			}
			return Why(b, a, o)
		})
	}
}
