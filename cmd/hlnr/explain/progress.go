package explain

import (
	"fmt"
	"io"
	"time"

	"github.com/heighliner/heighliner/cmd/hlnr/cli"
	"github.com/heighliner/heighliner/controllers/imagepolicy"
)

// tick is the time between two progress lines.
const tick = 5 * time.Second

// ticker writes a progress line periodically.
type ticker struct {
	out   io.Writer
	every time.Duration
	now   func() time.Time

	last time.Time // the time of the last line or, if no line has been written yet, the time of the first call
}

// report writes a line if at least t.every has passed since t.last.
func (t *ticker) report(p imagepolicy.Progress) {
	now := t.now()
	if t.last.IsZero() {
		t.last = now
	}
	if now.Sub(t.last) < t.every {
		return
	}
	t.last = now
	fmt.Fprintln(t.out, "hlnr:", progressLine(p)) // Write errors are ignored.
}

// progressLine describes the progress of a scan.
func progressLine(p imagepolicy.Progress) string {
	switch {
	case p.Timed < p.Times:
		return fmt.Sprintf("read the build times of %d of %s", p.Timed, cli.Count(p.Times, "tag"))
	case p.Times > 0:
		return fmt.Sprintf("read the build times of %s; read %s", cli.Count(p.Times, "tag"), cli.Count(p.Images, "image"))
	}
	return "read " + cli.Count(p.Images, "image")
}
