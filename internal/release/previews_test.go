package release

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// placed returns the number of previews that have a slot.
func placed(l State) (n int) {
	for _, g := range l.Groups {
		if g.Level == preview && g.Phase == Live {
			n++
		}
	}
	return n
}

// group returns a group by its slug, or an empty group if there is none.
func (h tale) group(slug string) Group {
	if g := h.rolloutState.group(slug); g != nil {
		return *g
	}
	return Group{}
}

// phase checks the phase of a group. For an expired group, it also checks the target's reason.
func (h tale) phase(when, slug, want string) {
	g := h.group(slug)
	got := string(g.Phase)
	if g.Phase == Expired {
		got += " " + string(g.Target.Reason)
	}
	if got != want {
		h.fail("%s: %s is %q, want %q", when, slug, got, want)
	}
}

// bounds sets the limits of previews.
func (h tale) bounds(p Previews) { h.edit("previews", func(s *Spec) { s.Previews = p }) }

// empty checks that no objects and no rows remain.
func (h tale) empty(when string) {
	if len(h.rolloutState.Groups)+len(h.objects) > 0 {
		h.fail("%s: %d groups and %d objects remain", when, len(h.rolloutState.Groups), len(h.objects))
	}
}

// reviewed creates a policy, and makes commit "a" of pull request 7 active. From then on, pods need
// ten seconds to start.
func (h tale) reviewed() {
	h.steps(twoSteps...)
	h.policy("web")
	h.push("pr-7-a")
	h.run(time.Minute)
	h.want("opened", map[string]string{"pr-7-a": "active 100"})
	h.startup = 10 * time.Second
}

// checkStarting checks the rollout state against rule 41.
func (w *world) checkStarting() {
	starting := 0
	for _, g := range w.rolloutState.Groups {
		if g.Level == preview && g.Rollout != nil && g.Rollout.Gate != ConfirmRollout { // Previews at ConfirmRollout have no pods yet.
			starting++
		}
	}
	if starting > 10 {
		w.fail("rule 41: %d previews start at the same time", starting)
	}
}

// checkSlots checks a write of the rollout state against rule 26, which requires that there are no
// more previews than slots, that a running preview keeps its slot while there are enough slots, and
// that a preview that is too old starts again only with another head commit.
func (w *world) checkSlots(o Observed, old, next State) {
	most := max(1, o.Spec.Previews.MaxGroups)
	stopped := o.Spec.Paused || o.Spec.Freeze != nil // Recovered previews stay as they are, because no rollout begins that would supersede them.
	if n := placed(next); n > most && !stopped {
		w.fail("rule 26: %d previews run in %d slots", n, most)
	}
	for i := range next.Groups {
		h := &next.Groups[i]
		g := old.group(h.Slug)
		pending := 0
		for _, r := range h.Releases {
			if r.Status == Pending {
				pending++
			}
		}
		switch {
		case h.Level == preview && pending > 1 && !stopped:
			w.fail("rule 25: preview %s has %d pending releases", h.Slug, pending)
		case h.Level != preview && (h.Phase == Expired || h.Head != "" || h.PullRequest != 0):
			w.fail("rule 26: group %s is not a preview, but has %s, %q, %d", h.Slug, h.Phase, h.Head, h.PullRequest)
		case h.Phase == Expired && !slices.Contains([]Reason{NoSlot, MaxAge, NothingToStart, PinnedVersionMissing, PinnedReleaseFailed, PinsConflict}, h.Target.Reason):
			w.fail("rule 26: group %s is Expired because of %q", h.Slug, h.Target.Reason)
		case g == nil:
		case g.Phase == Live && (g.ActiveRow() != nil || g.Rollout != nil) && !w.lost[g.Slug] && mayRun(o, g.Slug) && h.Phase == Expired && h.Target.Reason == NoSlot && placed(old) <= most:
			w.fail("rule 26: %s loses its slot, although only %d previews run in %d slots", h.Slug, placed(old), most)
		case g.Phase == Expired && g.Target.Reason == MaxAge && h.Phase == Live && g.Head == h.Head:
			w.fail("rule 26: %s starts again with %s, which is too old", h.Slug, h.Head)
		}
	}
}

// mayRun reports whether only the number of slots can prevent a group from running.
func mayRun(o Observed, slug string) bool {
	return len(o.Spec.Pins) == 0 && slices.ContainsFunc(o.Candidates, func(c Candidate) bool { return c.Slug == slug }) &&
		!slices.ContainsFunc(o.Withdrawn, func(x Withdrawal) bool { return x.Slug == slug })
}

// checkExpired checks an expired preview at the end of a history against rule 26, which requires
// that no objects of the preview remain, and that the preview does not wait while a slot is free.
func (w *world) checkExpired(g *Group) {
	if len(g.Releases) > 0 {
		w.fail("rule 26: %s has expired, but still has releases\n%s", g.Slug, renderGroup(g))
	}
	for _, o := range w.objects {
		if o.Slug == g.Slug {
			w.fail("rule 26: %s has expired, but %s remains", g.Slug, o.Release)
		}
	}
	offered := false
	for _, c := range w.offers {
		offered = offered || c.Slug == g.Slug
	}
	for _, x := range w.withdrawn {
		offered = offered && (x.Slug != g.Slug || x.Version != "" || x.Reason == Denied || x.Reason == Gone)
	}
	if offered && g.Target.Reason == NoSlot && placed(w.rolloutState) < max(1, w.spec.Previews.MaxGroups) {
		w.fail("liveness: %s waits for a slot, although one is free", g.Slug)
	}
}

// previews contains histories of pull requests.
var previews = []scene{
	{"D6: after a push, the old preview serves until the new one is available, and there are no steps", func(h tale) {
		h.reviewed()
		h.push("pr-7-b")
		h.run(5 * time.Second)
		h.want("not yet available", map[string]string{"pr-7-a": "active 100", "pr-7-b": "pending 0"})
		h.run(6 * time.Second)
		h.want("available", map[string]string{"pr-7-a": "deprecated 0", "pr-7-b": "active 100"})
		h.run(time.Hour)
		h.want("drained", map[string]string{"pr-7-a": "", "pr-7-b": "active 100"})
		if n := len(h.objects); n != 1 {
			h.fail("%d objects", n)
		}
	}},
	{"D6: after a push that never becomes available, the old preview serves until the next push replaces it", func(h tale) {
		h.reviewed()
		h.broken["pr-7-b"] = "CrashLoopBackOff"
		h.push("pr-7-b")
		h.run(time.Hour)
		h.want("failed", map[string]string{"pr-7-a": "active 100", "pr-7-b": "error 0"})
		h.push("pr-7-c")
		h.run(time.Hour)
		h.want("fixed", map[string]string{"pr-7-a": "", "pr-7-b": "", "pr-7-c": "active 100"})
	}},
	{"a first release that a user deprecated is not tried again when the end of its group is undone during its drain", func(h tale) {
		h.steps(twoSteps...)
		h.live()
		h.nets["web"].newest = true
		h.push("2.0.0")
		h.run(20 * time.Second)
		h.want("canary", map[string]string{"1.0.0": "active 100", "2.0.0": "canary 10"})
		h.decideOn("2.0.0", Deprecate, "")
		h.run(time.Second)
		h.want("failed", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
		h.edit("end 2.x", func(s *Spec) { s.Ended = []string{"2.x"} })
		h.run(time.Second)
		if h.rolloutState.group("2-x") == nil {
			h.fail("the group was removed")
		}
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Second)
		h.want("undone", map[string]string{"1.0.0": "active 100", "2.0.0": "error 0"})
	}},
	{"the end of a preview whose head failed is undone, and the previous release serves", func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.broken["pr-7-b"] = "CrashLoopBackOff"
		h.push("pr-7-b")
		h.run(time.Hour)
		h.want("head failed", map[string]string{"pr-7-a": "active 100", "pr-7-b": "error 0"})
		h.edit("end 7", func(s *Spec) { s.Ended = []string{"7"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Hour)
		h.want("undone", map[string]string{"pr-7-a": "active 100"})
	}},
	{"a pull request whose head failed is reopened, and the previous release serves", func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.broken["pr-7-b"] = "CrashLoopBackOff"
		h.push("pr-7-b")
		h.run(time.Hour)
		h.want("head failed", map[string]string{"pr-7-a": "active 100", "pr-7-b": "error 0"})
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Second)
		h.offerGroup("pr-7", "pr-7-b")
		h.run(time.Hour)
		h.want("reopened", map[string]string{"pr-7-a": "active 100"})
	}},
	{"rule 48: the last release of a preview remains until its end hooks have responded", func(h tale) {
		h.edit("hooks", func(s *Spec) { s.EndHooks = true })
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.push("pr-7-b")
		h.run(time.Minute)
		h.want("before", map[string]string{"pr-7-a": "", "pr-7-b": "active 100"})
		h.hooks["PostPreview"] = "away"
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Second)
		if o := h.object("pr-7-b"); o.Replicas == 0 {
			h.fail("the release loses its pods before it is drained")
		}
		h.run(time.Hour)
		h.want("waits", map[string]string{"pr-7-b": "deprecated 0"})
		h.message("the wait", AwaitingEnd, "the preview has ended, and waits for its hooks of type PostPreview")
		if o := h.object("pr-7-b"); o.Replicas > 0 || o.ready > 0 {
			h.fail("the release has pods while its hooks are called")
		}
		h.offerGroup("pr-7", "pr-7-b")
		h.run(time.Minute)
		h.want("reopened while its hooks run", map[string]string{"pr-7-b": "deprecated 0"})
		delete(h.hooks, "PostPreview")
		h.run(time.Minute)
		h.want("reopened", map[string]string{"pr-7-b": "active 100"})
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Hour)
		h.empty("the end")
	}},
	{"rule 49: a release is deleted, and the end hooks of a preview are called, only after the Jobs of its other hooks have ended", func(h tale) {
		h.edit("hooks", func(s *Spec) { s.EndHooks, s.PreviewGates = true, []Point{ConfirmRollout} })
		h.hooks[ConfirmRollout] = "no"
		h.push("pr-7-a")
		h.run(time.Minute)
		h.object("pr-7-a").ActiveJobs = true // A Job creates a schema.
		h.push("pr-7-b")
		h.run(time.Minute)
		if h.object("pr-7-a") == nil {
			h.fail("the object whose Job runs is deleted")
		}
		h.hooks["PostPreview"] = "away"
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Minute)
		if g := h.rolloutState.group("pr-7"); g == nil || g.End.Release != "" {
			h.fail("end hooks are called while a Job creates the resources that they remove")
		}
		h.message("the wait", AwaitingEnd, "the preview has ended, and its hooks of type PostPreview are waiting until the Jobs of its other hooks have ended")
		h.object("pr-7-a").ActiveJobs = false
		h.run(time.Minute)
		if g := h.rolloutState.group("pr-7"); g == nil || g.End.Release == "" {
			h.fail("end hooks are not called")
		}
		delete(h.hooks, "PostPreview")
		h.run(time.Minute)
		h.empty("the end")
	}},
	{"rule 48: an event is recorded if end hooks are not called because a user deleted the last release of a preview", func(h tale) {
		h.edit("hooks", func(s *Spec) { s.EndHooks = true })
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.hooks["PostPreview"] = "away"
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Hour)
		h.want("waits", map[string]string{"pr-7-a": "deprecated 0"})
		h.remove(h.object("pr-7-a"))
		h.collect()
		h.events("deleted", EndFailed, "the hooks of type PostPreview of pr-7-a are no longer called, because its VersionedMicroservice was deleted: remove the resources that they would have removed")
		h.run(time.Minute)
		h.empty("the end")
	}},
	{"rule 48: the end hooks of an expired preview are called once, and called again when it ends again", func(h tale) {
		h.edit("hooks", func(s *Spec) { s.EndHooks = true })
		h.policy("web")
		h.bounds(Previews{MaxGroups: 20, MaxAge: 20 * time.Hour})
		h.push("pr-7-a")
		h.run(21 * time.Hour)
		h.want("expired", map[string]string{"pr-7-a": ""})
		if !h.answered["pr-7"] {
			h.fail("the hooks were not called")
		}
		h.push("pr-7-b")
		h.run(time.Minute)
		h.want("a push", map[string]string{"pr-7-b": "active 100"})
		if h.answered["pr-7"] {
			h.fail("the hooks were called while the preview was live")
		}
		h.withdrawGroup("pr-7", Closed)
		h.run(10 * time.Minute)
		if !h.answered["pr-7"] {
			h.fail("the hooks were not called again")
		}
		h.empty("the end")
	}},
	{"a pull request is reopened while its source fails, and its release serves", func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Second)
		h.offerGroup("pr-7", "pr-7-a")
		h.stale = true
		h.run(time.Minute)
		h.want("reopened", map[string]string{"pr-7-a": "active 100"})
	}},
	{"a pull request is reopened during a freeze, and its release serves", func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.freeze(5 * time.Hour)
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Second)
		h.offerGroup("pr-7", "pr-7-a")
		h.run(time.Minute)
		h.want("reopened", map[string]string{"pr-7-a": "active 100"})
	}},
	{"the end of a preview is undone while paused, and its release serves", func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.edit("pause", func(s *Spec) { s.Paused = true })
		h.edit("end 7", func(s *Spec) { s.Ended = []string{"7"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("undone", map[string]string{"pr-7-a": "active 100"})
	}},
	{"a pull request is reopened with another head, and the previous release serves until the head is available", func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Second)
		h.startup = 30 * time.Second
		h.offerGroup("pr-7", "pr-7-b")
		h.run(10 * time.Second)
		h.want("reopened", map[string]string{"pr-7-a": "active 100"})
	}},
	{"a pull request is reopened with a head that fails, and the previous release serves", func(h tale) {
		h.policy("web")
		h.push("pr-7-a")
		h.run(time.Minute)
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Second)
		h.broken["pr-7-b"] = "CrashLoopBackOff"
		h.offerGroup("pr-7", "pr-7-b")
		h.run(time.Hour)
		h.want("reopened", map[string]string{"pr-7-a": "active 100"})
	}},
	{"forgotten failures remain forgotten when the end of their group is undone", func(h tale) {
		h.live()
		h.edit("end", func(s *Spec) {})
		g := h.rolloutState.group("1-x")
		g.Failed = Failed{Version: "1.9.0", Config: h.config}
		h.version++
		h.push("1.4.0")
		h.run(time.Minute)
		h.want("forgotten", map[string]string{"1.0.0": "active 100", "1.4.0": ""})
		h.edit("end 1.x", func(s *Spec) { s.Ended = []string{"1.x"} })
		h.run(time.Second)
		h.edit("undo", func(s *Spec) { s.Ended = nil })
		h.run(time.Minute)
		h.want("undone", map[string]string{"1.0.0": "active 100", "1.4.0": ""})
	}},
	{"rule 25: three pushes in a minute", func(h tale) {
		h.reviewed()
		for _, v := range []string{"pr-7-b", "pr-7-c", "pr-7-d"} {
			h.push(v)
			h.run(5 * time.Second)
			h.want("pushed", map[string]string{"pr-7-a": "active 100", v: "pending 0"})
		}
		h.want("superseded", map[string]string{"pr-7-b": "", "pr-7-c": ""})
		h.run(time.Hour)
		h.want("the last push", map[string]string{"pr-7-a": "", "pr-7-d": "active 100"})
	}},
	{"rule 25: pushing the live commit again does nothing", func(h tale) {
		h.reviewed()
		h.push("pr-7-b")
		h.run(5 * time.Second)
		h.push("pr-7-a")
		h.run(time.Hour)
		h.want("pushed back", map[string]string{"pr-7-a": "active 100", "pr-7-b": ""})
		if a := h.rolloutState.group("pr-7").ActiveRow(); a == nil || a.Promoted != 1 {
			h.fail("promoted again: %v", a)
		}
	}},
	{"rule 25: the live commit is pushed again while commits are pushed faster than previews start", func(h tale) {
		h.reviewed()
		for _, v := range []string{"pr-7-b", "pr-7-c", "pr-7-d", "pr-7-e", "pr-7-a"} {
			h.push(v)
			h.run(2 * time.Second)
		}
		h.want("pushed back", map[string]string{"pr-7-a": "active 100", "pr-7-e": ""})
		h.run(time.Hour)
		h.want("later", map[string]string{"pr-7-a": "active 100", "pr-7-d": ""})
	}},
	{"rule 25: the commits of a pull request have no order", func(h tale) {
		h.reviewed()
		for _, v := range []string{"pr-7-9", "pr-7-3", "pr-7-6"} {
			h.push(v)
			h.run(time.Minute)
			h.want("the head", map[string]string{v: "active 100"})
		}
	}},
	{"rule 28: commits are pushed faster than previews start", func(h tale) {
		h.reviewed()
		for i := range 8 {
			h.push(fmt.Sprintf("pr-7-c%d", i))
			h.run(4 * time.Second)
		}
		h.want("one commit is finished first", map[string]string{"pr-7-a": "deprecated 0", "pr-7-c7": "pending 0"})
		h.run(time.Hour)
		h.want("the last commit", map[string]string{"pr-7-c7": "active 100"})
	}},
	{"rule 37: two forks have the same branch, and one pull request is closed", func(h tale) {
		h.policy("web")
		h.push("pr-8-a", "pr-9-a")
		h.run(time.Minute)
		h.want("two", map[string]string{"pr-8-a": "active 100", "pr-9-a": "active 100"})
		if x, y := h.group("pr-8"), h.group("pr-9"); x.Name != y.Name || x.PullRequest != 8 || y.PullRequest != 9 {
			h.fail("%s %d, %s %d", x.Name, x.PullRequest, y.Name, y.PullRequest)
		}
		h.withdrawGroup("pr-8", Closed)
		h.run(time.Hour)
		h.want("one", map[string]string{"pr-8-a": "", "pr-9-a": "active 100"})
	}},
	{"rule 15: a pin by the number of a pull request", func(h tale) {
		h.policy("web")
		h.push("pr-8-a", "pr-9-a")
		h.run(time.Minute)
		h.pin(Pin{Group: "8", Version: "pr-8-a"})
		h.push("pr-8-b", "pr-9-b")
		h.run(time.Hour)
		h.want("pinned", map[string]string{"pr-8-a": "active 100", "pr-8-b": "", "pr-9-b": "active 100"})
	}},
	{"D7: a closed preview is kept for the configured time, and then removed", func(h tale) {
		h.reviewed()
		h.bounds(Previews{MaxGroups: 20, KeepAfterClose: time.Hour})
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Hour - time.Second)
		h.want("kept", map[string]string{"pr-7-a": "active 100"})
		h.run(time.Second)
		h.phase("at the exact second", "pr-7", "Closing")
		h.run(time.Minute)
		h.empty("drained")
	}},
	{"a preview is closed and reopened before it is removed", func(h tale) {
		h.reviewed()
		h.bounds(Previews{MaxGroups: 20, KeepAfterClose: time.Hour})
		h.withdrawGroup("pr-7", Closed)
		h.run(30 * time.Minute)
		h.offerGroup("pr-7", "pr-7-b")
		h.run(24 * time.Hour)
		h.want("kept", map[string]string{"pr-7-b": "active 100"})
		h.withdrawGroup("pr-7", Closed)
		h.run(59 * time.Minute)
		h.want("kept again after it is closed a second time", map[string]string{"pr-7-b": "active 100"})
		h.run(2 * time.Minute)
		h.empty("gone")
	}},
	{"a preview is reopened with another commit during the drain", func(h tale) {
		h.edit("long drain", func(s *Spec) { s.Drain = time.Hour })
		h.reviewed()
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Minute)
		h.offerGroup("pr-7", "pr-7-b")
		h.run(2 * time.Hour)
		h.want("reopened", map[string]string{"pr-7-b": "active 100", "pr-7-a": ""})
	}},
	{"a pull request that the filter no longer selects", func(h tale) {
		h.reviewed()
		h.withdrawGroup("pr-7", Excluded)
		h.run(time.Hour)
		h.empty("excluded")
	}},
	{"a release group does not close because of a preview", func(h tale) {
		h.live()
		h.push("pr-7-z")
		h.run(time.Minute)
		h.withdrawGroup("1-x", Excluded)
		h.run(time.Hour)
		h.want("keeps serving", map[string]string{"1.0.0": "active 100", "pr-7-z": "active 100"})
		if h.rolloutState.Groups[0].Slug != "1-x" {
			h.fail("the first group is %s", h.rolloutState.Groups[0].Slug)
		}
	}},
	{"rule 26: a preview that is too old expires, and starts again after the next push", func(h tale) {
		h.reviewed()
		h.bounds(Previews{MaxGroups: 20, MaxAge: 2 * time.Hour})
		h.run(2*time.Hour - time.Minute - time.Second)
		h.want("before the maximum age", map[string]string{"pr-7-a": "active 100"})
		h.run(time.Second)
		h.phase("at the exact second", "pr-7", "Expired MaxAge")
		h.run(24 * time.Hour)
		h.phase("later", "pr-7", "Expired MaxAge")
		if n := len(h.objects); n > 0 {
			h.fail("%d objects remain", n)
		}
		h.bounds(Previews{MaxGroups: 20})
		h.drop("pr-7-a")
		h.run(24 * time.Hour)
		h.phase("without a limit or an offer", "pr-7", "Expired MaxAge")
		h.push("pr-7-b")
		h.run(time.Minute)
		h.want("pushed", map[string]string{"pr-7-b": "active 100"})
	}},
	{"rule 26: an expired preview is removed when its pull request closes", func(h tale) {
		h.reviewed()
		h.bounds(Previews{MaxGroups: 20, MaxAge: 2 * time.Hour, KeepAfterClose: time.Hour})
		h.run(3 * time.Hour)
		h.phase("after the maximum age", "pr-7", "Expired MaxAge")
		h.withdrawGroup("pr-7", Closed)
		h.run(time.Minute)
		h.empty("removed without a delay")
	}},
	{"rule 26: the age of a push without a time starts at its first observation", func(h tale) {
		h.reviewed()
		h.bounds(Previews{MaxGroups: 20, MaxAge: time.Hour})
		h.push("pr-7-b")
		c := h.offers["pr-7-b"]
		c.Time = noTime
		h.offers["pr-7-b"] = c
		h.run(time.Hour - time.Second)
		h.want("before the maximum age", map[string]string{"pr-7-b": "active 100"})
		h.run(time.Second)
		h.phase("after the maximum age", "pr-7", "Expired MaxAge")
	}},
	{"rule 26: the age of a push with a time in the future starts at its first observation", func(h tale) {
		h.reviewed()
		h.bounds(Previews{MaxGroups: 20, MaxAge: time.Hour})
		h.push("pr-7-b")
		c := h.offers["pr-7-b"]
		c.Time = h.now.Add(1000 * time.Hour)
		h.offers["pr-7-b"] = c
		h.run(time.Hour)
		h.phase("after the maximum age", "pr-7", "Expired MaxAge")
	}},
	{"rule 26: a preview does not expire while its source does not list it", func(h tale) {
		h.reviewed()
		h.bounds(Previews{MaxGroups: 20, MaxAge: 2 * time.Hour})
		h.drop("pr-7-a")
		h.run(24 * time.Hour)
		h.want("not listed by the source", map[string]string{"pr-7-a": "active 100"})
	}},
	{"rule 26: more pull requests than slots", func(h tale) {
		h.policy("web")
		h.bounds(Previews{MaxGroups: 2})
		for _, v := range []string{"pr-1-a", "pr-2-a", "pr-3-a", "pr-4-a"} {
			h.push(v)
			h.run(time.Minute)
		}
		h.want("running previews keep their slots", map[string]string{"pr-1-a": "active 100", "pr-2-a": "active 100", "pr-3-a": "", "pr-4-a": ""})
		h.phase("a new preview waits", "pr-3", "Expired NoSlot")
		h.push("pr-3-b")
		h.run(time.Minute)
		h.phase("a push takes no slot from another preview", "pr-3", "Expired NoSlot")
		h.withdrawGroup("pr-1", Closed)
		h.run(time.Minute)
		h.want("the newest push", map[string]string{"pr-3-b": "active 100", "pr-4-a": ""})
		h.bounds(Previews{MaxGroups: 1})
		h.run(time.Hour)
		h.want("fewer slots", map[string]string{"pr-2-a": "", "pr-3-b": "active 100", "pr-4-a": ""})
		h.bounds(Previews{MaxGroups: 3})
		h.run(time.Hour)
		h.want("more slots", map[string]string{"pr-2-a": "active 100", "pr-3-b": "active 100", "pr-4-a": "active 100"})
	}},
	{"rule 26: fewer slots, and the commit of the newest push was denied before it started", func(h tale) {
		h.policy("web")
		h.push("pr-7-b")
		h.push("pr-9-a")
		h.run(3 * time.Minute)
		h.broken["pr-8-b"] = "CrashLoopBackOff"
		h.push("pr-8-b")
		h.run(10 * time.Second)
		h.withdraw("pr-8-b", Denied)
		h.edit("replicas", func(s *Spec) { s.Replicas = 4 })
		h.bounds(Previews{MaxGroups: 2})
		h.run(time.Minute)
		h.want("running previews keep their slots", map[string]string{"pr-7-b": "active 100", "pr-9-a": "active 100", "pr-8-b": ""})
	}},
	{"rule 14: a preview is offered again at the moment when its drain ends", func(h tale) {
		h.reviewed()
		h.push("pr-7-b")
		h.run(time.Minute)
		h.withdrawGroup("pr-7", Excluded)
		h.settle()
		h.offerGroup("pr-7", "pr-7-b")
		h.advance(time.Hour)
		h.run(time.Minute)
		h.want("unchanged", map[string]string{"pr-7-a": "", "pr-7-b": "active 100"})
	}},
	{"rule 26: a preview that waits for a slot can expire", func(h tale) {
		h.policy("web")
		h.bounds(Previews{MaxGroups: 1, MaxAge: 2 * time.Hour})
		h.push("pr-1-a", "pr-2-a")
		h.run(time.Hour)
		h.want("slot for the higher number", map[string]string{"pr-1-a": "", "pr-2-a": "active 100"})
		h.push("pr-2-b")
		h.run(90 * time.Minute)
		h.withdrawGroup("pr-2", Closed)
		h.run(time.Hour)
		h.phase("too old for the slot", "pr-1", "Expired MaxAge")
		if len(h.objects) > 0 {
			h.fail("objects remain")
		}
	}},
	{"rule 26: the slot of an expired preview goes to the next preview", func(h tale) {
		h.policy("web")
		h.bounds(Previews{MaxGroups: 1, MaxAge: 2 * time.Hour})
		h.push("pr-1-a")
		h.run(time.Hour)
		h.push("pr-2-a")
		h.run(61 * time.Minute)
		h.phase("after the maximum age", "pr-1", "Expired MaxAge")
		h.want("the next", map[string]string{"pr-2-a": "active 100"})
		h.push("pr-1-b")
		h.run(time.Minute)
		h.phase("waits for a slot", "pr-1", "Expired NoSlot")
	}},
	{"rule 22: nothing starts and nothing expires while paused", func(h tale) {
		h.reviewed()
		h.edit("pause", func(s *Spec) { s.Paused, s.Previews.MaxAge = true, time.Hour })
		h.push("pr-8-a")
		h.run(24 * time.Hour)
		h.want("paused", map[string]string{"pr-7-a": "active 100", "pr-8-a": ""})
		h.edit("continue", func(s *Spec) { s.Paused = false })
		h.run(time.Hour)
		h.phase("too old by now", "pr-7", "Expired MaxAge")
	}},
	{"rule 31: the rollout state is lost just after an expired preview was removed from the routes", func(h tale) {
		h.reviewed()
		h.bounds(Previews{MaxGroups: 20, MaxAge: time.Hour})
		h.advance(time.Hour)
		for range 2 { // If the manager stops before the write, a second plan is needed.
			if h.group("pr-7").Phase == Expired {
				break
			}
			h.plan(h.leaders[0], lags{})
			for h.perform(h.leaders[0]) {
			}
		}
		h.phase("too old", "pr-7", "Expired MaxAge")
		h.neighbors()
		h.loseState()
		h.run(time.Second)
		if len(h.objects) != 1 {
			h.fail("the preview is not draining")
		}
		h.run(time.Hour)
		h.phase("drained", "pr-7", "Expired MaxAge")
		if len(h.objects) > 0 {
			h.fail("the preview is not removed")
		}
	}},
	{"rule 31: the rollout state is lost while one preview is expired and another waits for a slot", func(h tale) {
		h.policy("web")
		h.bounds(Previews{MaxGroups: 1, MaxAge: 2 * time.Hour})
		h.push("pr-1-a")
		h.run(90 * time.Minute)
		h.push("pr-2-a")
		h.run(time.Minute)
		h.push("pr-3-a")
		h.run(time.Hour)
		check := func(when string) {
			h.phase(when, "pr-1", "Expired MaxAge")
			h.phase(when, "pr-2", "Expired NoSlot")
			h.want(when, map[string]string{"pr-3-a": "active 100"})
			if n := len(h.objects); n != 1 {
				h.fail("%s: %d objects", when, n)
			}
		}
		check("before")
		h.loseState()
		h.run(time.Minute)
		check("after")
	}},
}

// crowds contains histories of many pull requests. They are long, so they are not among the
// histories that also run with a crash at each write.
var crowds = []scene{
	{"rule 41: a Secret that 200 previews use is rotated", func(h tale) {
		h.bounds(Previews{MaxGroups: 200})
		h.edit("small", func(s *Spec) { s.Replicas = 1 })
		h.startup = 10 * time.Second
		for i := 1; i <= 200; i++ {
			h.push(fmt.Sprintf("pr-%d-a", i))
		}
		h.run(time.Second)
		starting := func(when string, from, to int) {
			for i := 1; i <= 200; i++ {
				slug := fmt.Sprintf("pr-%d", i)
				if got, want := h.group(slug).Rollout != nil, from <= i && i <= to; got != want {
					h.fail("%s: %s starts: %t, want %t", when, slug, got, want)
				}
			}
		}
		starting("opened, the highest numbers first", 191, 200)
		h.state("opened", "AwaitingTurn", true)
		h.run(30 * time.Minute)
		if n := len(h.objects); n != 200 || placed(h.rolloutState) != 200 {
			h.fail("%d objects, %d slots", n, placed(h.rolloutState))
		}
		h.state("all previews are active", "AwaitingTurn", false)
		h.run(time.Minute)
		h.push("pr-5-b") // the newest push
		h.run(time.Minute)
		h.configure("c2")
		h.run(time.Second)
		if h.group("pr-5").Rollout == nil || h.group("pr-200").Rollout == nil || h.group("pr-191").Rollout != nil {
			h.fail("the preview with the newest push does not start first")
		}
		h.run(30 * time.Minute)
		for _, g := range h.rolloutState.Groups {
			if a := g.ActiveRow(); a == nil || a.Config != "c2" || len(g.Releases) != 1 {
				h.fail("%s does not have the new Secret:\n%s", g.Slug, renderGroup(&g))
			}
		}
	}},
	{"200 pull requests with 20 slots are opened and closed", func(h tale) {
		h.policy("web")
		for i := 1; i <= 200; i++ {
			h.push(fmt.Sprintf("pr-%d-a", i))
			h.advance(time.Second)
		}
		h.run(time.Hour)
		if len(h.objects) != 20 || placed(h.rolloutState) != 20 || len(h.rolloutState.Groups) != 200 {
			h.fail("%d objects, %d slots, %d groups", len(h.objects), placed(h.rolloutState), len(h.rolloutState.Groups))
		}
		h.want("the newest", map[string]string{"pr-200-a": "active 100", "pr-181-a": "active 100", "pr-180-a": ""})
		for i := 101; i <= 200; i++ {
			h.withdrawGroup(fmt.Sprintf("pr-%d", i), Closed)
		}
		h.run(time.Hour)
		if len(h.objects) != 20 || len(h.rolloutState.Groups) != 100 {
			h.fail("%d objects, %d groups", len(h.objects), len(h.rolloutState.Groups))
		}
		h.want("the next", map[string]string{"pr-100-a": "active 100", "pr-81-a": "active 100", "pr-80-a": ""})
		for i := 1; i <= 100; i++ {
			h.withdrawGroup(fmt.Sprintf("pr-%d", i), Closed)
		}
		h.run(time.Hour)
		h.empty("all closed")
	}},
}

func init() {
	histories = append(histories, previews...)
	limits = append(limits, crowds...)
}

// BenchmarkPreviews plans 256 stable pull requests, 20 of which have a slot.
func BenchmarkPreviews(b *testing.B) {
	w := newWorld()
	w.quick = true
	w.policy("web")
	for i := 1; i <= maxGroups; i++ {
		w.push(fmt.Sprintf("pr-%d-a", i))
	}
	w.run(time.Hour)
	if w.err != nil {
		b.Fatal(w.err)
	}
	o, _, _ := w.observe(lags{})
	b.ReportAllocs()
	for b.Loop() {
		if planWith(o, w.now, rules).Changed {
			b.Fatal("the plan changes stable previews")
		}
	}
}

// TestPinOfAPreviewThatEnds checks that an ending preview reports what it is waiting for. A pin selects its failed release, whose
// pods are kept until no route refers to the release.
func TestPinOfAPreviewThatEnds(t *testing.T) {
	row := func(release string, status Status) Row {
		return Row{Release: release, Name: "feature", Version: release, Config: "c1", Status: status, Zero: &Zero{Revision: 2, Time: t0}, Since: t0}
	}
	object := func(release string, replicas int) Object {
		return Object{Release: release, Slug: "pr-8", Name: "feature", Level: preview, PullRequest: 8, Version: release, Config: "c1", Created: t0, Stamp: 1, Replicas: replicas, Available: replicas}
	}
	o := Observed{
		Spec:     Spec{Replicas: 2, EndHooks: true, Pins: []Pin{{Field: "spec.updateStrategy.manual.release", Release: "b"}}},
		Config:   "c1",
		Objects:  []Object{object("a", 0), object("b", 2)},
		Policies: []Policy{{Name: "web", Groups: []Report{{Slug: "pr-8", Revision: 1, Confirmed: t0, References: []string{"b"}}}}},
		State: State{Sequence: 3, Groups: []Group{{
			Slug: "pr-8", Name: "feature", Level: preview, PullRequest: 8, Phase: Closing, TrafficRevision: 3, TrafficTime: t0,
			Releases: []Row{row("a", Deprecated), row("b", Error)},
		}}},
	}
	p := Plan(o, t0.Add(time.Hour))
	if !slices.ContainsFunc(p.Notes, func(n Note) bool { return n.Reason == TrafficUnconfirmed && n.Release == "b" }) {
		t.Errorf("the wait for the policy is not reported: %+v", p.Notes)
	}
}

// TestEndOfAPreviewAsAJobStarts checks that the end hooks of a preview are not called while a Job can still start for one of its releases.
// A Job can start until the controller of the release has reported that the release is deprecated or has failed.
func TestEndOfAPreviewAsAJobStarts(t *testing.T) {
	row := func(release string, status Status, promoted int64) Row {
		return Row{Release: release, Name: "feature", Version: release, Config: "c1", Status: status, Promoted: promoted, Since: t0}
	}
	object := func(release string, reported Status) Object {
		return Object{Release: release, Slug: "pr-8", Name: "feature", Level: preview, PullRequest: 8, Version: release, Config: "c1", Created: t0, Stamp: 1, Reported: reported}
	}
	for _, status := range []Status{Deprecated, Error} {
		for reported, called := range map[Status]bool{Pending: false, status: true} {
			o := Observed{
				Spec:    Spec{Replicas: 2, EndHooks: true, GateJobs: true},
				Config:  "c1",
				Objects: []Object{object("a", Deprecated), object("b", reported)},
				State: State{Sequence: 3, Groups: []Group{{
					Slug: "pr-8", Name: "feature", Level: preview, PullRequest: 8, Phase: Closing, TrafficRevision: 3, TrafficTime: t0,
					Releases: []Row{row("a", Deprecated, 1), row("b", status, 0)},
				}}},
			}
			p := Plan(o, t0.Add(time.Hour))
			if got := len(p.State.Groups) > 0 && p.State.Groups[0].End.Release != ""; got != called {
				t.Errorf("status of b: %s, status that its controller has reported: %s, end hooks are called: %t\n%s", status, reported, got, renderGroup(&p.State.Groups[0]))
			}
		}
	}
}
