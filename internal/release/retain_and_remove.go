package release

import (
	"cmp"
	"fmt"
	"slices"
)

// forgetFailures drops failed releases that cannot be chosen again (rule 3). A failed release cannot be chosen again if its
// version is withdrawn, is below the active version, or is not the head commit of its pull request, or if its
// template or the image of its tag has changed. A retained release keeps its row even if a rollback to it
// failed.
func forgetFailures(s *scope) {
	if !slices.ContainsFunc(s.g.Releases, func(r Row) bool { return r.Status == Error }) {
		return
	}
	var active Row // This is a copy, because rows move when other rows are dropped.
	if a := s.g.ActiveRow(); a != nil {
		active = *a
	}
	_, free := s.withdrawn(active.Version) // If the active version is withdrawn, the target may be below it.
	kept := s.retained()
	for _, r := range slices.Clone(s.g.Releases) {
		ok, w := s.forgettable(r, kept)
		if s.record(w); !ok {
			continue
		}
		_, out := s.withdrawn(r.Version)
		moved := slices.ContainsFunc(s.candidates, func(c Candidate) bool { return c.Version == r.Version && c.Release != r.Release })
		below := active.Release != "" && !free && s.g.Level != preview && compare(r.Version, active.Version) < 0
		pushed := s.g.Level == preview && len(s.candidates) > 0 && s.candidates[0].Release != r.Release
		if !(out || moved || below || pushed || s.o.Config != "" && r.Config != s.o.Config) {
			continue
		}
		if w, keep := s.endHooksWait(r); keep {
			s.record(w)
			if s.g.Phase == Live {
				s.setStatus(s.g.Row(r.Release), Deprecated, Superseded)
			}
			continue
		}
		s.dropRow(r.Release)
	}
}

// onlyFailures reports whether a closing group contains only failed releases. They are dropped last, so that they are not
// tried again if the group is reopened before it has ended.
func (s *scope) onlyFailures() bool {
	return s.g.Phase == Closing && !slices.ContainsFunc(s.g.Releases, func(r Row) bool { return r.Status != Error })
}

// stayWithinLimits limits the releases of a group to the group's share of the status. It drops the group's Failed mark when
// no version that the mark covers can be chosen any longer.
func stayWithinLimits(s *scope) {
	for len(s.g.Releases) > s.quota() && s.forget() {
	}
	f := s.g.Failed
	if f.Version == "" {
		return
	}
	if s.g.Phase == Closing {
		return // The group may be reopened.
	}
	if a := s.g.ActiveRow(); s.g.Phase != Live || s.o.Config != "" && f.Config != s.o.Config || a != nil && compare(f.Version, a.Version) <= 0 && !s.isWithdrawn(a) {
		s.g.Failed = Failed{}
		return
	}
	s.state(nil, true, FailuresForgotten, fmt.Sprintf("versions of group %s up to %s are not started automatically, because more versions failed than status.releaseGroups can list: pin one of them, or push a newer version", s.g.Name, f.Version))
}

// dropDrained drops the rows of releases that are not retained, when their drain is over (rules 11, 24 and
// 39). If the target has just failed, no row is dropped, because the next plan may choose one of these releases as
// the target.
func dropDrained(s *scope) {
	s.noteDenied()
	if t := s.g.Row(s.g.Target.Release); t != nil && t.Status == Error && s.g.Target.Reason == Latest {
		return
	}
	kept := s.retained()
	for _, r := range slices.Clone(s.g.Releases) {
		running := s.g.Rollout != nil && s.g.Rollout.Release == r.Release
		if r.Status != Deprecated && !s.onlyFailures() || running || r.Release == s.g.Target.Release || slices.Contains(kept, r.Release) {
			continue
		}
		if s.keptByJobs(&r) {
			s.record(s.endWaitsForJobs(&r))
			continue
		}
		if r.Promoted > 0 && s.g.Phase == Live {
			if s.o.Spec.Paused {
				continue
			}
			if w := s.replacedLeaving(); w != nil {
				s.record(w)
				continue
			}
		}
		if w := s.drainWait(r); w != nil {
			s.record(w)
			continue
		}
		if w, keep := s.endHooksWait(r); keep {
			s.record(w)
			continue
		}
		if r.Reason == Superseded && r.Since.Equal(s.now) {
			s.g.LastSuperseded = r.Release // Notifications read this field, because the row is dropped.
		}
		s.event(&r, false, Removed, fmt.Sprintf("%s is drained and removed", r.Version))
		s.dropRow(r.Release)
	}
	sortRows(s.g.Releases)
}

// minimum returns how many of the group's releases that were ever active are retained, including the active
// release.
func (s *scope) minimum() int {
	if s.g.Level == preview {
		return 1
	}
	// Two rows are reserved: one for a release that is being rolled out, and one for a release that is draining.
	return max(1, min(s.o.Spec.MinimumAvailable, s.quota()-2))
}

// retained returns the releases that were active and are retained. These are the releases to which a domain refers, and
// the MinimumAvailable releases that became active most recently, including the active release (rules 33 and 39).
func (s *scope) retained() []string {
	if s.g.Phase != Live {
		return nil
	}
	var rows []*Row
	for i := range s.g.Releases {
		if r := &s.g.Releases[i]; r.Promoted > 0 {
			rows = append(rows, r)
		}
	}
	slices.SortFunc(rows, func(x, y *Row) int { return cmp.Compare(y.Promoted, x.Promoted) })
	var kept []string
	for i, r := range rows {
		if i < s.minimum() || s.pinnedByDomain(r.Release) {
			kept = append(kept, r.Release)
		}
	}
	return kept
}

// replacedLeaving returns why the release replaced by the active release is not drained yet, or nil if it is drained.
// Until then, no older release may be deleted.
func (s *scope) replacedLeaving() *wait {
	var last *Row
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		if r.Status == Deprecated && r.Promoted > 0 && (last == nil || r.Promoted > last.Promoted) {
			last = r
		}
	}
	if last == nil {
		return nil
	}
	return s.leaving(*last)
}

// noteDenied reports which denied versions still have traffic. A denied version keeps its traffic as long as a
// domain refers to it, because such a domain routes to that version or to nothing. The active release of a group
// keeps its traffic until another release replaces it.
func (s *scope) noteDenied() {
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
				s.state(r, true, DeniedServes, fmt.Sprintf("%s is denied, but a domain of networkpolicies.hlnr.io %q refers to it: change the version of that domain, or remove the domain", r.Version, rep.policy))
			}
		}
		if r.Status != Active {
			continue
		}
		switch run, next, _ := s.rollout(); {
		case run != nil && next.Status == Canary:
			s.state(r, true, DeniedServes, fmt.Sprintf("%s is denied but keeps serving while %s is being rolled out: to replace it immediately, %s", r.Version, next.Version, howToDecide(next.Release, Adopt)))
		case s.g.Target.Release == r.Release && run == nil:
			s.state(r, true, DeniedServes, fmt.Sprintf("%s is denied but keeps serving, because group %s has no release to replace it: push another version, or end the group in spec.endedGroups", r.Version, s.g.Name))
		case s.g.Target.Release != r.Release && s.g.Target.Release != "":
			s.state(r, true, DeniedServes, fmt.Sprintf("%s is denied but keeps serving until %s is active", r.Version, s.versionOf(s.g.Target.Release)))
		}
	}
}

// These are limits on the status. The schema of the status also enforces them. A status that exceeded them
// could not be written, and no rollout could advance.
const (
	// maxGroups is the maximum number of groups.
	maxGroups = 256
	// maxRows is the maximum number of rows in one group, and maxAllRows is the maximum number of rows in all
	// groups together.
	maxRows    = 32
	maxAllRows = 512
)

// quota returns how many rows each group may have. Expired previews need no rows.
func (b *planner) quota() int {
	groups := 0
	for i := range b.groups {
		if g := &b.groups[i]; g.Phase != Expired || len(g.Releases) > 0 {
			groups++
		}
	}
	return min(maxRows, maxAllRows/min(max(1, groups), maxGroups))
}

// rows returns the total number of rows in all groups.
func (b *planner) rows() (n int) {
	for i := range b.groups {
		n += len(b.groups[i].Releases)
	}
	return n
}

// freeRow reports whether a row is free for one more release. If the group is full, freeRow drops the rows of
// failed releases until a row is free. It keeps the rows of releases that serve or are retained, or to which a
// route refers.
func (s *scope) freeRow() bool {
	for len(s.g.Releases) >= s.quota() || s.rows() >= maxAllRows {
		if !s.forget() {
			return false
		}
	}
	return true
}

// forget drops the row of the failed release with the lowest version, and marks the group, so that this version and
// all lower versions are not tried again automatically. Commits of a pull request have no order: for a preview,
// forget drops the failed release of a commit that is no longer offered, and sets no mark.
func (s *scope) forget() bool {
	kept := s.retained()
	var lowest *Row
	for i := range s.g.Releases {
		r := &s.g.Releases[i]
		ok, w := s.forgettable(*r, kept)
		if s.record(w); !ok {
			continue
		}
		if _, offered := s.offered(r.Release); offered && s.g.Level == preview {
			continue
		}
		if lowest == nil || compare(r.Version, lowest.Version) < 0 {
			lowest = r
		}
	}
	if lowest == nil {
		return false
	}
	if s.g.Level != preview && lowest.Config == s.o.Config {
		s.g.Failed = Failed{Version: lowest.Version, Config: lowest.Config}
	}
	s.dropRow(lowest.Release)
	return true
}

// forgettable reports whether a row is the row of a failed release that can be dropped. If a route may still refer to the
// release, forgettable also returns why the release is not drained yet.
func (s *scope) forgettable(r Row, kept []string) (bool, *wait) {
	if r.Status != Error || r.Release == s.g.Target.Release || slices.Contains(kept, r.Release) {
		return false, nil
	}
	if s.g.Phase == Live && s.pinned(r) {
		return false, nil
	}
	if s.keptByJobs(&r) {
		return false, nil
	}
	w := s.drainWait(r)
	return w == nil, w
}

// forgotten reports whether a version may have failed before although the group has no row that records the failure.
// Such a version must not be tried automatically.
func (s *scope) forgotten(c Candidate) bool {
	f := s.g.Failed
	return f.Version != "" && f.Config == s.o.Config && compare(c.Version, f.Version) <= 0 && s.g.Row(c.Release) == nil
}

// crowded records that a release cannot start because there is no free row.
func (s *scope) crowded(version string) {
	kept := s.retained()
	rows := slices.DeleteFunc(slices.Clone(s.g.Releases), func(r Row) bool { return slices.Contains(kept, r.Release) || !s.keptByJobs(&r) })
	if len(rows) > 0 {
		s.state(nil, true, TooManyReleases, fmt.Sprintf("%s is waiting: group %s has %d releases, and hook Jobs of %d of them, such as %s, have not ended; stop these Jobs", version, s.g.Name, len(s.g.Releases), len(rows), rows[0].Version))
		return
	}
	s.state(nil, true, TooManyReleases, fmt.Sprintf("%s is waiting: group %s has %d releases, which are retained or used by routes; remove versions from spec.domains of networkpolicies.hlnr.io, or lower spec.updateStrategy.minimumAvailable", version, s.g.Name, len(s.g.Releases)))
}

// keptByJobs reports whether a release keeps its row until its hook Jobs have ended. Without a row, the hooks that revert a failed
// release would not be called, and a release that was active would count as superseded, so its Jobs would delay the next version.
func (s *scope) keptByJobs(r *Row) bool {
	c, there := s.object(r.Release)
	return there && !c.Terminating && s.ownJobs(r, c) && (r.Status == Error || s.startsJobs(r, c) || r.Promoted > 0 && s.g.Phase == Live)
}

// startsJobs reports whether a gate Job may still start for a release that failed or is superseded. This is possible until the
// controller of the release has reported that status. The report of that status also includes the Jobs that have started.
func (s *scope) startsJobs(r *Row, c Object) bool {
	return s.o.Spec.GateJobs && (r.Status == Deprecated || r.Status == Error) && r.Promoted == 0 && c.Reported != r.Status
}

// endWaitsForJobs reports that a group that is ending is waiting for the hook Jobs of a release. It
// returns nil for a live group.
func (s *scope) endWaitsForJobs(r *Row) *wait {
	if s.g.Phase == Live {
		return nil
	}
	c, _ := s.object(r.Release)
	return newWait(r, false, AwaitingJobs, "group %s has ended, and %s is removed when the Jobs of its hooks have ended%s", s.g.Name, r.Version, c.whyUncreated())
}

// whyUncreated returns the last part of a message about waiting for Jobs if the API server rejects one of
// them. Otherwise it returns an empty string.
func (c Object) whyUncreated() string {
	if c.UncreatedJob == "" {
		return ""
	}
	return fmt.Sprintf("; the API server rejects the Job of its hook %q: change that hook, or fix the cause of the rejection", c.UncreatedJob)
}

// ownJobs reports whether hook Jobs of a release have not ended or may still start, for example because the
// release has just failed.
func (s *scope) ownJobs(r *Row, c Object) bool {
	return c.ActiveJobs || s.startsJobs(r, c) || r.Status == Error && s.o.Spec.FailureJobs && s.g.Level != preview && c.Reported != Error
}

// hasJobs is like ownJobs, for a release that may have no row.
func (s *scope) hasJobs(c Object) bool {
	r := s.g.Row(c.Release)
	return c.ActiveJobs || r != nil && s.ownJobs(r, c)
}

// sizeStray plans the size or deletion of an object without a row.
func (s *scope) sizeStray(p *Result, c Object) {
	if c.NeverActive {
		p.NeverActive = append(p.NeverActive, c.Release)
	}
	if c.Release == s.g.Target.Release || s.referenced(c.Release) {
		return
	}
	if !s.mayRetire(c) {
		s.force = true
		return
	}
	if w := s.strayDraining(c); w != nil {
		s.record(w)
		return
	}
	if !c.ActiveJobs {
		p.Retire = append(p.Retire, Retire{Slug: s.g.Slug, Release: c.Release, Delete: true})
		return
	}
	s.record(s.endWaitsForJobs(&Row{Release: c.Release, Version: c.Version}))
	if c.Replicas > 0 { // The Jobs are not stopped, because an interrupted migration is worse than an unnecessary one (rule 49). They do not need the pods.
		p.Retire = append(p.Retire, Retire{Slug: s.g.Slug, Release: c.Release})
	}
}

// strayDraining returns why a release object without a row is not drained yet, or nil. A policy may have routed to the
// release until its routes were last confirmed.
func (s *scope) strayDraining(c Object) *wait {
	for _, g := range s.o.State.Groups {
		if g.Slug == c.Slug && g.Row(c.Release) != nil {
			return nil // The drain was over before the row was dropped.
		}
	}
	if s.unreported() {
		return newWait(&Row{Release: c.Release, Version: c.Version}, true, TrafficUnconfirmed, "%s keeps its pods until each networkpolicies.hlnr.io object reports its routes", c.Version)
	}
	for _, rep := range s.reports {
		if end := rep.Confirmed.Add(s.o.Spec.Drain); rep.Revision > 0 && s.now.Before(end) {
			return &wait{Until: end}
		}
	}
	return nil
}
