package release

import (
	"fmt"
	"slices"
	"time"
)

// job is the Job of a hook of a release.
type job struct {
	kind string    // "migrate" or "revert" while the Job runs
	call string    // the last call that a Job answers
	ends time.Time // when it can end
	owed bool      // the release failed, and its revert waits for another Job
	read int64     // the sequence of the last rollout state that the controller of the release has read
}

// jobTime is how long a Job runs.
const jobTime = 45 * time.Second

// runJobs simulates the release controller and the Job controller: Jobs end, a release's failure is reported, and its migration is
// reverted. It reports whether something changed. g is the group as the controller reads it, or nil.
func (w *world) runJobs(o *object, g *Group) (changed bool) {
	if h := w.hooks[ConfirmRollout]; o.kind != "" && !w.now.Before(o.ends) && (o.kind == "revert" || h != "no" && h != "away") {
		w.say("the %s Job of %s ends", o.kind, o.Release)
		o.kind, o.ActiveJobs, o.GateJobs, o.ends, o.rv, changed = "", false, false, noTime, w.id(), true
	}
	if o.Terminating || g == nil || g.Row(o.Release) == nil {
		return changed
	}
	r := g.Row(o.Release)
	if o.Reported != r.Status {
		o.owed = r.Status == Error && w.spec.FailureJobs && g.Level != preview
		o.Reported, o.rv, changed = r.Status, w.id(), true
	}
	if o.owed {
		o.ActiveJobs = true
	}
	if o.owed && o.kind == "" {
		o.owed = false
		w.startJob(o, "revert")
	}
	return changed
}

func (w *world) startJob(o *object, kind string) {
	changes := func(x *object, kind string) bool { return kind == "migrate" || kind == "revert" && x.call != "" } // Otherwise, there is nothing to revert.
	for _, x := range w.objects {
		if x != o && x.Slug == o.Slug && !x.Terminating && changes(x, x.kind) && changes(o, kind) && (kind == "migrate" || x.kind == "migrate") {
			w.fail("a %s Job of %s starts while a %s Job of %s is running", kind, o.Release, x.kind, x.Release)
		}
	}
	w.say("a %s Job of %s starts", kind, o.Release)
	o.kind, o.ActiveJobs, o.GateJobs, o.ends, o.rv = kind, true, kind == "migrate", w.now.Add(jobTime), w.id()
}

// answerAt returns the hooks' answer at the gate of a rollout. Hooks do not answer while their Job is running. A new Job starts only
// after the release's other Jobs have ended.
func (w *world) answerAt(o *object, run *Rollout) string {
	answer := w.hooks[run.Gate]
	if !w.jobs || run.Gate != ConfirmRollout || run.GateTime.IsZero() {
		return answer
	}
	call := fmt.Sprint(run.Sequence, run.GateTime.UnixMicro())
	switch {
	case o.kind == "migrate" && o.call == call:
		return "the Job is running"
	case o.kind != "" || o.owed:
		return "waits until another Job has ended"
	case o.call != call:
		o.call = call
		w.startJob(o, "migrate")
		return "the Job is running"
	}
	return answer
}

// checkJobs checks that migrations are reverted, and that they do not overlap with other Jobs of the group if the plan could observe these Jobs.
func (w *world) checkJobs(o Observed, g, h *Group) {
	if !w.jobs || g.Level == preview {
		return
	}
	for _, r := range g.Releases {
		live := w.objects[r.Release]
		if r.Status != Error || h.Row(r.Release) != nil || live == nil || live.Terminating || !hasObject(o, r.Release) {
			continue
		}
		if o.Spec.FailureJobs && live.Reported != Error || live.owed {
			w.fail("the row of the failed release %s is removed before its revert is called", r.Release)
		}
	}
	opened := func(x *Group) string {
		if x.Rollout == nil || x.Rollout.Gate != ConfirmRollout || x.Rollout.GateTime.IsZero() {
			return ""
		}
		return fmt.Sprint(x.Rollout.Sequence)
	}
	if opened(h) == "" || opened(h) == opened(g) || !slices.Contains(o.Spec.Gates, ConfirmRollout) {
		return
	}
	for _, x := range o.Objects {
		live := w.objects[x.Release]
		if x.Slug != h.Slug || x.Release == h.Rollout.Release || x.Terminating || live == nil || live.Terminating {
			continue
		}
		if x.ActiveJobs && live.kind != "" {
			w.fail("the migration of %s begins while a %s Job of %s is running", h.Rollout.Release, live.kind, x.Release)
		}
		if r := h.Row(x.Release); r != nil && r.Status == Error && (r.Promoted == 0 || o.Spec.FailureJobs) && x.Reported != Error {
			w.fail("the migration of %s begins before the failure of %s is reported", h.Rollout.Release, x.Release)
		}
	}
}
