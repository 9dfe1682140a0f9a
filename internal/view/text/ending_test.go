package text

import (
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
	"github.com/heighliner/heighliner/internal/view/viewtest"
)

// TestTreeOfAPreviewThatEnds checks that, at the end of a preview, hlnr tree shows what the release is waiting for, and
// the response of the endpoint, as described in the guide about hooks.
func TestTreeOfAPreviewThatEnds(t *testing.T) {
	t.Parallel()
	s, ok := viewtest.Play("previews", "shop")
	if !ok {
		t.Fatal("no history")
	}
	ms := s.Input.Microservices[0].DeepCopy()
	s.Input.Microservices = []v1alpha1.Microservice{*ms}
	s.Input.Releases = slices.Clone(s.Input.Releases)
	for i := range ms.Status.ReleaseGroups {
		g := &s.Input.Microservices[0].Status.ReleaseGroups[i]
		if g.PullRequest != 17 {
			continue
		}
		row := &g.Releases[0]
		g.Phase, row.Status, row.Weight, row.Available = v1alpha1.GroupClosing, v1alpha1.ReleaseDeprecated, 0, false
		g.End = &v1alpha1.PreviewEnd{Release: row.VersionedMicroservice, Time: metav1.NewMicroTime(s.Now)}
		for j := range s.Input.Releases {
			if o := &s.Input.Releases[j]; o.Name == row.VersionedMicroservice {
				o.Spec.Replicas, o.Status.Replicas, o.Status.Available = 0, 0, 0
				o.Status.Hooks = []v1alpha1.HookStatus{{Name: "drop", Type: v1alpha1.HookPostPreview, Phase: v1alpha1.HookWaiting, Message: "cannot create Job shop-1: exceeded quota"}}
			}
		}
	}
	var b strings.Builder
	if err := Tree(&b, view.New(s.Input, s.Now).Services[0], Options{Now: s.Now}, TreeOptions{}); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "exceeded quota") {
		t.Errorf("the tree does not name the hook:\n%s", b.String())
	}
}
