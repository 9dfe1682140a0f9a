package traffic

import (
	"testing"

	"github.com/heighliner/heighliner/internal/status"
)

// TestReconcilingReasons checks that a write that the manager retries does not make a policy Stalled, and that a rejected write does.
func TestReconcilingReasons(t *testing.T) {
	t.Parallel()
	for reason, stalls := range map[string]bool{
		status.ReasonFailed: false, status.ReasonTerminating: false, status.ReasonConflict: false, ReasonPending: false,
		status.ReasonInvalid: true, status.ReasonForbidden: true, ReasonNotSupported: true,
	} {
		if (problem{reason: reason}).stalls() != stalls {
			t.Errorf("%s: stalls is %t", reason, !stalls)
		}
	}
}
