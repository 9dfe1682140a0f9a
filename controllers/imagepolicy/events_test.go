package imagepolicy

import (
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
)

// TestWithdrawnEvent checks the events about versions and groups that are no longer offered.
func TestWithdrawnEvent(t *testing.T) {
	t.Parallel()
	for want, w := range map[string]v1alpha1.Withdrawal{
		"version 1.2.3 of group 1-x is no longer offered: an entry in spec.deny matches":                                     {Group: "1-x", Version: "1.2.3", Reason: v1alpha1.WithdrawnDenied},
		"version 1.2.3 of group 1-x is no longer offered: not selected by the specification of the ImagePolicy":              {Group: "1-x", Version: "1.2.3", Reason: v1alpha1.WithdrawnExcluded},
		"version 1.2.3 of group 1-x is no longer offered: two scans confirmed that the tag no longer exists in the registry": {Group: "1-x", Version: "1.2.3", Reason: v1alpha1.WithdrawnGone},
		"all versions of group pr-7 are no longer offered: the pull request is closed":                                       {Group: "pr-7", Reason: v1alpha1.WithdrawnClosed},
	} {
		if got := withdrawnEvent(w); got.Note != want || got.Reason != string(w.Reason) {
			t.Errorf("%s %q, want %s %q", got.Reason, got.Note, w.Reason, want)
		}
	}
}
