package act

import (
	"strings"
	"testing"

	"github.com/heighliner/heighliner/apis/v1alpha1"
	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/cmd/hlnr/show"
	"github.com/heighliner/heighliner/cmd/hlnr/wait"
	"github.com/spf13/cobra"
)

// TestWhyOfAReturnDuringAPause checks that hlnr why, like hlnr wait, reports a pause that prevents the return to a retained release, and does
// not suggest a rollback to the same release.
func TestWhyOfAReturnDuringAPause(t *testing.T) {
	t.Parallel()
	p := upgraded(t)
	p.want(cli.ExitYes, "pinned to 1.0.0", "rollback", "shop")
	p.await("1.0.0", v1alpha1.ReleaseActive)
	p.want(cli.ExitYes, "paused", "pause", "shop")
	p.want(cli.ExitYes, "is removed", "unpin", "shop")
	p.aimed("1.1.0")
	if code, out := p.see(wait.NewCommand, "wait", "shop", "1.1.0", "--timeout", "10s"); code != cli.ExitWaits || !strings.Contains(out, "shop is paused") {
		t.Fatalf("hlnr wait: %d %s", code, out)
	}
	why := func(f *cli.Factory) *cobra.Command {
		for _, command := range show.NewCommands() {
			if c := command(f); c.Name() == "why" {
				return c
			}
		}
		return nil
	}
	if _, out := p.see(why, "why", "shop", "1.1.0"); !strings.Contains(out, "paused") {
		t.Errorf("hlnr wait: shop is paused; hlnr why does not mention that:\n%s", out)
	}
}
