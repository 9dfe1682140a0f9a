package act

import (
	"bytes"
	"testing"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
)

// TestHostileResult checks that text from the API, such as names of other users and responses from hooks, cannot control
// the terminal.
func TestHostileResult(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	d := &Done{text: "shop 1.x: pinned\x1b[2J\u202e", Effects: []string{"1.x: a\r\nb"}, Next: "hlnr wait shop 1\u009b"}
	if err := d.print(&out, &cli.Output{}); err != nil {
		t.Fatal(err)
	}
	if want := "shop 1.x: pinned[2J\n  1.x: a b\nto wait until this takes effect: hlnr wait shop 1\n"; out.String() != want {
		t.Errorf("%q, want %q", out.String(), want)
	}
}
