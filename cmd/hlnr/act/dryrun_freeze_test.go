package act

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// TestDryRunOfAPinDuringAFreeze checks that a dry run of a pin, like the pin itself, reports the freeze that delays the release. The board
// shows the same dry run.
func TestDryRunOfAPinDuringAFreeze(t *testing.T) {
	t.Parallel()
	p := shop(t)
	p.want(cli.ExitYes, "frozen until ", "freeze", "--until", "4h", "--reason", "trade fair")
	p.Frozen(t, p.namespace, "freeze")
	p.offer("1.1.0", "1.0.0")
	p.await("1.0.0", v1alpha1.ReleaseActive)
	dry := p.want(cli.ExitYes, "Nothing was written", "pin", "shop", "1.1.0", "--dry-run")
	p.want(cli.ExitYes, "trade fair", "pin", "shop", "1.1.0")
	if !strings.Contains(dry, "freeze") && !strings.Contains(dry, "frozen") && !strings.Contains(dry, "trade fair") {
		t.Errorf("the dry run does not name the freeze: %s", dry)
	}
}
