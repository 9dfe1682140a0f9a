package view_test

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/internal/view"
)

// TestScanOfASuspendedPolicy checks that no scan is advised for a suspended ImagePolicy, because it is not scanned.
func TestScanOfASuspendedPolicy(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "active")
	s.Input.ImagePolicies = []v1alpha1.ImagePolicy{*s.Input.ImagePolicies[0].DeepCopy()}
	s.Input.ImagePolicies[0].Spec.Suspend = true
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.4.0", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(a.Do, "hlnr scan") {
		t.Errorf("%q; %q; lines %+v", a.Summary, a.Do, a.Lines)
	}
}

// TestScanOfAList checks that no scan is advised for a version that is not in the list of an ImagePolicy, and that the answer shows a listed tag that
// the registry does not contain.
func TestScanOfAList(t *testing.T) {
	t.Parallel()
	s, ms := played(t, "active")
	s.Input.ImagePolicies = []v1alpha1.ImagePolicy{*s.Input.ImagePolicies[0].DeepCopy()}
	s.Input.ImagePolicies[0].Spec.Source = &v1alpha1.ImageSource{Pinned: &v1alpha1.PinnedSource{Versions: []string{"1.0.0"}}}
	a, err := view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.4.0", s.Now)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(a.Do, "hlnr scan") {
		t.Errorf("%q; %q; lines %+v", a.Summary, a.Do, a.Lines)
	}
	if !strings.Contains(a.Do, "spec.source.pinned.versions") {
		t.Errorf("%q; %q", a.Summary, a.Do)
	}
	p := &s.Input.ImagePolicies[0]
	p.Spec.Source.Pinned.Versions = append(p.Spec.Source.Pinned.Versions, "1.4.0")
	p.Status.Candidates = []v1alpha1.RefusedCandidate{{Version: "1.4.0", Verdict: "Exists", Reason: "the registry has no image with this tag"}}
	a, err = view.WhyVersion(s.Input, ms.Namespace, ms.Name, "1.4.0", s.Now)
	if want := "1.4.0 is not live: spec.source.pinned.versions contains it, and the registry has no image with this tag."; err != nil || a.Summary != want {
		t.Errorf("%v, %q, want %q", err, a.Summary, want)
	}
	p.Status.Releases, p.Status.Latest, ms.Status.ReleaseGroups = nil, "", nil
	a, err = view.WhyVersion(s.Input, ms.Namespace, ms.Name, "", s.Now)
	if err != nil || len(a.Lines) == 0 || !strings.Contains(a.Lines[0].Text, "1.4.0 in spec.source.pinned.versions: the registry has no image with this tag") {
		t.Errorf("%v, %+v", err, a)
	}
}
