package wait

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// TestStatusOfAnEarlierVersion checks that the command follows a rollout that an earlier version of the manager recorded.
func TestStatusOfAnEarlierVersion(t *testing.T) {
	t.Parallel()
	code, text := follow(t, func(s *snapshot) {
		configurations("", "c2", v1alpha1.ReleaseActive, v1alpha1.ReleaseCanary)(s)
		s.ms.Status.ReleaseGroups[0].DeprecatedRun = &v1alpha1.DeprecatedRun{Release: "shop-1-2-0-c2", Step: 1}
	})
	if want := "1.2.0 waits for approval: hlnr continue shop 1.2.0"; code != cli.ExitWaits || !strings.HasSuffix(text, want) {
		t.Errorf("exit code %d, %q; want %d and %q", code, text, cli.ExitWaits, want)
	}
}
