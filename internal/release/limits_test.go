package release

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// limits contains histories that fill the status. They are long, so they are not among the
// histories that also run with a crash at each write.
var limits = []scene{
	{"more versions fail than a group can record", func(h tale) {
		h.live()
		for i := 1; i <= 40; i++ {
			h.fails(fmt.Sprintf("1.%d.0", i))
		}
		g := &h.rolloutState.Groups[0]
		if n := len(g.Releases); n != 32 {
			h.fail("%d rows", n)
		}
		h.want("the newest failures are remembered", map[string]string{"1.0.0": "active 100", "1.9.0": "", "1.10.0": "error 0", "1.40.0": "error 0"})
		if g.Failed != (Failed{Version: "1.9.0", Config: "c1"}) {
			h.fail("failure mark = %v", g.Failed)
		}
		h.state("full", "FailuresForgotten", true)
		failures := h.stats.failures
		h.run(48 * time.Hour)
		if h.stats.failures != failures {
			h.fail("%d releases failed again", h.stats.failures-failures)
		}
		h.push("1.41.0")
		h.run(time.Hour)
		h.want("a good version", map[string]string{"1.41.0": "active 100", "1.40.0": "", "1.10.0": ""})
		if g.Failed != (Failed{}) && h.rolloutState.Groups[0].Failed != (Failed{}) {
			h.fail("failure mark is still %v", h.rolloutState.Groups[0].Failed)
		}
		h.state("after", "FailuresForgotten", false)
	}},
	{"a version whose failure is forgotten can be pinned, and failed versions are tried again with another configuration", func(h tale) {
		h.live()
		for i := 1; i <= 34; i++ {
			h.fails(fmt.Sprintf("1.%d.0", i))
		}
		h.want("forgotten", map[string]string{"1.2.0": "", "1.4.0": "error 0"})
		delete(h.broken, "1.2.0")
		h.pin(Pin{Group: "1.x", Version: "1.2.0"})
		h.run(time.Hour)
		h.want("pinned", map[string]string{"1.2.0": "active 100"})
		h.pin()
		h.run(time.Hour)
		h.want("nothing else changes", map[string]string{"1.2.0": "active 100"})
		clear(h.broken)
		h.configure("c2")
		h.run(time.Hour)
		h.want("another configuration", map[string]string{"1.34.0": "active 100"})
	}},
	{"a pinned version whose failure is forgotten fails once more, and waits for a decision", func(h tale) {
		h.live()
		for i := 1; i <= 34; i++ {
			h.fails(fmt.Sprintf("1.%d.0", i))
		}
		failures := h.stats.failures
		h.pin(Pin{Group: "1.x", Version: "1.2.0"})
		h.run(48 * time.Hour)
		if n := h.stats.failures - failures; n != 1 {
			h.fail("1.2.0 failed %d times, want once", n)
		}
		h.state("failed", "PinnedReleaseFailed", true)
	}},
	{"versions that fail again with another configuration are not tried endlessly", func(h tale) {
		h.live()
		for i := 1; i <= 33; i++ {
			h.fails(fmt.Sprintf("1.%d.0", i))
		}
		h.configure("c2")
		h.run(24 * time.Hour)
		h.want("another configuration fails too", map[string]string{"1.33.0": "error 0"})
		failures := h.stats.failures
		h.run(48 * time.Hour)
		if n := h.stats.failures - failures; n != 0 {
			h.fail("%d releases failed again", n)
		}
	}},
	{"a version whose failure is forgotten does not start when the active release is withdrawn", func(h tale) {
		h.push("1.0.0")
		h.live()
		h.push("1.5.0")
		h.run(time.Hour)
		for i := 6; i <= 40; i++ {
			h.fails(fmt.Sprintf("1.%d.0", i))
		}
		h.withdraw("1.5.0", Denied)
		failures := h.stats.failures
		h.run(24 * time.Hour)
		if n := h.stats.failures - failures; n != 0 {
			h.fail("%d releases failed again", n)
		}
		h.want("the retained release serves", map[string]string{"1.0.0": "active 100"})
	}},
	{"many commits of a pull request fail", func(h tale) {
		h.policy("web")
		h.push("pr-7-c100")
		h.run(time.Minute)
		h.drop("pr-7-c100")       // Only the head commit is offered.
		for i := 40; i > 0; i-- { // The commits have no order.
			h.drop(fmt.Sprintf("pr-7-c%d", 10+i+1))
			h.fails(fmt.Sprintf("pr-7-c%d", 10+i))
		}
		h.drop("pr-7-c11")
		h.push("pr-7-c10")
		h.run(time.Hour)
		h.want("a good version", map[string]string{"pr-7-c10": "active 100"})
	}},
	{"as many releases are retained as fit into the status", func(h tale) {
		h.live()
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 40 })
		for i := 1; i <= 40; i++ {
			h.push(fmt.Sprintf("1.%d.0", i))
			h.run(5 * time.Minute)
		}
		h.want("end", map[string]string{"1.40.0": "active 100"})
		if n := len(h.rolloutState.Groups[0].Releases); n != 30 {
			h.fail("%d rows", n)
		}
	}},
	{"domains refer to more versions than a group has rows", func(h tale) {
		h.live()
		for i := 1; i <= 40; i++ {
			v := fmt.Sprintf("1.%d.0", i)
			h.push(v)
			h.run(5 * time.Minute)
			h.nets["web"].pins = append(h.nets["web"].pins, v)
		}
		h.state("full", "TooManyReleases", true)
		active := h.rolloutState.Groups[0].ActiveRow().Version
		for i := 2; i <= 20; i++ {
			if h.object(fmt.Sprintf("1.%d.0", i)).ready == 0 {
				h.fail("1.%d.0 has no pods, although a domain refers to it", i)
			}
		}
		h.nets["web"].pins = nil
		h.run(2 * time.Hour)
		h.state("room again", "TooManyReleases", false)
		h.want("room again", map[string]string{"1.40.0": "active 100"})
		if active == "1.40.0" {
			h.fail("the group was never full")
		}
	}},
	{"more groups than fit into the status", func(h tale) {
		for i := 1; i <= 260; i++ {
			h.push(fmt.Sprintf("%d.0.0", i))
		}
		h.run(time.Minute)
		if n := len(h.rolloutState.Groups); n != 256 {
			h.fail("%d groups", n)
		}
		h.want("the newest", map[string]string{"260.0.0": "active 100", "5.0.0": "active 100", "4.0.0": ""})
		h.state("older versions do not start", "TooManyGroups", false)
		h.push("261.0.0")
		h.run(time.Minute)
		h.want("a newer version", map[string]string{"261.0.0": ""})
		h.state("full", "TooManyGroups", true)
		h.broken["260.1.0"], h.broken["260.2.0"] = "CrashLoopBackOff", "CrashLoopBackOff"
		for _, v := range []string{"260.1.0", "260.2.0", "260.3.0"} {
			h.push(v)
			h.run(15 * time.Minute)
		}
		h.want("a full status does not block new versions of a group", map[string]string{"260.3.0": "active 100"})
		h.withdrawGroup("260-x", Closed)
		h.run(time.Minute)
		h.want("one group has ended", map[string]string{"260.0.0": "", "261.0.0": "active 100"})
		h.state("room again", "TooManyGroups", false)
	}},
	{"growing groups share the rows", func(h tale) {
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 10 })
		for g := 1; g <= 60; g++ {
			h.push(fmt.Sprintf("%d.0.0", g))
		}
		h.run(time.Minute)
		for i := 1; i <= 12; i++ {
			for g := 1; g <= 60; g++ {
				h.push(fmt.Sprintf("%d.%d.0", g, i))
			}
			h.run(2 * time.Minute)
		}
		h.want("end", map[string]string{"1.12.0": "active 100", "60.12.0": "active 100"})
		for _, g := range h.rolloutState.Groups {
			if n := len(g.Releases); n != 6 { // 512/60, minus one row for the release in progress and one for the release that is draining
				h.fail("group %s has %d rows", g.Slug, n)
			}
		}
	}},
	{"the rollout state of a group with too many releases is lost", func(h tale) {
		h.edit("more are retained", func(s *Spec) { s.MinimumAvailable = 30 })
		h.live()
		for i := 1; i <= 29; i++ {
			h.push(fmt.Sprintf("1.%d.0", i))
			h.run(2 * time.Minute)
		}
		active := h.object("1.29.0")
		for i := 1; i <= 9; i++ { // The objects of older releases also exist.
			o := *active
			o.Version, o.Release = fmt.Sprintf("0.%d.0", i), fmt.Sprintf("0.%d.0-c1", i)
			o.uid, o.rv, o.Stamp = h.id(), h.id(), active.Stamp
			h.objects[o.Release] = &o
		}
		h.loseState()
		h.run(time.Hour)
		h.want("rebuilt", map[string]string{"1.29.0": "active 100"})
		if n := len(h.rolloutState.Groups[0].Releases); n > 30 || n < 29 {
			h.fail("%d rows", n)
		}
	}},
}

// fails pushes a version that does not become available, and waits for its failure.
func (h tale) fails(version string) {
	h.broken[version] = "CrashLoopBackOff"
	h.push(version)
	h.run(15 * time.Minute)
	if r := h.rolloutState.Groups[0].Row(h.release(version)); r == nil || r.Status != Error {
		h.fail("%s has not failed: %v", version, r)
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	for _, h := range limits {
		t.Run(h.name, func(t *testing.T) {
			t.Parallel()
			w := newWorld()
			w.quick = true // Each plan for hundreds of groups is computed only once.
			if h.play(tale{w}); w.err != nil {
				messages := w.played()
				t.Errorf("%v\n%s", w.err, messages[max(0, len(messages)-2000):])
			}
		})
	}
}

// TestQuota checks that the shares of all groups together never exceed the maximum number of rows
// in the status.
func TestQuota(t *testing.T) {
	t.Parallel()
	for n := range maxGroups + 1 {
		b := planner{groups: slices.Repeat([]Group{{}}, n)}
		if q := b.quota(); q < 2 || q > maxRows || q*n > maxAllRows {
			t.Errorf("%d groups can have %d rows each", n, q)
		}
	}
}
