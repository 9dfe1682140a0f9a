package release

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// maxStarting is the maximum number of previews whose rollouts may be in progress at the same time. This limit prevents a change to the
// configuration of all previews from flooding the cluster (rule 41).
const maxStarting = 10

// assignSlots assigns slots to previews (rule 26). A running preview keeps its slot. A free slot goes to the
// waiting preview with the newest push. A preview that is too old or has no slot is Expired: its group remains,
// but has no releases.
func (b *planner) assignSlots() {
	var live, waiting, reopened []*Group
	for i := range b.groups {
		g := &b.groups[i]
		if g.Level != preview {
			continue
		}
		if b.prepare(g) {
			reopened = append(reopened, g)
			continue
		}
		switch old := b.tooOld(g); {
		case b.closesNow(g.Slug), b.ended(g.Slug, g.Name, g.PullRequest): // The group ends in this plan.
		case g.Phase == Live && len(g.Releases) == 0 && !b.wants(*g):
			g.Phase, g.Target = Expired, Target{Reason: NoSlot}
			b.noteIdle(g)
		case !b.o.Spec.Paused && !b.o.SourceStale && b.scope(g).onlyEnds() && !b.wants(*g):
			b.scope(g).takeDown(Expired, NoSlot)
			g.Target = Target{Reason: NoSlot}
			b.noteIdle(g)
		case g.Phase == Live && old:
			b.expire(g, MaxAge, fmt.Sprintf("the last push, at %s, is older than spec.previews.maxAge (%s): push a commit to start the preview again", g.HeadTime.Format(time.RFC3339), b.o.Spec.Previews.MaxAge))
		case g.Phase == Live:
			live = append(live, g)
		case g.Phase == Expired && old:
			g.Target.Reason = MaxAge
		case g.Phase == Expired && b.scope(g).ending(): // The group is waiting for its PostPreview hooks.
		case g.Phase == Expired && g.Target.Reason != MaxAge && !b.withdrawnGroup(g.Slug):
			if b.noteIdle(g); b.wants(*g) {
				waiting = append(waiting, g)
			}
		}
	}
	most := max(1, b.o.Spec.Previews.MaxGroups)
	used := 0
	for _, g := range live {
		if b.uses(g) {
			used++
		}
	}
	slices.SortFunc(reopened, byPush)
	for _, g := range reopened {
		if b.reopen(g, used < most) {
			live = append(live, g)
			used++
		}
	}
	if b.o.Spec.Paused {
		return
	}
	if len(live) > most {
		slices.SortFunc(live, b.byRight)
	}
	for len(live) > most {
		b.expire(live[len(live)-1], NoSlot, fmt.Sprintf("spec.previews.maxGroups is %d, and the other previews are serving or have more recent pushes", most))
		live = live[:len(live)-1]
	}
	if b.o.SourceStale || b.missingPin() != nil {
		return
	}
	slices.SortFunc(waiting, byPush)
	waiting = waiting[:min(len(waiting), most-len(live))]
	if b.o.Spec.Freeze != nil {
		b.noteFrozen(waiting)
		return
	}
	for _, g := range waiting {
		g.Phase, g.Target = Live, Target{}
		b.scope(g).resume() // If the group lost its slot only in this plan, or is still draining, a release can serve again immediately.
	}
}

// prepare updates a preview before slots are assigned, because a preview that ends or has nothing to serve
// needs no slot. It reports whether the preview is closing and must be reopened.
func (b *planner) prepare(g *Group) (again bool) {
	s := b.scope(g)
	rebuildState(s)
	replaceLostActive(s)
	dropLost(s)
	b.noteHead(g)
	if end, ages := b.agesOut(g); ages {
		b.requeueAt(end)
	}
	if end, closed := b.keptUntil(g.Slug); closed {
		b.requeueAt(end)
	}
	return s.opensAgain()
}

// reopen reopens a closing preview. If a slot is free, the preview continues in its previous state, even while
// spec.paused is true: the release that was active last serves again, and failed releases do not start again. If no
// slot is free, the preview is Expired until it gets one.
func (b *planner) reopen(g *Group, slot bool) bool {
	s := b.scope(g)
	s.event(nil, false, GroupReopened, fmt.Sprintf("group %s is offered again", s.g.label()))
	if slot {
		g.Phase = Live
		s.resume()
		return true
	}
	s.takeDown(Expired, GroupReopened)
	g.Target.Reason = NoSlot
	return false
}

// closed reports whether the source of a group is closed and the time for which the group is kept has
// passed.
func (b *planner) closed(slug string) bool {
	end, closed := b.keptUntil(slug)
	return closed && !b.now.Before(end)
}

// keptUntil returns the time until which a group is kept after its source is closed.
func (b *planner) keptUntil(slug string) (end time.Time, closed bool) {
	var last time.Time
	for _, w := range b.o.Withdrawn {
		if w.Slug != slug || w.Version != "" || w.Reason != Closed {
			continue
		}
		if closed = true; w.Time.After(last) {
			last = w.Time
		}
	}
	return last.Add(b.o.Spec.Previews.KeepAfterClose), closed
}

// closesNow reports whether a preview closes now.
func (b *planner) closesNow(slug string) bool {
	return b.closed(slug) || b.excluded(slug) && !b.o.Spec.Paused
}

// wants reports whether a preview would start a release if it got a slot.
func (b *planner) wants(g Group) bool {
	g.Phase = Live
	target, _ := b.scope(&g).choose()
	return target.Release != ""
}

// noteIdle records why a preview without a release would not start a release even with a slot: its pin prevents it, or
// no offered release may start. In all other cases, the preview is only waiting for a slot.
func (b *planner) noteIdle(g *Group) {
	if b.o.SourceStale {
		return // The release that the preview would start is not known.
	}
	live := *g
	live.Phase = Live
	s := b.scope(&live)
	if len(b.perGroup[g.Slug]) == 0 {
		if _, out := s.withdrawn(g.Head); out {
			g.Target = Target{Reason: NothingToStart}
		} else if pin, _, _ := s.pin(); pin == nil && g.Target.Reason != NothingToStart {
			g.Target = Target{Reason: NoSlot}
		}
		return
	}
	target, notes := s.choose()
	if target.Release != "" {
		g.Target = Target{Reason: NoSlot}
		return
	}
	g.Target = Target{Reason: cmp.Or(target.Reason, NothingToStart)}
	for _, n := range notes {
		b.note(n)
	}
}

// byRight orders previews by their right to a slot. The last preview is the first to lose its slot. Previews with
// nothing to serve or to start come last. Previews that are not in the rollout state yet come before these. All other
// previews come first, sorted by the time of their latest push, newest first.
func (b *planner) byRight(x, y *Group) int {
	return cmp.Or(
		last(!b.uses(x), !b.uses(y)),
		last(!b.scope(x).recorded(), !b.scope(y).recorded()),
		byPush(x, y),
	)
}

// uses reports whether a preview needs its slot.
func (b *planner) uses(g *Group) bool { return g.ActiveRow() != nil || b.wants(*g) }

// noteHead records the head commit of a pull request and the time of its push. If the source does not
// provide the time, noteHead records the time at which the commit became known. If the group expired because
// of its age, a new head commit makes it wait for a slot again.
func (b *planner) noteHead(g *Group) {
	offers := b.perGroup[g.Slug]
	if len(offers) == 0 {
		return
	}
	head := offers[0]
	g.PullRequest = cmp.Or(head.PullRequest, g.PullRequest)
	if g.Head == head.Version {
		return
	}
	g.Head, g.HeadTime = head.Version, stored(head.Time)
	if head.Time.IsZero() || head.Time.After(b.now) {
		g.HeadTime = b.now
	}
	if g.Phase == Expired {
		g.Target = Target{Reason: NoSlot}
	}
}

// agesOut returns the time at which a preview becomes too old. ages is false if no age limit applies now.
func (b *planner) agesOut(g *Group) (end time.Time, ages bool) {
	age := b.o.Spec.Previews.MaxAge
	if age == 0 || g.Phase == Closing || len(b.perGroup[g.Slug]) == 0 || b.o.Spec.Paused {
		return noTime, false
	}
	return g.HeadTime.Add(age), true
}

// tooOld reports whether the last push to a preview was too long ago. This is known only while a
// head commit is offered.
func (b *planner) tooOld(g *Group) bool {
	end, ages := b.agesOut(g)
	return ages && !b.now.Before(end)
}

// expire removes the releases of a preview, but keeps the group.
func (b *planner) expire(g *Group, reason Reason, message string) {
	s := b.scope(g)
	s.takeDown(Expired, reason)
	g.Target.Reason = reason
	s.event(nil, false, GroupExpired, fmt.Sprintf("preview %s is drained and removed: %s", s.g.label(), message))
}

// previewStartWait returns why a group must not start a release now, or nil. The number of previews that start at the
// same time is limited. A preview whose rollout is blocked does not count. A preview that is waiting for
// ConfirmRollout has no pods yet, and does not count either.
func (s *scope) previewStartWait(version string) *wait {
	if s.g.Level != preview {
		return nil
	}
	starting := 0
	for i := range s.groups {
		if g := &s.groups[i]; g.Level == preview && g.Rollout != nil && g.Rollout.WaitsFor == "" && g.Rollout.Gate != ConfirmRollout {
			starting++
		}
	}
	if starting < maxStarting {
		return nil
	}
	return newWait(s.g.Row(s.g.Target.Release), false, AwaitingTurn, "%s is waiting: at most %d previews start at the same time", version, maxStarting)
}

// callsEndHooks reports whether hooks are called at the end of the group (rule 48).
func (s *scope) callsEndHooks() bool { return s.g.Level == preview && s.o.Spec.EndHooks }

// lastOfPreview reports whether a release is the only release that can call the PostPreview hooks of a live
// preview.
func (s *scope) lastOfPreview(r Row) bool {
	if s.g.Phase != Live || !s.callsEndHooks() {
		return false
	}
	present := func(release string) bool {
		c, there := s.object(release)
		return there && !c.Terminating
	}
	return present(r.Release) && !slices.ContainsFunc(s.g.Releases, func(x Row) bool { return x.Release != r.Release && present(x.Release) })
}

// onlyEnds reports whether a live preview has only one release, and that release is kept for the PostPreview
// hooks.
func (s *scope) onlyEnds() bool {
	return len(s.g.Releases) == 1 && s.g.Rollout == nil && s.g.Releases[0].Status == Deprecated && s.lastOfPreview(s.g.Releases[0])
}

// endPreview requests the PostPreview hooks when the pods of all releases of an ended preview are gone. The release that
// was active last calls the hooks. If no release was active, the newest release calls them.
func endPreview(s *scope) {
	switch {
	case s.g.Phase == Live:
		s.g.End = End{}
		return
	case !s.callsEndHooks() || s.g.End.Release != "":
		return
	}
	for _, c := range s.sorted {
		if c.Slug == s.g.Slug && !c.Terminating && (c.Replicas > 0 || c.Available > 0 || c.Unsettled || s.hasJobs(c)) {
			return
		}
	}
	var last *Row
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		c, there := s.object(r.Release)
		switch {
		case !there || c.Terminating:
		case s.drainWait(*r) != nil:
			return
		case last == nil || cmp.Or(cmp.Compare(r.Promoted, last.Promoted), r.Since.Compare(last.Since), cmp.Compare(r.Release, last.Release)) > 0:
			last = r
		}
	}
	if last == nil {
		return // No release of the preview has an object, for example because users deleted the objects.
	}
	s.g.End = End{Release: last.Release, Time: s.now}
}

// endHooksWait reports whether a release is kept for the PostPreview hooks of its preview. w describes what the release is waiting for; it
// is nil if there is nothing to report.
func (s *scope) endHooksWait(r Row) (w *wait, keep bool) {
	c, there := s.object(r.Release)
	switch end := s.g.End; {
	case s.lastOfPreview(r):
		return nil, true // Only this release can call the hooks when the preview ends.
	case s.g.Phase == Live || !s.callsEndHooks() || !there || c.Terminating:
		return nil, false
	case end.Release == "" && s.anyJobs():
		return newWait(&r, false, AwaitingEnd, "the preview has ended, and its hooks of type PostPreview are waiting until the Jobs of its other hooks have ended"), true
	case end.Release == "":
		return nil, true // There are still pods.
	case end.Release != r.Release:
		return nil, false
	case c.End == nil || !stored(c.End.Since).Equal(end.Time):
		return newWait(&r, false, AwaitingEnd, "the preview has ended, and waits for its hooks of type PostPreview"), true
	case !c.End.Done:
		return newWait(&r, false, AwaitingEnd, "the preview has ended, and waits for its hooks of type PostPreview: %s", c.End.Message), true
	case c.End.Failed:
		s.event(&r, true, EndFailed, fmt.Sprintf("a hook of type PostPreview of %s failed, and is not called again: %s", r.Version, c.End.Message))
	}
	return nil, false
}

// anyJobs reports whether any hook Job of the group has not ended.
func (s *scope) anyJobs() bool {
	return slices.ContainsFunc(s.sorted, func(c Object) bool { return c.Slug == s.g.Slug && !c.Terminating && c.ActiveJobs })
}

// noteEndLost reports that the PostPreview hooks of a preview are not called, because a user deleted the object of the
// release that should call them.
func (s *scope) noteEndLost(r Row) {
	if !s.callsEndHooks() || s.g.Phase == Live || s.g.End.Release != r.Release && (s.g.End.Release != "" || r.Promoted == 0 || len(s.g.Releases) > 1) {
		return
	}
	s.event(&r, true, EndFailed, fmt.Sprintf("the hooks of type PostPreview of %s are no longer called, because its VersionedMicroservice was deleted: remove the resources that they would have removed", r.Version))
}

// ending reports whether a preview is waiting for its PostPreview hooks, and therefore does not start again
// yet.
func (s *scope) ending() bool {
	if s.g.Phase == Live || s.g.End.Release == "" || s.g.Row(s.g.End.Release) == nil {
		return false
	}
	c, there := s.object(s.g.End.Release)
	return there && !c.Terminating
}
