package forecast

import (
	"testing"

	"github.com/heighliner/heighliner/internal/release"
)

// TestPodsOfAnExclusiveGroup checks that an exclusive group needs no additional pods for a rollout, because the pods of the active release
// terminate before the pods of the next release start.
func TestPodsOfAnExclusiveGroup(t *testing.T) {
	t.Parallel()
	f := shop(release.Step{Weight: 100})
	f.Spec.Exclusive = true
	got := f.Play(start)
	if got.Duration < 0 || len(got.Events) == 0 || got.Open != "" {
		t.Errorf("1.1.0 is not rolled out: %+v", got)
	}
	if got.Pods != 0 {
		t.Errorf("hlnr plan: +%d pods during the rollout", got.Pods)
	}
}
