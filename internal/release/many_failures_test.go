package release

import (
	"strings"
	"testing"
	"time"

	"github.com/heighliner/heighliner/internal/status"
)

// TestInstructionOfManyFailures checks that the condition shows what a user can do if a version failed in many Microservices that roll out together.
// Five names of 30 characters have the same length.
func TestInstructionOfManyFailures(t *testing.T) {
	c := sing(14, false)
	c.each(func(h tale) { h.steps(twoSteps...) })
	for name, h := range c {
		if name != "m1" {
			h.broken["1.1.0"] = "CrashLoopBackOff"
		}
	}
	c.each(func(h tale) { h.push("1.1.0") })
	c.run(time.Hour)
	if err := c.err(); err != nil {
		t.Fatal(err)
	}
	found := false
	o, _, _ := c["m1"].observe(lags{})
	_, p := c["m1"].make(o)
	for _, n := range p.Notes {
		if n.Reason == TogetherHeld {
			found = true
			if maxMessage != status.MaxMessage {
				t.Errorf("the maximum length is %d, want %d", maxMessage, status.MaxMessage)
			}
			if shown := status.Line(n.Message); !strings.HasSuffix(shown, "spec.decision.id to a new value") {
				t.Errorf("the instruction is cut: %s", shown)
			}
		}
	}
	if !found {
		t.Error("no TogetherHeld note")
	}
}
