package main

import (
	"fmt"
	"io"
	"time"

	"github.com/heighliner/heighliner/controllers/imagepolicy"
)

// tick is the time between two lines about progress. What takes less has none.
const tick = 5 * time.Second

// ticker writes a line about progress now and then.
type ticker struct {
	out   io.Writer
	every time.Duration
	now   func() time.Time

	last time.Time // of the last line; at first, of the first call
}

// tell writes a line when it is time.
func (t *ticker) tell(p imagepolicy.Progress) {
	now := t.now()
	if t.last.IsZero() {
		t.last = now
	}
	if now.Sub(t.last) < t.every {
		return
	}
	t.last = now
	fmt.Fprintln(t.out, "hlnr:", progressLine(p)) // lost when no one reads it
}

// progressLine says how far it has come.
func progressLine(p imagepolicy.Progress) string {
	switch {
	case p.Timed < p.Times:
		return fmt.Sprintf("asked for the times of %d of %s", p.Timed, count(p.Times, "tag"))
	case p.Times > 0:
		return fmt.Sprintf("asked for the times of %s, and for %s", count(p.Times, "tag"), count(p.Images, "image"))
	}
	return "asked for " + count(p.Images, "image")
}
