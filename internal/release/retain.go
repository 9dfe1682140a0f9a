package release

import (
	"cmp"
	"fmt"
	"slices"
)

// forgetErrors drops failures whose identity cannot be chosen again (rule 3):
// those that are withdrawn, below the active release, of another template, of a tag
// that moved, or not the head of their pull request. A kept release to which a rollback failed stays.
func forgetErrors(s *scope) {
	var active Row // a copy: rows move as others are dropped
	if a := s.g.ActiveRow(); a != nil {
		active = *a
	}
	_, free := s.withdrawn(active.Version) // then the target may be below it
	kept := s.kept()
	for _, r := range slices.Clone(s.g.Releases) {
		if !s.forgettable(r, kept) {
			continue
		}
		_, out := s.withdrawn(r.Version)
		moved := slices.ContainsFunc(s.candidates, func(c Candidate) bool { return c.Version == r.Version && c.Release != r.Release })
		below := active.Release != "" && !free && s.g.Level != preview && compare(r.Version, active.Version) < 0
		pushed := s.g.Level == preview && len(s.candidates) > 0 && s.candidates[0].Release != r.Release
		if out || moved || below || pushed || s.o.Config != "" && r.Config != s.o.Config || s.g.Phase == Closing {
			s.dropRow(r.Release)
		}
	}
}

// letGo drops the rows of releases that are not kept, when their drain is over
// (rules 11, 24 and 39). While the target is one that has just failed, the next pass aims
// anew, and may aim at one of them.
func letGo(s *scope) {
	s.tellDenied()
	if t := s.g.Row(s.g.Target.Release); t != nil && t.Status == Error && s.g.Target.Reason == "Latest" {
		return
	}
	kept := s.kept()
	for _, r := range slices.Clone(s.g.Releases) {
		running := s.g.Run != nil && s.g.Run.Release == r.Release
		if r.Status != Deprecated || running || r.Release == s.g.Target.Release || slices.Contains(kept, r.Release) {
			continue
		}
		if r.Promoted > 0 && s.g.Phase == Live && (s.o.Spec.Paused || !s.replacedDrained()) {
			continue
		}
		if s.drained(r) {
			s.event(&r, false, "Removed", fmt.Sprintf("%s is drained and removed", r.Version))
			s.dropRow(r.Release)
		}
	}
	sortRows(s.g.Releases)
}

// DeniedServes is the reason of a release whose version is denied, and that has traffic
// because there is nothing else to give it to.
const DeniedServes = "DeniedServes"

// tellDenied says which denied versions have traffic all the same. A domain that names a
// version routes to it or to nothing, and the last release of a group serves on.
func (s *scope) tellDenied() {
	if s.g.Phase != Live {
		return
	}
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		if !s.denied(r.Version) {
			continue
		}
		for _, rep := range s.reports {
			if slices.Contains(rep.Pinned, r.Release) {
				s.state(r, true, DeniedServes, fmt.Sprintf("%s is denied, and a domain of networkpolicies.hlnr.io %q names it: give that domain another version, or remove it", r.Version, rep.policy))
			}
		}
		if r.Status == Active && s.g.Target.Release == r.Release && s.g.Run == nil {
			s.state(r, true, DeniedServes, fmt.Sprintf("%s is denied and serves on: group %s has nothing that could replace it; push another version, or end the group by spec.endedGroups", r.Version, s.g.Name))
		}
	}
}

// minimum is how many releases that were active the group keeps.
func (s *scope) minimum() int {
	if s.g.Level == preview {
		return 1
	}
	return max(1, min(s.o.Spec.MinimumAvailable, s.quota()-2)) // and one that runs, and one that goes
}

// kept are the releases that were active and are kept: the newest
// MinimumAvailable by order of activation, the active one included, and those
// that a domain names (rules 33 and 39).
func (s *scope) kept() []string {
	if s.g.Phase != Live {
		return nil
	}
	var rows []Row
	for _, r := range s.g.Releases {
		if r.Promoted > 0 {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(x, y Row) int { return cmp.Compare(y.Promoted, x.Promoted) })
	var kept []string
	for i, r := range rows {
		if i < s.minimum() || s.pinnedByDomain(r.Release) {
			kept = append(kept, r.Release)
		}
	}
	return kept
}

// replacedDrained says that the release that the active one replaced has left
// the routes: only then may an older one go.
func (s *scope) replacedDrained() bool {
	var last *Row
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		if r.Status == Deprecated && r.Promoted > 0 && (last == nil || r.Promoted > last.Promoted) {
			last = r
		}
	}
	return last == nil || s.left(*last)
}

// size says which objects are to be made, revived, resized and deleted.
func (s *scope) size(p *Plan) {
	for _, r := range s.g.Releases {
		c, there := s.child(r.Release)
		if c.Terminating {
			continue
		}
		running := s.g.Run != nil && s.g.Run.Release == r.Release
		if !there && (r.Status == Active || running) {
			if _, can := s.offered(r.Release); can {
				p.Ensure = append(p.Ensure, Ensure{Slug: s.g.Slug, Release: r.Release, Replicas: s.want(r, Child{}), Create: true, Stamp: s.next})
				if s.neverActive(r, Child{}) {
					p.NeverActive = append(p.NeverActive, r.Release)
				}
			}
			continue
		}
		if !there {
			continue
		}
		if s.neverActive(r, c) {
			p.NeverActive = append(p.NeverActive, r.Release)
		}
		want := s.want(r, c)
		if s.unused(r, c) {
			p.Idle = append(p.Idle, r.Release)
		}
		switch {
		case s.isTouched(r.Release) && !c.Refused:
			p.Ensure = append(p.Ensure, Ensure{Slug: s.g.Slug, Release: r.Release, Replicas: max(want, c.Replicas), Stamp: s.next})
		case want > c.Replicas:
			p.Ensure = append(p.Ensure, Ensure{Slug: s.g.Slug, Release: r.Release, Replicas: want})
		case want < c.Replicas && s.mayRetire(c):
			p.Retire = append(p.Retire, Retire{Slug: s.g.Slug, Release: r.Release, Replicas: want})
		}
	}
	for _, c := range s.sorted {
		if c.Slug != s.g.Slug || c.Terminating || s.g.Row(c.Release) != nil {
			continue
		}
		if c.NeverActive {
			p.NeverActive = append(p.NeverActive, c.Release)
		}
		if c.Release == s.g.Target.Release {
			continue
		}
		if !s.referenced(c.Release) && s.mayRetire(c) && s.strayDrained(c) {
			p.Retire = append(p.Retire, Retire{Slug: s.g.Slug, Release: c.Release, Delete: true})
		}
	}
}

// neverActive reports whether a release is to carry the mark of one that hooks have not let
// through. It gets it while nothing of its group is active, and loses it when it is.
func (s *scope) neverActive(r Row, c Child) bool {
	if r.Promoted > 0 || s.g.ActiveRow() != nil && !c.NeverActive {
		return false
	}
	return s.asks(ConfirmRollout, &r) || s.asks(PreRollout, &r)
}

// strayDrained says that the drain of a child is over of which the ledger knows
// nothing: a route may have named it until the policy's last change.
func (s *scope) strayDrained(c Child) bool {
	for _, g := range s.o.Ledger.Groups {
		if g.Slug == c.Slug && g.Row(c.Release) != nil {
			return true // its row waited for that
		}
	}
	for _, rep := range s.reports {
		if end := rep.Confirmed.Add(s.o.Spec.Drain); rep.Revision > 0 && s.now.Before(end) {
			s.wakeAt(end)
			return false
		}
	}
	return true
}

// mayRetire keeps a plan that was made on an older ledger from destroying what a
// newer one made or revived (rule 2): the ledger is written first.
func (s *scope) mayRetire(c Child) bool {
	if c.Stamp <= s.o.Ledger.Sequence {
		return true
	}
	s.force = true
	return false
}

// isTouched says that a release was made or revived in this pass.
func (s *scope) isTouched(release string) bool { return s.touched[s.g.Slug+"/"+release] }

// want is the number of replicas that a release is to have.
func (s *scope) want(r Row, c Child) int {
	running := s.g.Run != nil && s.g.Run.Release == r.Release
	switch {
	case s.g.Phase != Live:
		return c.Replicas // the object goes with its row
	case r.Status == Active && c.Replicas > 0 && s.dead(&r) && s.pressed():
		// It answers nothing, and keeps its mend from finding room.
		if c.Unsettled {
			return min(c.Replicas, s.full())
		}
		return 1
	case r.Status == Active:
		return s.full()
	case running:
		return s.runSize(r, c)
	case r.Status == Pending || r.Status == Canary:
		return c.Replicas // its run enlarges it
	case r.Promoted > 0 && s.pinnedByDomain(r.Release):
		if s.left(r) && !s.unanswered(r.Release) {
			return s.full()
		}
		return max(c.Replicas, s.full())
	case !s.drained(r):
		return c.Replicas
	case r.Status == Error, r.Promoted == 0, !r.Routed, !slices.Contains(s.kept(), r.Release), s.pressed():
		return 0
	case s.o.Spec.StandbyFull:
		return s.full()
	}
	return min(s.o.Spec.Standby, s.full())
}

// unused says that a release is out of the routes for good, for what the ledger that the
// plan was made on says.
func (s *scope) unused(r Row, c Child) bool {
	running := s.g.Run != nil && s.g.Run.Release == r.Release
	if s.g.Phase != Live || running || r.Status != Deprecated && r.Status != Error || c.Stamp > s.o.Ledger.Sequence {
		return false
	}
	return !s.pinnedByDomain(r.Release) && s.drained(r)
}

// pressed says that a run waits for room in the cluster: kept releases give
// theirs up after half the deadline (rule 35).
func (s *scope) pressed() bool {
	run, _, _ := s.running()
	if run == nil || run.WaitsFor != "QuotaExceeded" && run.WaitsFor != "Unschedulable" {
		return false
	}
	half := run.WaitingSince.Add(s.o.Spec.Deadline / 2)
	s.wakeAt(half)
	return !s.now.Before(half)
}
