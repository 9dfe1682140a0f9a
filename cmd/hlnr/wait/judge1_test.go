package wait

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// TestJudge1ActiveWithoutPods: hlnr wait answers yes for an active release that has no ready pod, for which hlnr why exits with 3.
func TestJudge1ActiveWithoutPods(t *testing.T) {
	s := fixture(func(s *snapshot) {
		s.ms.Status.ReleaseGroups[0].Releases[0].Available = false
		o := &v1alpha1.VersionedMicroservice{}
		o.Namespace, o.Name = "shop", "shop-1-2-0"
		o.Spec.Replicas, o.Status.Failure, o.Status.Message = 3, "CrashLoopBackOff", "exit 1"
		s.release = o
	})
	if _, a := (question{version: "1.2.0", state: forActive, people: true, command: command}).judge(s); a != nil && a.code == cli.ExitYes {
		t.Errorf("exit code 0 %q, without a ready pod", a.text)
	}
}
