package release

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Reasons of the target of a group that is Expired.
const (
	// NoPlace: there is no place for the preview among Spec.Previews.MaxGroups. It starts
	// when one comes free.
	NoPlace = "NoPlace"
	// MaxAge: the last push is too long ago. Only another head commit starts it again.
	MaxAge = "MaxAge"
)

// maxStarting is how many previews may be on their way at a time, so that a change of
// the configuration of all of them does not flood the cluster (rule 41).
const maxStarting = 10

// Previews bound the groups that are pull requests.
type Previews struct {
	// MaxGroups that run at a time; at least 1.
	MaxGroups int
	// MaxAge since the last push; 0: without limit.
	MaxAge time.Duration
	// KeepAfterClose is how long a group stays after its pull request was closed.
	KeepAfterClose time.Duration
}

// places gives the places of previews (rule 26). A preview that runs keeps its place;
// one that comes free goes to the newest push that waits. What is too old, or has no
// place, is Expired: a group without releases.
func (b *book) places() {
	var live, waiting []*Group
	for i := range b.groups {
		g := &b.groups[i]
		if g.Level != preview {
			continue
		}
		s := b.scope(g) // what is taken down, and what has nothing to serve, has to be known
		rebuild(s)
		vanishedActive(s)
		vanishedOthers(s)
		b.noteHead(g)
		if g.Phase == Closing && !b.withdrawnGroup(g.Slug) && !b.ended(g.Slug, g.Name, g.PullRequest) && len(b.perGroup[g.Slug]) > 0 {
			g.Phase, g.Target = Expired, Target{Reason: NoPlace} // until it is given one
			b.scope(g).event(nil, false, "Reopened", "the group is offered again")
		}
		old := b.tooOld(g)
		switch {
		case b.ends(g.Slug), b.ended(g.Slug, g.Name, g.PullRequest): // in this plan
		case g.Phase == Live && len(g.Releases) == 0 && !b.wants(*g):
			g.Phase, g.Target = Expired, Target{Reason: NoPlace}
		case g.Phase == Live && old:
			b.expire(g, MaxAge, fmt.Sprintf("the last push was at %s, and spec.previews.maxAge is %s: push a commit to have it again", g.HeadTime.Format(time.RFC3339), b.o.Spec.Previews.MaxAge))
		case g.Phase == Live:
			live = append(live, g)
		case g.Phase == Expired && old:
			g.Target.Reason = MaxAge
		case g.Phase == Expired && g.Target.Reason == NoPlace && !b.withdrawnGroup(g.Slug) && b.wants(*g):
			waiting = append(waiting, g)
		}
	}
	if b.o.Spec.Paused {
		return
	}
	most := max(1, b.o.Spec.Previews.MaxGroups)
	if len(live) > most {
		slices.SortFunc(live, b.byRight)
	}
	for len(live) > most {
		b.expire(live[len(live)-1], NoPlace, fmt.Sprintf("spec.previews.maxGroups is %d, and the others were pushed later", most))
		live = live[:len(live)-1]
	}
	if b.o.SourceStale || b.missingPin() != nil {
		return
	}
	slices.SortFunc(waiting, byPush)
	for _, g := range waiting[:min(len(waiting), most-len(live))] {
		g.Phase, g.Target = Live, Target{}
	}
}

// ends says that a preview is closed now.
func (b *book) ends(slug string) bool {
	return b.closed(slug) || b.excluded(slug) && !b.o.Spec.Paused
}

// wants says that a preview has a release to move to, if it gets a place.
func (b *book) wants(g Group) bool {
	notes, wake := b.notes, b.wake
	g.Phase = Live
	aim(b.scope(&g))
	b.notes, b.wake = notes, wake
	return g.Target.Release != ""
}

// byPush orders previews, the newest push first.
func byPush(x, y *Group) int {
	return cmp.Or(y.HeadTime.Compare(x.HeadTime), cmp.Compare(y.PullRequest, x.PullRequest), cmp.Compare(x.Slug, y.Slug))
}

// byRight orders previews, the one that is to lose its place last: one that has nothing
// to serve or to move to, what a plan began that was not recorded, then the oldest push.
func (b *book) byRight(x, y *Group) int {
	return cmp.Or(
		last(!b.uses(x), !b.uses(y)),
		last(!b.scope(x).recorded(), !b.scope(y).recorded()),
		byPush(x, y),
	)
}

// uses says that a preview has something to do with its place.
func (b *book) uses(g *Group) bool { return g.ActiveRow() != nil || b.wants(*g) }

// last orders what x and y say: true comes last.
func last(x, y bool) int {
	switch {
	case x == y:
		return 0
	case y:
		return -1
	}
	return 1
}

// noteHead remembers the head commit of a pull request, and when it was pushed: as its
// source says, else when it became known. A new one ends what its age did to the group.
func (b *book) noteHead(g *Group) {
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
		g.Target = Target{Reason: NoPlace}
	}
}

// tooOld says that the last push to a preview is too long ago. That is known only while
// a head is offered.
func (b *book) tooOld(g *Group) bool {
	age := b.o.Spec.Previews.MaxAge
	if age == 0 || g.Phase == Closing || len(b.perGroup[g.Slug]) == 0 || b.o.Spec.Paused {
		return false
	}
	end := g.HeadTime.Add(age)
	b.wakeAt(end)
	return !b.now.Before(end)
}

// expire takes the releases of a preview down, and keeps the group.
func (b *book) expire(g *Group, reason, message string) {
	s := b.scope(g)
	s.takeDown(Expired, reason)
	g.Target.Reason = reason
	s.event(nil, false, "Expired", "the preview is drained and taken down: "+message)
}

// turns are the groups in the order in which they may start something: previews last,
// the newest push first.
func (b *book) turns() []*Group {
	order := make([]*Group, len(b.groups))
	for i := range b.groups {
		order[i] = &b.groups[i]
	}
	slices.SortStableFunc(order, func(x, y *Group) int {
		switch px, py := x.Level == preview, y.Level == preview; {
		case px && py:
			return byPush(x, y)
		case px:
			return 1
		case py:
			return -1
		}
		return 0
	})
	return order
}

// itsTurn says that a group may start a release now. Of previews only so many do at a
// time; one that waits for ConfirmRollout has no pods yet and does not count.
func (s *scope) itsTurn(version string) bool {
	if s.g.Level != preview {
		return true
	}
	starting := 0
	for i := range s.groups {
		if g := &s.groups[i]; g.Level == preview && g.Run != nil && g.Run.WaitsFor == "" && g.Run.Gate != ConfirmRollout {
			starting++
		}
	}
	if starting < maxStarting {
		return true
	}
	s.state(s.g.Row(s.g.Target.Release), false, "AwaitingTurn", fmt.Sprintf("%s waits: %d previews start at a time", version, maxStarting))
	return false
}
